"""The links between two entities: every fact that a path between them may use, level by level from both ends.

Decides how much work a path may cost: so many facts are read and no more, counted over all levels. Which
chains they make is decided in app/knowledge/paths.py. Source: decision 0009.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.clocks import BELIEVED, HELD
from app.store.engine import Database
from app.store.graph import ENDS, FACT, MAY_HOLD, Days, GraphFact, View, fact

MAX_EDGES = 20_000
"""Facts that are read for one question, at most."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A fact that links two entities."""

    fact_id: str
    subject_id: str
    object_id: str


@dataclass(frozen=True, slots=True)
class Links:
    """What was read. `bounded`: there was more than may be read. `undecided` links were left out for their dates."""

    edges: tuple[Edge, ...]
    bounded: bool
    undecided: int


@dataclass(frozen=True, slots=True)
class PathQuery:
    """From where to where, over at most so many links, at a time in the world."""

    from_id: str
    to_id: str
    max_hops: int
    at: Days | None = None


_SIDE = f"""SELECT f.id, f.subject_id, f.object_id, {HELD} AS holds FROM facts f
    WHERE f.base_id = CAST(:base_id AS uuid) AND f.object_id IS NOT NULL AND {BELIEVED} AND {MAY_HOLD}"""  # noqa: S608

_LEVEL = text(f"""
SELECT CAST(f.id AS text), CAST(f.subject_id AS text), CAST(f.object_id AS text), f.holds
FROM unnest(CAST(:frontier AS uuid[])) AS n (id)
CROSS JOIN LATERAL (
    ({_SIDE} AND f.subject_id = n.id) UNION ALL ({_SIDE} AND f.object_id = n.id AND f.subject_id <> n.id)
) f
LIMIT :budget
""")  # noqa: S608 - only constants of this module are put together

_BY_ID = text(f"""
SELECT {FACT} FROM (SELECT f.*, true AS holds FROM facts f WHERE f.id = ANY (CAST(:ids AS uuid[]))) f {ENDS}
WHERE f.base_id = CAST(:base_id AS uuid)
""")  # noqa: S608


async def links(database: Database, view: View, query: PathQuery, *, max_edges: int = MAX_EDGES) -> Links:
    """Every link of every path of at most `max_hops` links, in max_hops statements.

    A path's first half lies within half the hops of one end, its second half of the other: so each end is
    walked only half the way, each entity once.
    """
    reach = _Reach(view, query.at, max_edges)
    async with database.read() as connection:
        await reach.walk(connection, query.from_id, (query.max_hops + 1) // 2)
        await reach.walk(connection, query.to_id, query.max_hops // 2)
    return Links(tuple(reach.edges.values()), reach.bounded, len(reach.undecided))


class _Reach:
    """What has been read so far, from both ends."""

    def __init__(self, view: View, at: Days | None, max_edges: int) -> None:
        self._values = {
            "base_id": view.base_id,
            "as_of": view.as_of,
            "at_first": at.first if at else None,
            "at_last": at.last if at else None,
        }
        self._left = max_edges
        self.edges: dict[str, Edge] = {}
        self.undecided: set[str] = set()
        self.bounded = False

    async def walk(self, connection: AsyncConnection, start: str, levels: int) -> None:
        """Read the links of all entities within `levels` - 1 links of the start."""
        seen, frontier = {start}, [start]
        for _ in range(levels):
            if not frontier or self.bounded:
                return
            values = {**self._values, "frontier": frontier, "budget": self._left + 1}
            rows = (await connection.execute(_LEVEL, values)).all()
            self.bounded = len(rows) > self._left
            rows = rows[: self._left]
            self._left -= len(rows)
            found: dict[str, None] = {}
            for fact_id, subject_id, object_id, holds in rows:
                if not holds:
                    self.undecided.add(fact_id)
                    continue
                self.edges[fact_id] = Edge(fact_id, subject_id, object_id)
                found[subject_id] = found[object_id] = None
            frontier = [entity for entity in found if entity not in seen]
            seen.update(frontier)


async def facts_by_id(database: Database, view: View, ids: Sequence[str]) -> dict[str, GraphFact]:
    """Facts of the base by their ids, believed or not."""
    values = {"base_id": view.base_id, "as_of": view.as_of, "ids": list(ids)}
    async with database.read() as connection:
        return {str(row.id): fact(row) for row in await connection.execute(_BY_ID, values)}
