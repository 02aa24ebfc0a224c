"""What the answers of a base rested on, counted over time and by model: the number to watch, from stored rows.

The harness's own turns are left out. Buckets are of UTC. Source: issue 8 item 4, DESIGN section 5 (evidence).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sqlalchemy import text

from app.store.engine import Database
from app.store.harness_runs import OWNER

Bucket = Literal["hour", "day"]


@dataclass(frozen=True, slots=True)
class VerdictCount:
    """The answers of one model in one bucket of time, each counted once: as stopped, as failed, or by its evidence."""

    start: datetime
    model: str
    cited: int
    uncited: int
    skipped: int
    none: int
    failed: int
    stopped: int


_COUNT = text("""
SELECT date_trunc(:bucket, a.created_at AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' AS start, coalesce(a.model, '') AS model,
       count(*) FILTER (WHERE a.kind = 'cited') AS cited,
       count(*) FILTER (WHERE a.kind = 'uncited') AS uncited,
       count(*) FILTER (WHERE a.kind = 'skipped') AS skipped,
       count(*) FILTER (WHERE a.kind = 'none') AS none,
       count(*) FILTER (WHERE a.kind = 'failed') AS failed,
       count(*) FILTER (WHERE a.kind = 'stopped') AS stopped
FROM (
    SELECT m.created_at, m.model,
           CASE WHEN m.error_code IS NOT NULL THEN 'failed' WHEN m.stopped THEN 'stopped' ELSE m.evidence END AS kind
    FROM messages m JOIN conversations c ON c.id = m.conversation_id
    WHERE m.role = 'assistant' AND c.base_id = CAST(:base_id AS uuid) AND c.owner <> :harness
      AND m.created_at >= :since AND m.created_at < :until
      AND (CAST(:model AS text) IS NULL OR m.model = :model)
) a
GROUP BY 1, 2 ORDER BY 1, 2
LIMIT :limit
""")


async def count(
    database: Database,
    base_id: str,
    *,
    since: datetime,
    until: datetime,
    bucket: Bucket,
    model: str | None,
    limit: int,
) -> Sequence[VerdictCount]:
    """The counts of a stretch of time, oldest first; buckets without answers are left out. Both ends have a zone."""
    parameters = {
        "base_id": base_id,
        "since": since,
        "until": until,
        "bucket": bucket,
        "model": model,
        "harness": OWNER,
        "limit": limit,
    }
    async with database.read() as connection:
        rows = (await connection.execute(_COUNT, parameters)).all()
    return [VerdictCount(r.start, r.model, r.cited, r.uncited, r.skipped, r.none, r.failed, r.stopped) for r in rows]
