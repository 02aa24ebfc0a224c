"""The queue of documents that wait to be read: claimed, kept, given back, finished or failed.

Decides whose a reading is: a claim takes a lease and a token (the attempt), and whoever lost the lease
writes nothing any more, so that two replicas never store one document twice. A claim whose process died is
free once its lease has run out. Clocks are Postgres'.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import text

from app.store import chunks
from app.store.chunks import NewChunk
from app.store.documents import COLUMNS, DocumentRecord, Failure, lock_name, record, supersede_others
from app.store.engine import Database


@dataclass(frozen=True, slots=True)
class Claim:
    """A document that is being read. `attempt` counts the readings begun and is this one's token."""

    document: DocumentRecord
    attempt: int


@dataclass(frozen=True, slots=True)
class Content:
    """What reading a document gave. `segmenter` is the version of the segmentation that made the vectors."""

    title: str
    encoding: str | None
    text: str
    chunks: Sequence[NewChunk]
    segmenter: int


_CLAIM = text(f"""
UPDATE documents d SET status = 'reading', attempts = attempts + 1,
    reading_until = now() + make_interval(secs => :lease_s)
WHERE d.id = (
    SELECT id FROM documents
    WHERE status = 'pending' OR (status = 'reading' AND reading_until < now())
    ORDER BY created_at, id LIMIT 1 FOR UPDATE SKIP LOCKED
)
RETURNING {COLUMNS}, d.attempts
""")  # noqa: S608 - only constants of this module are put together

_OURS = "id = CAST(:id AS uuid) AND status = 'reading' AND attempts = :attempt"

_RENEW = text(f"""
UPDATE documents SET reading_until = now() + make_interval(secs => :lease_s) WHERE {_OURS}
""")  # noqa: S608

_GIVE_BACK = text(f"""
UPDATE documents SET status = 'pending', reading_until = NULL, attempts = attempts - :uncount WHERE {_OURS}
""")  # noqa: S608

_FAIL = text(f"""
WITH failed AS (
    UPDATE documents SET status = 'failed', reading_until = NULL, error_code = :code, error = :message
    WHERE {_OURS} RETURNING id
)
DELETE FROM document_parts WHERE document_id IN (SELECT id FROM failed)
""")  # noqa: S608

_STILL_OURS = text(f"""
SELECT EXISTS (
    SELECT 1 FROM documents n WHERE n.base_id = d.base_id AND n.name = d.name AND n.version > d.version
      AND n.status = 'ready' AND n.superseded_at IS NULL
) AS outdated
FROM documents d WHERE {_OURS} FOR UPDATE
""")  # noqa: S608

_READY = text(f"""
UPDATE documents d SET status = 'ready', reading_until = NULL, error_code = NULL, error = NULL, title = :title,
    encoding = :encoding, content = :content, chunk_count = :chunk_count,
    superseded_at = CASE WHEN :outdated THEN now() END
WHERE id = CAST(:id AS uuid)
RETURNING {COLUMNS}
""")  # noqa: S608

_DROP_PARTS = text("DELETE FROM document_parts WHERE document_id = CAST(:id AS uuid)")

_PARTS = text("SELECT data FROM document_parts WHERE document_id = CAST(:id AS uuid) ORDER BY n")

_UNREAD = text("SELECT count(*) FROM documents WHERE status IN ('pending', 'reading')")


async def claim(database: Database, *, lease_s: float) -> Claim | None:
    """The oldest document that nobody reads, now claimed; None where there is none."""
    async with database.begin() as connection:
        row = (await connection.execute(_CLAIM, {"lease_s": lease_s})).one_or_none()
    return None if row is None else Claim(record(row), row.attempts)


async def renew(database: Database, claim: Claim, *, lease_s: float) -> bool:
    """Keeps a claim. False where it is lost: read by another, or deleted."""
    async with database.begin() as connection:
        renewed = await connection.execute(_RENEW, {**_token(claim), "lease_s": lease_s})
    return renewed.rowcount > 0


async def give_back(database: Database, claim: Claim, *, counted: bool) -> None:
    """The document waits again; the attempt counts where `counted`. Does nothing for a lost claim."""
    async with database.begin() as connection:
        await connection.execute(_GIVE_BACK, {**_token(claim), "uncount": 0 if counted else 1})


async def fail(database: Database, claim: Claim, failure: Failure) -> None:
    """The document can't be read; its bytes are dropped. Does nothing for a lost claim."""
    async with database.begin() as connection:
        await connection.execute(_FAIL, {**_token(claim), "code": failure.code, "message": failure.message})


async def data(database: Database, document_id: str) -> bytes:
    """The waiting document's bytes; empty where they are gone."""
    async with database.read() as connection:
        rows = await connection.execute(_PARTS, {"id": document_id})
        return b"".join(rows.scalars())


async def finish(database: Database, claim: Claim, content: Content) -> DocumentRecord | None:
    """Stores what was read: the chunks, the ready document and the superseding of its older versions, at once.

    A document that a newer version has overtaken is stored superseded. None for a lost claim: nothing is written.
    """
    document = claim.document
    async with database.begin() as connection:
        await lock_name(connection, document.base_id, document.name)
        ours = (await connection.execute(_STILL_OURS, _token(claim))).one_or_none()
        if ours is None:
            return None
        await chunks.insert(
            connection,
            content.chunks,
            base_id=document.base_id,
            document_id=document.id,
            segmenter=content.segmenter,
            live=not ours.outdated,
        )
        values = {
            "id": document.id,
            "title": content.title,
            "encoding": content.encoding,
            "content": content.text,
            "chunk_count": len(content.chunks),
            "outdated": ours.outdated,
        }
        ready = record((await connection.execute(_READY, values)).one())
        if not ours.outdated:
            await supersede_others(connection, ready)
        await connection.execute(_DROP_PARTS, {"id": document.id})
    return ready


async def unread(database: Database) -> int:
    """How many documents wait or are being read, in all bases."""
    async with database.read() as connection:
        return (await connection.execute(_UNREAD)).scalar_one()


def _token(claim: Claim) -> dict[str, object]:
    return {"id": claim.document.id, "attempt": claim.attempt}
