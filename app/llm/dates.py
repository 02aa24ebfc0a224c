"""Dates in a sentence, as far as the offline model needs them: to sort a timeline, to see that one is there."""

import re
from dataclasses import dataclass

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH_NUMBER = {name: i for i, name in enumerate(_MONTHS, 1)}
_MONTH = (
    r"(?P<{0}>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:t(?:ember)?)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_YEAR = r"(?P<{0}>(?:19|20)\d\d)"

_PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE | re.ASCII)
    for pattern in (
        rf"(?<!\d){_YEAR.format('y')}-(?P<m>\d{{1,2}})-(?P<d>\d{{1,2}})(?!\d)",
        rf"(?<!\d){_YEAR.format('y')} ?年 ?(?P<m>\d{{1,2}}) ?月 ?(?P<d>\d{{1,2}}) ?日",
        rf"\b(?P<d>\d{{1,2}}) {_MONTH.format('mon')},? {_YEAR.format('y')}\b",
        rf"\b{_MONTH.format('mon')} (?P<d>\d{{1,2}}),? {_YEAR.format('y')}\b",
        rf"(?<!\d){_YEAR.format('y')} ?年 ?(?P<m>\d{{1,2}}) ?月",
        rf"(?<!\d){_YEAR.format('y')}-(?P<m>\d{{1,2}})(?![\d-])",
        rf"\b{_MONTH.format('mon')},? {_YEAR.format('y')}\b",
        rf"(?<!\d){_YEAR.format('y')}(?!\d)",
    )
)


@dataclass(frozen=True, slots=True, order=True)
class FoundDate:
    """A date as far as it is stated: month and day are 0 where they aren't, and sort first in their year."""

    year: int
    month: int
    day: int

    @property
    def precision(self) -> int:
        """1 for a year, 2 for a month, 3 for a day."""
        return 1 + bool(self.month) + bool(self.day)


def first_date(text: str) -> tuple[FoundDate, int] | None:
    """The first date of a text and where it begins, read as precisely as it is written; None without one.

    Impossible months and days (2023-13-45) are no date; the year they stand behind still is.
    """
    best: tuple[int, int, FoundDate] | None = None
    for rank, pattern in enumerate(_PATTERNS):
        for match in pattern.finditer(text):
            date = _read(match)
            if date is None:
                continue
            if best is None or (match.start(), rank) < best[:2]:
                best = (match.start(), rank, date)
            break
    return (best[2], best[0]) if best else None


def _read(match: re.Match[str]) -> FoundDate | None:
    parts = match.groupdict()
    name = parts.get("mon")
    month = _MONTH_NUMBER[name[:3].lower()] if name else int(parts.get("m") or 0)
    day = int(parts.get("d") or 0)
    if month > 12 or day > 31 or (month == 0 and "m" in parts) or (day == 0 and "d" in parts):
        return None
    return FoundDate(int(parts["y"]), month, day)
