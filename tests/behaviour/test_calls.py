"""Calls that don't say what they want are not run; calls that do run in order. Source: DESIGN section 6."""

from typing import Any

import pytest

from tests.harness.app import App
from tests.harness.scripted_endpoint import Reply, Script, ScriptedEndpoint, call, event, stream, text, usage

SEARCH = call(("search_chunks", {"query": "board"}))


def tool_messages(script: Script, request: int) -> list[dict[str, Any]]:
    return [m for m in script.messages(request) if m["role"] == "tool"]


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (call(("search_chunks", '{"query": "boar')), "not one complete JSON object"),
        (call(("search_chunks", "{}")), "`query` is missing or empty"),
        (call(("search_chunks", {"query": "  "})), "`query` is missing or empty"),
        (call(("search_chunks", "[]")), "not one complete JSON object"),
        (call(("search_chunks", {"query": "board", "speed": 9})), "`speed`"),
        (call(("search_chunks", {"query": ["board"]})), "`query`"),
        (call(("look_everywhere", {"q": "x"})), "There is no tool look_everywhere"),
        (call(("x" * 300, {"q": "x"})), "There is no tool"),
    ],
    ids=["cut", "missing", "blank", "list", "unknown-key", "wrong-type", "unknown-tool", "long-name"],
)
async def test_a_call_that_does_not_say_what_it_wants_is_not_run(
    app: App, endpoint: ScriptedEndpoint, bad: Reply, why: str
) -> None:
    """The model is told why, the reader sees an error step, the gate stays shut (cases A06 and A07)."""
    script = endpoint.script(bad, SEARCH, text("Four [1]."))
    turn = await app.ask(f"How many? {script}")
    assert [s["status"] for s in turn.of("step")] == ["error", "ok"]
    told = tool_messages(script, 1)[-1]["content"]
    assert told.startswith("ERROR: ")
    assert why in told
    assert script.bodies[1]["tool_choice"] == "required"
    assert turn.done["evidence"] == "cited"


async def test_arguments_cut_by_the_token_limit_are_named_as_such_and_stored_valid(
    app: App, endpoint: ScriptedEndpoint
) -> None:
    """The next turn replays a call whose arguments every endpoint parses (case A07)."""
    head = {"index": 0, "id": "c1", "type": "function", "function": {"name": "search_chunks", "arguments": ""}}
    cut = {"index": 0, "function": {"arguments": '{"query":"caf\\u00'}}
    script = endpoint.script(
        stream(event({"tool_calls": [head]}), event({"tool_calls": [cut]}), event({}, "length"), usage()),
        SEARCH,
        text("Four [1]."),
    )
    turn = await app.ask(f"How many? {script}")
    assert "cut off by the token limit" in tool_messages(script, 1)[0]["content"]
    after = endpoint.script(SEARCH, text("Still four [1]."))
    await app.ask(f"Sure? {after}", conversation_id=turn.conversation_id)
    replayed = [
        m["tool_calls"][0]["function"]["arguments"]
        for m in after.messages(0)
        if m["role"] == "assistant" and m.get("tool_calls")
    ]
    assert replayed == ["{}", '{"query": "board"}']


async def test_a_name_is_folded_not_guessed(app: App, endpoint: ScriptedEndpoint) -> None:
    """Case and hyphens are folded; the resolved name is what is stored and replayed."""
    script = endpoint.script(call(("Search-Chunks", {"query": "board"})), text("Four [1]."))
    turn = await app.ask(f"How many? {script}")
    assert [s["status"] for s in turn.of("step")] == ["ok"]
    stored = (await app.messages(turn.conversation_id))[-1]["tool_exchange"][0]["tool_calls"][0]
    assert stored["function"]["name"] == "search_chunks"


async def test_the_same_call_runs_at_most_twice(app: App, endpoint: ScriptedEndpoint) -> None:
    """The third identical call is refused; made once more, the tools are withdrawn (case A03)."""
    reordered = call(("search_chunks", '{ "limit": 3, "query": "board" }'))
    same = call(("search_chunks", '{"query":"board","limit":3}'))
    script = endpoint.script(same, reordered, same, reordered, text("Enough [1]."))
    turn = await app.ask(f"How many? {script}")
    assert [s["status"] for s in turn.of("step")] == ["ok", "ok", "error", "error"]
    assert "tools" not in script.bodies[4]
    assert turn.answer == "Enough [1]."


async def test_calls_of_one_round_run_in_order_and_share_one_numbering(app: App, endpoint: ScriptedEndpoint) -> None:
    """Each call id has one result; the same passage keeps its number."""
    script = endpoint.script(
        call(("search_chunks", {"query": "board"}), ("search_chunks", {"query": "Altman"})), text("Both [1].")
    )
    turn = await app.ask(f"How many? {script}")
    assert [s["label"] for s in turn.of("step")] == ["board", "Altman"]
    assert len({m["tool_call_id"] for m in tool_messages(script, 1)}) == 2
    assert [s["n"] for s in turn.sources] == list(range(1, len(turn.sources) + 1))
    assert len({s["id"] for s in turn.sources}) == len(turn.sources)


async def test_thirty_calls_in_one_round_give_thirty_steps_in_order(app: App, endpoint: ScriptedEndpoint) -> None:
    """Steps come in the order of the calls, each with its own result."""
    queries = [f"board {n}" for n in range(30)]
    script = endpoint.script(call(*(("search_chunks", {"query": q}) for q in queries)), text("All [1]."))
    turn = await app.ask(f"How many? {script}")
    assert [s["label"] for s in turn.of("step")] == queries
    assert len({m["tool_call_id"] for m in tool_messages(script, 1)}) == 30


async def test_text_beside_a_call_is_shown_before_its_step(app: App, endpoint: ScriptedEndpoint) -> None:
    """Held text is let out once its model turn ends with a call."""
    script = endpoint.script(call(("search_chunks", {"query": "board"}), say="Looking it up."), text("Four [1]."))
    turn = await app.ask(f"How many? {script}")
    assert turn.answer == "Looking it up.\n\nFour [1]."
    assert turn.events.index("delta") < turn.events.index("step")
    assert turn.of("step")[0]["at"] == len("Looking it up.")
