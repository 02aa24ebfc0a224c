"""Facts of a base: list as they held and as they were believed, add, correct, reject. Source: DESIGN section 4.

`at` and `as_of` mean the same on every route that reads the graph (decision 0008).
"""

from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated, Any, cast
from uuid import UUID

from fastapi import APIRouter, Body, Depends, Query
from pydantic import BaseModel, ConfigDict, Field

from app.api import principal
from app.api.known_base import known_base
from app.api.principal import Principal
from app.api.refusals import RESPONSES
from app.errors import AppError, RefusalCode
from app.knowledge import corrections
from app.knowledge.fact_rows import FactRow, ReadRow, parse_row, words
from app.knowledge.facts_import import import_rows
from app.knowledge.moments import INSTANT_FORMS, parse_as_of, parse_period, show_date
from app.store import entities, facts
from app.store.engine import Database
from app.store.facts import FactFilter, FactOrigin, FactPage, FactRecord, FactStatus
from app.store.ids import is_id
from app.text import clean

Who = Annotated[Principal, Depends(principal.current)]

MAX_ROWS = 5_000
"""Rows of one request."""

ROWS_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "anyOf": [
                        FactRow.model_json_schema(),
                        {
                            "type": "object",
                            "required": ["rows"],
                            "additionalProperties": False,
                            "properties": {
                                "rows": {"type": "array", "items": FactRow.model_json_schema(), "maxItems": MAX_ROWS}
                            },
                        },
                    ]
                }
            }
        },
    }
}
"""The body of an addition for the OpenAPI document: each row is judged by itself, so that good ones go in."""


@dataclass(frozen=True, slots=True)
class Moments:
    """The two clocks of a read: days in the world, and an instant before which a row was recorded."""

    at: tuple[date, date] | None
    as_of: datetime | None


class EntityRef(BaseModel):
    """An entity, as one end of a fact."""

    model_config = ConfigDict(from_attributes=True)

    id: str
    name: str
    type: str
    disambiguator: str


class Evidence(BaseModel):
    """The passage that a fact rests on; `live` is false once its document is superseded."""

    model_config = ConfigDict(from_attributes=True)

    chunk_id: str
    document_id: str
    document: str
    live: bool


class Fact(BaseModel):
    """A fact with both clocks. `from` and `to` are as precise as is known; null is unknown, "open" is still true.

    `superseded_at` says since when the base doesn't believe it, `superseded_by` which fact took its place.
    """

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    id: str
    subject: EntityRef
    predicate: str
    object_: EntityRef | None = Field(alias="object")
    value: str | None
    valid_from: str | None = Field(alias="from")
    valid_to: str | None = Field(alias="to")
    confidence: float
    status: FactStatus
    recorded_at: datetime
    superseded_at: datetime | None
    superseded_by: str | None
    evidence: Evidence | None
    quote: str
    origin: FactOrigin


class FactList(BaseModel):
    """Facts in order of time. With `at`, `undecided` counts those that may have held too, by what is known."""

    facts: list[Fact]
    total: int
    undecided: int


class Failed(BaseModel):
    """A row that did not go in: its place in the request, from 1, and why."""

    model_config = ConfigDict(from_attributes=True)

    line: int
    error: str


class Added(BaseModel):
    """What became of the rows. `without_evidence` counts added facts whose quote was found in no passage."""

    model_config = ConfigDict(from_attributes=True)

    added: int
    known: int
    rejected: int
    without_evidence: int
    failed: list[Failed]


def moments(
    at: Annotated[
        str | None, Query(max_length=60, description="A year, month or day in the world: what was true then.")
    ] = None,
    as_of: Annotated[
        str | None, Query(max_length=60, description=f"What the base believed then: {INSTANT_FORMS}.")
    ] = None,
) -> Moments:
    """The dependency of every route that reads the graph."""
    try:
        period = None if not at else parse_period(clean(at))
        instant = None if not as_of else parse_as_of(clean(as_of))
    except ValueError as error:
        raise AppError(RefusalCode.INVALID, str(error)) from error
    return Moments(None if period is None else (period.first, period.last), instant)


def router(database: Database) -> APIRouter:
    """The routes, bound to the database."""
    routes = APIRouter(
        prefix="/api/bases/{base}/facts", tags=["facts"], responses=RESPONSES, dependencies=[Depends(principal.current)]
    )

    @routes.get("")
    async def find(
        base_id: Annotated[str, Depends(known_base)],
        clocks: Annotated[Moments, Depends(moments)],
        subject: Annotated[str | None, Query(max_length=300, description="An entity's id, name or alias.")] = None,
        predicate: Annotated[str | None, Query(max_length=100)] = None,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
        offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
    ) -> FactList:
        """The base's facts in order of time, undated ones last."""
        wanted = FactFilter(
            subject_ids=None if not subject else await _subjects(database, base_id, subject),
            predicate=words(predicate) or None if predicate else None,
            at=clocks.at,
            as_of=clocks.as_of,
        )
        return shown_page(await facts.find(database, base_id, wanted, limit=limit, offset=offset))

    @routes.post("", openapi_extra=ROWS_BODY)
    async def add(
        base_id: Annotated[str, Depends(known_base)], body: Annotated[dict[str, Any], Body()], who: Who
    ) -> Added:
        """Record one row, or `rows`. Each is judged by itself: bad ones are told by their place, good ones go in.

        What was corrected or rejected before is only brought back by a row of its own.
        """
        rows = [ReadRow(n, _row(value)) for n, value in enumerate(_values(body), start=1)]
        done = await import_rows(database, base_id, rows, origin="api", again="rows" not in body, by=who.owner)
        return Added.model_validate(done)

    @routes.post("/{fact_id}/correct")
    async def correct(base_id: Annotated[str, Depends(known_base)], fact_id: UUID, body: FactRow, who: Who) -> Fact:
        """Close a fact and record what is right; the answer is the new fact."""
        return shown(await corrections.correct(database, base_id, str(fact_id), body, by=who.owner))

    @routes.post("/{fact_id}/reject")
    async def reject(base_id: Annotated[str, Depends(known_base)], fact_id: UUID, who: Who) -> Fact:
        """End the belief in a fact. It stays readable with an earlier `as_of`."""
        return shown(await corrections.reject(database, base_id, str(fact_id), by=who.owner))

    return routes


def shown(fact: FactRecord) -> Fact:
    """A fact as the API tells it."""
    validity = fact.claim.validity
    start, end = None, None
    if validity.start is not None and validity.start_precision != "unknown":
        start = show_date(validity.start, validity.start_precision)
    if validity.end_precision == "open":
        end = "open"
    elif validity.end is not None and validity.end_precision != "unknown":
        end = show_date(validity.end, validity.end_precision)
    return Fact.model_validate(
        {
            "id": fact.id,
            "subject": EntityRef.model_validate(fact.subject),
            "predicate": fact.claim.predicate,
            "object": None if fact.object is None else EntityRef.model_validate(fact.object),
            "value": fact.claim.value,
            "from": start,
            "to": end,
            "confidence": fact.confidence,
            "status": fact.status,
            "recorded_at": fact.recorded_at,
            "superseded_at": fact.superseded_at,
            "superseded_by": fact.superseded_by,
            "evidence": None if fact.evidence is None else Evidence.model_validate(fact.evidence),
            "quote": fact.quote,
            "origin": fact.origin,
        }
    )


def shown_page(page: FactPage) -> FactList:
    """A page of facts as the API tells it."""
    return FactList(facts=[shown(fact) for fact in page.facts], total=page.total, undecided=page.undecided)


async def _subjects(database: Database, base_id: str, subject: str) -> tuple[str, ...]:
    if is_id(subject):
        return (subject,)
    return await entities.ids_named(database, base_id, clean(subject))


def _values(body: dict[str, Any]) -> list[object]:
    """The rows of a body: it is one itself, or holds them."""
    if "rows" not in body:
        return [body]
    rows = body["rows"]
    if not isinstance(rows, list) or len(body) > 1:
        raise AppError(RefusalCode.INVALID, "Give one row, or an object with nothing but a list `rows`.")
    given = cast("list[object]", rows)
    if len(given) > MAX_ROWS:
        raise AppError(RefusalCode.TOO_LARGE, f"There are {len(given)} rows; {MAX_ROWS} are allowed at a time.")
    return given


def _row(value: object) -> FactRow | str:
    return parse_row(cast("dict[str, object]", value)) if isinstance(value, dict) else "a row is a JSON object"
