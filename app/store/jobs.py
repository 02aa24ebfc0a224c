"""Extraction jobs: what waits in procrastinate's tables, and what became of each chunk.

Decides that a chunk has at most one job and at most one outcome, and that an outcome and its proposals are stored
together or not at all. When jobs run is the library's (app/knowledge/jobs.py). Its functions find their tables by the
search path, so each transaction that calls one sets it, and so do the library's own connections: at their start, or,
where they lead to a proxy that pools transactions, in each transaction (case D02).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from psycopg import AsyncCursor
from psycopg.abc import Params
from psycopg.conninfo import make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow
from sqlalchemy import URL, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store import libpq, proposals
from app.store.engine import Database
from app.store.proposals import NewProposal

SCHEMA = "procrastinate"
QUEUE = "extraction"
CHUNK_TASK = "extract_chunk"

_SHOWN_FAILURES = 10
"""Kinds of failure that a progress tells."""


@dataclass(frozen=True, slots=True)
class FailureKind:
    """Chunks that were given up for one reason; `message` is the newest one's, for a person."""

    code: str
    chunks: int
    message: str


@dataclass(frozen=True, slots=True)
class Progress:
    """The chunks of a base's current documents: all, read, and given up; the facts proposed and the rows dropped.

    `running` while a job of the base waits or works. `failures` are the most frequent kinds first.
    """

    total: int
    done: int
    proposed: int
    dropped: int
    failed: int
    running: bool
    failures: tuple[FailureKind, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a chunk: facts proposed and rows dropped, or why it was given up."""

    model: str
    proposed: Sequence[NewProposal] = ()
    dropped: int = 0
    error_code: str | None = None
    error: str | None = None


_SET_PATH = f"SET LOCAL search_path TO {SCHEMA}, public"
_PATH = text(_SET_PATH)

_ENQUEUE = text(f"""
WITH planner AS MATERIALIZED (
    SELECT 1 FROM procrastinate_jobs
    WHERE id = :planner AND status = 'doing' AND NOT abort_requested FOR SHARE
),
unread AS MATERIALIZED (
    SELECT c.id FROM chunks c, planner
    WHERE c.base_id = CAST(:base_id AS uuid) AND c.live AND c.id > CAST(:after AS uuid)
      AND NOT EXISTS (SELECT 1 FROM extractions e WHERE e.chunk_id = c.id)
      AND NOT EXISTS (SELECT 1 FROM procrastinate_jobs j WHERE j.queueing_lock = c.id::text AND j.status = 'todo')
      AND NOT EXISTS (SELECT 1 FROM procrastinate_jobs j
                      WHERE j.lock = c.id::text AND j.status = 'doing' AND NOT j.abort_requested)
    ORDER BY c.id LIMIT :limit
),
deferred AS MATERIALIZED (
    SELECT procrastinate_defer_jobs_v1(array_agg(
        CAST(ROW('{QUEUE}', '{CHUNK_TASK}', 0, unread.id::text, unread.id::text,
                 jsonb_build_object('base_id', CAST(:base_id AS text), 'chunk_id', unread.id::text), NULL)
             AS procrastinate_job_to_defer_v1) ORDER BY unread.id)) AS ids
    FROM unread HAVING count(*) > 0
)
SELECT (SELECT max(unread.id::text) FROM unread) AS last FROM deferred
""")  # noqa: S608 - only constants of this module are put together

_FORGET = text("DELETE FROM extractions WHERE base_id = CAST(:base_id AS uuid) AND error_code IS NOT NULL")

_IS_WAITED = f"""j.queue_name = '{QUEUE}' AND j.status IN ('todo', 'doing')
    AND j.args ->> 'base_id' = CAST(:base_id AS text)"""

_CANCEL = text(f"""
SELECT count(procrastinate_cancel_job_v1(j.id, true, true)) FROM procrastinate_jobs j
WHERE {_IS_WAITED} AND (j.task_name <> '{CHUNK_TASK}') = :planners
""")  # noqa: S608

_RETRY_STALLED = text("""
SELECT count(*) FROM (
    SELECT procrastinate_retry_job_v2(held.id, now(), NULL, NULL, NULL) FROM (
        SELECT j.id FROM procrastinate_jobs j LEFT JOIN procrastinate_workers w ON w.id = j.worker_id
        WHERE j.status = 'doing' AND j.queue_name = :queue
          AND (w.id IS NULL OR w.last_heartbeat < now() - make_interval(secs => :silent_s))
        FOR UPDATE OF j SKIP LOCKED
    ) held
) retried
""")

_PROGRESS = text(f"""
SELECT (SELECT count(*) FROM chunks WHERE base_id = CAST(:base_id AS uuid) AND live) AS total,
       count(*) FILTER (WHERE e.error_code IS NULL) AS done,
       count(*) FILTER (WHERE e.error_code IS NOT NULL) AS failed,
       coalesce(sum(e.proposed), 0) AS proposed,
       coalesce(sum(e.dropped), 0) AS dropped,
       EXISTS (SELECT 1 FROM {SCHEMA}.procrastinate_jobs j WHERE {_IS_WAITED}) AS running
FROM extractions e JOIN chunks c ON c.id = e.chunk_id
WHERE e.base_id = CAST(:base_id AS uuid) AND c.live
""")  # noqa: S608

_FAILURES = text("""
SELECT e.error_code AS code, count(*) AS chunks, (array_agg(e.error ORDER BY e.created_at DESC))[1] AS message
FROM extractions e JOIN chunks c ON c.id = e.chunk_id
WHERE e.base_id = CAST(:base_id AS uuid) AND c.live AND e.error_code IS NOT NULL
GROUP BY e.error_code ORDER BY count(*) DESC, e.error_code LIMIT :limit
""")

_IS_SETTLED = text("SELECT EXISTS (SELECT 1 FROM extractions WHERE chunk_id = CAST(:chunk_id AS uuid))")

_SETTLE = text("""
INSERT INTO extractions (chunk_id, base_id, model, proposed, dropped, error_code, error)
SELECT c.id, c.base_id, :model, :proposed, :dropped, :error_code, :error
FROM chunks c WHERE c.id = CAST(:chunk_id AS uuid) AND c.base_id = CAST(:base_id AS uuid) AND c.live
FOR KEY SHARE OF c
ON CONFLICT (chunk_id) DO NOTHING
RETURNING chunk_id
""")


class PathCursor(AsyncCursor[TupleRow]):
    """A cursor that sets the search path where a transaction begins: a pooling proxy refuses `options`, or would
    forget what a session has set.
    """

    async def execute(
        self, query: Any, params: Params | None = None, *, prepare: bool | None = None, binary: bool | None = None
    ) -> Self:
        connection = self.connection
        if not connection.autocommit and connection.info.transaction_status is TransactionStatus.IDLE:
            await super().execute(_SET_PATH)
        return await super().execute(query, params, prepare=prepare, binary=binary)


def connection_arguments(*, pooler: bool) -> dict[str, Any]:
    """What the library's connections are made with, beside the address of the same `pooler`."""
    return {"cursor_factory": PathCursor, "prepare_threshold": None} if pooler else {}


def conninfo(url: str | URL, *, pooler: bool = False) -> str:
    """The address for libpq, with the search path. Behind a `pooler` nothing is set at the start of a session."""
    parts = libpq.parameters(url)
    parts.setdefault("application_name", "turnstream jobs")
    if pooler:
        return make_conninfo("", **parts)
    options = f"{parts.pop('options', '')} -c search_path={SCHEMA},public".strip()
    return make_conninfo("", **parts, options=options)


async def enqueue(database: Database, base_id: str, *, planner: int, after: str, limit: int) -> str | None:
    """Make jobs for at most `limit` unread chunks with ids above `after`; the last id, None when there are none left.

    Unread is a current document's chunk without an outcome and without a job. Nothing is made once the planner, the
    job of that id, is to stop.
    """
    values = {"base_id": base_id, "planner": planner, "after": after, "limit": limit}
    async with database.begin() as connection:
        await connection.execute(_PATH)
        return (await connection.execute(_ENQUEUE, values)).scalar_one_or_none()


async def forget_failures(database: Database, base_id: str) -> None:
    """Chunks that were given up are unread again."""
    async with database.begin() as connection:
        await connection.execute(_FORGET, {"base_id": base_id})


async def cancel(database: Database, base_id: str) -> int:
    """Take the base's waiting jobs away and ask the working ones to stop; how many there were.

    Planners come first, in a statement of their own: one that is making jobs is waited for, and what it made is seen
    by the second.
    """
    count = 0
    async with database.begin() as connection:
        await connection.execute(_PATH)
        for planners in (True, False):
            values = {"base_id": base_id, "planners": planners}
            count += (await connection.execute(_CANCEL, values)).scalar_one()
    return count


async def retry_stalled(database: Database, *, silent_s: float) -> int:
    """Let the jobs of workers that are gone, or silent for that long, wait again; how many there were."""
    async with database.begin() as connection:
        await connection.execute(_PATH)
        return (await connection.execute(_RETRY_STALLED, {"queue": QUEUE, "silent_s": silent_s})).scalar_one()


async def progress(database: Database, base_id: str) -> Progress:
    """How far a base is read."""
    async with database.read() as connection:
        row = (await connection.execute(_PROGRESS, {"base_id": base_id})).one()
        failures = await _failures(connection, base_id) if row.failed else ()
    return Progress(
        total=row.total,
        done=row.done,
        proposed=row.proposed,
        dropped=row.dropped,
        failed=row.failed,
        running=row.running,
        failures=failures,
    )


async def _failures(connection: AsyncConnection, base_id: str) -> tuple[FailureKind, ...]:
    rows = await connection.execute(_FAILURES, {"base_id": base_id, "limit": _SHOWN_FAILURES})
    return tuple(FailureKind(row.code, row.chunks, row.message or "") for row in rows)


async def is_settled(database: Database, chunk_id: str) -> bool:
    """Whether the chunk has an outcome."""
    async with database.read() as connection:
        return (await connection.execute(_IS_SETTLED, {"chunk_id": chunk_id})).scalar_one()


async def settle(database: Database, base_id: str, chunk_id: str, outcome: Outcome) -> bool:
    """Store a chunk's outcome with its proposals, in one transaction.

    False, and nothing stored, where it has one already, or is deleted or superseded by now.
    """
    values = {
        "base_id": base_id,
        "chunk_id": chunk_id,
        "model": outcome.model,
        "proposed": len(outcome.proposed),
        "dropped": outcome.dropped,
        "error_code": outcome.error_code,
        "error": outcome.error,
    }
    try:
        async with database.begin() as connection:
            if (await connection.execute(_SETTLE, values)).one_or_none() is None:
                return False
            await proposals.add(connection, base_id, outcome.proposed)
            return True
    except IntegrityError:  # the base was deleted between the two statements
        return False
