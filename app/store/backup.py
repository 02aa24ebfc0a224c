"""A backup made: one file in pg_dump's custom format, of one moment, whole or absent. Source: decision 0021.

The file is written beside its target under another name and renamed once it is complete and can be read, so that a
broken one never looks whole. What is in it is turnstream's tables and its jobs', of whatever revision the database is
at. Blocking: for a command.
"""

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL

from app.store import archive, migrate, pg_programs
from app.store.pg_programs import BackupError, Programs, Target

LOCK_WAIT_S = 60
"""How long a backup waits for somebody who changes the schema."""


@dataclass(frozen=True, slots=True)
class Backup:
    """A file that was made; `size` is in bytes."""

    path: Path
    size: int
    revision: str


def make(url: URL, path: Path, programs: Programs, *, overwrite: bool) -> Backup:
    """Write a backup of the database to `path`, readable for its owner only.

    Raises:
        BackupError: the file is there already and is not to be overwritten, its folder can't be written, the database
            is not turnstream's, pg_dump failed.
        MigrationError: no connection.
    """
    if path.is_dir():
        raise BackupError(f"{path} is a folder: name a file in it")
    if path.exists() and not overwrite:
        raise BackupError(f"{path} is there already: choose another name, or say --overwrite")
    if migrate.current(url) is None:
        raise BackupError("the database holds nothing of turnstream's: there is nothing to back up")
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        raise BackupError(f"{path.parent} can't be written: {error.strerror or error}") from error
    try:
        _dump(Target.of(url), draft, programs)
        revision = archive.read(draft, programs).revision
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    _sync_folder(path.parent)
    return Backup(path, path.stat().st_size, revision)


def _dump(target: Target, draft: Path, programs: Programs) -> None:
    """pg_dump reads all of it in one snapshot, and syncs the file."""
    argv = programs.argv(
        "pg_dump",
        "--format=custom",
        f"--file={draft}",
        "--schema=public",
        "--schema=procrastinate",
        "--extension=pg_trgm",
        "--no-owner",
        "--no-privileges",
        "--no-publications",
        "--no-subscriptions",
        f"--lock-wait-timeout={LOCK_WAIT_S}s",
        "--no-password",
        f"--dbname={target.address}",
    )
    pg_programs.run(argv, target.environment)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
