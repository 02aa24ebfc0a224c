"""What a base's answers rested on over time, by model. Source: issue 8 item 4."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, ConfigDict

from app.api import principal
from app.api.known_base import known_base
from app.api.refusals import RESPONSES
from app.errors import AppError, RefusalCode
from app.knowledge.moments import parse_span
from app.store import verdicts
from app.store.engine import Database
from app.store.verdicts import Bucket
from app.text import clean

SPAN: dict[Bucket, timedelta] = {"hour": timedelta(days=2), "day": timedelta(days=30)}
"""How far back is looked where `since` isn't given."""
LONGEST: dict[Bucket, timedelta] = {"hour": timedelta(days=31), "day": timedelta(days=731)}
MOST_ROWS = 20_000


class VerdictCount(BaseModel):
    """The answers of one model in the bucket that begins at `start`, each counted once."""

    model_config = ConfigDict(from_attributes=True)

    start: datetime
    model: str
    cited: int
    uncited: int
    skipped: int
    none: int
    failed: int
    stopped: int


class Verdicts(BaseModel):
    """The counts from `since` up to, but not with, `until`; a bucket without answers is left out."""

    bucket: Bucket
    since: datetime
    until: datetime
    verdicts: list[VerdictCount]


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of time in buckets."""

    bucket: Bucket
    since: datetime
    until: datetime


def stretch(
    since: Annotated[str | None, Query(max_length=60, description="From when; unset: 2 days or 30 back.")] = None,
    until: Annotated[str | None, Query(max_length=60, description="Until when; unset: now.")] = None,
    bucket: Annotated[Bucket, Query(description="Counted by the hour or by the day, in UTC.")] = "day",
) -> Stretch:
    """The stretch that a request is about; a bare date in `since` means its beginning, in `until` its end.

    Raises:
        AppError: invalid for what is no moment, for an end before its beginning, and for too long a stretch.
    """
    try:
        end = parse_span(clean(until), field="until").end if until else datetime.now(UTC)
        start = parse_span(clean(since), field="since").start if since else end - SPAN[bucket]
    except (ValueError, OverflowError) as error:
        raise AppError(RefusalCode.INVALID, str(error)) from error
    if start >= end:
        raise AppError(RefusalCode.INVALID, f"since: {start.isoformat()} isn't before until, {end.isoformat()}.")
    if end - start > LONGEST[bucket]:
        days = LONGEST[bucket].days
        raise AppError(
            RefusalCode.INVALID, f"since: by the {bucket} at most {days} days are counted; {(end - start).days} are."
        )
    return Stretch(bucket, start, end)


def router(database: Database) -> APIRouter:
    """The route, bound to the database."""
    routes = APIRouter(
        prefix="/api/bases/{base}/verdicts",
        tags=["verdicts"],
        responses=RESPONSES,
        dependencies=[Depends(principal.current)],
    )

    @routes.get("")
    async def show(
        base_id: Annotated[str, Depends(known_base)],
        asked: Annotated[Stretch, Depends(stretch)],
        model: Annotated[str | None, Query(max_length=300, description="Only answers of this model.")] = None,
    ) -> Verdicts:
        """How many answers cited a source, had sources and cited none, skipped the base, found nothing, failed, or
        were stopped.
        """
        counts = await verdicts.count(
            database,
            base_id,
            since=asked.since,
            until=asked.until,
            bucket=asked.bucket,
            model=clean(model) if model else None,
            limit=MOST_ROWS + 1,
        )
        if len(counts) > MOST_ROWS:
            raise AppError(
                RefusalCode.TOO_LARGE, f"There are more than {MOST_ROWS} counts; ask for less, or one model."
            )
        shown = [VerdictCount.model_validate(count) for count in counts]
        return Verdicts(bucket=asked.bucket, since=asked.since, until=asked.until, verdicts=shown)

    return routes
