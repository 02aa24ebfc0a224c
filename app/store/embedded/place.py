"""Where the cluster lives, and whose folder that is.

`data_dir/postgres`, always by that name. As a normal user it is a folder of one's own. As root the folder is
root's and the account owns only `data` and `s` in it, so that root never writes under names that the account
could have planted. Root's `data_dir` may be closed to the account:

1. only `data_dir` itself is closed, and nobody but root could enter it: its group becomes the account's with
   the right to pass (0710), not to look. It is the application's own folder;
2. a folder above it is closed: that one is not ours to open, so the cluster lives in `system_dir` and
   `data_dir/postgres` is a symbolic link to it.
"""

import hashlib
import os
import pwd
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from app.store.embedded.account import Account, choose_account, make_enterable
from app.store.embedded.config import EmbeddedConfig, EmbeddedError, refuse_shell_characters
from app.store.embedded.postmaster import socket_file

_LONGEST_SOCKET_BYTES = 100  # a socket's path has room for 104 bytes on macOS, 108 on Linux


@dataclass(frozen=True, slots=True)
class Place:
    """The cluster's folder: `data` and `s` are the account's, the rest belongs to whoever starts it."""

    folder: Path
    account: Account
    system_dir: Path

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def draft(self) -> Path:
        return self.folder / "initdb.tmp"

    @property
    def password(self) -> Path:
        return self.folder / "password"

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    @property
    def start_lock(self) -> Path:
        return self.folder / "start.lock"

    @property
    def users_lock(self) -> Path:
        return self.folder / "users.lock"


def settle(config: EmbeddedConfig) -> Place:
    """The place for this data folder, made where it is new. Safe with several starters.

    Raises EmbeddedError where it belongs to somebody else or the account can't be had, OSError where the
    folders can't be made.
    """
    system_dir = config.system_dir.absolute()
    data_dir = config.data_dir.absolute()
    if os.geteuid() == 0:
        make_enterable(data_dir)
    else:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    data_dir = data_dir.resolve(strict=True)
    folder = data_dir / "postgres"
    if not folder.exists() and not folder.is_symlink():
        _make(folder, choose_account(config.account, None), system_dir)
    _refuse_foreign(folder)
    if folder.is_symlink():
        folder = folder.resolve(strict=True)
        _refuse_foreign(folder)
    refuse_shell_characters(folder)
    data = folder / "data"
    account = choose_account(config.account, data.stat().st_uid if data.exists() else None)
    if account.switched:
        os.chown(folder, -1, account.gid)
        folder.chmod(0o710)
    return Place(folder, account, system_dir)


def require_access(place: Place) -> None:
    """Raises EmbeddedError where folders were closed to the account after the cluster was made."""
    if place.account.switched and not place.account.can_enter(place.folder):
        raise EmbeddedError(
            f"the account {place.account.name}, which runs Postgres, cannot enter {place.folder}: "
            "let it pass through the folders above, or move the data folder"
        )


def make_socket_dir(place: Place) -> Path:
    """The folder of the server's socket, 0700 and the account's: `s` in the place, if that path is short.

    Otherwise one named after the place in the system's folder for temporary files (root: in `system_dir`).
    Raises EmbeddedError where somebody else has made that name.
    """
    folder = place.folder / "s"
    # a comma separates hosts in a connection URL
    if len(os.fsencode(socket_file(folder))) > _LONGEST_SOCKET_BYTES or "," in str(folder):
        name = f"turnstream-{os.geteuid()}-{hashlib.sha256(os.fsencode(place.folder)).hexdigest()[:12]}"
        if place.account.switched:
            make_enterable(place.system_dir)
        folder = (place.system_dir if place.account.switched else Path(tempfile.gettempdir())) / name
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (place.account.uid, os.geteuid()):
            raise EmbeddedError(f"{folder} belongs to somebody else: remove it, then start again") from None
    place.account.give(folder, mode=0o700)
    return folder


def _make(folder: Path, account: Account, system_dir: Path) -> None:
    data_dir = folder.parent
    if not account.switched or account.can_enter(data_dir) or _let_pass(data_dir, account):
        folder.mkdir(mode=0o700, exist_ok=True)
        return
    make_enterable(system_dir)
    if not account.can_enter(system_dir):
        raise EmbeddedError(
            f"the account {account.name}, which runs Postgres, enters neither {data_dir} nor {system_dir}: "
            "choose a data folder that it can enter"
        )
    target = Path(tempfile.mkdtemp(prefix="postgres-", dir=system_dir))
    (target / "data_dir.txt").write_text(f"{data_dir}\n", encoding="utf-8", errors="surrogateescape")
    try:
        folder.symlink_to(target)
    except FileExistsError:  # another starter was first; its link stands
        (target / "data_dir.txt").unlink()
        target.rmdir()


def _let_pass(data_dir: Path, account: Account) -> bool:
    """Case 1 of the module: whether the account can enter now. Root's home and shared folders stay."""
    found = data_dir.stat()
    closed = found.st_uid == 0 and stat.S_IMODE(found.st_mode) & 0o077 == 0
    if not closed or data_dir == Path(pwd.getpwuid(0).pw_dir) or not account.can_enter(data_dir.parent):
        return False
    os.chown(data_dir, -1, account.gid)
    data_dir.chmod(0o710)
    return account.can_enter(data_dir)


def _refuse_foreign(folder: Path) -> None:
    """A folder of another user is not for us, and neither is a link that another user made. Nor for root."""
    owner = folder.lstat().st_uid
    if owner != os.geteuid():
        name = next((e.pw_name for e in pwd.getpwall() if e.pw_uid == owner), str(owner))
        raise EmbeddedError(
            f"the Postgres folder {folder} belongs to {name}: run as {name}, or choose another TURNSTREAM_DATA_DIR"
        )
