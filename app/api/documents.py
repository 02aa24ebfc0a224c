"""Documents of a base: upload, list, look at, delete; and one passage, for opening a source. Source: DESIGN section 4.

An upload is counted while it streams and cut off where it grows too large (case K07): nothing beyond the
limit is read, and a megabyte of it stands in memory at most.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from app.api import principal
from app.api.known_base import known_base
from app.api.principal import Principal
from app.api.refusals import RESPONSES
from app.errors import AppError, RefusalCode
from app.knowledge.ingest import Ingest
from app.store import chunks, documents
from app.store.documents import DocumentStatus
from app.store.engine import Database
from app.text import clean

Who = Annotated[Principal, Depends(principal.current)]

FORM_OVERHEAD_BYTES = 64 * 1024
"""What the form around a file may take: boundaries, headers, other small fields."""

UPLOAD: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {"file": {"type": "string", "format": "binary"}},
                }
            }
        },
    }
}
"""The upload's body for the OpenAPI document: it is read by hand, so that it can be cut off."""


class Document(BaseModel):
    """A document. `status`: pending, reading, ready, or failed with `error_code` and `error`, a sentence.

    `version` counts the contents of this name; `superseded_at` is set once a newer one is ready.
    """

    model_config = ConfigDict(from_attributes=True)

    id: str
    name: str
    title: str
    status: DocumentStatus
    error_code: str | None
    error: str | None
    version: int
    superseded_at: datetime | None
    media_type: str
    encoding: str | None
    size_bytes: int
    chunk_count: int
    content_hash: Annotated[str, Field(description="SHA-256 of the file, hex.")]
    created_at: datetime


class DocumentPage(BaseModel):
    documents: list[Document]
    total: int


class Chunk(BaseModel):
    """A passage as it was stored; `live` is false once its document is superseded: searches don't find it any more."""

    model_config = ConfigDict(from_attributes=True)

    id: str
    document_id: str
    name: str
    title: str
    heading: str
    page: int | None
    position: int
    text: str
    live: bool


def router(database: Database, ingest: Ingest) -> APIRouter:
    """The routes, bound to their parts."""
    routes = APIRouter(
        prefix="/api/bases/{base}", tags=["documents"], responses=RESPONSES, dependencies=[Depends(principal.current)]
    )

    @routes.post("/documents", status_code=202, openapi_extra=UPLOAD)
    async def upload(base_id: Annotated[str, Depends(known_base)], request: Request, who: Who) -> Document:
        """Take a file in: multipart field `file`. The answer comes before the file is read; ask for its status."""
        async with _uploaded(request, max_bytes=ingest.limits.max_bytes) as file:
            kind = file.content_type or ""
            stored = await ingest.submit(base_id, file.filename or "", file.file, media_type=kind, by=who.owner)
        return Document.model_validate(stored)

    @routes.get("/documents")
    async def find(
        base_id: Annotated[str, Depends(known_base)],
        q: Annotated[str | None, Query(max_length=200, description="In the name or the title.")] = None,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
        offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
    ) -> DocumentPage:
        """The base's documents, newest first, without superseded versions."""
        query = clean(q).strip() if q else None
        found, total = await documents.find(database, base_id, query=query, limit=limit, offset=offset)
        return DocumentPage(documents=[Document.model_validate(document) for document in found], total=total)

    @routes.get("/documents/{document_id}")
    async def detail(base_id: Annotated[str, Depends(known_base)], document_id: UUID) -> Document:
        """One document, whatever its state."""
        found = await documents.get(database, base_id, str(document_id))
        if found is None:
            raise AppError(RefusalCode.NOT_FOUND, "There is no such document in this base.")
        return Document.model_validate(found)

    @routes.delete("/documents/{document_id}", status_code=204)
    async def delete(base_id: Annotated[str, Depends(known_base)], document_id: UUID, who: Who) -> None:
        """Delete a document with its earlier versions, and its excerpts in the sources of stored answers."""
        if not await documents.delete(database, base_id, str(document_id), by=who.owner):
            raise AppError(RefusalCode.NOT_FOUND, "There is no such document in this base.")

    @routes.get("/chunks/{chunk_id}")
    async def chunk(base_id: Annotated[str, Depends(known_base)], chunk_id: UUID) -> Chunk:
        """The passage that a source of kind `chunk` names."""
        found = await chunks.get(database, base_id, str(chunk_id))
        if found is None:
            raise AppError(RefusalCode.NOT_FOUND, "There is no such passage in this base; its document may be deleted.")
        return Chunk.model_validate(found)

    return routes


@asynccontextmanager
async def _uploaded(request: Request, *, max_bytes: int) -> AsyncGenerator[UploadFile, None]:
    """The form's file, closed at the end.

    Raises:
        AppError: TOO_LARGE, BAD_REQUEST for what is no form, INVALID for a form without the file.
    """
    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        raise AppError(RefusalCode.BAD_REQUEST, "Send the file as multipart/form-data, in the field `file`.")
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > max_bytes + FORM_OVERHEAD_BYTES:
        raise _too_large(max_bytes)
    parser = MultiPartParser(request.headers, _counted(request, max_bytes=max_bytes), max_files=1, max_fields=16)
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise AppError(RefusalCode.BAD_REQUEST, f"The form can't be read: {error.message}") from error
    try:
        file = form.get("file")
        if not isinstance(file, UploadFile):
            raise AppError(RefusalCode.INVALID, "The form has no file in its field `file`.")
        if (file.size or 0) > max_bytes:
            raise _too_large(max_bytes)
        yield file
    finally:
        await form.close()


async def _counted(request: Request, *, max_bytes: int) -> AsyncGenerator[bytes, None]:
    left = max_bytes + FORM_OVERHEAD_BYTES
    async for data in request.stream():
        left -= len(data)
        if left < 0:
            raise _too_large(max_bytes)
        yield data


def _too_large(max_bytes: int) -> AppError:
    return AppError(RefusalCode.TOO_LARGE, f"The file is larger than the {max_bytes / 1_048_576:g} MB allowed.")
