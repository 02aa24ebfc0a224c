"""The passages of a document, for reading it as it was taken in. One passage by its id: app/api/documents.py."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel

from app.api import principal
from app.api.documents import Chunk
from app.api.known_base import known_base
from app.api.refusals import RESPONSES
from app.errors import AppError, RefusalCode
from app.store import documents, passages
from app.store.engine import Database


class PassagePage(BaseModel):
    """Passages in their order; none before the document is ready."""

    passages: list[Chunk]
    total: int


def router(database: Database) -> APIRouter:
    """The route, bound to the database."""
    routes = APIRouter(
        prefix="/api/bases/{base}/documents/{document_id}/chunks",
        tags=["documents"],
        responses=RESPONSES,
        dependencies=[Depends(principal.current)],
    )

    @routes.get("")
    async def chunks(
        base_id: Annotated[str, Depends(known_base)],
        document_id: UUID,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
        offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
    ) -> PassagePage:
        """A document's passages, also those of a superseded version."""
        found, total = await passages.of_document(database, base_id, str(document_id), limit=limit, offset=offset)
        if total == 0 and await documents.get(database, base_id, str(document_id)) is None:
            raise AppError(RefusalCode.NOT_FOUND, "There is no such document in this base.")
        return PassagePage(passages=[Chunk.model_validate(chunk) for chunk in found], total=total)

    return routes
