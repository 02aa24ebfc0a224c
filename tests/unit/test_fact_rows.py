"""What a row of facts may say, and how files of them are read: issue 4 item 2."""

import csv
import io
import json
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.knowledge.fact_rows import COLUMNS, FactFileError, FactRow, ReadRow, count_lines, parse_row, read_rows

SAMPLE = Path(__file__).resolve().parents[2] / "sample"

ROW: dict[str, object] = {"subject": "OpenAI", "predicate": "founded", "value": "in San Francisco"}


def row(**fields: object) -> FactRow:
    parsed = parse_row({**ROW, **fields})
    assert isinstance(parsed, FactRow), parsed
    return parsed


def refused(**fields: object) -> str:
    parsed = parse_row({name: value for name, value in {**ROW, **fields}.items() if value is not ...})
    assert isinstance(parsed, str), parsed
    return parsed


def test_a_whole_row_is_taken_as_it_is_written() -> None:
    """Every field, with its aliases `from`, `to` and `object`."""
    given: dict[str, object] = {
        "subject": "Sam Altman",
        "subject_type": "person",
        "subject_disambiguator": "of OpenAI",
        "subject_aliases": ["萨姆·奥尔特曼"],
        "predicate": "chief executive of",
        "object": "OpenAI",
        "object_type": "company",
        "object_disambiguator": "the company",
        "object_aliases": ["OpenAI Inc"],
        "from": "2019",
        "to": "open",
        "confidence": 0.9,
        "evidence": "openai.md",
        "quote": "He leads it.",
        "status": "rejected",
    }
    parsed = parse_row(given)
    assert isinstance(parsed, FactRow)
    assert parsed.as_json() == given
    assert set(given) | {"value"} == COLUMNS


@pytest.mark.parametrize(
    ("start", "end", "read"),
    [
        ("2019", "2019", (date(2019, 1, 1), "year", date(2019, 12, 31), "year")),
        ("2024-02", "2024-02", (date(2024, 2, 1), "month", date(2024, 2, 29), "month")),
        ("2023-11-17", "2023-11-17", (date(2023, 11, 17), "day", date(2023, 11, 17), "day")),
        (2015, "Open", (date(2015, 1, 1), "year", None, "open")),
        ("", None, (None, "unknown", None, "unknown")),
    ],
)
def test_dates_keep_their_precision_and_unknown_is_not_open(start: object, end: object, read: object) -> None:
    """A year begins on its first day and ends on its last; what isn't given is unknown."""
    parsed = row(**{"from": start, "to": end})
    assert (*parsed.start, *parsed.end) == read


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"subject": ...}, "subject: Field required"),
        ({"subject": " \u0000 "}, "subject: Input should be a valid string"),
        ({"value": ...}, "give either `object`, another entity, or `value`, not both and not neither"),
        ({"object": "Microsoft"}, "give either `object`, another entity, or `value`, not both and not neither"),
        ({"object_type": "company"}, "`object_type`, `object_disambiguator` and `object_aliases` need an `object`"),
        ({"from": "yesterday"}, "`from` is 'yesterday'; give it as YYYY, YYYY-MM or YYYY-MM-DD."),
        ({"from": "2023-02-30"}, "`from` is '2023-02-30', which is no date of the calendar."),
        ({"from": "open"}, "`from` is 'open'; give it as YYYY, YYYY-MM or YYYY-MM-DD."),
        ({"from": "2024", "to": "2023-12-31"}, "`from` 2024 is after `to` 2023-12-31"),
        ({"confidence": 1.5}, "confidence: Input should be less than or equal to 1"),
        ({"confidence": float("nan")}, "confidence: Input should be less than or equal to 1"),
        ({"when": "2023"}, "when: Extra inputs are not permitted"),
        ({"status": "merged"}, "status: Input should be 'asserted' or 'rejected'"),
        ({"subject": "x" * 301}, "subject: String should have at most 300 characters"),
        ({"subject_aliases": "one"}, "subject_aliases: Input should be a valid tuple"),
    ],
)
def test_a_bad_row_is_refused_with_its_reason(fields: dict[str, object], reason: str) -> None:
    """A sentence for the person who wrote the row."""
    assert refused(**fields) == reason


def test_text_is_put_on_one_line_and_words_are_folded() -> None:
    """NUL is dropped, spaces are single, predicates and types are lower case words."""
    parsed = row(subject=" Open\u0000AI \n Inc ", predicate="Chief_Executive  of", subject_type="AI_Company", value=7)
    assert (parsed.subject, parsed.predicate, parsed.subject_type, parsed.value) == (
        "OpenAI Inc",
        "chief executive of",
        "ai company",
        "7",
    )


@given(st.dictionaries(st.sampled_from(sorted(COLUMNS)), st.text() | st.integers() | st.none() | st.lists(st.text())))
def test_any_object_is_a_row_or_has_a_reason(fields: dict[str, object]) -> None:
    """And a row that is written down again is the same row."""
    parsed = parse_row(fields)
    assert parsed
    if isinstance(parsed, FactRow):
        assert parse_row(parsed.as_json()) == parsed


@given(st.binary(max_size=200))
def test_any_bytes_are_a_row_or_have_a_reason(line: bytes) -> None:
    """A line of JSON is read without ever raising."""
    assert parse_row(line)


def test_lines_of_json_are_counted_and_blank_ones_are_nothing(tmp_path: Path) -> None:
    """A byte order mark, a line that is too long, one that isn't JSON, one that isn't UTF-8, and no last newline."""
    good = json.dumps(ROW).encode()
    long = json.dumps({**ROW, "quote": "x" * 1_100_000}).encode()
    path = tmp_path / "facts.jsonl"
    path.write_bytes(
        b"\n".join([b"\xef\xbb\xbf" + good, b"", long, b"{nonsense", b'{"subject": "\xff"}', b"[1]", good])
    )
    read = list(read_rows(path))
    assert [one.line for one in read] == [1, 3, 4, 5, 6, 7]
    assert [one.row for one in read if isinstance(one.row, FactRow)] == [row(), row()]
    assert read[1].row == "the line is longer than 1048576 bytes"
    assert str(read[2].row).startswith("Invalid JSON: ")
    assert str(read[4].row).startswith("Input should be an object")
    assert count_lines(path) == 7


def test_csv_has_a_header_and_splits_aliases(tmp_path: Path) -> None:
    """Cells may hold newlines; the line told is the one on which the row ends. Empty cells are not given."""
    path = tmp_path / "facts.CSV"
    path.write_text(
        "Subject,predicate,object,value,subject_aliases,from,confidence\n"
        '"Open\nAI",founded,,in San Francisco,OAI | 开放人工智能,2015,\n'
        "\n"
        "OpenAI,founded\n"
        "OpenAI,founded,,x,,,,,\n"
        'OpenAI,"fo"unded,,x\n'
        "OpenAI,founded,,x,,,0.5\n",
        encoding="utf-8-sig",
    )
    read = list(read_rows(path))
    assert read[0] == ReadRow(3, row(subject="Open AI", subject_aliases=["OAI", "开放人工智能"], **{"from": "2015"}))
    assert [one.line for one in read] == [3, 5, 6, 7, 8]
    assert read[1].row == "give either `object`, another entity, or `value`, not both and not neither"
    assert read[2].row == "the line has 9 cells and the header 7"
    assert str(read[3].row).startswith("no line of CSV: ")
    assert read[4].row == row(value="x", confidence=0.5)


def test_csv_from_a_chinese_office_is_read(tmp_path: Path) -> None:
    """GB18030, as its spreadsheets write it."""
    path = tmp_path / "facts.csv"
    path.write_bytes("subject,predicate,value\n深度求索,成立于,杭州\n".encode("gb18030"))
    assert [one.row for one in read_rows(path)] == [row(subject="深度求索", predicate="成立于", value="杭州")]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("facts.txt", b"", "Facts are read from .jsonl and .csv files, and 'facts.txt' is neither."),
        ("facts.csv", b"subject,verb\n", "The header of 'facts.csv' knows no column 'verb'; columns are "),
        ("facts.csv", b"subject,subject\n", "The header of 'facts.csv' names a column twice; columns are "),
        ("facts.csv", bytes(range(1, 32)) * 20, "'facts.csv' is no text."),
    ],
)
def test_what_is_no_file_of_facts_is_refused_whole(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    """Before any row is given."""
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(FactFileError) as refusal:
        list(read_rows(path))
    assert str(refusal.value).startswith(reason)


@given(
    st.lists(
        st.lists(st.text(st.characters(exclude_categories=["C"]) | st.just("\n"), max_size=5), max_size=5), max_size=5
    )
)
def test_any_table_is_read_line_by_line(cells: list[list[str]]) -> None:
    """Nothing in a cell ends the reading, and no row is lost."""
    out = io.StringIO()
    csv.writer(out).writerows([["subject", "predicate", "value"], *cells])
    with TemporaryDirectory() as folder:
        path = Path(folder, "facts.csv")
        path.write_text(out.getvalue(), encoding="utf-8", errors="replace", newline="")
        read = list(read_rows(path))
    assert len(read) == sum(any(cell.strip() for cell in line) for line in cells)


def test_every_quote_of_the_sample_stands_in_its_document() -> None:
    """Verbatim, so that the page can show it there; every fact has one, and there are at least 170."""
    read = list(read_rows(SAMPLE / "facts.jsonl"))
    assert len(read) >= 170
    documents = {path.name: path.read_text(encoding="utf-8") for path in SAMPLE.iterdir()}
    for one in read:
        assert isinstance(one.row, FactRow), one
        assert one.row.quote, one
        assert one.row.quote in documents[str(one.row.evidence)], one
    dated = [one for one in read if isinstance(one.row, FactRow) and (one.row.valid_from or one.row.valid_to)]
    assert len(dated) >= 170
    assert len({one.row.as_json()["subject"] for one in read if isinstance(one.row, FactRow)}) > 100
