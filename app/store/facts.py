"""Facts on two clocks: added, closed, and read as they were believed and as they held.

Decides what a fact says (`fact_key`) and what `at` and `as_of` let through (decision 0008). A row is
never changed in what it says and never deleted: it is closed, and another one opened.
"""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal

from sqlalchemy import Row, TextClause, text

from app.store import audit
from app.store.audit import Action, Line
from app.store.clocks import BELIEVED, HOLDS, POSSIBLE
from app.store.engine import Database
from app.store.entities import EntityRecord, name_key
from app.store.graph_write import GraphWrite

FactStatus = Literal["asserted", "corrected", "rejected", "merged"]
FactOrigin = Literal["import", "api", "extraction", "remember"]
StartPrecision = Literal["year", "month", "day", "unknown"]
EndPrecision = Literal["year", "month", "day", "unknown", "open"]


@dataclass(frozen=True, slots=True)
class Validity:
    """When something was true: first and last day, as precisely as is known. Without precision nothing is known."""

    start: date | None = None
    start_precision: StartPrecision = "unknown"
    end: date | None = None
    end_precision: EndPrecision = "unknown"


@dataclass(frozen=True, slots=True)
class Claim:
    """What a fact says, whoever says it. Exactly one of `object_id` and `value` is given."""

    subject_id: str
    predicate: str
    object_id: str | None
    value: str | None
    validity: Validity

    @property
    def fact_key(self) -> str:
        """The same for the same claim, however its value is cased and spaced; confidence and evidence don't matter."""
        said = (
            self.subject_id,
            self.predicate,
            self.object_id,
            None if self.value is None else name_key(self.value),
            str(self.validity.start),
            self.validity.start_precision,
            str(self.validity.end),
            self.validity.end_precision,
        )
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class NewFact:
    """A fact to be recorded; `status` rejected records it as one that is not believed."""

    id: str
    claim: Claim
    confidence: float
    chunk_id: str | None
    quote: str
    origin: FactOrigin
    status: Literal["asserted", "rejected"] = "asserted"


@dataclass(frozen=True, slots=True)
class Evidence:
    """The passage that a fact rests on; `live` is False once its document is superseded."""

    chunk_id: str
    document_id: str
    document: str
    live: bool


@dataclass(frozen=True, slots=True)
class FactRecord:
    """A row of the base's memory: the claim, when it was recorded and closed, how, and what it rests on."""

    id: str
    base_id: str
    subject: EntityRecord
    object: EntityRecord | None
    claim: Claim
    recorded_at: datetime
    superseded_at: datetime | None
    superseded_by: str | None
    status: FactStatus
    confidence: float
    evidence: Evidence | None
    quote: str
    origin: FactOrigin


@dataclass(frozen=True, slots=True)
class KnownFact:
    """A row that says the same as another would; `live` while the base believes it."""

    id: str
    live: bool


@dataclass(frozen=True, slots=True)
class FactFilter:
    """Which facts of a base are asked for. `about` is in subject or object; `at` is a first and a last day."""

    about: str | None = None
    subject_ids: tuple[str, ...] | None = None
    predicate: str | None = None
    at: tuple[date, date] | None = None
    as_of: datetime | None = None


@dataclass(frozen=True, slots=True)
class FactPage:
    """Facts that held, and how many there are; `undecided` may have held too, but their dates don't say so."""

    facts: tuple[FactRecord, ...]
    total: int
    undecided: int


_COLUMNS = """
    f.id, f.base_id, f.subject_id, f.predicate, f.object_id, f.value, f.valid_from, f.valid_from_precision, f.valid_to,
    f.valid_to_precision, f.recorded_at, f.superseded_at, f.superseded_by, f.status, f.confidence, f.chunk_id, f.quote,
    f.origin, s.name AS s_name, s.aliases AS s_aliases, s.type AS s_type, s.disambiguator AS s_disambiguator,
    o.name AS o_name, o.aliases AS o_aliases, o.type AS o_type, o.disambiguator AS o_disambiguator,
    c.document_id, c.live AS chunk_live, d.name AS document"""

_JOINS = """JOIN entities s ON s.id = f.subject_id LEFT JOIN entities o ON o.id = f.object_id
    LEFT JOIN chunks c ON c.id = f.chunk_id LEFT JOIN documents d ON d.id = c.document_id"""

_ADD = text("""
INSERT INTO facts (id, base_id, subject_id, predicate, object_id, value, valid_from, valid_from_precision, valid_to,
                   valid_to_precision, recorded_at, superseded_at, status, confidence, chunk_id, quote, origin,
                   fact_key)
SELECT n.id, CAST(:base_id AS uuid), n.subject_id, n.predicate, n.object_id, n.value, n.valid_from, n.from_precision,
       n.valid_to, n.to_precision, CAST(:recorded_at AS timestamptz),
       CASE WHEN n.status = 'rejected' THEN CAST(:recorded_at AS timestamptz) END, n.status, n.confidence,
       n.chunk_id, n.quote, n.origin, n.fact_key
FROM unnest(CAST(:ids AS uuid[]), CAST(:subject_ids AS uuid[]), CAST(:predicates AS text[]),
            CAST(:object_ids AS uuid[]), CAST(:values AS text[]), CAST(:starts AS date[]),
            CAST(:start_precisions AS text[]), CAST(:ends AS date[]), CAST(:end_precisions AS text[]),
            CAST(:statuses AS text[]), CAST(:confidences AS float8[]), CAST(:chunk_ids AS uuid[]),
            CAST(:quotes AS text[]), CAST(:origins AS text[]), CAST(:keys AS text[]))
     AS n (id, subject_id, predicate, object_id, value, valid_from, from_precision, valid_to, to_precision, status,
           confidence, chunk_id, quote, origin, fact_key)
""")

_KNOWN = text("""
SELECT f.id, f.fact_key, f.superseded_at IS NULL AS live FROM facts f
WHERE f.base_id = CAST(:base_id AS uuid) AND f.subject_id = ANY(CAST(:subject_ids AS uuid[]))
  AND f.fact_key = ANY(CAST(:keys AS text[]))
ORDER BY f.superseded_at IS NULL, f.recorded_at
""")

_CLOSE = text("""
UPDATE facts f SET superseded_at = CAST(:at AS timestamptz), status = :status, superseded_by = n.by_id
FROM unnest(CAST(:ids AS uuid[]), CAST(:by_ids AS uuid[])) AS n (id, by_id)
WHERE f.id = n.id AND (f.superseded_at IS NULL OR f.superseded_at = CAST(:at AS timestamptz))
""")

_ORDER = "coalesce(f.valid_from, f.valid_to) NULLS LAST, f.recorded_at, f.id"

_GET = text(f"""
SELECT {_COLUMNS} FROM facts f {_JOINS} WHERE f.base_id = CAST(:base_id AS uuid) AND f.id = CAST(:id AS uuid)
""")  # noqa: S608

_LIVE_OF = text(f"""
SELECT {_COLUMNS} FROM facts f {_JOINS}
WHERE f.base_id = CAST(:base_id AS uuid) AND f.superseded_at IS NULL
  AND (f.subject_id = CAST(:entity_id AS uuid) OR f.object_id = CAST(:entity_id AS uuid))
ORDER BY f.recorded_at, f.id
""")  # noqa: S608


async def add(graph: GraphWrite, facts: Sequence[NewFact]) -> None:
    """Records facts of which none is believed yet."""
    if not facts:
        return
    claims = [fact.claim for fact in facts]
    await graph.connection.execute(
        _ADD,
        {
            "base_id": graph.base_id,
            "recorded_at": graph.at,
            "ids": [fact.id for fact in facts],
            "subject_ids": [claim.subject_id for claim in claims],
            "predicates": [claim.predicate for claim in claims],
            "object_ids": [claim.object_id for claim in claims],
            "values": [claim.value for claim in claims],
            "starts": [claim.validity.start for claim in claims],
            "start_precisions": [claim.validity.start_precision for claim in claims],
            "ends": [claim.validity.end for claim in claims],
            "end_precisions": [claim.validity.end_precision for claim in claims],
            "statuses": [fact.status for fact in facts],
            "confidences": [fact.confidence for fact in facts],
            "chunk_ids": [fact.chunk_id for fact in facts],
            "quotes": [fact.quote for fact in facts],
            "origins": [fact.origin for fact in facts],
            "keys": [claim.fact_key for claim in claims],
        },
    )
    await audit.write(
        graph.connection,
        [Line(graph.by, Action.FACT_RECORDED, graph.base_id, fact.id, {"origin": fact.origin}) for fact in facts],
    )


async def known(graph: GraphWrite, claims: Collection[Claim]) -> dict[str, KnownFact]:
    """What the base has recorded of these claims, by fact key: the believed row, or else the newest closed one."""
    values = {
        "base_id": graph.base_id,
        "subject_ids": sorted({claim.subject_id for claim in claims}),
        "keys": sorted({claim.fact_key for claim in claims}),
    }
    return {row.fact_key: KnownFact(str(row.id), row.live) for row in await graph.connection.execute(_KNOWN, values)}


async def close(
    graph: GraphWrite, facts: Mapping[str, str | None], *, status: Literal["corrected", "rejected", "merged"]
) -> None:
    """Ends the belief in facts, by id, each with the id of the row that takes its place, if one does.

    Closing again at the same instant names the successor, which can't be recorded before.
    """
    values = {"ids": list(facts), "by_ids": list(facts.values()), "status": status, "at": graph.at}
    await graph.connection.execute(_CLOSE, values)


async def find(database: Database, base_id: str, wanted: FactFilter, *, limit: int, offset: int = 0) -> FactPage:
    """A base's facts in order of time, undated ones last."""
    first, last = wanted.at or (None, None)
    values: dict[str, object] = {
        "base_id": base_id,
        "about": wanted.about,
        "subject_ids": list(wanted.subject_ids or ()),
        "predicate": wanted.predicate,
        "at_first": first,
        "at_last": last,
        "as_of": wanted.as_of,
        "limit": limit,
        "offset": offset,
    }
    page, count = _statements(wanted)
    async with database.read() as connection:
        rows = (await connection.execute(page, _used(page, values))).all()
        counted = (await connection.execute(count, _used(count, values))).one()
    return FactPage(tuple(record(row) for row in rows), counted.total, counted.undecided)


def _statements(wanted: FactFilter) -> tuple[TextClause, TextClause]:
    """The page and the count; only constants are put together, and only those that are asked for cost anything."""
    selected = f"f.base_id = CAST(:base_id AS uuid) AND {BELIEVED}"
    if wanted.about is not None:
        selected += " AND (f.subject_id = CAST(:about AS uuid) OR f.object_id = CAST(:about AS uuid))"
    if wanted.subject_ids is not None:
        selected += " AND f.subject_id = ANY(CAST(:subject_ids AS uuid[]))"
    if wanted.predicate is not None:
        selected += " AND f.predicate = :predicate"
    held, undecided = ("true", "false") if wanted.at is None else (HOLDS, f"NOT {HOLDS} AND {POSSIBLE}")
    page = f"""
        WITH page AS (
            SELECT f.* FROM facts f WHERE {selected} AND {held} ORDER BY {_ORDER} LIMIT :limit OFFSET :offset
        )
        SELECT {_COLUMNS} FROM page f {_JOINS} ORDER BY {_ORDER}"""  # noqa: S608
    count = f"""
        SELECT count(*) FILTER (WHERE {held}) AS total, count(*) FILTER (WHERE {undecided}) AS undecided
        FROM facts f WHERE {selected}"""  # noqa: S608
    return text(page), text(count)


def _used(statement: TextClause, values: dict[str, object]) -> dict[str, object]:
    """Those values that a statement names."""
    return {name: values[name] for name in statement.compile().params}


async def get(graph: GraphWrite, fact_id: str) -> FactRecord | None:
    """A fact of the base, believed or closed."""
    row = (await graph.connection.execute(_GET, {"base_id": graph.base_id, "id": fact_id})).one_or_none()
    return None if row is None else record(row)


async def live_of(graph: GraphWrite, entity_id: str) -> list[FactRecord]:
    """All believed facts in which an entity is subject or object."""
    rows = await graph.connection.execute(_LIVE_OF, {"base_id": graph.base_id, "entity_id": entity_id})
    return [record(row) for row in rows]


def record(row: Row[tuple[object, ...]]) -> FactRecord:
    """The record of a row with the columns of a fact, its entities and its passage."""
    subject = EntityRecord(str(row.subject_id), row.s_name, tuple(row.s_aliases), row.s_type, row.s_disambiguator)
    object_ = (
        None
        if row.object_id is None
        else EntityRecord(str(row.object_id), row.o_name, tuple(row.o_aliases), row.o_type, row.o_disambiguator)
    )
    evidence = (
        None
        if row.chunk_id is None
        else Evidence(str(row.chunk_id), str(row.document_id), row.document, row.chunk_live)
    )
    return FactRecord(
        id=str(row.id),
        base_id=str(row.base_id),
        subject=subject,
        object=object_,
        claim=Claim(
            subject_id=subject.id,
            predicate=row.predicate,
            object_id=None if object_ is None else object_.id,
            value=row.value,
            validity=Validity(row.valid_from, row.valid_from_precision, row.valid_to, row.valid_to_precision),
        ),
        recorded_at=row.recorded_at,
        superseded_at=row.superseded_at,
        superseded_by=None if row.superseded_by is None else str(row.superseded_by),
        status=row.status,
        confidence=row.confidence,
        evidence=evidence,
        quote=row.quote,
        origin=row.origin,
    )
