"""Conversations that are older than they are to be kept: deleted in small batches, by one process at a time.

Decides what is old: the last question or answer, by Postgres' clock. A conversation in which a turn runs is not
touched: its question was the last message, and whoever asks takes the row's lock, which is passed over here.
"""

from sqlalchemy import text

from app.store.audit import RETENTION, Action
from app.store.engine import Database

RETENTION_LOCK = 0x7475726E6B656570
"""The Postgres advisory lock of a deleting batch: `turnkeep` in ASCII."""

_EXPIRE = text(f"""
WITH mine AS MATERIALIZED (SELECT pg_try_advisory_xact_lock({RETENTION_LOCK}) AS held),
old AS MATERIALIZED (
    SELECT c.id, c.base_id FROM conversations c, mine
    WHERE mine.held AND c.updated_at < now() - make_interval(days => :days)
      AND NOT EXISTS (SELECT 1 FROM turns t WHERE t.conversation_id = c.id AND t.status = 'running')
    ORDER BY c.updated_at LIMIT :limit FOR UPDATE OF c SKIP LOCKED
), line AS (
    INSERT INTO audit (who, action, base_id, base, object, detail)
    SELECT '{RETENTION}', '{Action.CONVERSATION_EXPIRED}', b.id, b.name, CAST(o.id AS text),
           jsonb_build_object('days', CAST(:days AS integer))
    FROM old o JOIN bases b ON b.id = o.base_id
), gone AS (
    DELETE FROM conversations c USING old o WHERE c.id = o.id RETURNING c.id
)
SELECT count(*) FROM gone
""")  # noqa: S608 - only constants are put together


async def expire(database: Database, *, days: int, limit: int) -> int:
    """Delete at most `limit` conversations whose last message is older than so many days; how many it were.

    None are deleted while another process does it.
    """
    async with database.single() as connection:
        return (await connection.execute(_EXPIRE, {"days": days, "limit": limit})).scalar_one()
