"""timeline: dated facts in order; undated ones are counted, not placed."""

import pytest

from app.tools.timeline import TOOL
from app.tools.tool import Step
from tests.tools.conftest import GraphBase

UNDATED = "1 fact has no date and no place here: entity_facts shows them."


async def test_dated_facts_stand_in_order(graph: GraphBase) -> None:
    """The whole observation, oldest first, dates as precise as known."""
    result = await graph.run(TOOL, entity_id="OpenAI")
    assert graph.named(result.text) == (
        "<OpenAI> | OpenAI | organization; also called OpenAI Inc.\n"
        "- 2015 to 2024-05: Ilya Sutskever (id <Ilya Sutskever>) chief scientist of OpenAI; confidence 0.8 [1]\n"
        "- 2015-12-11 to 2023-11-17: Sam Altman (id <Sam Altman>) member of board of OpenAI [1]\n"
        "- 2019 to unknown end: Sam Altman (id <Sam Altman>) chief executive of OpenAI\n"
        "- 2019-07-22 to open: Microsoft (id <Microsoft>) invested in OpenAI [2]\n"
        f"4 dated facts.\n{UNDATED}"
    )
    assert result.step == Step("timeline", "OpenAI", "4 dated facts")
    assert [entity.name for entity in result.resolved] == ["OpenAI"]


@pytest.mark.parametrize(
    ("window", "predicates"),
    [
        ({"since": "2019"}, ["chief scientist", "member of board", "chief executive", "invested"]),
        ({"since": "2024"}, ["chief scientist"]),
        ({"until": "2015"}, ["chief scientist", "member of board"]),
        ({"since": "2015-12-11", "until": "2015-12-11"}, ["member of board"]),
        ({"since": "2019", "until": "2019-06"}, ["chief executive"]),
    ],
)
async def test_a_window_holds_what_began_or_ended_in_it(
    graph: GraphBase, window: dict[str, str], predicates: list[str]
) -> None:
    """Both ends belong to it."""
    lines = (await graph.run(TOOL, entity_id="OpenAI", **window)).text.split("\n")
    facts = [line for line in lines if line.startswith("- ")]
    assert [
        p for line in facts for p in ("chief scientist", "member of board", "chief executive", "invested") if p in line
    ] == predicates
    assert lines[0].endswith(f"; from {window.get('since', 'the beginning')} to {window.get('until', 'the end')}")


async def test_nothing_dated_is_empty_and_counts_what_has_no_date(graph: GraphBase) -> None:
    """The model is told where the others are."""
    result = await graph.run(TOOL, entity_id="OpenAI", since="1990", until="1991")
    assert (result.status, result.text.split("\n")[-1]) == ("empty", f"no fact begins or ends then. {UNDATED}")


async def test_a_list_is_bounded_and_says_so(graph: GraphBase) -> None:
    """TOOLS O12; the undated are still counted."""
    result = await graph.run(TOOL, entity_id="OpenAI", limit=2)
    assert result.text.split("\n")[-2:] == [
        "showing 2 of 4 dated facts; narrow with `since` and `until`, or raise `limit`.",
        UNDATED,
    ]


@pytest.mark.parametrize("window", [{"since": "2020", "until": "2019"}, {"since": "x"}, {"until": "2019-1"}])
async def test_a_window_that_is_none_is_an_error(graph: GraphBase, window: dict[str, str]) -> None:
    """The sentence names the field."""
    result = await graph.run(TOOL, entity_id="OpenAI", **window)
    assert result.status == "error"
    assert result.text.startswith(("`since` ", "`until` "))


async def test_record_time_hides_what_was_recorded_later(graph: GraphBase) -> None:
    """Both clocks: in 2020 the base knew nothing of it."""
    result = await graph.run(TOOL, as_of="2020", entity_id=graph.ids["OpenAI"])
    assert result.status == "empty"
