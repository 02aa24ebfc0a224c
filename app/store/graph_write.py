"""The one way to write a base's graph: a transaction that holds the base's lock and has a record time.

Writers of one base queue, so that they see each other's entities and no fact is believed twice; a batch is short.
The record time is taken once the lock is held: with the transaction's own start, a writer that waited would close a
row before it was opened.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import AppError, RefusalCode
from app.store import audit
from app.store.engine import Database

_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended('graph ' || CAST(:base_id AS text), 0))")

_BEGIN = text("SELECT clock_timestamp() AS at FROM bases WHERE id = CAST(:base_id AS uuid) FOR KEY SHARE")


@dataclass(frozen=True, slots=True)
class GraphWrite:
    """A base's graph while nobody else writes it. `at` is the record time of what is written, in UTC; `by` is who
    writes, for the audit.
    """

    connection: AsyncConnection
    base_id: str
    at: datetime
    by: str = audit.LOCAL


@asynccontextmanager
async def writing(database: Database, base_id: str, *, by: str = audit.LOCAL) -> AsyncGenerator[GraphWrite, None]:
    """A transaction on a base's graph, committed at the end of the block, rolled back when it raises.

    Raises:
        AppError: NOT_FOUND where there is no such base.
        StoreUnavailable: as `Database.begin`.
    """
    async with database.begin() as connection:
        await connection.execute(_LOCK, {"base_id": base_id})
        row = (await connection.execute(_BEGIN, {"base_id": base_id})).one_or_none()
        if row is None:
            raise AppError(RefusalCode.NOT_FOUND, "There is no such base.")
        yield GraphWrite(connection, base_id, row.at, by)
