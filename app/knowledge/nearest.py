"""A question into the passages nearest to it by meaning, or into none: vectors help a search, they never break it.

Decides which model's vectors are searched and for how long a failing endpoint is left alone. The question's vector
is had without holding a connection.
"""

import asyncio
import time
from dataclasses import dataclass

import structlog

from app.errors import EmbeddingFailed
from app.knowledge.embedder import Embedder
from app.store import embeddings
from app.store.chunks import ChunkRecord
from app.store.embeddings import EmbeddingModel
from app.store.engine import Database

_MODEL_KEPT_S = 5.0
"""How long the choice of the model is kept: a switch to a new one is seen after that."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class NearestLimits:
    """A question's vector is waited for `timeout_s`; after a failure none is asked for during `pause_s`."""

    timeout_s: float = 3.0
    pause_s: float = 30.0


class Nearest:
    """The search by vectors. One per process, where an embedding model is configured."""

    def __init__(self, database: Database, embedder: Embedder, limits: NearestLimits | None = None) -> None:
        self._database = database
        self._embedder = embedder
        self._limits = limits or NearestLimits()
        self._model: EmbeddingModel | None = None
        self._model_until = 0.0
        self._paused_until = 0.0

    async def find(self, base_id: str, question: str, *, limit: int) -> list[ChunkRecord]:
        """The passages of the base nearest to the question, nearest first.

        None where no model's vectors are complete yet, or where the question's vector could not be had: that is
        logged, and full text has to do.

        Raises:
            StoreUnavailable: the database did not answer.
        """
        if time.monotonic() < self._paused_until:
            return []
        model = await self._current()
        if model is None:
            return []
        vector = await self._vector(model, question)
        if vector is None:
            return []
        return await embeddings.nearest(self._database, model, base_id, vector, limit=limit)

    async def _current(self) -> EmbeddingModel | None:
        if time.monotonic() >= self._model_until:
            self._model = await embeddings.for_search(self._database, self._embedder.model)
            self._model_until = time.monotonic() + _MODEL_KEPT_S
        return self._model

    async def _vector(self, model: EmbeddingModel, question: str) -> list[float] | None:
        try:
            async with asyncio.timeout(self._limits.timeout_s):
                (vector,) = await self._embedder.for_model(model.name).embed([question], kind="query")
        except EmbeddingFailed as failure:
            return self._pause(model, failure.kind)
        except TimeoutError:
            return self._pause(model, f"no vector within {self._limits.timeout_s:g} s")
        if len(vector) != model.dimensions:
            return self._pause(model, f"a vector of {len(vector)} numbers, not {model.dimensions}")
        return vector

    def _pause(self, model: EmbeddingModel, reason: str) -> None:
        self._paused_until = time.monotonic() + self._limits.pause_s
        _log.warning("search_without_vectors", model=model.name, reason=reason, pause_s=self._limits.pause_s)
