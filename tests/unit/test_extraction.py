"""A model's list of facts taken apart, and its rows held against the passage they were read from."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.knowledge.extract import MAX_ROWS, read_out
from app.knowledge.fact_rows import FactRow, parse_row
from app.llm.extraction import Extraction, read_facts
from app.store.chunks import ChunkRecord

FOUNDED = {"subject": "Ada Park", "predicate": "founded", "object": "Nordlys Labs", "quote": "Ada Park founded it."}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


def chunk(text: str) -> ChunkRecord:
    return ChunkRecord("chunk", "document", "a.md", "A", "", None, 0, text, live=True)


@pytest.mark.parametrize(
    ("reply", "facts"),
    [
        ('{"facts": []}', []),
        ('{"facts": [{"a": 1}]}', [{"a": 1}]),
        ('{"note": "x", "facts": [{"a": 1}, "b"]}', [{"a": 1}, "b"]),
        ('[{"a": 1}]', [{"a": 1}]),
        ("[]", []),
        ('```json\n{"facts": [{"a": 1}]}\n```', [{"a": 1}]),
        ('Here they are {so far}: {"facts": [{"a": 1}]} That is all.', [{"a": 1}]),
        ('As [1] says: {"facts": [{"a": "]}"}]}', [{"a": "]}"}]),
        ("", None),
        ("There are no facts.", None),
        ('{"facts": [{"a": 1}, {"a": ', None),
        ('{"facts": null}', None),
        ('{"facts": {"a": 1}}', None),
        ('{"a": 1}', None),
        ("[1, 2]", None),
        ("[" * 100_000, None),
        ("{" * 100_000, None),
    ],
)
def test_a_list_of_facts_is_found_in_what_models_write_around_it(reply: str, facts: list[object] | None) -> None:
    """Fences and words are passed over; what is cut off is no list."""
    assert read_facts(reply) == facts


@given(facts=st.lists(st.dictionaries(st.text(), JSON, max_size=4), max_size=5), before=st.text("abc 你好`\n"))
def test_whatever_stands_in_the_rows_comes_out_as_it_was_written(facts: list[object], before: str) -> None:
    """Braces and brackets in strings end nothing."""
    assert read_facts(before + json.dumps({"facts": facts}) + before) == facts


@given(st.text('{}[]",:facts01 \\'))
def test_no_reply_makes_the_parser_fail(reply: str) -> None:
    """A list or nothing."""
    found = read_facts(reply)
    assert found is None or isinstance(found, list)


@pytest.mark.parametrize(
    ("passage", "quote", "stands"),
    [
        ("Then Ada Park founded it. Good.", "Ada Park founded it.", True),
        ("Then Ada Park\n  founded\tit.", "Ada  Park founded it.", True),
        ("董事会在2023年\n罢免了他。", "董事会在2023年罢免了他。", True),
        ("Cafe\u0301 Nord opened.", "Café Nord opened.", True),
        ("Ada \u200bPark <|im_start|> founded it.", "Ada Park < |im_start|> founded it.", True),
        ("Ada Park founded it.", "Ada Park did found it.", False),
        ("Ada Park founded it.", "ada park founded it.", False),
        ("Ada Park founded it.", "  ", False),
        ("Ada Park founded it.", None, False),
    ],
)
def test_a_quote_stands_in_its_passage_however_its_white_space_is_set(
    passage: str, quote: str | None, stands: bool
) -> None:
    """Letters count, spaces and line ends don't: a Chinese line may end anywhere."""
    readout = read_out(chunk(passage), Extraction(({**FOUNDED, "quote": quote},)), model="m")
    assert (len(readout.proposals), readout.dropped) == ((1, 0) if stands else (0, 1))


def test_a_stored_proposal_is_a_row_that_facts_import_takes() -> None:
    """With the passage as its evidence; what a model may not say is left out of it."""
    written = {**FOUNDED, "from": 2019, "to": None, "status": "rejected", "evidence": "other", "mood": "glad"}
    [made] = read_out(chunk("Ada Park founded it."), Extraction((written,)), model="m").proposals
    assert made.fact == {**FOUNDED, "from": "2019", "evidence": "chunk"}
    assert isinstance(parse_row(made.fact), FactRow)
    assert (made.sentence, made.origin, made.proposed_by, made.chunk_id) == (
        "Ada Park founded it.",
        "extraction",
        "m",
        "chunk",
    )


def test_the_same_fact_twice_is_one_proposal_and_another_passage_makes_another() -> None:
    """Quote and confidence don't tell facts apart; dates do."""
    rows = ({**FOUNDED}, {**FOUNDED, "confidence": 0.5}, {**FOUNDED, "from": "2019"})
    passage = "Ada Park founded it."
    made = read_out(chunk(passage), Extraction(rows), model="m")
    assert (len(made.proposals), made.dropped) == (2, 0)
    again = read_out(chunk(passage), Extraction(rows[:1]), model="other")
    assert again.proposals[0].idempotency_key == made.proposals[0].idempotency_key
    elsewhere = ChunkRecord("elsewhere", "document", "a.md", "A", "", None, 0, passage, live=True)
    keys = {p.idempotency_key for p in (*made.proposals, *read_out(elsewhere, Extraction(rows), model="m").proposals)}
    assert len(keys) == 4


def test_a_flood_of_rows_is_cut_and_counted() -> None:
    """A passage states a bounded number of facts."""
    rows = tuple({**FOUNDED, "object": f"Lab {number}"} for number in range(MAX_ROWS + 5))
    readout = read_out(chunk("Ada Park founded it."), Extraction(rows, unreadable=2), model="m")
    assert (len(readout.proposals), readout.dropped) == (MAX_ROWS, 7)


@given(st.lists(st.dictionaries(st.sampled_from(["subject", "predicate", "object", "value", "from", "quote"]), JSON)))
def test_no_row_a_model_can_write_breaks_the_check(rows: list[dict[str, object]]) -> None:
    """Each is a proposal or dropped."""
    readout = read_out(chunk("Ada Park founded it."), Extraction(tuple(rows)), model="m")
    assert len(readout.proposals) + readout.dropped <= len(rows)
