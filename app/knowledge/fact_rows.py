"""A row of facts as it comes in: one JSON object a line, a line of CSV, a body of the API, a model's extraction.

Decides what a row may say. Each bad row is reported with its line and why; the rows around it are not its business.
Dates keep their precision, and a date that isn't given is unknown: that is not an open one. Pure but for `read_rows`.
"""

import csv
import io
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Literal, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from app.knowledge.decode import decode, unreadable
from app.knowledge.moments import EndPrecision, StartPrecision, parse_period
from app.text import clean

MAX_ALIASES = 20
"""Aliases of one name in one row."""

MAX_LINE_BYTES = 1024 * 1024
"""A longer line of JSON is no row."""

ALIAS_SEPARATOR = "|"
"""Between the aliases of a CSV cell."""

OPEN = "open"
"""What `to` says where something is still true."""

_SHOWN_ERRORS = 3


class FactFileError(ValueError):
    """A file is no file of facts at all: its name, its header or its bytes. The message is a sentence."""


def _tidy(value: object) -> object:
    """Numbers as their digits, text on one line and without NUL; blank text is no text."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        return value
    return " ".join(clean(value).split()) or None


def words(text: str) -> str:
    """A predicate or a type as it is stored: lower case, underscores are spaces."""
    return " ".join(clean(text).replace("_", " ").lower().split())


def _words(value: object) -> object:
    return words(value) or None if isinstance(value, str) else value


def _aliases(value: object) -> object:
    if value is None or (isinstance(value, str) and not value.strip()):
        return ()
    if isinstance(value, list | tuple):
        given = [_tidy(one) for one in cast("list[object]", value)]
        return tuple(one for one in given if one is not None)
    return value


def _blank_confidence(value: object) -> object:
    return 1.0 if value is None or value == "" else value


Text300 = Annotated[str, StringConstraints(min_length=1, max_length=300)]
Words100 = Annotated[str, StringConstraints(min_length=1, max_length=100)]
Name = Annotated[Text300, BeforeValidator(_tidy)]
OptionalName = Annotated[Text300 | None, BeforeValidator(_tidy)]
Words = Annotated[Words100, BeforeValidator(_words)]
OptionalWords = Annotated[Words100 | None, BeforeValidator(_words)]
Aliases = Annotated[tuple[Text300, ...], Field(max_length=MAX_ALIASES), BeforeValidator(_aliases)]
Value = Annotated[Annotated[str, StringConstraints(max_length=1_000)] | None, BeforeValidator(_tidy)]
Day = Annotated[Annotated[str, StringConstraints(max_length=60)] | None, BeforeValidator(_tidy)]
Place = Annotated[Annotated[str, StringConstraints(max_length=512)] | None, BeforeValidator(_tidy)]
Quote = Annotated[Annotated[str, StringConstraints(max_length=2_000)] | None, BeforeValidator(_tidy)]
Share = Annotated[float, Field(ge=0, le=1), BeforeValidator(_blank_confidence)]


class FactRow(BaseModel):
    """A fact: subject, predicate, and an object (another entity) or a value, with when it was true and who says so.

    `from` and `to` are YYYY, YYYY-MM or YYYY-MM-DD; `to` may be "open"; left out means unknown. `evidence` is the
    name of a document of the base or the id of a passage, `quote` the sentence there that says it. `status`
    rejected records that the base does not believe the fact.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    subject: Name
    subject_type: OptionalWords = None
    subject_disambiguator: OptionalName = None
    subject_aliases: Aliases = ()
    predicate: Words
    object_: OptionalName = Field(default=None, alias="object")
    object_type: OptionalWords = None
    object_disambiguator: OptionalName = None
    object_aliases: Aliases = ()
    value: Value = None
    valid_from: Day = Field(default=None, alias="from")
    valid_to: Day = Field(default=None, alias="to")
    confidence: Share = 1.0
    evidence: Place = None
    quote: Quote = None
    status: Literal["asserted", "rejected"] = "asserted"

    @model_validator(mode="after")
    def _makes_sense(self) -> "FactRow":
        if (self.object_ is None) == (self.value is None):
            raise ValueError("give either `object`, another entity, or `value`, not both and not neither")
        if self.object_ is None and (self.object_type or self.object_disambiguator or self.object_aliases):
            raise ValueError("`object_type`, `object_disambiguator` and `object_aliases` need an `object`")
        (first, _), (last, _) = self.start, self.end
        if first is not None and last is not None and first > last:
            raise ValueError(f"`from` {self.valid_from} is after `to` {self.valid_to}")
        return self

    @property
    def start(self) -> tuple[date | None, StartPrecision]:
        """The first day on which it may have begun, and how precisely that is known."""
        if self.valid_from is None:
            return None, "unknown"
        period = parse_period(self.valid_from, field="from")
        return period.first, period.precision

    @property
    def end(self) -> tuple[date | None, EndPrecision]:
        """The last day on which it may have been true, and how precisely that is known."""
        if self.valid_to is None:
            return None, "unknown"
        if self.valid_to.lower() == OPEN:
            return None, "open"
        period = parse_period(self.valid_to, field="to")
        return period.last, period.precision

    def as_json(self) -> dict[str, object]:
        """The row as a JSON object that gives this row again: what a proposal stores."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)


@dataclass(frozen=True, slots=True)
class ReadRow:
    """A row of a file, by the line on which it ends, from 1; `row` is the fact, or a sentence on why there is none."""

    line: int
    row: FactRow | str


COLUMNS = frozenset(field.alias or name for name, field in FactRow.model_fields.items())
"""What a CSV header may name."""


def parse_row(value: dict[str, object] | bytes) -> FactRow | str:
    """The row of a JSON object, parsed or not; a sentence where it is none."""
    try:
        if isinstance(value, bytes):
            return FactRow.model_validate_json(value)
        return FactRow.model_validate(value)
    except ValidationError as error:
        return _sentence(error)


def read_rows(path: Path) -> Generator[ReadRow]:
    """The rows of a .jsonl or .csv file, as they are read. Blank lines are nothing. Blocking.

    Raises:
        FactFileError: another kind of file, or a CSV file without a header that names known columns.
        OSError: the file can't be read.
    """
    kind = path.suffix.lower()
    if kind == ".jsonl":
        yield from _json_lines(path)
    elif kind == ".csv":
        yield from _csv_lines(path)
    else:
        raise FactFileError(f"Facts are read from .jsonl and .csv files, and {path.name!r} is neither.")


def count_lines(path: Path) -> int:
    """How many lines a file has, for a bar; at least as many as rows. Blocking."""
    with path.open("rb") as file:
        return sum(piece.count(b"\n") for piece in iter(lambda: file.read(1024 * 1024), b"")) + 1


def _json_lines(path: Path) -> Generator[ReadRow]:
    with path.open("rb") as file:
        number = 0
        while line := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(line) > MAX_LINE_BYTES:
                while line and not line.endswith(b"\n"):
                    line = file.readline(MAX_LINE_BYTES)
                yield ReadRow(number, f"the line is longer than {MAX_LINE_BYTES} bytes")
                continue
            written = line.removeprefix(b"\xef\xbb\xbf").strip()
            if written:
                yield ReadRow(number, parse_row(written))


def _csv_lines(path: Path) -> Generator[ReadRow]:
    written, _ = decode(path.read_bytes())
    if unreadable(written):
        raise FactFileError(f"{path.name!r} is no text.")
    reader = csv.reader(io.StringIO(written, newline=""), strict=True)
    header: list[str] | None = None
    for cells in _records(reader):
        if isinstance(cells, csv.Error):
            yield ReadRow(reader.line_num, f"no line of CSV: {cells}")
        elif not any(cell.strip() for cell in cells):
            continue
        elif header is None:
            header = _header(cells, path)
        elif len(cells) > len(header):
            yield ReadRow(reader.line_num, f"the line has {len(cells)} cells and the header {len(header)}")
        else:
            filled = {name: cell for name, cell in zip(header, cells, strict=False) if cell.strip()}
            yield ReadRow(reader.line_num, parse_row(_split_aliases(filled)))


def _records(reader: Iterator[list[str]]) -> Generator[list[str] | csv.Error]:
    """The reader's records; what is none is given as its error, and the reader goes on behind it."""
    while True:
        try:
            yield next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield error


def _header(cells: list[str], path: Path) -> list[str]:
    names = [cell.strip().lower() for cell in cells]
    unknown = [name for name in names if name not in COLUMNS]
    if unknown or len(set(names)) < len(names):
        said = f"knows no column {unknown[0]!r}" if unknown else "names a column twice"
        raise FactFileError(f"The header of {path.name!r} {said}; columns are {', '.join(sorted(COLUMNS))}.")
    return names


def _split_aliases(cells: dict[str, str]) -> dict[str, object]:
    return {
        name: cell.split(ALIAS_SEPARATOR) if name.endswith("_aliases") else cell.strip() for name, cell in cells.items()
    }


def _sentence(error: ValidationError) -> str:
    told: list[str] = []
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    for fault in faults[:_SHOWN_ERRORS]:
        where = ".".join(str(part) for part in fault["loc"])
        what = fault["msg"].removeprefix("Value error, ")
        told.append(f"{where}: {what}" if where else what)
    if len(faults) > _SHOWN_ERRORS:
        told.append(f"and {len(faults) - _SHOWN_ERRORS} more")
    return "; ".join(told)
