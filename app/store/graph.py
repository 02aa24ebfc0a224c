"""Reads of the knowledge graph: the facts of an entity on both clocks.

Decides how facts of unknown date are told apart, and how much is looked at; what holds and what was believed is
decided in app/store/clocks.py. Names, links over several hops and the record axis are in graph_find, graph_links
and graph_changes; what a line says in app/knowledge/graph.py.
"""

from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal

from sqlalchemy import Row, TextClause, text

from app.store.clocks import BELIEVED, HELD, POSSIBLE
from app.store.engine import Database
from app.store.entities import EntityRecord, like

LOOKED_AT = 10_000
"""Facts of one entity that are looked at; past it, totals say "at least"."""


@dataclass(frozen=True, slots=True)
class View:
    """What is looked at: a base as it is believed now, or as it was believed just before `as_of` (UTC)."""

    base_id: str
    as_of: datetime | None = None


@dataclass(frozen=True, slots=True)
class Days:
    """A time in the world: its first and last day."""

    first: date
    last: date


@dataclass(frozen=True, slots=True)
class Evidence:
    """The live passage that a fact rests on; `quote` is its sentence, else the passage's beginning."""

    chunk_id: str
    document_id: str
    title: str
    heading: str
    page: int | None
    quote: str


@dataclass(frozen=True, slots=True)
class GraphFact:
    """A fact with its ends. `holds` is False where dates that would decide it are unknown (True without a time)."""

    id: str
    subject: EntityRecord
    predicate: str
    object: EntityRecord | None
    value: str | None
    valid_from: date | None
    valid_from_precision: Literal["year", "month", "day", "unknown"]
    valid_to: date | None
    valid_to_precision: Literal["year", "month", "day", "unknown", "open"]
    confidence: float
    status: str
    evidence: Evidence | None
    holds: bool


@dataclass(frozen=True, slots=True)
class FactPage:
    """Facts in order. `total` counts those that fit, `undecided` those among them whose dates don't decide it."""

    facts: tuple[GraphFact, ...]
    total: int
    undecided: int


MAY_HOLD = f"(CAST(:at_first AS date) IS NULL OR {POSSIBLE})"
"""`POSSIBLE`, and true for every row where no days are asked for. What may hold and isn't `HELD` is told apart."""

FACT = """
    f.id, f.predicate, f.value, f.valid_from, f.valid_from_precision, f.valid_to, f.valid_to_precision,
    f.confidence, f.status, f.holds,
    s.id AS s_id, s.name AS s_name, s.type AS s_type, s.disambiguator AS s_disambiguator,
    o.id AS o_id, o.name AS o_name, o.type AS o_type, o.disambiguator AS o_disambiguator,
    e.chunk_id, e.document_id, e.title, e.heading, e.page, coalesce(nullif(f.quote, ''), e.beginning) AS quote"""

ENDS = """
    JOIN entities s ON s.id = f.subject_id
    LEFT JOIN entities o ON o.id = f.object_id
    LEFT JOIN LATERAL (
        SELECT c.id AS chunk_id, d.id AS document_id, coalesce(nullif(d.title, ''), d.name) AS title,
               c.heading_path AS heading, c.page, left(c.text, 300) AS beginning
        FROM chunks c JOIN documents d ON d.id = c.document_id
        WHERE c.id = f.chunk_id AND (c.live OR d.superseded_at >= CAST(:as_of AS timestamptz))
    ) e ON true"""

_OF_ENTITY = f"""
    SELECT f.*, f.subject_id = CAST(:entity_id AS uuid) AS outgoing,
           CASE WHEN f.subject_id = CAST(:entity_id AS uuid) THEN f.object_id ELSE f.subject_id END AS other_id
    FROM facts f
    WHERE f.base_id = CAST(:base_id AS uuid)
      AND (f.subject_id = CAST(:entity_id AS uuid) OR f.object_id = CAST(:entity_id AS uuid)) AND {BELIEVED}"""  # noqa: S608

_PREDICATE = """(CAST(:predicate AS text) IS NULL OR f.predicate = :predicate OR f.predicate LIKE :pattern)"""


def _page(condition: str, decided: str, order: str) -> str:
    """A statement for a page of one entity's facts; only constants of this module are put together."""
    return f"""
WITH looked AS MATERIALIZED (
    SELECT f.*, {decided} AS holds FROM ({_OF_ENTITY}) f WHERE {condition} LIMIT :looked_at
),
linked AS (SELECT f.*, count(*) OVER (PARTITION BY other_id) AS links FROM looked f),
page AS (
    SELECT f.*, count(*) OVER () AS total, count(*) FILTER (WHERE NOT f.holds) OVER () AS undecided,
           row_number() OVER (ORDER BY {order}, f.id) AS place
    FROM linked f ORDER BY place LIMIT :limit
)
SELECT {FACT}, f.total, f.undecided FROM page f {ENDS} ORDER BY f.place"""  # noqa: S608


_ABOUT = text(
    _page(
        f"{MAY_HOLD} AND {_PREDICATE}",
        HELD,
        "f.holds DESC, f.outgoing DESC, f.predicate, f.valid_from NULLS LAST",
    )
)
_NEIGHBORS = text(
    _page(
        f"f.object_id IS NOT NULL AND {MAY_HOLD} AND {_PREDICATE}",
        HELD,
        "f.holds DESC, f.links DESC, f.other_id, f.outgoing DESC, f.predicate, f.valid_from NULLS LAST",
    )
)
_IN_WINDOW = """(
    (f.valid_from IS NOT NULL AND f.valid_from >= coalesce(CAST(:since AS date), '-infinity')
        AND f.valid_from <= coalesce(CAST(:until AS date), 'infinity'))
    OR (f.valid_to IS NOT NULL AND f.valid_to >= coalesce(CAST(:since AS date), '-infinity')
        AND f.valid_to <= coalesce(CAST(:until AS date), 'infinity')))"""
_TIMELINE = text(
    _page(
        f"({_IN_WINDOW} OR (f.valid_from IS NULL AND f.valid_to IS NULL))",
        "(f.valid_from IS NOT NULL OR f.valid_to IS NOT NULL)",
        "f.holds DESC, coalesce(f.valid_from, f.valid_to), f.valid_to NULLS LAST, f.predicate",
    )
)

_PREDICATES = text(f"""
SELECT f.predicate, count(*) AS facts FROM ({_OF_ENTITY} LIMIT :looked_at) f
GROUP BY f.predicate ORDER BY facts DESC, f.predicate LIMIT :limit
""")  # noqa: S608


@dataclass(frozen=True, slots=True)
class FactQuery:
    """Which facts of an entity: those whose predicate is or holds `predicate`, at a time in the world."""

    entity_id: str
    predicate: str | None = None
    at: Days | None = None


async def facts_about(database: Database, view: View, query: FactQuery, *, limit: int) -> FactPage:
    """Facts that an entity is an end of: those that hold first, its own before others', by predicate and date."""
    return await _read_page(database, _ABOUT, _values(view, query, limit))


async def neighbors(database: Database, view: View, query: FactQuery, *, limit: int) -> FactPage:
    """Facts that link an entity with another: those that hold first, then by the other entity, most linked first."""
    return await _read_page(database, _NEIGHBORS, _values(view, query, limit))


async def timeline(
    database: Database, view: View, entity_id: str, *, since: date | None, until: date | None, limit: int
) -> FactPage:
    """Facts of an entity that begin or end within the days, in order; `undecided` counts those without any date."""
    values = _values(view, FactQuery(entity_id), limit) | {"since": since, "until": until}
    for unused in ("predicate", "pattern", "at_first", "at_last"):
        del values[unused]
    found = await _read_page(database, _TIMELINE, values)
    return FactPage(tuple(f for f in found.facts if f.holds), found.total - found.undecided, found.undecided)


async def predicates(database: Database, view: View, entity_id: str, *, limit: int) -> list[tuple[str, int]]:
    """The predicates of an entity's facts and how many facts each has, most first."""
    values = {"base_id": view.base_id, "as_of": view.as_of, "entity_id": entity_id}
    async with database.read() as connection:
        rows = await connection.execute(_PREDICATES, {**values, "looked_at": LOOKED_AT, "limit": limit})
        return [(row.predicate, row.facts) for row in rows]


def _values(view: View, query: FactQuery, limit: int) -> dict[str, object]:
    return {
        "base_id": view.base_id,
        "as_of": view.as_of,
        "entity_id": query.entity_id,
        "predicate": query.predicate,
        "pattern": None if query.predicate is None else like(query.predicate),
        "at_first": query.at.first if query.at else None,
        "at_last": query.at.last if query.at else None,
        "looked_at": LOOKED_AT,
        "limit": limit,
    }


async def _read_page(database: Database, statement: TextClause, values: dict[str, object]) -> FactPage:
    async with database.read() as connection:
        rows = (await connection.execute(statement, values)).all()
    if not rows:
        return FactPage((), 0, 0)
    return FactPage(tuple(fact(row) for row in rows), rows[0].total, rows[0].undecided)


def fact(row: Row[tuple[object, ...]]) -> GraphFact:
    """A row that `FACT` and `ENDS` selected."""
    evidence = None
    if row.chunk_id is not None:
        evidence = Evidence(str(row.chunk_id), str(row.document_id), row.title, row.heading, row.page, row.quote)
    return GraphFact(
        id=str(row.id),
        subject=EntityRecord(str(row.s_id), row.s_name, (), row.s_type, row.s_disambiguator),
        predicate=row.predicate,
        object=None
        if row.o_id is None
        else EntityRecord(str(row.o_id), row.o_name, (), row.o_type, row.o_disambiguator),
        value=row.value,
        valid_from=row.valid_from,
        valid_from_precision=row.valid_from_precision,
        valid_to=row.valid_to,
        valid_to_precision=row.valid_to_precision,
        confidence=row.confidence,
        status=row.status,
        evidence=evidence,
        holds=row.holds,
    )
