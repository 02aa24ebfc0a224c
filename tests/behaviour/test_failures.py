"""How a model's failure ends a turn, and which failures don't. Source: DESIGN section 6."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest
from sqlalchemy import URL

from app.live.log import Position
from app.live.memory import MemoryLog
from app.llm.model import Feature, ModelEvent, ModelRequest, TextDelta
from app.store import conversations
from app.store.engine import Database
from app.store.turns import AdmittedTurn
from app.tools import registry
from app.turn.lifecycle import TurnParts
from app.turn.policy import Limits
from app.turn.supervisor import Supervisor
from tests.harness.app import App, new_turn, running_app
from tests.harness.scripted_endpoint import (
    RESET,
    Reply,
    Script,
    ScriptedEndpoint,
    call,
    event,
    finish,
    http,
    stream,
    text,
    unless,
)
from tests.harness.sse_reader import StreamReader

SEARCH = call(("search_chunks", {"query": "board"}))
ANSWER = text("Four [1].")
REFUSED = http(400, {"error": {"message": "field not supported", "type": "invalid_request_error"}})


def error(status: int, message: str, code: str | None = None, **headers: str) -> Reply:
    return http(status, {"error": {"message": message, "code": code}}, **headers)


@pytest.mark.parametrize(
    ("reply", "code", "retryable", "requests"),
    [
        (error(402, "balance too low"), "model_out_of_credit", False, 1),
        (error(429, "You exceeded your current quota", "insufficient_quota"), "model_out_of_credit", False, 1),
        (error(401, "bad key"), "model_rejected", False, 1),
        (error(404, "no such model"), "model_rejected", False, 1),
        (http(400, "request (105140 tokens) exceeds the available context size (8192 tokens)"), "context_too_long", False, 1),
        (error(503, "overloaded"), "model_unavailable", True, 4),
        (error(429, "slow down"), "model_rate_limited", True, 4),
        (RESET, "model_unreachable", True, 4),
        (http(200, "<html>a page</html>", content_type="text/html"), "model_unreachable", True, 1),
    ],
    ids=["402", "quota", "key", "model", "context", "503", "429", "reset", "html"],
)  # fmt: skip
async def test_a_failure_ends_the_turn_with_its_code(
    app: App, endpoint: ScriptedEndpoint, reply: Reply, code: str, retryable: bool, requests: int
) -> None:
    """What is transient is tried three times more, anything else not at all; no failure degrades the turn.

    A reset of a connection that was kept from an earlier request says nothing, and is once not counted (decision 0017).
    """
    script = endpoint.script(reply)
    turn = await app.ask(f"How many? {script}")
    assert turn.error["code"] == code
    assert turn.error["retryable"] is retryable
    assert len(script.requests) - requests in ((0, 1) if reply is RESET else (0,))
    assert all("tools" in body for body in script.bodies)
    stored = (await app.messages(turn.conversation_id))[-1]
    assert (stored["role"], stored["content"], stored["error_code"]) == ("assistant", "", code)


@pytest.mark.parametrize(
    "passing",
    [RESET, error(503, "busy"), error(429, "slow down", retry_after="0"), stream(b": ping\n\n")],
    ids=["reset", "503", "429", "cut before anything"],
)
async def test_what_passes_is_tried_again_before_any_text(app: App, endpoint: ScriptedEndpoint, passing: Reply) -> None:
    """A network fault is not a refusal (seed 003, case P06 D)."""
    script = endpoint.script(passing, SEARCH, passing, ANSWER)
    turn = await app.ask(f"How many? {script}")
    assert turn.answer == "Four [1]."
    assert len(script.requests) == 4


async def test_a_wait_longer_than_the_cap_is_not_waited_for(app: App, endpoint: ScriptedEndpoint) -> None:
    """Retry-After beyond the setting ends the turn at once, with the code."""
    script = endpoint.script(error(429, "slow down", retry_after="3600"))
    turn = await app.ask(f"How many? {script}")
    assert turn.error["code"] == "model_rate_limited"
    assert len(script.requests) == 1


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (stream(event({"content": "Half an ans"}), close="cut"), "model_interrupted"),
        (stream(event({"content": "Half an ans"})), "model_interrupted"),
        (
            stream(event({"content": "Half an ans"}), b'data: {"error":{"message":"overloaded","code":503}}\n\n'),
            "model_unavailable",
        ),
        (stream(event({"content": "Half an ans"}), event({}, "content_filter")), "model_rejected"),
    ],
    ids=["cut", "no end", "error inside", "filter"],
)
async def test_a_stream_that_breaks_off_after_text_is_not_tried_again_and_its_text_is_kept(
    app: App, endpoint: ScriptedEndpoint, reply: Reply, code: str
) -> None:
    """The partial text is stored with its error and shown to the next turn as unfinished (cases P06, P08, P14)."""
    script = endpoint.script(SEARCH, reply)
    turn = await app.ask(f"How many? {script}")
    assert turn.error["code"] == code
    assert turn.answer == "Half an ans"
    assert len(script.requests) == 2
    stored = (await app.messages(turn.conversation_id))[-1]
    assert (stored["content"], stored["error_code"]) == ("Half an ans", code)
    after = endpoint.script(SEARCH, ANSWER)
    await app.ask(f"Go on {after}", conversation_id=turn.conversation_id)
    history = after.messages(0)
    (unfinished,) = [m["content"] for m in history if str(m["content"]).startswith("Half an ans")]
    assert "unfinished" in unfinished


async def test_a_refused_tool_choice_is_left_out_and_the_tools_stay(forgetful: App, endpoint: ScriptedEndpoint) -> None:
    """An unnamed refusal drops the likeliest field first; the gate holds without it (case P16 A)."""
    script = endpoint.script(*[unless("tool_choice", REFUSED, SEARCH)] * 2, ANSWER)
    turn = await forgetful.ask(f"How many? {script}")
    assert turn.done["evidence"] == "cited"
    assert "tool_choice" not in script.bodies[1]
    assert "tools" in script.bodies[1]


@pytest.mark.parametrize("field", ["tool_choice", "stream_options"])
async def test_only_the_field_that_a_refusal_names_is_dropped(
    forgetful: App, endpoint: ScriptedEndpoint, field: str
) -> None:
    """The other fields stay (case P16 B)."""
    names_it = http(422, {"detail": [{"type": "extra_forbidden", "loc": ["body", field]}]})
    script = endpoint.script(*[unless(field, names_it, SEARCH)] * 2, ANSWER)
    turn = await forgetful.ask(f"How many? {script}")
    assert turn.answer == "Four [1]."
    assert "tools" in script.bodies[-1]


async def test_only_a_refusal_of_tools_degrades_to_one_shot_retrieval(
    forgetful: App, endpoint: ScriptedEndpoint
) -> None:
    """The answer then comes from the turn's own search (case P16 C)."""
    script = endpoint.script(*[unless("tools", REFUSED, text("One-shot answer [1]."))] * 6)
    turn = await forgetful.ask(f"How many board members remained? {script}")
    assert turn.answer == "One-shot answer [1]."
    assert turn.sources
    assert turn.done["evidence"] == "cited"
    named = endpoint.script(
        *[unless("tools", error(400, "tools is not supported by this model"), text("At once [1]."))] * 3
    )
    turn = await forgetful.ask(f"How many board members remained? {named}")
    assert turn.answer == "At once [1]."
    assert len(named.requests) == 2


async def test_a_context_refusal_halves_the_history_and_tries_once(app: App, endpoint: ScriptedEndpoint) -> None:
    """The same request is never sent twice; tools that ran aren't run again (case A16)."""
    too_long = error(400, "This model's maximum context length is 8192 tokens", "context_length_exceeded")
    earlier = endpoint.script(SEARCH, text("Four members remained [1]. " * 20))
    turn = await app.ask(f"How many? {earlier}")
    await app.ask(f"How many? {earlier}", conversation_id=turn.conversation_id)
    script = endpoint.script(SEARCH, too_long, ANSWER)
    again = await app.ask(f"And then? {script}", conversation_id=turn.conversation_id)
    assert again.answer == "Four [1]."
    assert len(again.of("step")) == 1
    assert _chars(script, 2) < _chars(script, 1)
    always = endpoint.script(too_long)
    failed = await app.ask(f"And then? {always}", conversation_id=turn.conversation_id)
    assert failed.error["code"] == "context_too_long"
    assert len(always.requests) == 2


def _chars(script: Script, request: int) -> int:
    return len(str(script.messages(request)))


async def test_a_late_system_message_that_a_template_refuses_is_folded_into_the_first(
    forgetful: App, endpoint: ScriptedEndpoint
) -> None:
    """Refused as a template error with 500, folded, and remembered for the endpoint (case A15)."""
    strict = http(500, {"error": {"message": "template error: System message must be at the beginning."}})

    def judge(body: dict[str, object]) -> Reply:
        roles = [m["role"] for m in cast("list[dict[str, Any]]", body["messages"])]
        return strict if "system" in roles[1:] else text("Folded [1].")

    script = endpoint.script(SEARCH, judge, judge)
    turn = await forgetful.ask(f"Who? {script}")
    assert turn.answer == "Folded [1]."


async def test_secrets_in_a_providers_words_reach_neither_frame_nor_row(app: App, endpoint: ScriptedEndpoint) -> None:
    """The key is replaced; the rest of the provider's words is kept for the reader."""
    script = endpoint.script(error(401, "Incorrect API key provided: key-for-tests"))
    turn = await app.ask(f"How many? {script}")
    assert "key-for-tests" not in str(turn.error)
    assert "Incorrect API key provided" in turn.error["message"]
    assert "key-for-tests" not in str(await app.messages(turn.conversation_id))


async def test_thinking_is_never_part_of_an_answer(app: App, endpoint: ScriptedEndpoint) -> None:
    """Think tags split anywhere, and reasoning fields, are neither shown nor stored (case P09)."""
    pieces = [event({"content": p}) for p in ("<thi", "nk>private note</thi", "nk>Total: 3 ", "< 5 [1]")]
    script = endpoint.script(SEARCH, stream(event({"reasoning_content": "R"}), *pieces, finish()))
    turn = await app.ask(f"How many? {script}")
    assert turn.answer == "Total: 3 < 5 [1]"
    assert "private note" not in str((await app.messages(turn.conversation_id))[-1]["content"])


async def test_reasoning_is_a_step_of_its_own_where_the_setting_asks_for_it(
    app: App, endpoint: ScriptedEndpoint, database_url: URL
) -> None:
    """It stands where it happened, before the text that follows it, and is never answer text (case P09)."""
    thinking = stream(
        event({"reasoning_content": "Let me "}), event({"reasoning": "see."}), event({"content": "Four [1]."}), finish()
    )
    script = endpoint.script(SEARCH, thinking)
    async with running_app(database_url, llm=endpoint.base_url, show_reasoning=True) as open_minded:
        turn = await open_minded.ask(f"How many? {script}")
    assert [(s["kind"], s["tool"]) for s in turn.of("step")] == [("search", "search_chunks"), ("reasoning", "")]
    assert turn.of("step")[1]["at"] == 0
    assert turn.of("step")[1]["detail"].startswith("Let me ")
    assert turn.answer == "Four [1]."
    assert turn.done["evidence"] == "cited"
    closed = await app.ask(f"How many? {endpoint.script(SEARCH, thinking)}")
    assert [s["kind"] for s in closed.of("step")] == ["search"]


async def test_reasoning_before_a_call_is_echoed_inside_the_loop_and_on_replay(
    app: App, endpoint: ScriptedEndpoint
) -> None:
    """A thinking provider refuses a follow-up without it (case A11); a call's extra fields go back too (A13)."""
    signed = {"google": {"thought_signature": "c2ln"}}
    function = {"name": "search_chunks", "arguments": '{"query":"board"}'}
    tool_call = {"index": 0, "id": "g1", "type": "function", "function": function, "extra_content": signed}
    script = endpoint.script(
        stream(event({"reasoning_content": "R1"}), event({"tool_calls": [tool_call]}), finish("tool_calls")), ANSWER
    )
    turn = await app.ask(f"How many? {script}")
    after = endpoint.script(SEARCH, ANSWER)
    await app.ask(f"And? {after}", conversation_id=turn.conversation_id)
    for messages in (script.messages(1), after.messages(0)):
        (called,) = [m for m in messages if m.get("tool_calls")]
        assert called["reasoning_content"] == "R1"
        assert called["tool_calls"][0]["extra_content"] == signed
    assert "R1" not in turn.answer


async def test_an_answer_past_the_limit_is_ended_and_what_was_shown_is_kept(
    app: App, endpoint: ScriptedEndpoint, database_url: URL
) -> None:
    """answer_too_long; the provider's stream is closed, the text up to the limit is stored."""
    script = endpoint.script(SEARCH, stream(event({"content": "x" * 900}), event({"content": "y" * 900}), close="hang"))
    async with running_app(database_url, llm=endpoint.base_url, answer_max_chars=1_000) as small:
        turn = await small.ask(f"Go on for ever {script}")
        assert turn.error["code"] == "answer_too_long"
        assert (await small.messages(turn.conversation_id))[-1]["content"] == turn.answer
    assert len(turn.answer) <= 1_000
    seen = await script.request(1)
    async with asyncio.timeout(2):
        await seen.closed.wait()


class BrokenModel:
    """A model that some third party wrote, with a fault of its own."""

    name = "broken"
    origin = "nowhere"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        yield TextDelta("x")
        raise ZeroDivisionError(len(request.messages))

    def learn(self, feature: Feature) -> None:
        raise AssertionError(feature)

    async def aclose(self) -> None:
        return


async def test_a_fault_of_ours_ends_one_turn_as_internal_and_frees_its_conversation(database: Database) -> None:
    """The reader gets one terminal frame, no words of the exception, and the row says what happened."""
    live = MemoryLog()
    parts = TurnParts(database, BrokenModel(), registry.load(), Limits())
    supervisor = Supervisor(parts, live, replica="test of a fault")
    new = new_turn("?", replica="test of a fault")
    async with supervisor.active(drain_s=1):
        admitted = await supervisor.start(new, retry=False)
        assert isinstance(admitted, AdmittedTurn)
        await supervisor.wait_for(admitted.turn_id)
        reader = await live.attach(admitted.turn_id, Position(admitted.turn_id, 0), running=False)
        assert reader is not None
        frames = StreamReader().feed(await reader.read(1) or b"")
        await supervisor.keep_house()
        await supervisor.keep_house()
    assert [f.event for f in frames] == ["conversation", "error"]
    assert frames[-1].data["code"] == "internal"
    assert "ZeroDivisionError" not in str(frames[-1].data)
    stored = await conversations.messages(database, admitted.conversation_id)
    assert [m.error_code for m in stored] == [None, "internal"]
