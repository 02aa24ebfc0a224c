"""Extraction in the background: procrastinate's app, its two tasks, and the worker that runs inside the server.

Decides what is tried again and when, and when a chunk is given up. A planner job makes one job for each unread chunk;
a chunk's job asks the model once and stores the outcome. A killed worker's jobs are found by its silence and wait
again; what each chunk came to stands in one row (app/store/jobs.py), so no job counts twice. Source: issue 4 item 2,
decision 0012.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import cast

import structlog
from procrastinate import App, BaseRetryStrategy, JobContext, PsycopgConnector, RetryDecision
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from app.errors import AppError, TurnErrorCode
from app.knowledge.extract import Extractor, Failure, read_out
from app.store import chunks, jobs
from app.store.chunks import ChunkRecord
from app.store.engine import Database, StoreUnavailable
from app.store.jobs import CHUNK_TASK, QUEUE, Outcome, Progress
from app.text import clean

PLAN_TASK = "plan_extraction"

_BATCH = 500
"""Jobs made in one transaction."""
_NIL = "00000000-0000-0000-0000-000000000000"

GIVEN_UP = "given_up"
"""The code of a chunk whose job was begun again and again and never came to an end."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class JobLimits:
    """How extraction runs. Times are seconds.

    `concurrency` passages at a time in this process. A chunk is given up when `attempts` requests failed in ways that
    may pass; between them the wait doubles from `retry_base_s` to `retry_max_s`. A worker silent for `silent_s` is
    taken for dead; its jobs are looked for every `sweep_s`. At shutdown what runs gets `shutdown_s` to end.
    """

    concurrency: int = 2
    attempts: int = 10
    retry_base_s: float = 0.5
    retry_max_s: float = 300.0
    poll_s: float = 1.0
    silent_s: float = 30.0
    sweep_s: float = 10.0
    shutdown_s: float = 2.0


class _TryAgain(Exception):
    """A passage that could not be read now: the job is to run again after `wait_s`."""

    def __init__(self, failure: Failure, wait_s: float) -> None:
        super().__init__(failure.message)
        self.wait_s = wait_s


class _Retries(BaseRetryStrategy):
    """What is tried again: a failure that may pass, a database in trouble, and what a shutdown cut short."""

    def __init__(self, limits: JobLimits) -> None:
        self._limits = limits

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
        del job
        if isinstance(exception, asyncio.CancelledError):
            return _after(0)
        if isinstance(exception, StoreUnavailable):
            return _after(self._limits.retry_base_s)
        return _after(exception.wait_s) if isinstance(exception, _TryAgain) else None


class ExtractionJobs:
    """Starts, stops and runs the extraction of bases. One per process; `running` is its lifetime.

    `conninfo` is app.store.jobs.conninfo of the database's address. `extractor` is None where no model can extract,
    `refusal` then says why.
    """

    def __init__(
        self,
        database: Database,
        conninfo: str,
        extractor: Extractor | None,
        *,
        refusal: str = "",
        limits: JobLimits | None = None,
    ) -> None:
        self._database = database
        self._extractor = extractor
        self._refusal = refusal
        self._limits = limits or JobLimits()
        self._pool: AsyncConnectionPool[AsyncConnection] = AsyncConnectionPool(
            conninfo,
            kwargs=jobs.connection_arguments(pooler=database.pooler),
            min_size=1,
            max_size=self._limits.concurrency + 2,
            timeout=5.0,
            open=False,
            check=AsyncConnectionPool.check_connection,
        )
        self._tasks: list[asyncio.Task[None]] = []
        self._app = App(connector=PsycopgConnector(conninfo=conninfo))
        retries = _Retries(self._limits)
        self._planner = self._app.task(name=PLAN_TASK, queue=QUEUE, pass_context=True, retry=retries)(self._plan)
        self._app.task(name=CHUNK_TASK, queue=QUEUE, pass_context=True, retry=retries)(self._read_chunk)

    @property
    def healthy(self) -> bool:
        """Whether what `running` owns runs, or needn't."""
        return self._extractor is None or (bool(self._tasks) and not any(task.done() for task in self._tasks))

    async def start(self, base_id: str) -> int:
        """Have every chunk of the base's current documents read that isn't yet; the id of the job that plans it.

        Chunks that were given up are tried again. Started already, it goes on.

        Raises:
            AppError: NO_CHAT_MODEL when no model can extract.
            StoreUnavailable: as everywhere.
        """
        if self._extractor is None:
            raise AppError(TurnErrorCode.NO_CHAT_MODEL, self._refusal)
        await jobs.forget_failures(self._database, base_id)
        lock = f"plan {base_id}"
        try:
            waiting = await self._app.job_manager.list_jobs_async(queue=QUEUE, lock=lock, status="todo")
            for job in waiting:
                if job.id is not None:
                    return job.id
            return await self._planner.configure(lock=lock).defer_async(base_id=base_id)
        except ConnectorException as error:
            raise StoreUnavailable from error

    async def stop(self, base_id: str) -> Progress:
        """Drop the base's waiting jobs and cut the working ones short; what was read stays. How far it came."""
        await jobs.cancel(self._database, base_id)
        return await self.progress(base_id)

    async def progress(self, base_id: str) -> Progress:
        return await jobs.progress(self._database, base_id)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        """Runs jobs until the block ends; what runs then and doesn't end soon waits for another worker.

        Does nothing where no model can extract.
        """
        if self._extractor is None:
            yield
            return
        await self._pool.open()
        try:
            async with self._app.open_async(self._pool):
                self._tasks = [
                    asyncio.create_task(self._work(), name="extraction worker"),
                    asyncio.create_task(self._sweep(), name="extraction sweeper"),
                ]
                try:
                    yield
                finally:
                    for task in self._tasks:
                        task.cancel()
                    for ended in await asyncio.gather(*self._tasks, return_exceptions=True):
                        if isinstance(ended, Exception):
                            _log.error("extraction_task_failed", exc_info=ended)
        finally:
            await self._pool.close()

    async def _work(self) -> None:
        """The library's worker, begun anew whenever the database ended it."""
        while True:
            try:
                await self._app.run_worker_async(
                    queues=[QUEUE],
                    concurrency=self._limits.concurrency,
                    fetch_job_polling_interval=self._limits.poll_s,
                    shutdown_graceful_timeout=self._limits.shutdown_s,
                    listen_notify=not self._database.pooler,  # a pooling proxy brings no notifications: it polls
                    update_heartbeat_interval=self._limits.silent_s / 3,
                    stalled_worker_timeout=self._limits.silent_s,
                    delete_jobs="successful",
                    install_signal_handlers=False,
                )
                _log.warning("extraction_worker_ended")
            except ConnectorException:
                _log.warning("extraction_waits_for_the_database", exc_info=True)
            await asyncio.sleep(self._limits.poll_s)

    async def _sweep(self) -> None:
        while True:
            try:
                count = await jobs.retry_stalled(self._database, silent_s=self._limits.silent_s)
                if count:
                    _log.warning("stalled_jobs_wait_again", count=count)
            except StoreUnavailable:
                _log.warning("stalled_jobs_not_looked_for", exc_info=True)
            await asyncio.sleep(self._limits.sweep_s)

    async def _plan(self, context: JobContext, base_id: str) -> None:
        """Make a job for each unread chunk of the base."""
        planner = cast("int", context.job.id)  # a fetched job has one
        last: str | None = _NIL
        while last is not None:
            last = await jobs.enqueue(self._database, base_id, planner=planner, after=last, limit=_BATCH)

    async def _read_chunk(self, context: JobContext, base_id: str, chunk_id: str) -> None:
        """Ask for the facts of one chunk and store the outcome. A chunk that is superseded by now is left alone."""
        chunk = await chunks.get(self._database, base_id, chunk_id)
        if self._extractor is None or chunk is None or not chunk.live:
            return
        if await jobs.is_settled(self._database, chunk_id):
            return
        outcome = await self._outcome(self._extractor, chunk, attempt=context.job.attempts + 1)
        await jobs.settle(self._database, base_id, chunk_id, outcome)

    async def _outcome(self, extractor: Extractor, chunk: ChunkRecord, *, attempt: int) -> Outcome:
        """What the chunk comes to at this attempt, from 1.

        Raises:
            _TryAgain: it may come to something else later.
        """
        if attempt > 2 * self._limits.attempts:
            words = f"Reading the passage was begun {attempt - 1} times and did not come to an end."
            return Outcome(extractor.name, error_code=GIVEN_UP, error=words)
        try:
            extraction = await extractor.extract(title=chunk.title, heading=chunk.heading, passage=chunk.text)
            failure = extraction.failure
            if failure is None:
                readout = read_out(chunk, extraction, model=extractor.name)
                return Outcome(extractor.name, readout.proposals, readout.dropped)
        except Exception:  # noqa: BLE001  a chunk's own boundary: no fault of one ends the reading of the others
            _log.exception("chunk_not_read", chunk=chunk.id)
            words = "Reading the passage failed in this server; the log says how."
            return Outcome(extractor.name, error_code=TurnErrorCode.INTERNAL, error=words)
        if failure.transient and attempt < self._limits.attempts:
            raise _TryAgain(failure, self._wait_s(attempt, failure.retry_after_s))
        _log.warning("chunk_given_up", chunk=chunk.id, code=failure.code)
        return Outcome(extractor.name, error_code=failure.code, error=clean(failure.message))

    def _wait_s(self, attempt: int, asked_s: float | None) -> float:
        """The wait after that attempt: doubled each time, at least what the provider asked for, up to the limit."""
        doubled = self._limits.retry_base_s * 2.0 ** (attempt - 1)
        return min(max(doubled, asked_s or 0.0), self._limits.retry_max_s)


def _after(seconds: float) -> RetryDecision:
    return RetryDecision(retry_in={"milliseconds": int(seconds * 1_000)})
