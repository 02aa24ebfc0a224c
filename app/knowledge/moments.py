"""Dates and instants as people and models write them, read exactly or refused; and a fact's range in words.

Decides what `at` and `as_of` texts mean. Nothing is guessed: a text that isn't one of the forms is refused with a
sentence that names them. Precision is kept: `2015` stays a year and is never shown as a day. Pure.
"""

import calendar
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Literal

Precision = Literal["year", "month", "day"]
EndPrecision = Literal["year", "month", "day", "unknown", "open"]
StartPrecision = Literal["year", "month", "day", "unknown"]

DATE_FORMS = "YYYY, YYYY-MM or YYYY-MM-DD"
INSTANT_FORMS = f"{DATE_FORMS}, or an RFC 3339 instant such as 2026-03-01T12:00:00Z"

_DATE = re.compile(r"([0-9]{4})(?:-([0-9]{2})(?:-([0-9]{2}))?)?")
_INSTANT = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt]([0-9]{2}:[0-9]{2}:[0-9]{2})(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})"
)
_SHOWN_CHARS = 60


@dataclass(frozen=True, slots=True)
class Period:
    """A year, a month or a day in the world: its first and last day."""

    first: date
    last: date
    precision: Precision

    def __str__(self) -> str:
        return show_date(self.first, self.precision)


@dataclass(frozen=True, slots=True)
class Span:
    """Half-open on the record clock, in UTC: `start` belongs to it, `end` doesn't."""

    start: datetime
    end: datetime


def parse_period(text: str, *, field: str = "at") -> Period:
    """A year, month or day as its first and last day.

    Raises:
        ValueError: not one of `DATE_FORMS`, or no day of the calendar; the message is a sentence about `field`.
    """
    match = _DATE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"`{field}` is {_shown(text)}; give it as {DATE_FORMS}.")
    year, month, day = match.groups()
    try:
        first = date(int(year), int(month or "1"), int(day or "1"))
    except ValueError as error:
        raise ValueError(f"`{field}` is {_shown(text)}, which is no date of the calendar.") from error
    if day is not None:
        return Period(first, first, "day")
    if month is not None:
        return Period(first, first.replace(day=calendar.monthrange(first.year, first.month)[1]), "month")
    return Period(first, first.replace(month=12, day=31), "year")


def parse_span(text: str, *, field: str = "since") -> Span:
    """What a text covers on the record clock, in UTC: a whole year, month or day, or one microsecond.

    Raises:
        ValueError: not one of `INSTANT_FORMS`, or not in the calendar; the message is a sentence about `field`.
    """
    stripped = text.strip()
    if _DATE.fullmatch(stripped):
        period = parse_period(stripped, field=field)
        if period.last == date.max:
            raise ValueError(f"`{field}` is {_shown(text)}, which is too late.")
        return Span(_midnight(period.first), _midnight(period.last + timedelta(days=1)))
    match = _INSTANT.fullmatch(stripped)
    if match is None:
        raise ValueError(f"`{field}` is {_shown(text)}; give it as {INSTANT_FORMS}.")
    day, clock, fraction, zone = match.groups()
    # what is finer than a microsecond is below the resolution of the record clock
    written = f"{day}T{clock}{(fraction or '')[:7]}{zone.upper()}"
    try:
        instant = datetime.fromisoformat(written).astimezone(UTC)
        return Span(instant, instant + timedelta(microseconds=1))
    except (ValueError, OverflowError) as error:
        raise ValueError(f"`{field}` is {_shown(text)}, which is no instant of the calendar.") from error


def parse_as_of(text: str, *, field: str = "as_of") -> datetime:
    """The instant, in UTC, before which a row must have been recorded to be believed then.

    A year, month or day means its end; an RFC 3339 instant means itself, exclusively: the exact time of a
    correction gives what was believed just before it. RFC 3339 needs a zone. Raises as `parse_span`.
    """
    span = parse_span(text, field=field)
    return span.end if _DATE.fullmatch(text.strip()) else span.start


def show_date(day: date, precision: Precision) -> str:
    """A date no more precisely than it is known."""
    return day.isoformat()[: {"year": 4, "month": 7, "day": 10}[precision]]


def show_range(
    valid_from: date | None, from_precision: StartPrecision, valid_to: date | None, to_precision: EndPrecision
) -> str:
    """When something was true: "2015-12-11 to open", "2019 to unknown end", "2023-11-17", "date unknown"."""
    start = None if valid_from is None or from_precision == "unknown" else show_date(valid_from, from_precision)
    end = None if valid_to is None or to_precision in ("unknown", "open") else show_date(valid_to, to_precision)
    if end is None and to_precision == "open":
        end = "open"
    if start is None and end is None:
        return "date unknown"
    return start if start is not None and start == end else f"{start or 'unknown start'} to {end or 'unknown end'}"


def show_instant(instant: datetime) -> str:
    """An instant of the record clock, exactly, in UTC: can be given back as `as_of` or `since`."""
    return instant.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…")
