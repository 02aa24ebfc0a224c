"""Documents: added, listed, superseded and deleted. How one is read stands in app/store/reading.py.

Decides what a document is: one per base and content, by a unique constraint, however many upload it at
once (case K05); a changed file of the same name is its next version. The bytes of a document that waits are
kept here in pieces, so that any process that shares the database can read it (decision 0005).
"""

from collections.abc import AsyncIterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store import audit, excerpts
from app.store.audit import Action, Line
from app.store.engine import Database
from app.store.ids import new_id

DocumentStatus = Literal["pending", "reading", "ready", "failed"]


@dataclass(frozen=True, slots=True)
class DocumentRecord:
    """A stored document. `superseded_at` is set once a newer version of the same name is ready.

    `error_code` and `error` say why it failed; `version` counts the contents of one name from 1.
    """

    id: str
    base_id: str
    name: str
    title: str
    content_hash: str
    media_type: str
    encoding: str | None
    size_bytes: int
    version: int
    status: DocumentStatus
    error_code: str | None
    error: str | None
    chunk_count: int
    created_at: datetime
    superseded_at: datetime | None


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A file to be stored; `content_hash` is the SHA-256 of its bytes in hex."""

    base_id: str
    name: str
    content_hash: str
    media_type: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a document can't be read: a code and a sentence for a person."""

    code: str
    message: str


COLUMNS = """d.id, d.base_id, d.name, d.title, d.content_hash, d.media_type, d.encoding, d.size_bytes, d.version,
    d.status, d.error_code, d.error, d.chunk_count, d.created_at, d.superseded_at"""
"""What `record` makes a DocumentRecord of, selected from `documents d`."""

_NEXT_VERSION = """(SELECT coalesce(max(o.version), 0) + 1 FROM documents o
    WHERE o.base_id = CAST(:base_id AS uuid) AND o.name = :name AND o.id <> CAST(:id AS uuid))"""

_LOCK_NAME = text("SELECT pg_advisory_xact_lock(hashtextextended(CAST(:base_id AS text) || :name, 0))")

_ADD = text(f"""
WITH base AS MATERIALIZED (SELECT id FROM bases WHERE id = CAST(:base_id AS uuid) FOR KEY SHARE)
INSERT INTO documents AS d
    (id, base_id, name, content_hash, media_type, size_bytes, version, status, error_code, error)
SELECT CAST(:id AS uuid), base.id, :name, :content_hash, :media_type, :size_bytes, {_NEXT_VERSION}, :status,
       :error_code, :error
FROM base
ON CONFLICT (base_id, content_hash) DO NOTHING
RETURNING {COLUMNS}
""")  # noqa: S608 - only constants of this module are put together

_SAME_CONTENT = text(f"""
SELECT {COLUMNS} FROM documents d
WHERE d.base_id = CAST(:base_id AS uuid) AND d.content_hash = :content_hash FOR UPDATE
""")  # noqa: S608

_AGAIN = text(f"""
UPDATE documents d
SET name = :name, media_type = :media_type, version = {_NEXT_VERSION}, status = :status, attempts = 0,
    error_code = :error_code, error = :error
WHERE d.id = CAST(:id AS uuid)
RETURNING {COLUMNS}
""")  # noqa: S608

_REVIVE = text(f"""
UPDATE documents d SET name = :name, version = {_NEXT_VERSION}, superseded_at = NULL
WHERE d.id = CAST(:id AS uuid)
RETURNING {COLUMNS}
""")  # noqa: S608

_SUPERSEDE = text("""
WITH older AS (
    UPDATE documents SET superseded_at = now()
    WHERE base_id = CAST(:base_id AS uuid) AND name = :name AND id <> CAST(:id AS uuid)
      AND status = 'ready' AND superseded_at IS NULL
    RETURNING id
)
UPDATE chunks SET live = false WHERE document_id IN (SELECT id FROM older)
""")

_SHOW_CHUNKS = text("UPDATE chunks SET live = true WHERE document_id = CAST(:id AS uuid)")

_ADD_PART = text("INSERT INTO document_parts (document_id, n, data) VALUES (CAST(:id AS uuid), :n, :data)")

_MATCHES = """d.base_id = CAST(:base_id AS uuid) AND d.superseded_at IS NULL
    AND strpos(lower(d.name || ' ' || d.title), lower(:query)) > 0"""

_LIST = text(f"""
SELECT {COLUMNS}, count(*) OVER () AS total FROM documents d
WHERE {_MATCHES} ORDER BY d.created_at DESC, d.id DESC LIMIT :limit OFFSET :offset
""")  # noqa: S608

_COUNT = text(f"SELECT count(*) FROM documents d WHERE {_MATCHES}")  # noqa: S608

_GET = text(f"""
SELECT {COLUMNS} FROM documents d WHERE d.base_id = CAST(:base_id AS uuid) AND d.id = CAST(:id AS uuid)
""")  # noqa: S608

_GET_MANY = text(f"SELECT {COLUMNS} FROM documents d WHERE d.id = ANY(CAST(:ids AS uuid[]))")  # noqa: S608

_DELETE = text("""
DELETE FROM documents d USING documents asked
WHERE asked.base_id = CAST(:base_id AS uuid) AND asked.id = CAST(:id AS uuid)
  AND d.base_id = asked.base_id AND d.name = asked.name AND d.version <= asked.version
RETURNING d.id
""")


async def add(
    database: Database, document: NewDocument, source: AsyncIterable[bytes] | Failure, *, by: str = audit.LOCAL
) -> DocumentRecord | None:
    """The document of this content in its base: a new one that waits to be read, or the one that is there.

    `source` gives the bytes in pieces and is used only where they are needed, or says why the document has
    failed already. A failed document of the same content is tried again, a superseded one becomes current
    again. None where the base does not exist.
    """
    failure = source if isinstance(source, Failure) else None
    values = {
        "id": new_id(),
        "base_id": document.base_id,
        "name": document.name,
        "content_hash": document.content_hash,
        "media_type": document.media_type,
        "size_bytes": document.size_bytes,
        "status": "failed" if failure else "pending",
        "error_code": failure.code if failure else None,
        "error": failure.message if failure else None,
    }
    async with database.begin() as connection:
        await lock_name(connection, document.base_id, document.name)
        row = (await connection.execute(_ADD, values)).one_or_none()
        if row is None:
            known = (await connection.execute(_SAME_CONTENT, values)).one_or_none()
            if known is None:
                return None
            if known.superseded_at is not None:
                await audit.write(connection, [_uploaded(by, document, str(known.id))])
                return await _revive(connection, {**values, "id": str(known.id)})
            if known.status != "failed":
                return record(known)
            values["id"] = str(known.id)
            row = (await connection.execute(_AGAIN, values)).one()
        await audit.write(connection, [_uploaded(by, document, str(row.id))])
        if not isinstance(source, Failure):
            await _keep(connection, str(row.id), source)
    return record(row)


async def lock_name(connection: AsyncConnection, base_id: str, name: str) -> None:
    """Until the transaction ends nobody else numbers or supersedes versions of this name. Taken before row locks."""
    await connection.execute(_LOCK_NAME, {"base_id": base_id, "name": name})


async def supersede_others(connection: AsyncConnection, document: DocumentRecord) -> None:
    """Takes the other ready versions of a document's name out of the search. The name must be locked."""
    await connection.execute(_SUPERSEDE, {"base_id": document.base_id, "name": document.name, "id": document.id})


async def find(
    database: Database, base_id: str, *, query: str | None, limit: int, offset: int
) -> tuple[list[DocumentRecord], int]:
    """A base's current documents, newest first, and how many there are; `query` is in the name or the title."""
    parameters = {"base_id": base_id, "query": query or "", "limit": limit, "offset": offset}
    async with database.read() as connection:
        rows = (await connection.execute(_LIST, parameters)).all()
        total = rows[0].total if rows else (await connection.execute(_COUNT, parameters)).scalar_one()
    return [record(row) for row in rows], total


async def get(database: Database, base_id: str, document_id: str) -> DocumentRecord | None:
    """A document of the base, whatever its state."""
    async with database.read() as connection:
        row = (await connection.execute(_GET, {"base_id": base_id, "id": document_id})).one_or_none()
    return None if row is None else record(row)


async def get_many(database: Database, document_ids: Sequence[str]) -> dict[str, DocumentRecord]:
    """The documents of these ids that there are, by id."""
    async with database.read() as connection:
        rows = await connection.execute(_GET_MANY, {"ids": list(document_ids)})
        return {str(row.id): record(row) for row in rows}


async def delete(database: Database, base_id: str, document_id: str, *, by: str = audit.LOCAL) -> bool:
    """Deletes a document with its earlier versions, their chunks and every copy of them. False where there is none.

    Proposals that were read out of it and the quotes of facts go with the chunks, by the schema; excerpts in stored
    answers by app/store/excerpts.py (decision 0021).
    """
    async with database.begin() as connection:
        rows = await connection.execute(_DELETE, {"base_id": base_id, "id": document_id})
        deleted = [str(row.id) for row in rows]
        await audit.write(connection, [Line(by, Action.DOCUMENT_DELETED, base_id, gone) for gone in deleted])
        await excerpts.remove(connection, deleted)
    return bool(deleted)


def record(row: Row[tuple[object, ...]]) -> DocumentRecord:
    """The record of a row with COLUMNS."""
    return DocumentRecord(
        id=str(row.id),
        base_id=str(row.base_id),
        name=row.name,
        title=row.title,
        content_hash=row.content_hash,
        media_type=row.media_type,
        encoding=row.encoding,
        size_bytes=row.size_bytes,
        version=row.version,
        status=row.status,
        error_code=row.error_code,
        error=row.error,
        chunk_count=row.chunk_count,
        created_at=row.created_at,
        superseded_at=row.superseded_at,
    )


def _uploaded(by: str, document: NewDocument, document_id: str) -> Line:
    detail: dict[str, object] = {"bytes": document.size_bytes}
    return Line(by, Action.DOCUMENT_UPLOADED, document.base_id, document_id, detail)


async def _revive(connection: AsyncConnection, values: dict[str, object]) -> DocumentRecord:
    """A file went back to what it once was: its chunks are still there and are shown again."""
    revived = record((await connection.execute(_REVIVE, values)).one())
    await connection.execute(_SHOW_CHUNKS, {"id": revived.id})
    await supersede_others(connection, revived)
    return revived


async def _keep(connection: AsyncConnection, document_id: str, source: AsyncIterable[bytes]) -> None:
    n = 0
    async for data in source:
        await connection.execute(_ADD_PART, {"id": document_id, "n": n, "data": data})
        n += 1
