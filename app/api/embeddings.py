"""How far a base's passages have their vectors. Source: issue 4 item 5."""

from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import BaseModel, ConfigDict

from app.api import principal
from app.api.known_base import known_base
from app.api.refusals import RESPONSES
from app.knowledge.backfill import progress
from app.store.engine import Database


class EmbeddingProgress(BaseModel):
    """`model` is None where no embedding model was ever configured; full text is searched alone until all are done."""

    model_config = ConfigDict(from_attributes=True)

    model: str | None
    done: int
    total: int


def router(database: Database) -> APIRouter:
    """The route, bound to the database."""
    routes = APIRouter(
        prefix="/api/bases/{base}/embeddings",
        tags=["embeddings"],
        responses=RESPONSES,
        dependencies=[Depends(principal.current)],
    )

    @routes.get("")
    async def show(base_id: Annotated[str, Depends(known_base)]) -> EmbeddingProgress:
        """The progress of the newest model's vectors."""
        return EmbeddingProgress.model_validate(await progress(database, base_id))

    return routes
