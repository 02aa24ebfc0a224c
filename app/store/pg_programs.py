"""Postgres' own programs for backups: which ones, and how they are run.

Decides where they are looked for and that they are at least as new as the server, which pg_dump asks for. The password
reaches them by the environment, never by the command line, which everybody on the machine can read.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from psycopg.conninfo import make_conninfo
from sqlalchemy import URL

from app.errors import StartError
from app.store import libpq

NEEDED = ("pg_dump", "pg_restore", "psql")
_KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "HOME", "TZ", "PGSSLROOTCERT", "PGPASSFILE")
_CONNECT_TIMEOUT_S = 10
_ASK_TIMEOUT_S = 30


class BackupError(StartError):
    """A backup could not be made or restored; the database and the target file are as they were before."""


@dataclass(frozen=True, slots=True)
class Programs:
    """A folder that holds all of NEEDED, of one major version."""

    folder: Path
    major: int

    def argv(self, name: str, *arguments: str) -> list[str]:
        return [str(self.folder / name), *arguments]


@dataclass(frozen=True, slots=True)
class Target:
    """A database as the programs are told of it: an address without its password, and the environment."""

    address: str
    environment: dict[str, str]

    @classmethod
    def of(cls, url: URL) -> "Target":
        parts = libpq.parameters(url)
        password = parts.pop("password", None)
        environment = plain_environment()
        if password is not None:
            environment["PGPASSWORD"] = password
        return cls(make_conninfo("", **parts | {"application_name": "turnstream backup"}), environment)


def plain_environment() -> dict[str, str]:
    """What every program is given of ours; no key of a model among it."""
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    return {**kept, "LC_ALL": "C", "PGCONNECT_TIMEOUT": str(_CONNECT_TIMEOUT_S)}


def find(folders: Sequence[Path], *, server_major: int) -> Programs:
    """The first programs that can deal with a server of this major version.

    Raises:
        BackupError: there are none.
    """
    seen: list[str] = []
    for folder in folders:
        missing = [name for name in NEEDED if not (folder / name).is_file()]
        if missing:
            seen.append(f"{folder} has no {' and no '.join(missing)}")
            continue
        major = _major(folder)
        if major is not None and major >= server_major:
            return Programs(folder, major)
        seen.append(f"those in {folder} are {'none that run' if major is None else f'of {major}'}")
    raise BackupError(
        f"the server is PostgreSQL {server_major}, which needs pg_dump, pg_restore and psql of {server_major} or newer "
        f"({'; '.join(seen)}): install them, or name their folder in TURNSTREAM_PG_BIN_DIR"
    )


def on_path() -> list[Path]:
    """The folder of the pg_dump that a shell would find."""
    found = shutil.which("pg_dump")
    return [] if found is None else [Path(found).parent]


def run(argv: Sequence[str], environment: dict[str, str]) -> str:
    """What the program printed.

    Raises:
        BackupError: it failed; in its own words.
    """
    with running(argv, environment, stdout=subprocess.PIPE) as program:
        printed, complaint = program.communicate()
    if program.returncode != 0:
        raise BackupError(said(argv, complaint))
    return printed.decode(errors="replace")


@contextmanager
def running(
    argv: Sequence[str], environment: dict[str, str], *, stdin: int = subprocess.DEVNULL, stdout: int
) -> Generator[subprocess.Popen[bytes]]:
    """The running program, killed at the end of the block where it still runs. Its stderr is a pipe."""
    program = subprocess.Popen(  # noqa: S603 - Postgres' own programs; the arguments are built here
        argv, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, env=environment
    )
    try:
        yield program
    finally:
        if program.poll() is None:
            program.kill()
            program.wait()
        for pipe in (program.stdin, program.stdout, program.stderr):
            if pipe is not None and not pipe.closed:
                pipe.close()


def said(argv: Sequence[str], complaint: bytes) -> str:
    """A program's complaint in one line: the first that names an error, else the last."""
    lines = [line.strip() for line in complaint.decode(errors="replace").splitlines() if line.strip()]
    telling = [line for line in lines if "error:" in line.lower() or "fatal" in line.lower()]
    return f"{Path(argv[0]).name} failed: {(telling or lines[-1:] or ['it said nothing'])[0]}"


def _major(folder: Path) -> int | None:
    try:
        told = subprocess.run(  # noqa: S603 - as above
            [folder / "pg_dump", "--version"], capture_output=True, text=True, timeout=_ASK_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"\(PostgreSQL\) (\d+)", told.stdout)
    return int(found.group(1)) if found and told.returncode == 0 else None
