"""remember: proposals are recorded at once and once, and nothing of them is in the graph."""

from typing import Any

import pytest

from app.store import proposals
from app.store.ids import new_id
from app.tools.find_entities import TOOL as FIND
from app.tools.registry import load
from app.tools.remember import TOOL
from app.tools.tool import Step
from tests.tools.conftest import GraphBase, graph_in

FACT = {"subject": "Ada Lin", "predicate": "Works_at", "object": "Acme", "valid_from": "2024", "valid_to": "open"}
ROW = {"subject": "Ada Lin", "predicate": "works at", "object": "Acme", "from": "2024", "to": "open"}
TEXT = "Ada Lin has worked at Acme since 2024."


@pytest.fixture
async def own(graph: GraphBase) -> GraphBase:
    """A base without proposals."""
    return await graph_in(graph.database, f"own-{new_id()}")


async def stored(graph: GraphBase) -> list[tuple[dict[str, object], str, str, str | None, str]]:
    found, total = await proposals.find(graph.database, graph.base_id, status="pending", limit=50, offset=0)
    assert total == len(found)
    return [(p.fact, p.sentence, p.proposed_by, p.turn_id, p.origin) for p in found]


async def test_a_fact_waits_for_a_nod_and_is_not_in_the_graph(own: GraphBase) -> None:
    """What is stored is a row of a fact file with the sentence, the owner and the turn."""
    result = await own.run(TOOL, text=f"  {TEXT}\n", facts=[FACT])
    assert result.text == (
        f"recorded as a proposal: {TEXT}\n1 fact of it waits for a person's nod and is not in the knowledge graph. "
        "Say so; no other tool finds it yet."
    )
    assert result.step == Step("remember", TEXT, "waits for a nod")
    assert await stored(own) == [(ROW, TEXT, "ada", "01900000-0000-7000-8000-00000000000a", "remember")]
    assert (await own.run(FIND, name="Ada Lin")).status == "empty"


async def test_a_turn_that_is_taken_over_proposes_once(own: GraphBase) -> None:
    """The same call of the same turn, keys in another order, also beside a new fact; another turn is another nod."""
    for _ in range(2):
        await own.run(TOOL, text=TEXT, facts=[FACT])
    more = {**FACT, "predicate": "lives in", "object": "", "value": "Oslo"}
    await own.run(TOOL, text=TEXT, facts=[more, dict(reversed(FACT.items())), FACT])
    assert [fact["predicate"] for fact, *_ in await stored(own)] == ["works at", "lives in"]


async def test_a_sentence_without_facts_is_one_proposal(own: GraphBase) -> None:
    """A person makes of it what it says."""
    result = await own.run(TOOL, text="Remember the milk.")
    assert "it waits for a person's nod" in result.text
    assert [(fact, sentence) for fact, sentence, *_ in await stored(own)] == [({}, "Remember the milk.")]


@pytest.mark.parametrize(
    "facts",
    [
        [{"subject": "Ada", "predicate": "is"}],
        [{"subject": "Ada", "predicate": "is", "object": "a", "value": "b"}],
        [{"subject": "Ada", "predicate": "is", "value": "b", "valid_from": "last year"}],
        [{"subject": "Ada", "predicate": "is", "value": "b", "valid_from": "2024", "valid_to": "2023"}],
        [{"subject": " ", "predicate": "is", "value": "b"}],
    ],
)
async def test_one_bad_fact_refuses_the_call_and_records_nothing(own: GraphBase, facts: list[dict[str, Any]]) -> None:
    """The model is told which one and why."""
    result = await own.run(TOOL, text=TEXT, facts=[FACT, *facts])
    assert result.status == "error"
    assert result.text.split("\n")[1].startswith("fact 2: ")
    assert await stored(own) == []


async def test_a_blank_sentence_is_an_error(own: GraphBase) -> None:
    """Nothing to keep."""
    assert (await own.run(TOOL, text=" \x00\n")).status == "error"


async def test_who_may_not_write_is_not_offered_it_and_can_not_run_it(own: GraphBase) -> None:
    """The registry refuses whichever door the call comes by."""
    registry = load()
    assert "remember" not in registry.names(may_write=False)
    assert [o.name for o in registry.chat_tools(may_write=False)] == list(registry.names(may_write=False))
    assert "remember" in registry.names(may_write=True)
    observed = await registry.dispatch("remember", {"text": TEXT}, own.context(may_write=False))
    assert observed.text.startswith("ERROR: remember writes into the base")
    assert (await registry.dispatch("remember", {"text": TEXT}, own.context(may_write=True))).status == "ok"
    assert len(await stored(own)) == 1
