"""Offsets count what JavaScript counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.turn.utf16 import units


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("ascii", 5),
        ("é", 1),
        ("e\u0301", 2),
        ("中文", 2),
        ("\uffff", 1),
        ("\U00010000", 2),
        ("A\U0001f980\U0001f9ed 中e\u0301", 9),
        ("\U0001f468\u200d\U0001f469\u200d\U0001f467", 8),
    ],
)
def test_a_character_beyond_the_bmp_counts_as_two(text: str, expected: int) -> None:
    """Case T01: the examples of the report, and the edges of the planes."""
    assert units(text) == expected


@given(st.text())
def test_units_are_half_the_length_in_utf_16(text: str) -> None:
    """Case T01: for any text."""
    assert units(text) == len(text.encode("utf-16-le")) // 2


@given(st.lists(st.text()))
def test_counting_piece_by_piece_gives_the_count_of_the_whole(pieces: list[str]) -> None:
    """Case T01: offsets may be counted incrementally, for no piece ends inside a character."""
    assert sum(units(piece) for piece in pieces) == units("".join(pieces))
