"""Which numbers an answer cites, and on what it rests."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tools.tool import NumberedSource
from app.turn.answer import Verdict, carried, cited_numbers, valid_citations, verdict


def sources(count: int) -> tuple[NumberedSource, ...]:
    return tuple(NumberedSource(n, "chunk", f"k{n}", "d", "t", "", "") for n in range(1, count + 1))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("no number", ()),
        ("[1]", (1,)),
        ("[1][2]", (1, 2)),
        ("[1, 2]", (1, 2)),
        ("[2,1,2]", (1, 2)),
        ("[ 3 ]", (3,)),
        ("［1］和【2】", (1, 2)),
        ("【1，2、3】", (1, 2, 3)),
        ("[[7]]", (7,)),
        ("[10] [9]", (9, 10)),
        ("[0]", (0,)),
        ("[note] [1a] [a1] [] [,] [1,] [-1] [1-3] 1]", ()),
        ("[1234567]", ()),
        ("[١]", ()),
        ("[1\n2]", ()),
    ],
)
def test_citations_are_numbers_in_brackets_of_either_width(text: str, expected: tuple[int, ...]) -> None:
    """DESIGN 5 and case T03: `[1]`, `[1][2]`, `[1, 2]` and full-width brackets count."""
    assert cited_numbers(text) == expected


@pytest.mark.parametrize(
    ("text", "count", "expected"),
    [("[1] [2] [3]", 2, (1, 2)), ("[0]", 2, ()), ("[1]", 0, ()), ("[3, 1]", 3, (1, 3))],
)
def test_a_number_beyond_the_list_does_not_count(text: str, count: int, expected: tuple[int, ...]) -> None:
    """DESIGN 5: numbers beyond the list don't make an answer cited."""
    assert valid_citations(text, sources(count)) == expected


@pytest.mark.parametrize(
    ("cited", "count", "skipped", "expected"),
    [
        ((1,), 1, False, "cited"),
        ((1,), 1, True, "cited"),
        ((), 1, False, "uncited"),
        ((), 1, True, "uncited"),
        ((), 0, True, "skipped"),
        ((), 0, False, "none"),
    ],
)
def test_the_verdict_names_the_best_evidence_there_is(
    cited: tuple[int, ...], count: int, skipped: bool, expected: Verdict
) -> None:
    """DESIGN 5: cited, uncited, skipped (only when nothing was found), none."""
    assert verdict(cited, sources(count), skipped=skipped) == expected


@pytest.mark.parametrize(
    ("text", "previous", "expected"),
    [
        ("Shorter [2].", 3, 2),
        ("Shorter [1] [3].", 3, 3),
        ("Shorter [4].", 3, 0),
        ("Shorter [1] [4].", 3, 0),
        ("No number.", 3, 0),
        ("[1]", 0, 0),
        ("[0]", 3, 0),
    ],
)
def test_a_reworded_answer_keeps_the_sources_up_to_the_highest_it_repeats(
    text: str, previous: int, expected: int
) -> None:
    """DESIGN 6: previous sources are carried only when every number is one of theirs, and without a gap."""
    assert carried(text, sources(previous)) == sources(expected)


@given(st.text(alphabet="[]［］【】0123,， x") | st.text())
def test_cited_numbers_are_sorted_and_each_once(text: str) -> None:
    """For any text."""
    numbers = cited_numbers(text)
    assert list(numbers) == sorted(set(numbers))
    assert set(carried(text, sources(3))) <= set(sources(3))
