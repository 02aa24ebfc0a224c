"""The one filter of answer text. Cases P09 and D01."""

import re
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.llm.visible import Joined, VisibleText
from app.text import clean


def filtered(pieces: list[str]) -> tuple[str, str]:
    """The visible text and the thought of content that arrives in these pieces."""
    visible = VisibleText()
    text, thought = "", ""
    for piece in pieces:
        text += visible.feed(piece)
        thought += visible.take_thought()
    text += visible.flush()
    return text, thought + visible.take_thought()


def cut(content: str, places: list[int]) -> list[str]:
    edges = [0, *sorted(place for place in places if place <= len(content)), len(content)]
    return [content[start:end] for start, end in pairwise(edges)]


TABLE = [
    ("<think>private</think>Total: 3 < 5", "Total: 3 < 5", "private"),
    ("<thinking>private</thinking>\n\nTotal", "Total", "private"),
    ("<think>a</thinking>b", "b", "a"),
    ("  <think>a</think>  b", "b", "a"),
    ("<think>a</think><think>b</think>c", "c", "ab"),
    ("<think></think>", "", ""),
    ("<think>a < b </thin", "", "a < b </thin"),
    ("</think>Hi", "Hi", ""),
    ("</thinking> Hi", "Hi", ""),
    ("x <thi", "x <thi", ""),
    ("<thi", "<thi", ""),
    ("\n\n<thinker>", "\n\n<thinker>", ""),
    ("  Hi", "  Hi", ""),
    ("  ", "  ", ""),
    ("a</think>b", "a</think>b", ""),
    ("", "", ""),
]


@pytest.mark.parametrize(("content", "text", "thought"), TABLE)
def test_think_tags_at_the_start_are_not_answer_text(content: str, text: str, thought: str) -> None:
    """Whole, and one character at a time (P09)."""
    assert filtered([content]) == (text, thought)
    assert filtered(list(content)) == (text, thought)


PIECES = st.sampled_from(
    [
        "<think>",
        "<thinking>",
        "</think>",
        "</thinking>",
        "<",
        "</",
        "think",
        "ing",
        ">",
        " ",
        "a",
        "\n",
        "\x00",
        "🙂",
        "�",
        "�",
    ]
)


@given(pieces=st.lists(PIECES, max_size=16), places=st.lists(st.integers(0, 60), max_size=8))
@example(pieces=["\ud83d", "\ude42"], places=[1])
def test_every_way_of_cutting_gives_the_same_text(pieces: list[str], places: list[int]) -> None:
    """Joined output does not depend on how deltas were cut (P09, D01)."""
    content = "".join(pieces)
    whole = filtered([content])
    assert filtered(cut(content, places)) == whole
    text, thought = whole
    assert clean(text) == text
    assert clean(thought) == thought


@given(text=st.text(alphabet=st.characters(codec=None), max_size=40), places=st.lists(st.integers(0, 40), max_size=6))
def test_text_without_a_tag_loses_only_what_no_text_may_hold(text: str, places: list[int]) -> None:
    """NUL goes, pairs are joined, halves are replaced, everything else stays (D01)."""
    if re.match(r"\s*<", clean(text)):
        text = "a" + text
    assert filtered(cut(text, places)) == (clean(text), "")


def test_text_goes_out_at_once_where_it_can_be_no_tag() -> None:
    """Only a beginning that can still become a tag waits (P09)."""
    visible = VisibleText()
    assert [visible.feed(piece) for piece in ("x", " <thi", "nk>", " ")] == ["x", " <thi", "nk>", " "]
    other = VisibleText()
    assert [other.feed(piece) for piece in (" ", "<", "b>", "!")] == ["", "", " <b>", "!"]


def test_half_a_pair_waits_for_its_other_half_only() -> None:
    """One code unit is held back, never more (D01)."""
    joined = Joined()
    assert [joined.feed("a\ud83d"), joined.feed("\ude42b\ud83d"), joined.feed("c"), joined.flush()] == [
        "a",
        "🙂b",
        "\ufffdc",
        "",
    ]
