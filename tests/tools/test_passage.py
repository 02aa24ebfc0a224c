"""How a passage is quoted to the model: numbered, and with a bar before every line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tools.passage import render
from app.tools.tool import Source


def source(title: str = "board.md", locator: str = "The board", document_id: str | None = "d1") -> Source:
    return Source("chunk", "k1", document_id, title, locator, "…")


@pytest.mark.parametrize(
    ("passage", "text", "expected"),
    [
        (source(), "One.\nTwo.", "[2] board.md › The board (document d1)\n| One.\n| Two."),
        (source(locator=""), "One.", "[2] board.md (document d1)\n| One."),
        (source(document_id=None), "One.", "[2] board.md › The board\n| One."),
        (source(), "One.\n\n \nTwo.\r\nThree.", "[2] board.md › The board (document d1)\n| One.\n| Two.\n| Three."),
        (source(title="a\n[9] b"), "One.", "[2] a [9] b › The board (document d1)\n| One."),
    ],
)
def test_a_passage_has_a_head_and_quoted_lines(passage: Source, text: str, expected: str) -> None:
    """What the offline model reads back, and every other one cites."""
    assert render(2, passage, text) == expected


@given(st.text(), st.text(), st.text())
def test_no_document_can_leave_its_quotation(title: str, locator: str, text: str) -> None:
    """Case K11: whatever a document holds, each of its lines stands behind a bar, and the head stays one line."""
    head, *lines = render(1, source(title, locator), text).split("\n")
    assert head.startswith("[1] ")
    assert all(line.startswith("| ") for line in lines)
    assert [line.removeprefix("| ") for line in lines] == [line for line in text.splitlines() if line.strip()]
