"""Expectations held against turns, one by one. Source: issue 8 items 1 and 7."""

from typing import Any

import pytest

from app.harness.judge import Ids, judge
from app.harness.records import SourceSeen, Unmet
from app.harness.script import Expectation
from tests.harness_runs.made import turn

NO_IDS = Ids(frozenset(), frozenset())
SOURCE = SourceSeen(1, "chunk", "The board", "")


@pytest.mark.parametrize(
    ("expected", "seen", "unmet"),
    [
        ({"must_run": ["search_chunks", "timeline"]}, {}, ("must_run", "timeline", "search_chunks")),
        ({"must_run": "timeline"}, {"tools": ()}, ("must_run", "timeline", "no tool")),
        ({"must_run_one_of": ["timeline", "changes"]}, {}, ("must_run_one_of", "timeline, changes", "search_chunks")),
        (
            {"must_not_run": ["timeline", "changes"]},
            {"failed_calls": ("timeline",)},
            ("must_not_run", "timeline, changes", "timeline"),
        ),
        ({"no_failed_call": True}, {"failed_calls": ("x",)}, ("no_failed_call", "no call ends in error", "x")),
        ({"evidence": ["cited", "none"]}, {"evidence": "skipped"}, ("evidence", "cited or none", "skipped")),
        ({"evidence": "cited"}, {"evidence": None}, ("evidence", "cited", "none was judged")),
        ({"sources_at_least": 2}, {"sources": (SOURCE,)}, ("sources_at_least", "2", "1")),
        ({"facts": [["Helen Toner"], ["Ilya"]]}, {}, ("facts", "Helen Toner; Ilya", "without Ilya")),
        ({"language": "zh"}, {}, ("language", "zh", "en")),
        (
            {},
            {"terminal": "error", "error_code": "answer_empty"},
            ("terminal", "done", "error answer_empty"),
        ),
        ({"terminal": "error"}, {}, ("terminal", "error", "done")),
        ({}, {"stored": False}, ("stored", "the saved answer is the streamed one", "it isn't, or none was saved")),
    ],
)
def test_what_a_turn_misses_is_named(expected: dict[str, Any], seen: dict[str, Any], unmet: tuple[str, ...]) -> None:
    """The expectation, what was expected, what was seen."""
    assert judge(Expectation.model_validate(expected), turn(**seen), [NO_IDS]) == (Unmet(*unmet),)


def test_a_turn_that_meets_all_misses_nothing() -> None:
    """Every kind of expectation at once."""
    expected = {
        "must_run": "search_chunks",
        "must_run_one_of": ["timeline", "search_chunks"],
        "must_not_run": "timeline",
        "evidence": "cited",
        "sources_at_least": 1,
        "facts": [["Toner", "托纳"]],
        "language": "en",
        "no_failed_call": True,
        "reuses_ids_of": 1,
    }
    ids = [Ids(frozenset({"e1"}), frozenset()), Ids(frozenset(), frozenset({"e1"}))]
    assert judge(Expectation.model_validate(expected), turn(sources=(SOURCE,)), ids) == ()


@pytest.mark.parametrize(
    ("found", "named", "tools", "seen"),
    [
        ((), ("e1",), ("neighbors",), "turn 1 found no entity"),
        (("e1",), (), ("neighbors",), "no call named an id"),
        (("e1",), ("e1", "e2"), ("neighbors",), "1 of 2 ids named are others"),
        (("e1",), ("e1",), ("find_entities", "neighbors"), "find_entities was called again"),
    ],
)
def test_recall_means_the_same_ids_and_no_second_look_up(
    found: tuple[str, ...], named: tuple[str, ...], tools: tuple[str, ...], seen: str
) -> None:
    """Issue 8 item 7."""
    ids = [Ids(frozenset(found), frozenset()), Ids(frozenset(), frozenset(named))]
    expected = Expectation.model_validate({"reuses_ids_of": 1})
    (unmet,) = judge(expected, turn(tools=tools), ids)
    assert (unmet.expectation, unmet.seen) == ("reuses_ids_of", seen)
