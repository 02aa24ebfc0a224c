"""Excerpts of deleted documents in stored answers. Source: decision 0021.

An answer keeps what it said; the excerpts beside it were the document's, and so was what its tools read. Both go with
the document: the source stays as a numbered place that says so, and the tool exchange, which served the next turn as
its history, is dropped.
"""

from collections.abc import Sequence

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.audit import Action
from app.store.engine import Database

DELETED_TITLE = "Deleted document"
"""What stands in the place of a deleted document's title."""

# the rows are locked in order, so that two deletions that share answers wait for each other and don't meet crosswise
_REMOVE = text("""
WITH held AS MATERIALIZED (
    SELECT m.id FROM messages m
    WHERE m.sources <> '[]' AND jsonb_path_query_array(m.sources, '$[*]."document_id"') ?| CAST(:ids AS text[])
      AND EXISTS (
          SELECT 1 FROM jsonb_array_elements(m.sources) AS s (source)
          WHERE s.source ->> 'document_id' = ANY(CAST(:ids AS text[])) AND s.source ->> 'title' <> :title
      )
    ORDER BY m.id FOR UPDATE
)
UPDATE messages m
SET tool_exchange = '[]',
    sources = (
        SELECT jsonb_agg(CASE WHEN s.source ->> 'document_id' = ANY(CAST(:ids AS text[]))
                              THEN s.source || jsonb_build_object('title', CAST(:title AS text), 'locator', '',
                                                                  'excerpt', '')
                              ELSE s.source END ORDER BY s.place)
        FROM jsonb_array_elements(m.sources) WITH ORDINALITY AS s (source, place)
    )
FROM held WHERE m.id = held.id
""")

_LATELY_DELETED = text(f"""
SELECT object FROM audit WHERE at > now() - make_interval(hours => :hours) AND action = '{Action.DOCUMENT_DELETED}'
""")  # noqa: S608 - only constants are put together


async def remove(connection: AsyncConnection, document_ids: Sequence[str]) -> int:
    """Take the excerpts of these documents out of all answers that are stored by now; how many answers had some."""
    if not document_ids:
        return 0
    values = {"ids": list(document_ids), "title": DELETED_TITLE}
    return (await connection.execute(_REMOVE, values)).rowcount


async def remove_late(database: Database, *, hours: int) -> int:
    """`remove` again for what was deleted within so many hours: a turn that ran then stored its answer later."""
    async with database.begin() as connection:
        gone = (await connection.execute(_LATELY_DELETED, {"hours": hours})).scalars().all()
        return await remove(connection, gone)
