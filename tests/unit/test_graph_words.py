"""Stored text can't pass for a line, a field or a citation of ours, and dates are said as they are known."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.knowledge.graph import called, entity_line, inline, mention, qualified, sentence, view_of
from app.store.entities import EntityRecord
from app.store.graph import GraphFact

ADA = EntityRecord("e1", "Ada", (), "person", "")
KIM = EntityRecord("e2", "Kim", (), "", "the pilot")


def fact(**changed: object) -> GraphFact:
    values: dict[str, object] = {
        "id": "f1", "subject": ADA, "predicate": "knows", "object": KIM, "value": None, "valid_from": date(2019, 1, 1),
        "valid_from_precision": "year", "valid_to": None, "valid_to_precision": "unknown", "confidence": 1.0,
        "status": "asserted", "evidence": None, "holds": True,
    }  # fmt: skip
    return GraphFact(**(values | changed))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        ("two\nlines\r\n\t of  it", "two lines of it"),
        ("see [3] and [1, 2]", "see (3) and (1, 2)"),
        ("全角【4】和［５］", "全角(4)和［５］"),
        ("a [note] stays", "a [note] stays"),
        ("nul\x00 and \ud800", "nul and \ufffd"),
        ("x" * 400, "x" * 299 + "…"),
    ],
)
def test_stored_text_stands_on_one_line_without_citations(stored: str, shown: str) -> None:
    """Case K11 for the graph: numbers are ours alone."""
    assert inline(stored) == shown


@given(st.text())
def test_no_stored_text_makes_a_line_a_field_or_a_number(stored: str) -> None:
    """Whatever a name holds."""
    line = entity_line(EntityRecord("e1", stored, (), stored, stored), 2)
    assert len(line.splitlines()) == 1
    assert line.count(" | ") == 3
    assert "[1]" not in line


def test_an_entity_is_told_from_its_namesakes_and_with_its_id_where_it_is_new() -> None:
    """The id is what a further call takes."""
    assert (called(KIM), mention(KIM), mention(ADA)) == ("Kim (the pilot)", "Kim (the pilot, id e2)", "Ada (id e1)")
    assert sentence(fact()) == "Ada (id e1) knows Kim (the pilot, id e2)"
    assert sentence(fact(), "e1", "e2") == "Ada knows Kim (the pilot)"
    assert sentence(fact(object=None, value="chess"), "e1") == "Ada knows chess"


@pytest.mark.parametrize(
    ("changed", "shown"),
    [
        ({}, "2019 to unknown end"),
        ({"valid_to_precision": "open"}, "2019 to open"),
        ({"confidence": 0.8}, "2019 to unknown end; confidence 0.8"),
        ({"confidence": 0.9999}, "2019 to unknown end; confidence below 1"),
        ({"confidence": 0.0}, "2019 to unknown end; confidence 0"),
    ],
)
def test_a_fact_is_qualified_by_its_range_and_its_confidence(changed: dict[str, object], shown: str) -> None:
    """Certainty isn't said, doubt is, also a small one."""
    assert qualified(fact(**changed)) == shown


def test_a_record_time_that_is_none_is_refused() -> None:
    """Never taken for now."""
    with pytest.raises(ValueError, match="`as_of`"):
        view_of("base", "yesterday")
