"""A backup restored: everything in one transaction, or nothing. Source: decision 0021.

pg_restore writes the SQL, psql runs it between our BEGIN and our COMMIT, and the COMMIT is only said once pg_restore
has read its file to the end: a file that was cut off leaves the database as it was, with what it held. In the same
transaction goes what is replaced. Blocking: for a command.
"""

import asyncio
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import IO

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from sqlalchemy import URL, text

from app.store import archive, audit, libpq, migrate, pg_programs
from app.store.archive import Archive
from app.store.audit import Action, Line
from app.store.engine import Database
from app.store.migrate import LOCK_KEY
from app.store.pg_programs import BackupError, Programs, Target
from app.store.tables import metadata

_UNKNOWN_BEFORE_17 = b"SET transaction_timeout = 0;\n"
_PIECE = 1024 * 1024

_HELD = """
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
  AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')
ORDER BY c.relname
"""

_FUNCTIONS = """
SELECT format('%I.%I(%s)', n.nspname, p.proname, pg_get_function_identity_arguments(p.oid))
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname = 'public' AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')
"""

_USERS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name LIKE 'turnstream%'
"""


def server_major(url: URL) -> int:
    """The major version of the server. Raises BackupError without a connection."""
    with _connected(url) as connection:
        return connection.info.server_version // 10_000


def restore(url: URL, path: Path, programs: Programs, *, replace: bool) -> str:
    """Put a backup into the database and bring it to the current schema; the revision that the backup was of.

    Raises:
        BackupError: the file is no backup of turnstream or of a revision that this version doesn't know; the database
            holds something and is not to be replaced, or something that isn't turnstream's; somebody uses it;
            the restoring failed. Nothing was changed then.
        MigrationError: it was restored, but could not be brought to the current schema.
    """
    found = archive.read(path, programs)
    if found.revision not in migrate.revisions():
        raise BackupError(
            f"{path} is of revision {found.revision}, which this version does not know (its newest is "
            f"{migrate.head()}): restore it with the version that made it, or a newer one"
        )
    before = _look(url, replace=replace)
    _pour(Target.of(url), found, programs, _preamble(before))
    migrate.upgrade(url)
    asyncio.run(_conclude(url, found.revision))
    return found.revision


@dataclass(frozen=True, slots=True)
class _Before:
    """What the database holds, all of it ours; functions as SQL names them."""

    tables: list[str]
    functions: list[str]


def _look(url: URL, *, replace: bool) -> _Before:
    with _connected(url) as connection:
        held = [str(row[0]) for row in connection.execute(_HELD)]
        users = connection.execute(_USERS).fetchone()
        functions = [str(row[0]) for row in connection.execute(_FUNCTIONS)]
    if users is not None and users[0]:
        raise BackupError(
            f"turnstream is using this database ({users[0]} connections): stop every server and command first"
        )
    others = sorted(set(held) - {*metadata.tables, "alembic_version"})
    if others:
        raise BackupError(
            f"the database holds tables that this version of turnstream doesn't know ({', '.join(others[:5])}): "
            "restore into a database of its own"
        )
    if held and not replace:
        raise BackupError(
            "the database is not empty: restore into an empty one, or say --replace to lose what this one holds"
        )
    return _Before(held, functions)


def _preamble(before: _Before) -> bytes:
    """Begin, keep migrating processes out, and drop what is replaced."""
    lines = ["BEGIN;", "SET LOCAL lock_timeout = '60s';", f"SELECT pg_advisory_xact_lock({LOCK_KEY});"]
    if before.tables:
        named = ", ".join(sql.Identifier("public", table).as_string() for table in before.tables)
        lines.append(f"DROP TABLE {named} CASCADE;")
        lines += [f"DROP ROUTINE {function};" for function in before.functions]
        lines.append("DROP SCHEMA IF EXISTS procrastinate CASCADE;")
    lines.append("")
    return "\n".join(lines).encode()


def _pour(target: Target, found: Archive, programs: Programs, preamble: bytes) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".list", encoding="utf-8") as entries:
        entries.write(found.entries)
        entries.flush()
        reading = programs.argv(
            "pg_restore", "--no-owner", "--no-privileges", f"--use-list={entries.name}", "--file=-", str(found.path)
        )
        writing = programs.argv(
            "psql",
            "--no-psqlrc",
            "--quiet",
            "--no-password",
            "--set=ON_ERROR_STOP=1",
            f"--dbname={target.address}",
        )
        with (
            pg_programs.running(reading, target.environment, stdout=subprocess.PIPE) as source,
            pg_programs.running(writing, target.environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as sink,
        ):
            complaints = [_Drained(source.stderr), _Drained(sink.stderr)]
            refused = not _copy(preamble, source.stdout, sink.stdin)
            if not refused and source.wait() == 0:
                refused = not _say(sink.stdin, b"\nCOMMIT;\n")
            _hang_up(sink.stdin)
            written, read = sink.wait(), source.poll()
        if read not in (0, None):  # before psql's complaint, which is about what it then didn't get
            raise BackupError(f"nothing was restored; {pg_programs.said(reading, complaints[0].text())}")
        if refused or written != 0:
            raise BackupError(f"nothing was restored; {pg_programs.said(writing, complaints[1].text())}")


class _Drained:
    """A program's stderr, read by a thread so that the program never waits for it."""

    def __init__(self, pipe: IO[bytes] | None) -> None:
        self._parts: list[bytes] = []
        self._thread = Thread(target=self._drain, args=(pipe,), daemon=True)
        self._thread.start()

    def _drain(self, pipe: IO[bytes] | None) -> None:
        if pipe is not None:
            self._parts.extend(pipe)

    def text(self) -> bytes:
        self._thread.join(timeout=5)
        return b"".join(self._parts)


def _copy(preamble: bytes, source: IO[bytes] | None, sink: IO[bytes] | None) -> bool:
    """Send the preamble and all of the source on; False when the sink hangs up."""
    if source is None or not _say(sink, preamble):
        return False
    # the head of what pg_restore 17 and newer write has a setting that older servers refuse
    head = source.read(64 * 1024).replace(_UNKNOWN_BEFORE_17, b"")
    if not _say(sink, head):
        return False
    while piece := source.read(_PIECE):
        if not _say(sink, piece):
            return False
    return True


def _say(sink: IO[bytes] | None, words: bytes) -> bool:
    if sink is None:
        return False
    try:
        sink.write(words)
        sink.flush()
    except BrokenPipeError:
        return False
    return True


def _hang_up(sink: IO[bytes] | None) -> None:
    """Without a COMMIT before it this undoes all."""
    if sink is not None:
        try:
            sink.close()
        except BrokenPipeError:
            return


async def _conclude(url: URL, revision: str) -> None:
    """Let the planner know what is there, and say in the audit that it was restored."""
    database = Database(url)
    try:
        async with database.apart() as connection:
            await connection.execute(text("ANALYZE"))
        async with database.begin() as connection:
            line = Line(audit.LOCAL, Action.BACKUP_RESTORED, detail={"revision": revision})
            await audit.write(connection, [line])
    finally:
        await database.aclose()


def _connected(url: URL) -> psycopg.Connection[tuple[object, ...]]:
    try:
        return psycopg.connect(make_conninfo("", **libpq.parameters(url) | {"connect_timeout": "10"}))
    except psycopg.OperationalError as error:
        raise BackupError(f"no connection to the database ({str(error).splitlines()[0]})") from error
