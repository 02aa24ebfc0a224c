"""The record axis: what the base came to believe, corrected, rejected and merged, and exactly when."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sqlalchemy import TextClause, text

from app.store.engine import Database
from app.store.graph import LOOKED_AT, GraphFact, View
from app.store.graph_links import facts_by_id

ChangeKind = Literal["asserted", "corrected", "rejected", "merged"]


@dataclass(frozen=True, slots=True)
class Change:
    """An event of the record clock. `replaced_by` is what a correction or a merge put in the fact's place."""

    at: datetime
    kind: ChangeKind
    fact: GraphFact
    replaced_by: GraphFact | None


@dataclass(frozen=True, slots=True)
class ChangeQuery:
    """Events from `since` up to but not at `until` (None: now), of these kinds, about an entity or about any."""

    since: datetime
    until: datetime | None
    kinds: Sequence[ChangeKind]
    entity_id: str | None = None


_OF_BASE = "f.base_id = CAST(:base_id AS uuid)"
_OF_ENTITY = f"""{_OF_BASE}
    AND (f.subject_id = CAST(:entity_id AS uuid) OR f.object_id = CAST(:entity_id AS uuid))"""

_UNTIL = "coalesce(CAST(:until AS timestamptz), 'infinity')"


def _changes(about: str) -> TextClause:
    """The statement for these facts; only constants of this module are put together."""
    return text(f"""
WITH events AS (
    (SELECT f.recorded_at AS at, 'asserted' AS kind, f.id, CAST(NULL AS uuid) AS replaced_by FROM facts f
     WHERE {about} AND f.recorded_at >= :since AND f.recorded_at < {_UNTIL} AND 'asserted' = ANY (:kinds)
       AND f.superseded_at IS DISTINCT FROM f.recorded_at
       AND NOT EXISTS (SELECT 1 FROM facts old WHERE old.base_id = f.base_id
                       AND old.superseded_at = f.recorded_at AND old.superseded_by = f.id)
     ORDER BY f.recorded_at DESC, f.id DESC LIMIT :looked_at)
    UNION ALL
    (SELECT f.superseded_at, f.status, f.id, f.superseded_by FROM facts f
     WHERE {about} AND f.superseded_at >= :since AND f.superseded_at < {_UNTIL} AND f.status = ANY (:kinds)
       AND f.status <> 'asserted'
     ORDER BY f.superseded_at DESC, f.id DESC LIMIT :looked_at)
)
SELECT e.*, count(*) OVER () AS total FROM events e ORDER BY e.at DESC, e.id DESC LIMIT :limit
""")  # noqa: S608


_CHANGES_OF_BASE = _changes(_OF_BASE)
_CHANGES_OF_ENTITY = _changes(_OF_ENTITY)


async def changes(database: Database, view: View, query: ChangeQuery, *, limit: int) -> tuple[list[Change], int]:
    """The newest events, newest first, and how many there are in all. Nothing at or after `as_of` is told."""
    until = min((t for t in (query.until, view.as_of) if t is not None), default=None)
    values: dict[str, object] = {
        "base_id": view.base_id,
        "since": query.since,
        "until": until,
        "kinds": list(query.kinds),
        "looked_at": LOOKED_AT,
        "limit": limit,
    }
    statement = _CHANGES_OF_BASE
    if query.entity_id is not None:
        statement, values["entity_id"] = _CHANGES_OF_ENTITY, query.entity_id
    async with database.read() as connection:
        rows = (await connection.execute(statement, values)).all()
    ids = {str(i) for row in rows for i in (row.id, row.replaced_by) if i is not None}
    facts = await facts_by_id(database, view, sorted(ids))
    found = [
        Change(row.at, row.kind, facts[str(row.id)], facts.get(str(row.replaced_by)))
        for row in rows
        if str(row.id) in facts
    ]
    return found, rows[0].total if rows else 0
