"""Backups: whole or absent, restored in one transaction or not at all. Source: issue 9 item 6, decision 0021."""

import asyncio
import json
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import structlog
from click.testing import CliRunner, Result
from sqlalchemy import URL

from app.cli import main
from app.store import backup, bases, migrate, pg_programs, restore, tokens
from app.store.backup import Backup
from app.store.embedded.binaries import installed
from app.store.engine import Database
from app.store.ids import new_id
from app.store.pg_programs import BackupError, Programs
from app.store.tokens import NewToken
from tests.harness.postgres import PostgresServer, run_sql

# ids as they are; the audit's own lines and what procrastinate's sequences say are looked at where they matter
EVERYTHING = """
SELECT md5(string_agg(line, ',' ORDER BY line)) FROM (
    SELECT 'base ' || b::text FROM bases b UNION ALL SELECT 'conversation ' || c::text FROM conversations c
    UNION ALL SELECT 'message ' || m::text FROM messages m UNION ALL SELECT 'token ' || t::text FROM tokens t
    UNION ALL SELECT 'audit ' || a::text FROM audit a WHERE action <> 'backup.restored'
    UNION ALL SELECT 'revision ' || version_num FROM alembic_version
) AS held (line)
"""
SCHEMA = """
SELECT md5(string_agg(line, ',' ORDER BY line)) FROM (
    SELECT indexdef FROM pg_indexes WHERE schemaname IN ('public', 'procrastinate') AND indexname NOT LIKE 'hnsw%'
    UNION ALL SELECT conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint
              WHERE connamespace IN ('public'::regnamespace, 'procrastinate'::regnamespace) AND conrelid <> 0
    UNION ALL SELECT tgrelid::regclass || ' ' || tgname || ' ' || tgenabled::text || pg_get_triggerdef(oid) FROM pg_trigger
              WHERE NOT tgisinternal
    UNION ALL SELECT p.oid::regprocedure || ' ' || md5(p.prosrc) FROM pg_proc p
              WHERE pronamespace IN ('public'::regnamespace, 'procrastinate'::regnamespace)
    UNION ALL SELECT obj_description('procrastinate'::regnamespace, 'pg_namespace')
) AS known (line)
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(scope="module")
def programs() -> Programs:
    """Those of the wheel."""
    return pg_programs.find([installed()], server_major=18)


async def fill(url: URL) -> None:
    """A base, a token, a conversation with a message that holds what COPY must escape, and their lines in the audit."""
    database = Database(url)
    try:
        base = await bases.create(database, "kept", description="tab\there, line\nbreak, \\. backslash")
        assert base is not None
        assert await tokens.add(database, NewToken(new_id(), "t", "ann", "read", os.urandom(32), (base.id,), None))
    finally:
        await database.aclose()
    await run_sql(url, "CREATE INDEX hnsw_embeddings_1 ON embeddings (model_id)")
    talk, message = new_id(), new_id()
    await run_sql(
        url, f"INSERT INTO conversations (id, owner, base_id, title) VALUES ('{talk}', 'ann', '{base.id}', '缓存')"
    )
    filler = "md5(n::text)"  # enough that a file can be cut within it
    await run_sql(
        url,
        "INSERT INTO messages (id, conversation_id, position, role, content) SELECT gen_random_uuid(), "
        f"'{talk}', n, 'user', {filler} || repeat({filler}, 20) FROM generate_series(1, 3000) n",
    )
    await run_sql(url, f"UPDATE messages SET id = '{message}', content = E'\\\\.\\n\\\\N' WHERE position = 1")


@pytest.fixture(scope="module")
async def filled(postgres: PostgresServer) -> AsyncGenerator[URL]:
    """A database with something in it; no test changes it."""
    async with postgres.new_database() as url:
        await fill(url)
        yield url


@pytest.fixture(scope="module")
async def made(filled: URL, programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Backup:
    """Its backup."""
    path = tmp_path_factory.mktemp("backups") / "a.dump"
    return await asyncio.to_thread(backup.make, filled, path, programs, overwrite=False)


@asynccontextmanager
async def empty(postgres: PostgresServer) -> AsyncGenerator[URL]:
    async with postgres.new_database(migrated=False) as url:
        yield url


async def restored(url: URL, path: Path, programs: Programs, *, replace: bool = False) -> str:
    return await asyncio.to_thread(restore.restore, url, path, programs, replace=replace)


async def refused(url: URL, path: Path, programs: Programs, *, replace: bool = False) -> str:
    with pytest.raises(BackupError) as refusal:
        await restored(url, path, programs, replace=replace)
    return str(refusal.value)


async def test_a_backup_gives_back_every_row_and_rule(
    postgres: PostgresServer, filled: URL, made: Backup, programs: Programs
) -> None:
    """Into an empty database: rows, indexes, triggers, the jobs' schema; the audit says that it was restored. An index
    over vectors needs an extension that may be missing there; a server makes it by itself.
    """
    assert made.revision == migrate.head()
    assert made.path.stat().st_mode & 0o777 == 0o600
    assert names(made.path.parent) == ["a.dump"]
    async with empty(postgres) as url:
        assert await restored(url, made.path, programs) == migrate.head()
        assert await run_sql(url, EVERYTHING) == await run_sql(filled, EVERYTHING)
        assert await run_sql(url, SCHEMA) == await run_sql(filled, SCHEMA)
        assert await run_sql(url, "SELECT count(*) FROM pg_indexes WHERE indexname LIKE 'hnsw%'") == 0
        line = "SELECT who || ' ' || (detail ->> 'revision') FROM audit WHERE action = 'backup.restored'"
        assert await run_sql(url, line) == f"local {migrate.head()}"


async def test_what_a_database_holds_is_lost_only_when_that_is_said(
    postgres: PostgresServer, filled: URL, made: Backup, programs: Programs
) -> None:
    """And a restored database has nothing of what it held before."""
    async with postgres.new_database() as url:
        await run_sql(url, "INSERT INTO bases (id, name) VALUES (gen_random_uuid(), 'older')")
        before = await run_sql(url, EVERYTHING)
        said = await refused(url, made.path, programs)
        assert said.startswith("the database is not empty")
        assert await run_sql(url, EVERYTHING) == before
        await restored(url, made.path, programs, replace=True)
        assert await run_sql(url, EVERYTHING) == await run_sql(filled, EVERYTHING)


@pytest.mark.parametrize("left", [0.2, 0.9])
async def test_a_file_that_was_cut_off_changes_nothing(
    postgres: PostgresServer, made: Backup, programs: Programs, tmp_path: Path, left: float
) -> None:
    """Not even with --replace: what is dropped and what is put in its place are one transaction."""
    data = made.path.read_bytes()
    (tmp_path / "cut.dump").write_bytes(data[: int(len(data) * left)])
    async with postgres.new_database() as url:
        before = await run_sql(url, EVERYTHING), await run_sql(url, SCHEMA)
        said = await refused(url, tmp_path / "cut.dump", programs, replace=True)
        assert "pg_restore failed" in said
        assert (await run_sql(url, EVERYTHING), await run_sql(url, SCHEMA)) == before


async def test_a_database_that_a_server_uses_is_left_alone(
    postgres: PostgresServer, made: Backup, programs: Programs
) -> None:
    """A server always has a connection."""
    async with postgres.new_database() as url:
        server = Database(url)
        try:
            assert await bases.find_id(server, "default") is not None
            said = await refused(url, made.path, programs, replace=True)
        finally:
            await server.aclose()
    assert said == "turnstream is using this database (1 connections): stop every server and command first"


async def test_tables_of_others_are_left_alone(postgres: PostgresServer, made: Backup, programs: Programs) -> None:
    """Even with --replace."""
    async with empty(postgres) as url:
        await run_sql(url, "CREATE TABLE invoices ()")
        said = await refused(url, made.path, programs, replace=True)
        assert "tables that this version of turnstream doesn't know (invoices)" in said


async def test_a_backup_of_an_older_revision_is_brought_up_and_one_of_a_newer_is_refused(
    postgres: PostgresServer, made: Backup, programs: Programs, tmp_path: Path
) -> None:
    """A backup is taken of the database as it is, before an upgrade too."""
    async with empty(postgres) as url:
        await asyncio.to_thread(migrate.upgrade, url, "0003")
        await run_sql(url, "INSERT INTO bases (id, name) VALUES (gen_random_uuid(), 'older')")
        older = await asyncio.to_thread(backup.make, url, tmp_path / "older.dump", programs, overwrite=False)
        assert older.revision == "0003"
        assert await asyncio.to_thread(migrate.current, url) == "0003"
        await restored(url, made.path, programs, replace=True)
        await restored(url, older.path, programs, replace=True)
        assert await asyncio.to_thread(migrate.current, url) == migrate.head()
        assert await run_sql(url, "SELECT string_agg(name, ' ' ORDER BY name) FROM bases") == "default older"
        await run_sql(url, "UPDATE alembic_version SET version_num = '9999'")
        newer = await asyncio.to_thread(backup.make, url, tmp_path / "newer.dump", programs, overwrite=False)
        await run_sql(url, f"UPDATE alembic_version SET version_num = '{migrate.head()}'")
        said = await refused(url, newer.path, programs, replace=True)
    assert "is of revision 9999, which this version does not know" in said


async def test_a_backup_that_can_t_be_made_leaves_nothing_behind(
    filled: URL, made: Backup, programs: Programs, tmp_path: Path
) -> None:
    """Nor does it touch an earlier one."""
    with pytest.raises(BackupError, match="is there already"):
        await asyncio.to_thread(backup.make, filled, made.path, programs, overwrite=False)
    gone = filled.set(database="nowhere")
    with pytest.raises(migrate.MigrationError, match="no connection"):
        await asyncio.to_thread(backup.make, gone, tmp_path / "b.dump", programs, overwrite=False)
    broken = tmp_path / "bin"
    broken.mkdir()
    for name in pg_programs.NEEDED:
        (broken / name).write_text(
            "#!/bin/sh\necho half > \"${2#--file=}\"\necho 'pg_dump: error: no room' >&2\nexit 1\n"
        )
        (broken / name).chmod(0o755)
    with pytest.raises(BackupError, match="pg_dump: error: no room"):
        await asyncio.to_thread(backup.make, filled, tmp_path / "b.dump", Programs(broken, 18), overwrite=True)
    assert names(tmp_path) == ["bin"]


async def test_what_is_no_backup_is_said_to_be_none(
    postgres: PostgresServer, programs: Programs, tmp_path: Path
) -> None:
    """Other files, and other databases' backups."""
    (tmp_path / "a.md").write_text("# Notes")
    async with empty(postgres) as url:
        assert "a.md is no backup of turnstream (pg_restore failed" in await refused(url, tmp_path / "a.md", programs)
        await run_sql(url, "CREATE TABLE invoices ()")
        argv = programs.argv("pg_dump", "--format=custom", f"--file={tmp_path / 'b.dump'}")
        target = pg_programs.Target.of(url)
        pg_programs.run([*argv, f"--dbname={target.address}"], target.environment)
        said = await refused(url, tmp_path / "b.dump", programs)
    assert said.endswith("b.dump is no backup of turnstream: it holds no table alembic_version")


def test_programs_older_than_the_server_are_refused_by_name(tmp_path: Path) -> None:
    """With what was found where, and what to do."""
    with pytest.raises(BackupError) as refusal:
        pg_programs.find([tmp_path, installed()], server_major=19)
    assert str(refusal.value) == (
        "the server is PostgreSQL 19, which needs pg_dump, pg_restore and psql of 19 or newer "
        f"({tmp_path} has no pg_dump and no pg_restore and no psql; those in {installed()} are of 18): "
        "install them, or name their folder in TURNSTREAM_PG_BIN_DIR"
    )


def test_no_password_stands_on_a_command_line() -> None:
    """Everybody on the machine can read those."""
    target = pg_programs.Target.of(URL.create("postgresql+asyncpg", "u", "s e'cret", "h", 5432, "d"))
    assert "cret" not in target.address
    assert target.environment["PGPASSWORD"] == "s e'cret"


async def test_the_commands_do_it(
    postgres: PostgresServer, filled: URL, tmp_path: Path, invoke: Callable[..., Awaitable[Result]]
) -> None:
    """On the configured database; a second backup of a name, and what a pooler leads to, are refused in one line."""
    path = tmp_path / "c.dump"
    done = await invoke(filled, "backup", str(path))
    assert (done.exit_code, done.stdout.startswith(f"{path}: ")) == (0, True), done.output
    again = await invoke(filled, "backup", str(path))
    assert (again.exit_code, again.stderr) == (
        2,
        f"turnstream: {path} is there already: choose another name, or say --overwrite\n",
    )
    pooled = await invoke(filled, "backup", str(path), "--overwrite", TURNSTREAM_DATABASE_POOLER="true")
    assert (pooled.exit_code, "needs a session of its own" in pooled.stderr) == (2, True)
    async with empty(postgres) as url:
        done = await invoke(url, "restore", str(path))
        assert done.exit_code == 0, done.output
        assert await run_sql(url, EVERYTHING) == await run_sql(filled, EVERYTHING)
        listed = await invoke(url, "audit", "list", "--json")
        assert [json.loads(line)["action"] for line in listed.stdout.splitlines()] == [
            "backup.restored",
            "token.created",
            "base.created",
        ]
        assert (await invoke(url, "audit", "list", "--action", "nothing")).exit_code == 2


@pytest.fixture
def invoke(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Generator[Callable[..., Awaitable[Result]]]:
    """Runs a command of turnstream here, on a database; the logging that commands set up is put back."""
    monkeypatch.chdir(tmp_path)
    structure, root = structlog.get_config(), logging.getLogger()
    handlers, level = root.handlers[:], root.level

    async def run(url: URL, *words: str, **settings: str) -> Result:
        environment: dict[str, str | None] = {name: None for name in os.environ if name.startswith("TURNSTREAM_")}
        environment |= {"TURNSTREAM_DATABASE_URL": url.render_as_string(hide_password=False)} | settings
        return await asyncio.to_thread(CliRunner().invoke, main, words, env=environment)

    yield run
    structlog.configure(**structure)
    root.handlers[:] = handlers
    root.setLevel(level)
