"""Migrations give exactly app/store/tables.py, one process at a time. Source: issue 2 item 1."""

import asyncio
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import URL, Connection, text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from app.store import backup, migrate, pg_programs, restore
from app.store.embedded import EmbeddedConfig, EmbeddedPostgres
from app.store.embedded.binaries import installed
from app.store.migrate import LOCK_KEY, MigrationError
from app.store.tables import metadata
from tests.harness.postgres import PostgresServer, run_sql

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 20.0
OLDEST = Path("/usr/lib/postgresql/15/bin")
OUR_TABLES = "SELECT string_agg(tablename, ' ' ORDER BY tablename) FROM pg_tables WHERE schemaname = 'public'"


@pytest.fixture
async def empty(postgres: PostgresServer) -> AsyncGenerator[URL]:
    """A database without a schema."""
    async with postgres.new_database(migrated=False) as url:
        yield url


async def upgrade(url: URL, revision: str = "head") -> None:
    await asyncio.to_thread(migrate.upgrade, url, revision)


async def differences(url: URL) -> list[Any]:
    """What alembic would still change to make the database equal to tables.py."""

    def compare(connection: Connection) -> list[Any]:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        return compare_metadata(context, metadata)

    engine = create_async_engine(url, poolclass=NullPool)
    try:
        async with engine.connect() as connection:
            return await connection.run_sync(compare)
    finally:
        await engine.dispose()


CATALOGUE = """
SELECT string_agg(line, E'\n' ORDER BY line) FROM (
    SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' AND tablename <> 'alembic_version'
    UNION ALL
    SELECT conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint
    WHERE connamespace = 'public'::regnamespace AND conrelid::regclass <> 'alembic_version'::regclass
    UNION ALL
    SELECT concat_ws(' ', table_name, row_number() OVER (PARTITION BY table_name ORDER BY ordinal_position),
                     column_name, data_type, is_nullable, column_default)
    FROM information_schema.columns WHERE table_schema = 'public' AND table_name <> 'alembic_version'
) AS known (line)
"""
"""Every index, constraint and column as Postgres itself writes it down; columns in their order, which a dropped one
leaves a gap in."""


async def make_tables(url: URL) -> None:
    """tables.py as SQLAlchemy makes it, without any migration."""
    engine = create_async_engine(url, poolclass=NullPool)
    try:
        async with engine.begin() as connection:
            await connection.execute(text("CREATE EXTENSION pg_trgm"))  # an index of tables.py uses it
            await connection.run_sync(metadata.create_all)
            await connection.execute(text("CREATE TABLE alembic_version ()"))
    finally:
        await engine.dispose()


@asynccontextmanager
async def migration_lock_held(url: URL) -> AsyncGenerator[None]:
    """Somebody else is migrating for as long as the block lasts."""
    engine = create_async_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    try:
        async with engine.connect() as connection:
            await connection.execute(text(f"SELECT pg_advisory_lock({LOCK_KEY})"))
            yield
    finally:
        await engine.dispose()


async def until_waiting(url: URL, count: int) -> None:
    """Returns once so many processes wait for an advisory lock of this database."""
    waiting = (
        "SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database "
        "WHERE locktype = 'advisory' AND NOT granted AND d.datname = current_database()"
    )
    deadline = time.monotonic() + DEADLINE_S
    while await run_sql(url, waiting) != count:
        assert time.monotonic() < deadline, "nobody came to wait for the lock"


async def test_an_empty_database_becomes_exactly_the_tables_of_the_code(empty: URL) -> None:
    """No table, column, default, constraint or index differs, and the base `default` is there."""
    await upgrade(empty)
    assert await differences(empty) == []
    assert await run_sql(empty, "SELECT string_agg(name, ',') FROM bases") == "default"
    assert await asyncio.to_thread(migrate.current, empty) == migrate.head()


async def test_postgres_writes_down_the_same_for_migrations_and_for_the_code(database_url: URL, empty: URL) -> None:
    """Partial and descending indexes too, which alembic's comparison does not see whole."""
    await make_tables(empty)
    made = await run_sql(empty, CATALOGUE)
    assert "WHERE (status = 'running'::text)" in str(made)
    assert await run_sql(database_url, CATALOGUE) == made


async def test_down_leaves_no_table_and_up_again_makes_the_same(empty: URL) -> None:
    """Both directions of every migration work."""
    await upgrade(empty)
    await asyncio.to_thread(migrate.downgrade, empty, "base")
    assert await run_sql(empty, OUR_TABLES) == "alembic_version"
    assert await asyncio.to_thread(migrate.current, empty) is None
    await upgrade(empty)
    assert await differences(empty) == []


async def test_two_processes_that_migrate_at_once_both_succeed(empty: URL) -> None:
    """They queue at the advisory lock: the second finds the work done."""
    async with asyncio.TaskGroup() as group, migration_lock_held(empty):
        for _ in range(2):
            group.create_task(upgrade(empty))
        await until_waiting(empty, 2)
        assert await run_sql(empty, OUR_TABLES) is None
    assert await differences(empty) == []
    assert await run_sql(empty, "SELECT count(*) FROM bases") == 1


async def test_a_database_that_is_up_to_date_is_not_locked(database_url: URL) -> None:
    """The fast path waits for nobody."""
    async with migration_lock_held(database_url):
        await upgrade(database_url)


async def test_a_process_that_migrates_for_too_long_is_named(empty: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting has an end, and a sentence."""
    monkeypatch.setattr(migrate, "LOCK_TIMEOUT_S", 0.1)
    async with migration_lock_held(empty):
        with pytest.raises(MigrationError) as refusal:
            await upgrade(empty)
    assert str(refusal.value) == ("another process has been migrating this database for 0.1 s: end it, start again")


async def test_a_schema_newer_than_the_code_is_left_alone(empty: URL) -> None:
    """An older version must not run on it."""
    await upgrade(empty)
    await run_sql(empty, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(MigrationError) as refusal:
        await upgrade(empty)
    assert str(refusal.value) == (
        f"the database is at revision 9999, which this version does not know (its newest is {migrate.head()}): "
        "run the newer version that made it, or restore a backup"
    )


async def test_a_role_that_may_not_make_the_extension_is_told_its_name(postgres: PostgresServer, empty: URL) -> None:
    """And nothing is left half made."""
    role = f"turnstream_test_{secrets.token_hex(6)}"
    await run_sql(empty, f"CREATE ROLE {role} LOGIN PASSWORD 'p'")
    try:
        await run_sql(empty, f"GRANT ALL ON SCHEMA public TO {role}")
        with pytest.raises(MigrationError) as refusal:
            await upgrade(empty.set(username=role, password="p"))
        assert await run_sql(empty, OUR_TABLES) is None
    finally:
        await run_sql(empty, f"DROP OWNED BY {role}")
        await run_sql(postgres.url, f"DROP ROLE {role}")
    assert str(refusal.value).startswith("the database needs the extension pg_trgm and it could not be made (")
    assert str(refusal.value).endswith("then run CREATE EXTENSION pg_trgm in this database as a superuser")


async def test_an_unreachable_database_is_named_without_its_password(tmp_path: Path) -> None:
    """The sentence shows where it looked."""
    url = f"postgresql://somebody:secret@/name?host={tmp_path}"
    with pytest.raises(MigrationError) as refusal:
        await asyncio.to_thread(migrate.upgrade, url)
    assert str(refusal.value).startswith("no connection to the database postgresql+asyncpg://somebody:***@/name?")
    assert "secret" not in str(refusal.value)


def test_what_is_no_url_is_said_to_be_none() -> None:
    """It is not repeated: it may hold a password."""
    with pytest.raises(MigrationError) as refusal:
        migrate.upgrade("my database")
    assert str(refusal.value) == "not a database URL: postgresql://user:password@host:5432/name is one"


def test_files_are_named_after_their_revisions_and_the_highest_is_alembic_s_head() -> None:
    """What lets an up-to-date start do without alembic."""
    config = Config()
    config.set_main_option("script_location", str(migrate.folder()))
    scripts = ScriptDirectory.from_config(config)
    revisions = list(scripts.walk_revisions())
    assert [Path(revision.path).name.partition("_")[0] for revision in revisions] == [
        revision.revision for revision in revisions
    ]
    assert scripts.get_heads() == [migrate.head()]


def test_the_installed_package_carries_its_migrations(tmp_path: Path) -> None:
    """In a wheel they are app/_shipped/migrations (pyproject's force-include)."""
    shutil.copytree(ROOT / "app", tmp_path / "app", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "migrations", tmp_path / "app" / "_shipped" / "migrations")
    program = "from app.store import migrate; print(migrate.folder(), migrate.head())"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    said = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert said.stdout == f"{tmp_path / 'app' / '_shipped' / 'migrations'} {migrate.head()}\n"


async def test_a_developer_migrates_with_alembic_itself(empty: URL) -> None:
    """`alembic upgrade head` takes the database from TURNSTREAM_DATABASE_URL."""
    await asyncio.to_thread(_alembic, "upgrade", "head", url=empty.render_as_string(hide_password=False))
    assert await differences(empty) == []


def test_alembic_without_a_database_says_which_variable_is_missing() -> None:
    """Not a traceback."""
    done = _alembic("current", url=None)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        1,
        "set TURNSTREAM_DATABASE_URL to the database that alembic is to change",
    )


def _alembic(*words: str, url: str | None) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != "TURNSTREAM_DATABASE_URL"}
    given = {} if url is None else {"TURNSTREAM_DATABASE_URL": url}
    return subprocess.run(
        [sys.executable, "-m", "alembic", *words],
        cwd=ROOT,
        env=kept | given,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def oldest_postgres() -> Generator[URL]:
    """A server of the oldest supported version, from this machine's own packages."""
    if not (OLDEST / "initdb").exists():
        pytest.skip(f"no PostgreSQL 15 in {OLDEST}")
    room = Path(tempfile.mkdtemp(prefix="turnstream-test-"))
    server = EmbeddedPostgres.start(EmbeddedConfig(room, bin_dir=OLDEST, durable=False))
    try:
        yield server.url
    finally:
        server.stop()
        shutil.rmtree(room)


async def test_the_oldest_supported_postgres_takes_every_migration(oldest_postgres: URL, tmp_path: Path) -> None:
    """Debian 12 has 15: nothing in a migration may need more, nor a backup by the newer programs of the wheel."""
    await upgrade(oldest_postgres)
    assert str(await run_sql(oldest_postgres, "SHOW server_version")).startswith("15.")
    assert await differences(oldest_postgres) == []
    await run_sql(oldest_postgres, "INSERT INTO bases (id, name) VALUES (gen_random_uuid(), 'kept')")
    programs = pg_programs.find([installed()], server_major=15)
    made = await asyncio.to_thread(backup.make, oldest_postgres, tmp_path / "a.dump", programs, overwrite=False)
    await run_sql(oldest_postgres, "DELETE FROM bases")
    await asyncio.to_thread(restore.restore, oldest_postgres, made.path, programs, replace=True)
    assert await run_sql(oldest_postgres, "SELECT string_agg(name, ' ' ORDER BY name) FROM bases") == "default kept"
    assert await differences(oldest_postgres) == []
