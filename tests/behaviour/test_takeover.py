"""A turn whose process is gone goes on in another, from what was written down. Issue 5 items 2 to 4, decision 0015.

Here two applications share a database in one process; tests/faults kills real ones.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from uuid import uuid4

import pytest
from sqlalchemy import URL

from app.store.turns import AdmittedTurn, admit
from tests.behaviour.conftest import BOARD
from tests.harness.app import App, Turn, new_turn, running_app
from tests.harness.postgres import run_sql
from tests.harness.scripted_endpoint import Script, ScriptedEndpoint, call, event, finish, stream, text
from tests.harness.sse_reader import StreamReader, frames_of

SEARCH = call(("search_chunks", {"query": "board"}), say="I'll look.")
HALF = stream(event({"content": "Half an ans"}), close="hang")


@dataclass
class Cut:
    """A turn that was handed over in the middle of its answer, and what its first reader had seen."""

    url: URL
    script: Script
    turn: Turn


@asynccontextmanager
async def cut(
    new_database: Callable[[], AbstractAsyncContextManager[URL]], endpoint: ScriptedEndpoint, script: Script
) -> AsyncGenerator[Cut, None]:
    """Ask, read until the answer's text begins, end the application without time to finish."""
    async with new_database() as url:
        turn = Turn()
        async with running_app(url, llm=endpoint.base_url, drain_s=0) as app:
            await app.upload("board.md", BOARD.encode())
            async with app.stream(f"Who sat on the board? {script}") as response:
                async for frame in frames_of(response):
                    turn.frames.append(frame)
                    if frame.event == "delta" and "Half" in frame.data["text"]:
                        app.server.should_exit = True
        yield Cut(url, script, turn)


@asynccontextmanager
async def next_owner(cut: Cut, endpoint: ScriptedEndpoint) -> AsyncGenerator[App, None]:
    async with running_app(cut.url, llm=endpoint.base_url) as app:
        yield app


async def test_a_turn_handed_over_goes_on_from_its_last_round(
    new_database: Callable[[], AbstractAsyncContextManager[URL]], endpoint: ScriptedEndpoint
) -> None:
    """What was gathered isn't gathered again, numbers stay, the half-written text is taken back by a snapshot."""
    script = endpoint.script(SEARCH, HALF, text("Four members [1]."))
    async with cut(new_database, endpoint, script) as before, next_owner(before, endpoint) as app:
        turn_id, seen = before.turn.turn_id, before.turn.frames[-1]
        after = await app.attach(before.turn.conversation_id, seen.id)
        assert after.events[0] == "snapshot"
        assert after.events[-1] == "done"
        snapshot = after.frames[0].data
        assert snapshot["content"] in ("I'll look.", "I'll look.\n\nFour members [1].")
        assert snapshot["steps"] == before.turn.of("step")
        assert snapshot["sources"] == before.turn.sources
        stored = (await app.messages(before.turn.conversation_id))[-1]
        assert stored["content"] == snapshot["content"] + after.answer == "I'll look.\n\nFour members [1]."
        assert (stored["evidence"], stored["cited"]) == ("cited", [1])
        assert stored["steps"] == before.turn.of("step")
        assert [m["role"] for m in stored["tool_exchange"]] == ["assistant", "tool"]
        assert script.messages(2) == script.messages(1)
        assert len(script.requests) == 3
        rows = await app.rows("SELECT attempt, deaths FROM turns WHERE id = CAST(:t AS uuid)", t=turn_id)
        assert tuple(rows[0]) == (1, 0)
        assert (await app.ask("And?" + str(endpoint.script(SEARCH, text("Ok [1]."))))).done


async def test_a_position_that_two_owners_may_have_given_out_gets_a_snapshot(
    new_database: Callable[[], AbstractAsyncContextManager[URL]], endpoint: ScriptedEndpoint
) -> None:
    """Law 3: the tab's last id was the dead owner's; the new one's frames have the same numbers and other text."""
    gate = asyncio.Event()
    pieces = [event({"content": f"{n} "}) for n in range(30)]
    script = endpoint.script(SEARCH, HALF, stream(*pieces, gate, event({"content": "end [1]."}), finish()))
    async with cut(new_database, endpoint, script) as before, next_owner(before, endpoint) as app:
        first = asyncio.create_task(app.attach(before.turn.conversation_id))
        await script.request(2)
        again = asyncio.create_task(app.attach(before.turn.conversation_id, before.turn.frames[-1].id))
        gate.set()
        for tab in (await first, await again):
            assert tab.events[0] == "snapshot"
            text_seen = tab.frames[0].data["content"] + tab.answer
            assert text_seen == "I'll look.\n\n" + "".join(f"{n} " for n in range(30)) + "end [1]."


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        ("stop_requested = true", (None, True)),
        ("deaths = 2, replica = 'dead', lease_until = now() - interval '1 second'", ("turn_interrupted", False)),
        ("created_at = now() - interval '11 minutes'", ("turn_interrupted", False)),
        ("checkpoint = '{\"ledger\": 7}'", ("turn_interrupted", False)),
    ],
    ids=["stopped", "died with three", "too old", "unreadable"],
)
async def test_a_turn_that_is_not_gone_on_with_ends_with_all_its_text(
    new_database: Callable[[], AbstractAsyncContextManager[URL]],
    endpoint: ScriptedEndpoint,
    change: str,
    outcome: tuple[str | None, bool],
) -> None:
    """Stopped meanwhile, taken over twice and lost again, older than ten minutes, or of another version (D04, D08)."""
    script = endpoint.script(SEARCH, HALF)
    async with cut(new_database, endpoint, script) as before:
        await run_sql(before.url, f"UPDATE turns SET {change} WHERE status = 'running'")
        async with next_owner(before, endpoint) as app:
            after = await app.attach(before.turn.conversation_id, before.turn.frames[-1].id)
            stored = (await app.messages(before.turn.conversation_id))[-1]
            assert (stored["error_code"], stored["stopped"]) == outcome
            assert stored["content"] == "I'll look.\n\nHalf an ans"
            assert after.frames[0].data["content"] + after.answer == stored["content"]
            assert after.events[-1] == ("error" if outcome[0] else "done")
            assert len(script.requests) == 2
            usable = endpoint.script(SEARCH, text("Ok [1]."))
            assert (await app.ask(f"And? {usable}", conversation_id=before.turn.conversation_id)).done


@pytest.mark.parametrize("finish_first", [True, False], ids=["at its save", "at a renewal"])
async def test_a_process_that_lost_its_turn_stores_nothing_and_sends_no_end(
    new_database: Callable[[], AbstractAsyncContextManager[URL]], endpoint: ScriptedEndpoint, *, finish_first: bool
) -> None:
    """Its readers are told to come back; whoever has the turn now will say how it ends."""
    gate = asyncio.Event()
    slow = stream(event({"content": "Mine "}), gate, event({"content": "[1]."}), finish())
    script = endpoint.script(SEARCH, slow)
    taken = "UPDATE turns SET replica = 'other', attempt = attempt + 1 WHERE status = 'running'"
    async with new_database() as url, running_app(url, llm=endpoint.base_url) as app:
        turn, told = Turn(), StreamReader()
        async with app.stream(f"Who? {script}") as response:
            async for piece in response.aiter_raw():
                turn.frames += told.feed(piece)
                if "Mine " in turn.answer and not gate.is_set():
                    await app.execute(taken)
                    if not finish_first:
                        await app.parts.supervisor.keep_house()
                    gate.set()
        assert told.retry_ms is not None
        assert not {"done", "error"} & set(turn.events)
        rows = await app.rows("SELECT status, replica, attempt FROM turns")
        assert [tuple(row) for row in rows] == [("running", "other", 1)]
        assert [m["role"] for m in await app.messages(turn.conversation_id)] == ["user"]


async def test_a_turn_of_which_nothing_was_written_begins_as_if_it_were_new(
    new_database: Callable[[], AbstractAsyncContextManager[URL]], endpoint: ScriptedEndpoint
) -> None:
    """Its owner died with the question stored and no frame known; the same request id finds the whole turn."""
    script = endpoint.script(SEARCH, text("Four [1]."))
    async with new_database() as url, running_app(url, llm=endpoint.base_url) as app:
        await app.upload("board.md", BOARD.encode())
        new = new_turn(f"Who? {script}", replica="dead", request_id=str(uuid4()))
        assert isinstance(await admit(app.parts.database, new), AdmittedTurn)
        asking = asyncio.create_task(app.ask("the same", request_id=new.request_id))
        await app.execute("UPDATE turns SET lease_until = now() - interval '1 second' WHERE status = 'running'")
        await app.parts.supervisor.keep_house()
        turn = await asking
        assert turn.turn_id == new.turn_id
        assert turn.answer.endswith("Four [1].")
        assert [m["role"] for m in await app.messages(turn.conversation_id)] == ["user", "assistant"]
