"""What a backup file holds, told by pg_restore from its list of contents. Nothing is restored here.

Decides that a file is turnstream's where it holds the tables that every revision has, and which of its entries are left
out: what every database has (the schema public), what only its owner may say of an extension, and the vector index,
which a server makes by itself once a model is configured.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from app.store import pg_programs
from app.store.pg_programs import BackupError, Programs

_EVERY_REVISION = ("alembic_version", "bases", "documents", "chunks", "conversations", "messages", "turns")
_LEFT_OUT = re.compile(
    r"^\d+; \d+ \d+ (SCHEMA - public |COMMENT - SCHEMA public |COMMENT - EXTENSION |INDEX public hnsw_embeddings_)"
)


@dataclass(frozen=True, slots=True)
class Archive:
    """A backup that can be read. `entries` is the list of what is to be restored, as pg_restore takes it."""

    path: Path
    revision: str
    entries: str


def read(path: Path, programs: Programs) -> Archive:
    """What the file holds.

    Raises:
        BackupError: there is no such file, it is no archive of pg_dump, or not turnstream's.
    """
    if not path.is_file():
        raise BackupError(f"{path} is not there, or no file")
    environment = pg_programs.plain_environment()
    try:
        listed = pg_programs.run(programs.argv("pg_restore", "--list", str(path)), environment)
    except BackupError as error:
        raise BackupError(f"{path} is no backup of turnstream ({error})") from error
    held = set(re.findall(r"^\d+; \d+ \d+ TABLE DATA public (\S+) ", listed, re.MULTILINE))
    missing = [name for name in _EVERY_REVISION if name not in held]
    if missing:
        raise BackupError(f"{path} is no backup of turnstream: it holds no table {missing[0]}")
    told = programs.argv("pg_restore", "--data-only", "--schema=public", "--table=alembic_version", "--file=-")
    revision = re.search(
        r"^COPY public\.alembic_version [^\n]*FROM stdin;\n(\S+)\n\\\.$",
        pg_programs.run([*told, str(path)], environment),
        re.MULTILINE,
    )
    if revision is None:
        raise BackupError(f"{path} doesn't say which revision of turnstream it is of")
    kept = [line for line in listed.splitlines(keepends=True) if not _LEFT_OUT.match(line)]
    return Archive(path, revision.group(1), "".join(kept))
