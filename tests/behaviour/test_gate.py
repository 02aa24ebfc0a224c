"""The gate: before a tool has run, text alone is no ending. Source: DESIGN section 6, decision 0002."""

from typing import Any, cast

from tests.harness.app import App
from tests.harness.scripted_endpoint import ScriptedEndpoint, call, event, finish, stream, text

SEARCH = call(("search_chunks", {"query": "board"}))
EMPTY = stream(event({"content": ""}), finish())
MARKUP = 'Let me look.\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name="search_chunks">{}\n'


async def test_a_tool_is_required_until_one_has_run(app: App, endpoint: ScriptedEndpoint) -> None:
    """The first request forces a call, the second leaves the model free; `none` is never sent."""
    script = endpoint.script(SEARCH, text("Four [1]."))
    await app.ask(f"How many? {script}")
    first, second = script.bodies
    assert first["tool_choice"] == "required"
    assert first["stream"] is True
    names = {tool["function"]["name"] for tool in cast("list[Any]", first["tools"])}
    assert names >= {"search_chunks", "search_docs", "no_evidence_needed"}
    assert "tool_choice" not in second
    assert second["tools"] == first["tools"]


async def test_a_greeting_is_answered_without_a_search_and_says_so(app: App, endpoint: ScriptedEndpoint) -> None:
    """no_evidence_needed opens the gate; its call and reason are stored, and the verdict is skipped."""
    script = endpoint.script(call(("no_evidence_needed", {"reason": "greeting"})), text("Hello 👋🏽 there."))
    turn = await app.ask(f"你好 {script}")
    assert turn.answer == "Hello 👋🏽 there."
    assert turn.done["evidence"] == "skipped"
    answer = (await app.messages(turn.conversation_id))[-1]
    stored = answer["tool_exchange"][0]["tool_calls"][0]["function"]
    assert stored == {"name": "no_evidence_needed", "arguments": '{"reason": "greeting"}'}


async def test_a_promise_is_sent_back_and_never_shown(app: App, endpoint: ScriptedEndpoint) -> None:
    """Text without a call while the gate is shut is held, dropped, and answered with feedback (case A01)."""
    script = endpoint.script(text("请稍等，我将调用相关工具。"), SEARCH, text("Found it [1]."))
    turn = await app.ask(f"How many? {script}")
    assert turn.answer == "Found it [1]."
    assert turn.done["evidence"] == "cited"
    assert len(script.requests) == 3
    assert [m["role"] for m in script.messages(1)[-2:]] == ["assistant", "user"]


async def test_an_endpoint_that_ignores_required_twice_is_answered_from_retrieval(
    app: App, endpoint: ScriptedEndpoint
) -> None:
    """The turn searches for itself, then asks with the passages as evidence and no tool fields (case A01)."""
    script = endpoint.script(text("Please wait."), text("Please wait."), text("From the passages: four [1]."))
    turn = await app.ask(f"How many board members remained? {script}")
    assert turn.answer == "From the passages: four [1]."
    assert turn.sources
    assert turn.done["evidence"] == "cited"
    last = script.bodies[2]
    assert "tools" not in last
    assert "tool_choice" not in last
    assert [m["role"] for m in script.messages(2)] == ["system", "user"]


async def test_an_empty_reply_is_asked_again_once(app: App, endpoint: ScriptedEndpoint) -> None:
    """One empty reply after a tool costs one request more (case A02)."""
    script = endpoint.script(SEARCH, EMPTY, text("Four members [1]."))
    turn = await app.ask(f"How many? {script}")
    assert turn.answer == "Four members [1]."
    assert len(script.requests) == 3


async def test_a_silent_endpoint_costs_exactly_two_requests(app: App, endpoint: ScriptedEndpoint) -> None:
    """Always empty ends as answer_empty, and the next turn's history holds no empty message (cases A02, P05)."""
    silent = endpoint.script(EMPTY)
    turn = await app.ask(f"How many? {silent}")
    assert turn.error["code"] == "answer_empty"
    assert turn.error["retryable"] is True
    assert len(silent.requests) == 2
    after = endpoint.script(SEARCH, text("Four [1]."))
    await app.ask(f"And now? {after}", conversation_id=turn.conversation_id)
    assert [m["role"] for m in after.messages(0)] == ["system", "user"]


async def test_markup_written_as_text_is_held_back_and_sent_back_once(app: App, endpoint: ScriptedEndpoint) -> None:
    """What stood before the markup stays; the answer that follows begins a new paragraph (case P10)."""
    script = endpoint.script(SEARCH, text(MARKUP), text("Clean answer [1]."))
    turn = await app.ask(f"How many? {script}")
    assert turn.answer == "Let me look.\n\nClean answer [1]."


async def test_markup_twice_ends_the_turn_with_its_code(app: App, endpoint: ScriptedEndpoint) -> None:
    """No markup reaches a frame or a row, whatever comes of the turn (case P10)."""
    script = endpoint.script(SEARCH, text(MARKUP))
    turn = await app.ask(f"How many? {script}")
    assert turn.error["code"] == "answer_tool_text"
    assert "DSML" not in turn.answer
    stored = (await app.messages(turn.conversation_id))[-1]
    assert stored["content"] == turn.answer
    assert stored["error_code"] == "answer_tool_text"
    assert "DSML" not in str(stored)


async def test_markup_beside_a_real_call_is_dropped_and_the_call_runs(app: App, endpoint: ScriptedEndpoint) -> None:
    """The call counts; the markup is neither shown nor replayed."""
    beside = call(("search_chunks", {"query": "board"}), say="Looking. \n<tool_call>{}</tool_call>")
    script = endpoint.script(beside, text("Four [1]."))
    turn = await app.ask(f"How many? {script}")
    assert turn.done["evidence"] == "cited"
    assert "tool_call>" not in turn.answer
    assert "<tool_call>" not in str(script.messages(1))


async def test_markup_inside_a_code_fence_is_an_answer(app: App, endpoint: ScriptedEndpoint) -> None:
    """An answer may explain the syntax (case P10 D)."""
    words = "It looks like this:\n\n```\n<tool_call>{}</tool_call>\n<｜DSML｜invoke>\n```\nas the manual says [1]."
    turn = await app.ask(f"Show me {endpoint.script(SEARCH, text(words))}")
    assert turn.answer == words
    assert turn.done["evidence"] == "cited"
