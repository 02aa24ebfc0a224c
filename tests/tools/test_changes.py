"""changes: the record axis, newest first, each event at its exact instant."""

from typing import Any

import pytest

from app.tools.changes import TOOL
from app.tools.entity_facts import TOOL as FACTS
from app.tools.tool import Step
from tests.tools.conftest import ROWS, GraphBase


def events(text: str) -> list[str]:
    """The lines of a result that are events, without their instants."""
    return [line.partition(" ")[2] for line in text.split("\n") if line[:1].isdigit() and "T" in line[:12]]


async def test_corrections_rejections_and_merges_are_told_newest_first(corrected: GraphBase) -> None:
    """What replaced the fact stands beside it; its own recording is no second event."""
    result = await corrected.run(TOOL, since="2020", kinds=["corrected", "rejected", "merged"])
    assert events(corrected.named(result.text)) == [
        "merged: Old Name (id <Old Name>) founded 1990; 1990 → now: New Name (id <New Name>) founded 1990; 1990",
        "rejected: Mistaken (id <Mistaken>) colour red; date unknown",
        (
            "corrected: Mistaken (id <Mistaken>) size small; 2001 to 2002 → now: Mistaken (id <Mistaken>) size large; "
            "2001 to 2002"
        ),
    ]
    assert result.step == Step("changes", "2020", "3 events")
    everything = await corrected.run(TOOL, since="2020", limit=100)
    assert len(events(everything.text)) == len(ROWS) + 3
    assert everything.text.split("\n")[-1] == f"{len(ROWS) + 3} events."


async def test_an_instant_that_is_printed_can_be_given_back(corrected: GraphBase) -> None:
    """As `since` and `until` it gives the event, as the request's `as_of` what was believed just before it."""
    result = await corrected.run(TOOL, since="2020", kinds=["corrected"])
    line = next(line for line in result.text.split("\n") if " corrected: " in line)
    instant = line.split(" ")[0]
    again = await corrected.run(TOOL, since=instant, until=instant)
    assert events(again.text) == events(result.text)
    before = await corrected.run(FACTS, as_of=instant, entity_id="Mistaken", predicate="size")
    assert "- small; 2001 to 2002" in before.text


async def test_an_asserted_fact_with_live_evidence_is_cited(graph: GraphBase) -> None:
    """About one entity, which is resolved."""
    context = graph.context()
    result = await graph.call(TOOL, context, since="2020", entity_id="Microsoft", kinds=["asserted"])
    assert events(graph.named(result.text)) == [
        (
            "asserted: Satya Nadella (id <Satya Nadella>) chief executive of Microsoft (id <Microsoft>); "
            "2014-02-04 to open"
        ),
        "asserted: Microsoft (id <Microsoft>) invested in OpenAI (id <OpenAI>); 2019-07-22 to open [1]",
    ]
    assert [entity.name for entity in result.resolved] == ["Microsoft"]
    assert [source.n for source in context.citations.sources] == [1]


async def test_a_list_is_bounded_and_says_so(graph: GraphBase) -> None:
    """TOOLS O12."""
    result = await graph.run(TOOL, since="2020", limit=2)
    assert len(events(result.text)) == 2
    assert result.text.split("\n")[-1] == (
        f"showing 2 of {len(ROWS)} events; narrow with `until`, `entity_id` or `kinds`, or raise `limit`."
    )


@pytest.mark.parametrize(
    ("arguments", "as_of"),
    [({"since": "2020", "until": "2021"}, None), ({"since": "2020"}, "2025"), ({"since": "9000"}, None)],
)
async def test_nothing_recorded_then_is_empty(graph: GraphBase, arguments: dict[str, Any], as_of: str | None) -> None:
    """Nothing at or after `as_of` is told."""
    result = await graph.run(TOOL, as_of=as_of, **arguments)
    assert result.status == "empty"


@pytest.mark.parametrize(
    "arguments",
    [
        {"since": "lately"},
        {"since": ""},
        {"since": "2026-01-01T00:00:00"},
        {"since": "2026", "until": "soon"},
        {"since": "2026", "until": "2025"},
        {"since": "2026", "entity_id": "Kim"},
    ],
)
async def test_a_time_or_a_name_that_is_none_is_an_error(graph: GraphBase, arguments: dict[str, Any]) -> None:
    """The sentence names the field."""
    result = await graph.run(TOOL, **arguments)
    assert result.status == "error"
    assert result.text.startswith("`")
