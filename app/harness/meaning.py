"""The search by meaning for a run: as the server has it, with every vector there before the first question.

Vectors that are filled in while a run lasts would change what its later turns find.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from app.errors import EmbeddingFailed, StartError
from app.knowledge.backfill import progress
from app.knowledge.nearest import Nearest
from app.parts import build_vectors
from app.settings import Settings
from app.store.engine import Database


@asynccontextmanager
async def nearest_of(settings: Settings, database: Database, base_id: str) -> AsyncGenerator[Nearest | None, None]:
    """The search by the configured embedding model, for the block; None where none is configured.

    Raises:
        StartError: the endpoint gives no vectors, or another process is still filling them in.
    """
    vectors = build_vectors(settings, database)
    if vectors is None:
        yield None
        return
    try:
        await _fill(database, base_id, vectors.backfill.fill)
        yield vectors.nearest
    finally:
        await vectors.embeddings.aclose()


async def _fill(database: Database, base_id: str, fill: Callable[[], Awaitable[None]]) -> None:
    try:
        await fill()
    except EmbeddingFailed as error:
        raise StartError(f"the embedding endpoint gives no vectors: {error.message}") from error
    reached = await progress(database, base_id)
    if reached.model is not None and reached.done < reached.total:
        raise StartError(
            f"{reached.done} of {reached.total} passages have their vectors, and another process makes the others: "
            "run this again when all are there"
        )
