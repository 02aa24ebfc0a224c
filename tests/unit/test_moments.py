"""Texts of `at` and `as_of` are read exactly or refused, and ranges are shown as precisely as they are known."""

from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.knowledge.moments import (
    Period,
    parse_as_of,
    parse_period,
    parse_span,
    show_date,
    show_instant,
    show_range,
)


@pytest.mark.parametrize(
    ("text", "period"),
    [
        ("2015", Period(date(2015, 1, 1), date(2015, 12, 31), "year")),
        (" 2015-12 ", Period(date(2015, 12, 1), date(2015, 12, 31), "month")),
        ("2024-02", Period(date(2024, 2, 1), date(2024, 2, 29), "month")),
        ("2023-11-17", Period(date(2023, 11, 17), date(2023, 11, 17), "day")),
    ],
)
def test_a_date_keeps_its_precision(text: str, period: Period) -> None:
    """Its first and last day, and the same text again."""
    assert parse_period(text) == period
    assert str(period) == text.strip()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "15",
        "2015-1",
        "2015-12-1",
        "2015/12/11",
        "11-12-2015",
        "2015-12-11T00:00:00Z",
        "２０１５",
        "2015年",
        "-2015",
    ],
)
def test_another_form_of_a_date_is_refused_with_the_forms(text: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(ValueError, match=r"^`since` is .*; give it as YYYY, YYYY-MM or YYYY-MM-DD\.$"):
        parse_period(text, field="since")


@pytest.mark.parametrize("text", ["0000", "2015-13", "2015-00", "2023-02-29", "2015-12-32"])
def test_a_day_that_does_not_exist_is_refused(text: str) -> None:
    """The form fits, the calendar doesn't."""
    with pytest.raises(ValueError, match=r"^`at` is .*, which is no date of the calendar\.$"):
        parse_period(text)


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2025", datetime(2026, 1, 1, tzinfo=UTC)),
        ("2025-03", datetime(2025, 4, 1, tzinfo=UTC)),
        ("2025-03-05", datetime(2025, 3, 6, tzinfo=UTC)),
        ("2025-03-05T12:00:00Z", datetime(2025, 3, 5, 12, tzinfo=UTC)),
        ("2025-03-05t12:00:00.25+02:00", datetime(2025, 3, 5, 10, 0, 0, 250_000, tzinfo=UTC)),
        ("2025-03-05T12:00:00.123456789z", datetime(2025, 3, 5, 12, 0, 0, 123_456, tzinfo=UTC)),
    ],
)
def test_as_of_is_the_end_of_a_date_and_an_exact_instant(text: str, instant: datetime) -> None:
    """What was recorded on the named day was believed at its end."""
    assert parse_as_of(text) == instant


@pytest.mark.parametrize(
    "text",
    ["yesterday", "2025-03-05T12:00:00", "2025-03-05 12:00:00Z", "2025-03-05T12:00Z", "2025-03-05T25:00:00Z",
     "2025-02-30T00:00:00Z", "2025-03-05T12:00:00+99:00", "9999", "0001-01-01T00:00:00+23:00", "x" * 500],
)  # fmt: skip
def test_as_of_without_a_zone_or_outside_the_calendar_is_refused(text: str) -> None:
    """A sentence that names the field and shows at most a piece of what was given."""
    with pytest.raises(ValueError, match=r"^`as_of` is ") as refused:
        parse_as_of(text)
    assert len(str(refused.value)) < 220


def test_a_span_covers_what_its_text_names() -> None:
    """A day is a day; an instant is one microsecond."""
    day = parse_span("2025-03-05")
    assert (day.start, day.end) == (datetime(2025, 3, 5, tzinfo=UTC), datetime(2025, 3, 6, tzinfo=UTC))
    instant = parse_span("2025-03-05T12:00:00Z")
    assert (instant.end - instant.start).microseconds == 1


@pytest.mark.parametrize(
    ("given_range", "shown"),
    [
        ((date(2015, 12, 11), "day", None, "open"), "2015-12-11 to open"),
        ((date(2019, 1, 1), "year", None, "unknown"), "2019 to unknown end"),
        ((None, "unknown", date(2020, 6, 30), "month"), "unknown start to 2020-06"),
        ((None, "unknown", None, "open"), "unknown start to open"),
        ((None, "unknown", None, "unknown"), "date unknown"),
        ((date(2023, 11, 17), "day", date(2023, 11, 17), "day"), "2023-11-17"),
        ((date(2023, 1, 1), "year", date(2023, 12, 31), "year"), "2023"),
        ((date(2023, 1, 1), "day", date(2023, 12, 31), "year"), "2023-01-01 to 2023"),
    ],
)
def test_a_range_is_shown_as_precisely_as_it_is_known(given_range: tuple[Any, ...], shown: str) -> None:
    """An unknown end is never shown as an open one."""
    assert show_range(*given_range) == shown


@given(st.dates(), st.sampled_from(["year", "month", "day"]))
def test_what_is_shown_of_a_date_is_read_back_around_it(day: date, precision: Any) -> None:
    """The period that a shown date names holds the date."""
    period = parse_period(show_date(day, precision))
    assert period.precision == precision
    assert period.first <= day <= period.last


@given(st.datetimes(min_value=datetime(1000, 1, 1), max_value=datetime(9998, 1, 1)))  # noqa: DTZ001
def test_an_instant_survives_being_shown(instant: datetime) -> None:
    """`changes` prints what `as_of` takes, to the microsecond."""
    utc = instant.replace(tzinfo=UTC)
    assert parse_as_of(show_instant(utc)) == utc


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    """Only ValueError comes out."""
    for parse in (parse_period, parse_as_of):
        try:
            parse(text)
        except ValueError as error:
            assert str(error).startswith("`")  # noqa: PT017
