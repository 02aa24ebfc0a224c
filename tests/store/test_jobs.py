"""Extraction jobs in the database: one job and one outcome per chunk, whoever dies or comes late. Issue 4 item 2."""

import asyncio
import importlib.util
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from procrastinate.schema import SchemaManager
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import URL, text

from app.errors import AppError
from app.knowledge.jobs import ExtractionJobs, JobLimits
from app.llm.extraction import Extraction, ExtractionFailure
from app.store import bases, jobs, migrate
from app.store.engine import Database
from app.store.ids import new_id
from app.store.jobs import FailureKind, Outcome, Progress, conninfo
from app.store.proposals import NewProposal

DEADLINE_S = 15.0
NIL = "00000000-0000-0000-0000-000000000000"
QUICK = JobLimits(attempts=3, retry_base_s=0.001, poll_s=0.02, sweep_s=0.02, shutdown_s=0.1)


@dataclass(slots=True)
class Room:
    """A database of a test's own, and its base."""

    url: URL
    database: Database
    base_id: str

    async def sql(self, statement: str, **values: object) -> list[Any]:
        async with self.database.begin() as connection:
            await connection.execute(text("SET LOCAL search_path TO procrastinate, public"))
            result = await connection.execute(text(statement), values)
            return list(result.all()) if result.returns_rows else []

    async def chunk(self, *, live: bool = True) -> str:
        """A chunk of a document of its own; its id."""
        document_id, chunk_id = new_id(), new_id()
        await self.sql(
            "INSERT INTO documents (id, base_id, name, content_hash, size_bytes, status) "
            "VALUES (:id, :base, :name, :name, 1, 'ready')",
            id=document_id,
            name=document_id,
            base=self.base_id,
        )
        await self.sql(
            "INSERT INTO chunks (id, document_id, base_id, position, text, tsv, segmenter, live) "
            "VALUES (:id, :document, :base, 0, 'Ada founded it.', '', 1, :live)",
            id=chunk_id,
            document=document_id,
            base=self.base_id,
            live=live,
        )
        return chunk_id

    async def worker(self, silent: str = "0 s") -> int:
        """A worker whose last sign of life is that long ago."""
        [row] = await self.sql(
            "INSERT INTO procrastinate_workers (last_heartbeat) VALUES (now() - CAST(:silent AS text)::interval) "
            "RETURNING id",
            silent=silent,
        )
        return row.id

    async def job(self, task: str, *, worker: int | None = None, status: str = "doing", chunk: str = "") -> int:
        """A job as a worker has it."""
        [row] = await self.sql(
            "INSERT INTO procrastinate_jobs (queue_name, task_name, args, status, worker_id, lock, queueing_lock) "
            "VALUES ('extraction', :task, jsonb_build_object('base_id', CAST(:base AS text)), "
            "CAST(CAST(:status AS text) AS procrastinate_job_status), :worker, nullif(:chunk, ''), nullif(:chunk, '')) "
            "RETURNING id",
            task=task,
            base=self.base_id,
            status=status,
            worker=worker,
            chunk=chunk,
        )
        return row.id

    async def waiting(self) -> list[str]:
        """The chunks whose jobs wait, in order."""
        rows = await self.sql(
            "SELECT args ->> 'chunk_id' AS chunk FROM procrastinate_jobs WHERE status = 'todo' ORDER BY id"
        )
        return [row.chunk for row in rows]


@pytest.fixture
async def room(new_database: Callable[[], AbstractAsyncContextManager[URL]]) -> AsyncGenerator[Room, None]:
    """An empty base."""
    async with new_database() as url:
        database = Database(url)
        try:
            base = await bases.ensure_default(database)
            yield Room(url, database, base.id)
        finally:
            await database.aclose()


def proposal(chunk_id: str, key: str = "key") -> NewProposal:
    return NewProposal({"subject": "Ada"}, "Ada founded it.", "extraction", "m", key, chunk_id=chunk_id)


def test_the_library_has_no_migration_that_our_schema_lacks() -> None:
    """A version of procrastinate with newer ones needs a revision of ours that applies them."""
    path = migrate.folder() / "versions" / "0004_jobs.py"
    spec = importlib.util.spec_from_file_location("jobs_revision", path)
    assert spec is not None
    assert spec.loader is not None
    revision = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(revision)
    assert max(file.name for file in Path(SchemaManager.get_migrations_path()).glob("*.sql")) == revision.CONTAINS


async def test_the_address_leads_over_the_unix_socket_to_the_library_s_own_schema(database_url: URL) -> None:
    """The URL of the embedded server, as libpq takes it."""
    connection = await psycopg.AsyncConnection[tuple[str, str | None]].connect(conninfo(database_url))
    async with connection:
        cursor = await connection.execute("SELECT to_regclass('procrastinate_jobs')::text, current_schema()")
        assert await cursor.fetchone() == ("procrastinate_jobs", "procrastinate")


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        (
            "postgres://me:p%40ss@db.example:6543/name",
            {"host": "db.example", "port": "6543", "user": "me", "password": "p@ss", "dbname": "name"},
        ),
        (
            "postgresql+asyncpg://me@/name?host=/run/a b&port=5433",
            {"host": "/run/a b", "port": "5433", "user": "me", "dbname": "name"},
        ),
        (
            "postgresql://h/name?ssl=require&prepared_statement_cache_size=0",
            {"host": "h", "dbname": "name", "sslmode": "require"},
        ),
        (
            "postgresql://h/name?options=-c%20work_mem%3D8MB",
            {"host": "h", "dbname": "name", "options": "-c work_mem=8MB -c search_path=procrastinate,public"},
        ),
    ],
)
def test_every_way_to_write_a_database_address_is_understood(url: str, parts: dict[str, str]) -> None:
    """What only asyncpg knows is left out."""
    ours = {"application_name": "turnstream jobs", "options": "-c search_path=procrastinate,public"}
    assert conninfo_to_dict(conninfo(url)) == ours | parts


async def test_a_chunk_has_one_outcome_however_many_come(room: Room) -> None:
    """The second reader of a chunk stores nothing, its proposals neither."""
    chunk_id = await room.chunk()
    outcomes = [Outcome("m", [proposal(chunk_id, f"key {number}")], dropped=number) for number in range(4)]
    stored = await asyncio.gather(
        *(jobs.settle(room.database, room.base_id, chunk_id, outcome) for outcome in outcomes)
    )
    assert sorted(stored) == [False, False, False, True]
    [kept] = [number for number, was in enumerate(stored) if was]
    assert [row.idempotency_key for row in await room.sql("SELECT idempotency_key FROM proposals")] == [f"key {kept}"]
    assert await jobs.is_settled(room.database, chunk_id)
    assert await jobs.progress(room.database, room.base_id) == Progress(
        total=1, done=1, proposed=1, dropped=kept, failed=0, running=False, failures=()
    )


async def test_a_chunk_that_is_superseded_or_gone_gets_no_outcome(room: Room) -> None:
    """Its reader came too late."""
    old = await room.chunk(live=False)
    for chunk_id in (old, new_id()):
        assert not await jobs.settle(room.database, room.base_id, chunk_id, Outcome("m", [proposal(chunk_id)]))
    assert await room.sql("SELECT 1 FROM proposals") == []


async def test_each_unread_chunk_gets_one_job(room: Room) -> None:
    """Not what was read, is superseded or has a job; what stops at this moment does again."""
    read, superseded = await room.chunk(), await room.chunk(live=False)
    waits, works, stops, unread = [await room.chunk() for _ in range(4)]
    await jobs.settle(room.database, room.base_id, read, Outcome("m"))
    worker = await room.worker()
    planner = await room.job("plan_extraction", worker=worker)
    await room.job("extract_chunk", status="todo", chunk=waits)
    await room.job("extract_chunk", worker=worker, chunk=works)
    stopping = await room.job("extract_chunk", worker=worker, chunk=stops)
    await room.sql("UPDATE procrastinate_jobs SET abort_requested = true WHERE id = :id", id=stopping)

    async def enqueue(after: str) -> str | None:
        return await jobs.enqueue(room.database, room.base_id, planner=planner, after=after, limit=1)

    assert await enqueue(NIL) == stops
    assert await enqueue(stops) == unread
    assert await enqueue(unread) is None
    assert await enqueue(NIL) is None
    assert await room.waiting() == [None, stops, unread]
    assert superseded not in await room.waiting()


async def test_a_planner_that_is_to_stop_makes_no_more_jobs(room: Room) -> None:
    """And what it had made is taken away."""
    chunk_ids = [await room.chunk() for _ in range(2)]
    planner = await room.job("plan_extraction", worker=await room.worker())
    await jobs.enqueue(room.database, room.base_id, planner=planner, after=NIL, limit=1)
    assert await room.waiting() == chunk_ids[:1]
    assert await jobs.cancel(room.database, room.base_id) == 2
    assert await jobs.enqueue(room.database, room.base_id, planner=planner, after=NIL, limit=2) is None
    assert await room.waiting() == []


async def test_stopping_one_base_leaves_the_others_alone(room: Room) -> None:
    """Jobs know their base."""
    other = await bases.create(room.database, "other", description="")
    assert other is not None
    await room.job("extract_chunk", status="todo")
    assert await jobs.cancel(room.database, other.id) == 0
    assert (await jobs.progress(room.database, room.base_id)).running
    assert not (await jobs.progress(room.database, other.id)).running


async def test_jobs_of_dead_workers_wait_again_and_those_of_living_ones_don_t(room: Room) -> None:
    """Silent too long, or gone from the list; two that look at the same time find each job once."""
    living, silent = await room.worker("5 s"), await room.worker("1 minute")
    for worker in (living, silent, silent, None):
        await room.job("extract_chunk", worker=worker)
    found = await asyncio.gather(*(jobs.retry_stalled(room.database, silent_s=30.0) for _ in range(3)))
    assert sum(found) == 3
    rows = await room.sql("SELECT status::text, attempts, worker_id FROM procrastinate_jobs ORDER BY id")
    assert [(row.status, row.attempts) for row in rows] == [("doing", 0), ("todo", 1), ("todo", 1), ("todo", 1)]


async def test_a_passage_is_given_up_after_so_many_failures_that_might_have_passed(room: Room) -> None:
    """The code and the words of the last are kept."""
    busy = Extraction(failure=ExtractionFailure("model_unavailable", "Busy.", transient=True, retry_after_s=0.0))
    extractor = Answers([busy])
    await room.chunk()
    progress = await run(room, extractor)
    assert progress.failures == (FailureKind("model_unavailable", 1, "Busy."),)
    assert (progress.failed, progress.done, len(extractor.asked)) == (1, 0, 3)


async def test_a_fault_of_ours_fails_its_passage_and_no_other(room: Room) -> None:
    """Its words are for the log."""
    extractor = Answers([ZeroDivisionError("secret"), Extraction()])
    for _ in range(2):
        await room.chunk()
    progress = await run(room, extractor, limits=JobLimits(concurrency=1, poll_s=0.02))
    assert progress.failures == (
        FailureKind("internal", 1, "Reading the passage failed in this server; the log says how."),
    )
    assert (progress.total, progress.done, progress.failed) == (2, 1, 1)


async def test_a_passage_whose_reader_dies_every_time_is_given_up(room: Room) -> None:
    """Twice as many beginnings as there are attempts, and no end."""
    chunk_id = await room.chunk()
    await room.sql(
        "INSERT INTO procrastinate_jobs (queue_name, task_name, args, attempts) VALUES ('extraction', 'extract_chunk', "
        "jsonb_build_object('base_id', CAST(:base AS text), 'chunk_id', CAST(:chunk AS text)), 6)",
        base=room.base_id,
        chunk=chunk_id,
    )
    extractor = Answers([Extraction()])
    progress = await run(room, extractor)
    assert [(kind.code, kind.chunks) for kind in progress.failures] == [("given_up", 1)]
    assert extractor.asked == []


async def test_without_an_extractor_nothing_starts_and_nothing_runs(room: Room) -> None:
    """The refusal's words are those it was made with."""
    extraction = ExtractionJobs(room.database, conninfo(room.url), None, refusal="No model.")
    async with extraction.running():
        with pytest.raises(AppError) as refused:
            await extraction.start(room.base_id)
    assert (refused.value.code, refused.value.message) == ("no_chat_model", "No model.")


@dataclass(slots=True)
class Answers:
    """An extractor that gives these, in order, the last one again and again."""

    given: list[Extraction | Exception]
    asked: list[str] = field(default_factory=list[str])
    name: str = "m"

    async def extract(self, *, title: str, heading: str, passage: str) -> Extraction:
        self.asked.append(f"{title} {heading} {passage}".strip())
        answer = self.given[min(len(self.asked), len(self.given)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer


async def run(room: Room, extractor: Answers, limits: JobLimits = QUICK) -> Progress:
    """Extract the base; how far it is once nothing waits or works."""
    extraction = ExtractionJobs(room.database, conninfo(room.url), extractor, limits=limits)
    async with extraction.running(), asyncio.timeout(DEADLINE_S):
        if not await room.sql("SELECT 1 FROM procrastinate_jobs"):
            await extraction.start(room.base_id)
        while (progress := await extraction.progress(room.base_id)).running:
            await asyncio.sleep(0.01)
    return progress
