"""Stop ends a turn at once, keeps what was published, and frees the conversation. Source: DESIGN sections 4 and 5."""

import asyncio
from typing import Any
from uuid import uuid4

from sqlalchemy import text as sql

from tests.harness.app import App, Turn, check_contract, new_turn
from tests.harness.scripted_endpoint import Script, ScriptedEndpoint, call, event, finish, stream, text
from tests.harness.sse_reader import frames_of

SEARCH = call(("search_chunks", {"query": "board"}))


async def stop_at_first_delta(app: App, script: Script) -> Turn:
    """Ask, stop once the first text has come, read to the end."""
    turn = Turn()
    async with app.stream(f"Tell me {script}") as response:
        async for frame in frames_of(response):
            turn.frames.append(frame)
            if turn.events.count("delta") == 1 and frame.event == "delta":
                path = f"/api/conversations/{turn.conversation_id}/stop"
                stopped = await app.http.post(path, json={"turn_id": turn.turn_id})
                assert stopped.status_code == 202
    check_contract(turn)
    return turn


async def test_stop_keeps_what_was_published_and_closes_the_provider_at_once(
    app: App, endpoint: ScriptedEndpoint
) -> None:
    """The model is silent when stop comes; its connection is closed all the same (case S04)."""
    never = asyncio.Event()
    script = endpoint.script(SEARCH, stream(event({"content": "Half "}), never, event({"content": "more"}), finish()))
    turn = await stop_at_first_delta(app, script)
    assert turn.done["stopped"] is True
    assert turn.answer == "Half "
    seen = await script.request(1)
    async with asyncio.timeout(2):
        await seen.closed.wait()
    stored = (await app.messages(turn.conversation_id))[-1]
    assert (stored["content"], stored["stopped"], stored["error_code"]) == ("Half ", True, None)


async def test_the_next_question_is_admitted_and_sees_the_stopped_answer_as_unfinished(
    app: App, endpoint: ScriptedEndpoint
) -> None:
    """The conversation goes on after a stop; its exchange is whole (case A08)."""
    hang = stream(event({"content": "Half "}), close="hang")
    turn = await stop_at_first_delta(app, endpoint.script(SEARCH, hang))
    after = endpoint.script(SEARCH, text("Four [1]."))
    followed = await app.ask(f"How many? {after}", conversation_id=turn.conversation_id)
    assert followed.answer == "Four [1]."
    (shown,) = [m["content"] for m in after.messages(0) if m["content"].startswith("Half")]
    assert "unfinished" in shown


async def test_a_stop_that_names_another_turn_changes_nothing(app: App, endpoint: ScriptedEndpoint) -> None:
    """Stale, unknown and finished turns are 409; a second stop is harmless."""
    gate = asyncio.Event()
    script = endpoint.script(
        SEARCH, stream(event({"content": "All"}), gate, event({"content": " of it [1]."}), finish())
    )
    turn = Turn()
    async with app.stream(f"Tell me {script}") as response:
        async for frame in frames_of(response):
            turn.frames.append(frame)
            if frame.event == "delta" and not gate.is_set():
                path = f"/api/conversations/{turn.conversation_id}/stop"
                refused = await app.http.post(path, json={"turn_id": str(uuid4())})
                assert (refused.status_code, refused.json()["error"]["code"]) == (409, "turn_not_running")
                gate.set()
    assert turn.answer == "All of it [1]."
    path = f"/api/conversations/{turn.conversation_id}/stop"
    late = await app.http.post(path, json={"turn_id": turn.turn_id})
    assert late.status_code == 409


async def test_a_conversation_runs_one_turn_at_a_time(app: App, endpoint: ScriptedEndpoint) -> None:
    """A second question meanwhile is refused and not stored; after the terminal frame it is admitted (case D06)."""
    gate = asyncio.Event()
    script = endpoint.script(SEARCH, stream(event({"content": "A"}), gate, event({"content": "B [1]"}), finish()))
    conversation_id = ""
    async with app.stream(f"Tell me {script}") as response:
        async for frame in frames_of(response):
            if frame.event == "conversation":
                conversation_id = frame.data["id"]
            if frame.event == "delta" and not gate.is_set():
                refused = await app.http.post(
                    "/api/chat", json={"message": "me too", "conversation_id": conversation_id}
                )
                assert (refused.status_code, refused.json()["error"]["code"]) == (409, "answer_running")
                gate.set()
            if frame.event == "done":
                after = endpoint.script(SEARCH, text("Next [1]."))
                assert (await app.ask(f"next {after}", conversation_id=conversation_id)).answer == "Next [1]."
    assert [m["role"] for m in await app.messages(conversation_id)] == ["user", "assistant"] * 2


async def test_two_questions_in_the_same_moment_start_one_turn(app: App, endpoint: ScriptedEndpoint) -> None:
    """The index decides, not luck: one stream, one 409, question and answer in order (case D06)."""
    first = await app.ask(f"How many? {endpoint.script(SEARCH, text('Four [1].'))}")
    script = endpoint.script(SEARCH, text("Four [1]."))
    body = {"message": f"both {script}", "conversation_id": first.conversation_id}
    responses = await asyncio.gather(*(app.http.post("/api/chat", json=body) for _ in range(5)))
    assert sorted(r.status_code for r in responses) == [200, 409, 409, 409, 409]
    assert [m["role"] for m in await app.messages(first.conversation_id)] == ["user", "assistant"] * 2


async def test_deleting_a_conversation_stops_what_runs_in_it(app: App, endpoint: ScriptedEndpoint) -> None:
    """The provider is closed, the rows are gone, the reader gets a terminal frame."""
    script = endpoint.script(SEARCH, stream(event({"content": "Half "}), close="hang"))
    turn = Turn()
    async with app.stream(f"Tell me {script}") as response:
        async for frame in frames_of(response):
            turn.frames.append(frame)
            if frame.event == "delta":
                deleted = await app.http.delete(f"/api/conversations/{turn.conversation_id}")
                assert deleted.status_code == 204
    assert turn.events[-1] == "done"
    seen = await script.request(1)
    async with asyncio.timeout(2):
        await seen.closed.wait()
    assert (await app.http.get(f"/api/conversations/{turn.conversation_id}")).status_code == 404


async def test_stop_between_two_calls_keeps_the_answered_one_and_leaves_the_pool_whole(
    app: App, endpoint: ScriptedEndpoint
) -> None:
    """The search that hangs in the database is cut; the next request is valid (cases A08 and S06)."""
    script = endpoint.script(
        call(("no_evidence_needed", {"reason": "first"}), ("search_chunks", {"query": "board"})), text("never")
    )
    turn = Turn()
    async with app.parts.database.begin() as holding:
        await holding.execute(sql("LOCK TABLE chunks IN ACCESS EXCLUSIVE MODE"))
        async with app.stream(f"Tell me {script}") as response:
            async for frame in frames_of(response):
                turn.frames.append(frame)
                if frame.event == "step":
                    path = f"/api/conversations/{turn.conversation_id}/stop"
                    assert (await app.http.post(path, json={"turn_id": turn.turn_id})).status_code == 202
        pool: Any = app.parts.database.engine.pool
        async with asyncio.timeout(5):
            while pool.checkedout() > 1:
                await asyncio.sleep(0)
    assert turn.done["stopped"] is True
    assert [s["tool"] for s in turn.of("step")] == ["no_evidence_needed"]
    exchange = (await app.messages(turn.conversation_id))[-1]["tool_exchange"]
    assert [m["role"] for m in exchange] == ["assistant", "tool"]
    assert [c["function"]["name"] for c in exchange[0]["tool_calls"]] == ["no_evidence_needed"]
    after = endpoint.script(SEARCH, text("Four [1]."))
    assert (await app.ask(f"How many? {after}", conversation_id=turn.conversation_id)).answer == "Four [1]."


async def test_a_turn_stopped_before_its_task_took_a_step_ends_as_stopped(app: App, endpoint: ScriptedEndpoint) -> None:
    """No request is made, the row and the terminal frame are there all the same."""
    script = endpoint.script(SEARCH, text("never"))
    supervisor = app.parts.supervisor
    admitted = await supervisor.start(new_turn(f"Quick {script}", replica=app.parts.replica), retry=False)
    assert supervisor.stop_here(admitted.turn_id)
    turn = await app.attach(admitted.conversation_id)
    assert turn.events[-1] == "done"
    assert turn.frames[-1].data["stopped"] is True
    assert script.requests == []
    assert (await app.messages(admitted.conversation_id))[-1]["stopped"] is True
