"""The passages of one document, in their order: for reading a document as it was taken in."""

from sqlalchemy import text

from app.store.chunks import CHUNK_COLUMNS, ChunkRecord, record
from app.store.engine import Database

_OF_DOCUMENT = text(f"""
SELECT {CHUNK_COLUMNS}, count(*) OVER () AS total
FROM chunks c JOIN documents d ON d.id = c.document_id
WHERE c.base_id = CAST(:base_id AS uuid) AND c.document_id = CAST(:document_id AS uuid)
ORDER BY c.position LIMIT :limit OFFSET :offset
""")  # noqa: S608 - only constants are put together

_COUNT = text("""
SELECT count(*) FROM chunks WHERE base_id = CAST(:base_id AS uuid) AND document_id = CAST(:document_id AS uuid)
""")


async def of_document(
    database: Database, base_id: str, document_id: str, *, limit: int, offset: int
) -> tuple[list[ChunkRecord], int]:
    """A document's passages in their order, and how many there are; none where the base has no such document."""
    parameters = {"base_id": base_id, "document_id": document_id, "limit": limit, "offset": offset}
    async with database.read() as connection:
        rows = (await connection.execute(_OF_DOCUMENT, parameters)).all()
        total = rows[0].total if rows else (await connection.execute(_COUNT, parameters)).scalar_one()
    return [record(row) for row in rows], total
