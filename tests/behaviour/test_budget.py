"""The budget: after MAX_ROUNDS requests with tools an answer is ordered. Source: DESIGN section 6, ORIGIN 3.8."""

import json

import pytest

from tests.harness.app import App
from tests.harness.scripted_endpoint import Reply, ScriptedEndpoint, call, event, finish, http, stream, text

SEARCHES = tuple(call(("search_chunks", {"query": f"board {n}"})) for n in range(6))
FORBIDDEN = ("tools", "tool_choice", "parallel_tool_calls")


async def test_after_six_rounds_the_answer_is_asked_for_afresh_with_the_evidence_as_data(
    app: App, endpoint: ScriptedEndpoint
) -> None:
    """Two messages, no tool fields, no tool messages; question, evidence and sources are JSON (case A05)."""
    script = endpoint.script(*SEARCHES, text("Answer at the end [1]."))
    turn = await app.ask(f"How many remained? {script}")
    assert turn.answer == "Answer at the end [1]."
    assert all("tools" in body for body in script.bodies[:6])
    assert len(script.requests) == 7
    last = script.bodies[6]
    assert not [key for key in FORBIDDEN if key in last]
    system, user = script.messages(6)
    assert (system["role"], user["role"]) == ("system", "user")
    data = json.loads(user["content"])
    assert data["question"] == f"How many remained? {script}"
    assert [e["status"] for e in data["evidence"]] == ["ok"] * 6
    assert data["sources"][0]["n"] == 1
    assert data.keys() == {"question", "background", "evidence", "sources", "resolved"}


@pytest.mark.parametrize(
    "bad",
    [
        stream(event({"content": " "}), finish()),
        text("<tool_call>{}</tool_call>"),
        SEARCHES[0],
        text("Far too lo", reason="length"),
    ],
    ids=["empty", "markup", "call", "length"],
)
async def test_an_ordered_answer_that_can_not_stand_is_repaired_once(
    app: App, endpoint: ScriptedEndpoint, bad: Reply
) -> None:
    """Nothing of the first attempt is shown; the second request holds the same evidence (case A05)."""
    script = endpoint.script(*SEARCHES, bad, text("Repaired [1]."))
    turn = await app.ask(f"How many? {script}")
    assert turn.answer == "Repaired [1]."
    assert len(script.requests) == 8
    first, second = (script.messages(n) for n in (6, 7))
    assert first[1] == second[1]
    assert not [key for key in FORBIDDEN if key in script.bodies[7]]
    stored = (await app.messages(turn.conversation_id))[-1]
    assert len(stored["steps"]) == 6


async def test_a_call_that_nobody_offered_is_neither_run_nor_stored(app: App, endpoint: ScriptedEndpoint) -> None:
    """Its text is used where it has some (case A05 B)."""
    beside = call(("search_chunks", {"query": "more"}), say="Four, it says [1].")
    script = endpoint.script(*SEARCHES, beside)
    turn = await app.ask(f"How many? {script}")
    assert turn.answer == "Four, it says [1]."
    assert len(turn.of("step")) == 6
    stored = (await app.messages(turn.conversation_id))[-1]
    assert "more" not in json.dumps(stored["tool_exchange"])


async def test_a_second_bad_answer_ends_the_turn(app: App, endpoint: ScriptedEndpoint) -> None:
    """A repair never loops."""
    script = endpoint.script(*SEARCHES, text("<tool_call>{}</tool_call>"))
    turn = await app.ask(f"How many? {script}")
    assert turn.error["code"] == "answer_tool_text"
    assert len(script.requests) == 8


async def test_a_failed_answer_request_is_no_reason_for_a_repair(app: App, endpoint: ScriptedEndpoint) -> None:
    """A refusal of the answer request is the turn's own failure."""
    script = endpoint.script(*SEARCHES, http(422, {"error": {"message": "no"}}))
    turn = await app.ask(f"How many? {script}")
    assert turn.error["code"] == "model_rejected"
    assert len(script.requests) == 7


async def test_questions_sent_back_use_up_the_budget_too(app: App, endpoint: ScriptedEndpoint) -> None:
    """An empty reply costs one of the six rounds."""
    script = endpoint.script(SEARCHES[0], stream(event({"content": ""}), finish()), *SEARCHES[1:5], text("End [1]."))
    turn = await app.ask(f"How many? {script}")
    assert turn.answer == "End [1]."
    assert len(script.requests) == 7
    assert "tools" not in script.bodies[6]
