"""Behind pgbouncer in transaction mode: nothing is kept from one transaction to the next. Case D02."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import URL, text

from app.knowledge.jobs import ExtractionJobs
from app.llm.extraction import Extraction
from app.store import bases, jobs, migrate
from app.store.engine import Database
from app.store.ids import new_id
from tests.harness.pgbouncer import SERVER_CONNECTIONS, pooled
from tests.harness.postgres import PostgresServer, run_sql
from tests.harness.replica import replica
from tests.harness.scripted_endpoint import ScriptedEndpoint, call
from tests.harness.scripted_endpoint import text as says
from tests.store.test_jobs import QUICK, Answers, Room

DEADLINE_S = 20.0
QUERIES = 200
BACKENDS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
ADVISORY_LOCKS = (
    "SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database "
    "WHERE locktype = 'advisory' AND d.datname = current_database()"
)


@dataclass(frozen=True, slots=True)
class Pooled:
    """A database of the test's own: `direct` and through the proxy."""

    direct: URL
    url: URL


@pytest.fixture
async def behind(new_database: Callable[[], AbstractAsyncContextManager[URL]]) -> AsyncGenerator[Pooled, None]:
    """A migrated database behind a pgbouncer with two connections to the server."""
    async with new_database() as direct, pooled(direct) as url:
        yield Pooled(direct, url)


async def query(database: Database, number: int) -> int:
    """One of five kinds of query, each in a transaction of its own; its number back, as the server gives it."""
    async with database.begin() as connection:
        match number % 5:
            case 0:
                value = await connection.scalar(text("SELECT CAST(:n AS int)"), {"n": number})
            case 1:
                row = text("SELECT jsonb_build_object('n', CAST(:n AS int)) AS of, ARRAY[now()] AS at")
                value = (await connection.execute(row, {"n": number})).one().of["n"]
            case 2:
                await connection.execute(text("SET LOCAL work_mem = '8MB'"))
                value = await connection.scalar(text(f"SELECT {number}"))  # a statement that no other query has
            case 3:
                insert = text("INSERT INTO bases (id, name) VALUES (:id, :name)")
                rows = [{"id": new_id(), "name": f"{number}-{part}"} for part in range(2)]
                await connection.execute(insert, rows)
                value = int(str(await connection.scalar(text("SELECT name FROM bases WHERE id = :id"), rows[0]))[:-2])
            case _:
                await connection.execute(text("SELECT pg_advisory_xact_lock(:n)"), {"n": number % 3})
                value = await connection.scalar(text("SELECT CAST(:n AS bigint)"), {"n": number})
    return int(str(value))


async def test_two_hundred_queries_at_once_share_two_connections_of_the_server(behind: Pooled) -> None:
    """From two pools that ping before use, a hundred each, twice, so that every pooled connection is used again."""
    pools = [Database(behind.url, pooler=True) for _ in range(2)]
    try:
        for first in (0, QUERIES):
            numbers = range(first, first + QUERIES)
            answers = await asyncio.gather(*(query(pools[number % 2], number) for number in numbers))
            assert answers == list(numbers)
        async with pools[0].read() as connection:
            assert await connection.scalar(text("SELECT count(*) FROM pg_prepared_statements")) == 0
        assert await run_sql(behind.direct, BACKENDS) == SERVER_CONNECTIONS
    finally:
        for pool in pools:
            await pool.aclose()


async def test_a_query_that_is_refused_leaves_its_connection_usable(behind: Pooled) -> None:
    """A broken constraint rolls its own transaction back, and the proxy's connection goes to the next."""
    pool = Database(behind.url, pooler=True)
    try:
        made = await asyncio.gather(*(bases.create(pool, "one") for _ in range(20)))
        assert sum(base is not None for base in made) == 1
        assert [base.name for base in await bases.list_all(pool)] == ["default", "one"]
    finally:
        await pool.aclose()


async def test_an_index_is_built_beside_the_pool(behind: Pooled) -> None:
    """Outside of any transaction, as building one concurrently must be."""
    pool = Database(behind.url, pooler=True)
    try:
        async with pool.apart() as connection:
            await connection.execute(text("CREATE INDEX CONCURRENTLY made_here ON bases (description)"))
            assert await connection.scalar(text("SELECT CAST(to_regclass('made_here') AS text)")) == "made_here"
    finally:
        await pool.aclose()


async def test_two_processes_that_migrate_at_once_through_the_proxy_both_succeed(postgres: PostgresServer) -> None:
    """The lock is the transaction's: it holds, and nothing of it is left on the server's connections."""
    async with postgres.new_database(migrated=False) as direct, pooled(direct) as url:
        await asyncio.gather(*(asyncio.to_thread(migrate.upgrade, url) for _ in range(2)))
        assert await asyncio.to_thread(migrate.current, url) == migrate.head()
        assert await run_sql(direct, "SELECT count(*) FROM bases") == 1
        assert await run_sql(direct, ADVISORY_LOCKS) == 0
        await asyncio.to_thread(migrate.downgrade, url, "base")
        assert await asyncio.to_thread(migrate.current, url) is None


async def test_jobs_run_without_notifications_and_without_a_session_s_search_path(behind: Pooled) -> None:
    """The worker polls, and each of its transactions says where the library's tables are."""
    pool = Database(behind.url, pooler=True)
    try:
        base = await bases.ensure_default(pool)
        room = Room(behind.url, pool, base.id)
        for _ in range(20):
            await room.chunk()
        extraction = ExtractionJobs(pool, jobs.conninfo(behind.url, pooler=True), Answers([Extraction()]), limits=QUICK)
        async with extraction.running(), asyncio.timeout(DEADLINE_S):
            await extraction.start(base.id)
            while (progress := await extraction.progress(base.id)).running:
                await asyncio.sleep(0.01)
            async with pool.read() as one, pool.read() as other:  # both of the server's connections at once
                for connection in (one, other):
                    assert await connection.scalar(text("SELECT count(*) FROM pg_listening_channels()")) == 0
        assert (progress.total, progress.done, progress.failed) == (20, 20, 0)
    finally:
        await pool.aclose()


async def test_a_server_behind_the_proxy_migrates_and_answers(postgres: PostgresServer, tmp_path: Path) -> None:
    """`turnstream serve` on an empty database, twenty turns at once; what one process stored another shows."""
    async with postgres.new_database(migrated=False) as direct, pooled(direct) as url, ScriptedEndpoint() as endpoint:
        given = {
            "database_url": url.render_as_string(hide_password=False),
            "database_pooler": "true",
            "llm_base_url": endpoint.base_url,
            "llm_model": "scripted",
        }
        async with replica(tmp_path, **given) as one, replica(tmp_path, **given) as other:
            scripts = [endpoint.script(call(("search_chunks", {"query": "board"})), says("Four.")) for _ in range(20)]
            turns = await asyncio.gather(*(one.ask(f"How many? {script}") for script in scripts))
            assert [turn.answer for turn in turns] == ["Four."] * len(scripts)
            for turn in turns:
                stored = await other.http.get(f"/api/conversations/{turn.conversation_id}")
                assert [message["content"] for message in stored.json()["messages"]][1:] == ["Four."]
            assert await run_sql(direct, BACKENDS) == SERVER_CONNECTIONS
