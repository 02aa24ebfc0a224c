"""Vectors for every passage: a worker that embeds what lacks one, in the background, for as long as the server runs.

Decides how much is embedded at a time, what is done when the endpoint refuses, and when a model's vectors are
complete. One worker fills a model at a time, whichever process it is in: its lease is renewed with every batch, and
whoever lost it stores nothing more. A crash loses at most one batch. Another model, or other dimensions, is filled
beside the old one, which search uses until the new one is complete.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import structlog

from app.errors import EmbeddingFailed
from app.knowledge.embedder import Embedder
from app.store import embeddings
from app.store.embeddings import EmbeddingModel, Passage, Progress
from app.store.engine import Database, StoreUnavailable
from app.store.ids import new_id

PROBE = "vector"
"""A text that no model refuses: tells a vector's length, and whether it is the endpoint or a text that is at fault."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class BackfillLimits:
    """`batch` passages are embedded at a time, within four fifths of `lease_s`.

    What is new waits at most `poll_s`; after a failure the worker waits what the provider asks, at least `poll_s` and
    at most `pause_s`. Vectors are indexed from `index_from` on. A model that no process was configured with for
    `unused_s` is deleted.
    """

    batch: int = 64
    lease_s: float = 120.0
    poll_s: float = 30.0
    pause_s: float = 600.0
    index_from: int = 10_000
    unused_s: float = 3_600.0


class Backfill:
    """The worker. One per process, made where an embedding model is configured; `running` is its lifetime."""

    def __init__(self, database: Database, embedder: Embedder, limits: BackfillLimits | None = None) -> None:
        self.limits = limits or BackfillLimits()
        self._database = database
        self._embedder = embedder
        self._name = new_id()
        self._work = asyncio.Event()  # something may lack a vector: set by `wake`
        self._worker: asyncio.Task[None] | None = None
        self._dimensions: int | None = None  # of the model's vectors, once one was had
        self._unavailable: str | None = None  # why vectors can't be searched, as it was logged last

    @property
    def healthy(self) -> bool:
        """Whether the worker runs."""
        return self._worker is not None and not self._worker.done()

    def wake(self) -> None:
        """Look for passages without vectors now."""
        self._work.set()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        """Fills in vectors until the block ends."""
        self._worker = worker = asyncio.create_task(self.run(), name="backfill")
        try:
            yield
        finally:
            worker.cancel()
            (ended,) = await asyncio.gather(worker, return_exceptions=True)
            if isinstance(ended, Exception):
                _log.error("backfill_worker_failed", exc_info=ended)

    async def run(self) -> None:
        """Fills in vectors, for ever."""
        while True:
            self._work.clear()
            wait_s = self.limits.poll_s
            try:
                await self.fill()
            except EmbeddingFailed as failure:
                wait_s = max(wait_s, self.limits.pause_s if failure.lasting else failure.retry_after_s or 0.0)
                wait_s = min(wait_s, self.limits.pause_s)
                _log.warning("embedding_failed", model=self._embedder.model, reason=failure.kind, again_in_s=wait_s)
            except StoreUnavailable:
                _log.warning("backfill_waits_for_the_database", exc_info=True)
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._work.wait()

    async def fill(self) -> None:
        """Embeds what lacks a vector now, and lets search use the model once nothing does.

        Does nothing where this Postgres can't search vectors, or while another worker fills the model.

        Raises:
            EmbeddingFailed: the endpoint gave no vectors; what was embedded before is stored.
            StoreUnavailable: the database did not answer.
        """
        unavailable = await embeddings.prepare(self._database)
        if unavailable is not None:
            if unavailable != self._unavailable:
                _log.warning("full_text_search_only", reason=unavailable)
            self._unavailable = unavailable
            return
        if self._dimensions is None:
            (probe,) = await self._embed([PROBE])
            self._dimensions = len(probe)
        model = await embeddings.register(self._database, self._embedder.model, self._dimensions)
        if not await embeddings.claim(self._database, model, self._name, lease_s=self.limits.lease_s):
            return
        try:
            if await self._fill(model):
                await self._complete(model)
        finally:
            with suppress(StoreUnavailable):  # then the lease runs out by itself
                await embeddings.release(self._database, model, self._name)

    async def _fill(self, model: EmbeddingModel) -> bool:
        """Whether every passage was gone over; False where the lease was lost."""
        after: str | None = None
        done = 0
        while batch := await embeddings.missing(self._database, model, after=after, limit=self.limits.batch):
            vectors = await self._vectors(batch)
            if any(vector is not None and len(vector) != model.dimensions for vector in vectors.values()):
                self._dimensions = None
                raise EmbeddingFailed(f"{model.name} changed the length of its vectors meanwhile.")
            kept = await embeddings.store(
                self._database, model, vectors, worker=self._name, lease_s=self.limits.lease_s
            )
            if not kept:
                _log.info("backfill_lease_lost", model=model.name)
                return False
            after = batch[-1].id
            done += len(batch)
        if done:
            _log.info("embedded", model=model.name, passages=done)
        return True

    async def _complete(self, model: EmbeddingModel) -> None:
        if await embeddings.finish(self._database, model, index_from=self.limits.index_from):
            _log.info("embedding_model_ready", model=model.name, dimensions=model.dimensions)
        for gone in await embeddings.retire(self._database, model, unused_s=self.limits.unused_s):
            _log.info("embedding_model_forgotten", id=gone)

    async def _vectors(self, batch: list[Passage]) -> dict[str, list[float] | None]:
        """A vector by passage, None for a text that the model refuses."""
        try:
            vectors = await self._embed([_text(passage) for passage in batch])
            return dict(zip((passage.id for passage in batch), vectors, strict=True))
        except EmbeddingFailed as failure:
            if not failure.refused_text:
                raise
        return {passage.id: await self._vector(passage) for passage in batch}

    async def _vector(self, passage: Passage) -> list[float] | None:
        try:
            (vector,) = await self._embed([_text(passage)])
        except EmbeddingFailed as failure:
            if not failure.refused_text:
                raise
            await self._check(failure)
            _log.warning("passage_not_embedded", chunk=passage.id, reason=failure.kind)
            return None
        return vector

    async def _check(self, refusal: EmbeddingFailed) -> None:
        """Raises where the endpoint refuses any text: then it isn't the passage's fault."""
        try:
            await self._embed([PROBE])
        except EmbeddingFailed as failure:
            if failure.refused_text:
                raise EmbeddingFailed(failure.message, lasting=True) from refusal
            raise

    async def _embed(self, texts: list[str]) -> list[list[float]]:
        limit_s = self.limits.lease_s * 0.8
        try:
            async with asyncio.timeout(limit_s):
                return await self._embedder.embed(texts, kind="passage")
        except TimeoutError as error:
            raise EmbeddingFailed(f"No vectors within {limit_s:g} s.") from error


async def progress(database: Database, base_id: str) -> Progress:
    """How many of a base's passages have their vector of the newest model, and how many there are.

    Raises StoreUnavailable.
    """
    return await embeddings.progress(database, base_id)


def _text(passage: Passage) -> str:
    """What is embedded: a passage with what it is called."""
    return "\n".join(part for part in (passage.title, passage.heading, passage.text) if part)
