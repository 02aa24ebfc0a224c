"""What a base's graph holds, counted: for a person who doesn't know yet what to ask it.

Decides that only what is believed now counts, on the world's clock at any time. Reads every fact of the base once.
"""

from dataclasses import dataclass

from sqlalchemy import text

from app.store.clocks import BELIEVED
from app.store.engine import Database


@dataclass(frozen=True, slots=True)
class TypeCount:
    """A type of entity, "" where nobody said, and how many entities of the graph have it."""

    type: str
    entities: int


@dataclass(frozen=True, slots=True)
class Leader:
    """An entity and the number of facts in which it is subject or object."""

    id: str
    name: str
    type: str
    disambiguator: str
    fact_count: int


@dataclass(frozen=True, slots=True)
class Overview:
    """Counts of a base's graph; `types` the most frequent first, `leaders` those with the most facts first."""

    entities: int
    facts: int
    pending_proposals: int
    types: tuple[TypeCount, ...]
    leaders: tuple[Leader, ...]


_ENDS = f"""
WITH believed AS MATERIALIZED (
    SELECT f.subject_id, f.object_id FROM facts f WHERE f.base_id = CAST(:base_id AS uuid) AND {BELIEVED}
),
ends AS MATERIALIZED (
    SELECT id, count(*) AS facts FROM (
        SELECT subject_id AS id FROM believed
        UNION ALL
        SELECT object_id FROM believed WHERE object_id IS NOT NULL AND object_id <> subject_id
    ) one GROUP BY id
)
"""  # noqa: S608 - only constants are put together

_LEADERS = text(f"""
{_ENDS}
SELECT e.id, e.name, e.type, e.disambiguator, ends.facts AS fact_count
FROM ends JOIN entities e ON e.id = ends.id
ORDER BY ends.facts DESC, e.name_key, e.id LIMIT :limit
""")  # noqa: S608

_TYPES = text(f"""
{_ENDS}
SELECT e.type, count(*) AS entities FROM ends JOIN entities e ON e.id = ends.id
GROUP BY e.type ORDER BY entities DESC, e.type
""")  # noqa: S608

_FACTS = text(f"SELECT count(*) FROM facts f WHERE f.base_id = CAST(:base_id AS uuid) AND {BELIEVED}")  # noqa: S608

_PENDING = text("SELECT count(*) FROM proposals WHERE base_id = CAST(:base_id AS uuid) AND status = 'pending'")


async def overview(database: Database, base_id: str, *, leaders: int) -> Overview:
    """What the base's graph holds now, with its `leaders` best connected entities."""
    parameters = {"base_id": base_id, "limit": leaders, "as_of": None}
    async with database.read() as connection:
        found = (await connection.execute(_LEADERS, parameters)).all()
        types = (await connection.execute(_TYPES, parameters)).all()
        facts = (await connection.execute(_FACTS, parameters)).scalar_one()
        pending = (await connection.execute(_PENDING, {"base_id": base_id})).scalar_one()
    return Overview(
        entities=sum(row.entities for row in types),
        facts=facts,
        pending_proposals=pending,
        types=tuple(TypeCount(row.type, row.entities) for row in types),
        leaders=tuple(Leader(str(row.id), row.name, row.type, row.disambiguator, row.fact_count) for row in found),
    )
