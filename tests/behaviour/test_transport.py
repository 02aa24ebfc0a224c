"""The stream as HTTP: headers, heartbeat, disconnect, compression, shutdown. DESIGN section 5, cases S01 S02 S06 S07."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from sqlalchemy import URL

from tests.harness.app import App, Turn, running_app
from tests.harness.postgres import run_sql
from tests.harness.scripted_endpoint import ScriptedEndpoint, call, event, finish, stream, text
from tests.harness.sse_reader import StreamReader, frames_of

SEARCH = call(("search_chunks", {"query": "board"}))


async def test_the_stream_is_never_cached_buffered_or_compressed(app: App, endpoint: ScriptedEndpoint) -> None:
    """The headers of the contract, whatever the client accepts (cases S01 and S02)."""
    script = endpoint.script(SEARCH, text("Four [1]."))
    async with app.http.stream(
        "POST", "/api/chat", json={"message": f"How? {script}"}, headers={"Accept-Encoding": "gzip, br"}
    ) as response:
        async for _ in response.aiter_raw():
            pass
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert response.headers["cache-control"] == "no-cache, no-transform"
    assert response.headers["x-accel-buffering"] == "no"
    assert "content-encoding" not in response.headers


async def test_a_quiet_stream_is_kept_alive_by_comments_before_the_first_token_too(
    app: App, endpoint: ScriptedEndpoint
) -> None:
    """Comments come while the model is silent, and carry no id (cases S01 and S10)."""
    gate = asyncio.Event()
    script = endpoint.script(stream(gate, event({"content": "x"}), finish()), SEARCH, text("Four [1]."))
    reader = StreamReader()
    turn = Turn()
    async with app.stream(f"How many? {script}") as response:
        async for piece in response.aiter_raw():
            turn.frames += reader.feed(piece)
            if len(reader.comments) >= 2:
                gate.set()
    assert turn.events[-1] == "done"
    assert set(reader.comments) == {"keep-alive"}


async def test_frames_reach_the_reader_one_by_one(app: App, endpoint: ScriptedEndpoint) -> None:
    """The first delta is there while the model still holds the second back (case S01)."""
    gate = asyncio.Event()
    script = endpoint.script(SEARCH, stream(event({"content": "One "}), gate, event({"content": "two [1]."}), finish()))
    turn = Turn()
    async with app.stream(f"Count {script}") as response:
        async for frame in frames_of(response):
            turn.frames.append(frame)
            if turn.answer == "One ":
                gate.set()
    assert turn.answer == "One two [1]."


async def test_a_reader_that_goes_away_is_noticed_and_leaves_nothing_behind(
    app: App, endpoint: ScriptedEndpoint
) -> None:
    """Readers and pooled connections return to where they were (cases S02 C and S06)."""
    gate = asyncio.Event()
    script = endpoint.script(SEARCH, stream(event({"content": "One "}), gate, event({"content": "two [1]."}), finish()))
    before = app.parts.live.attached_readers

    async def cut(conversation_id: str) -> None:
        async with app.http.stream("GET", f"/api/conversations/{conversation_id}/live") as response:
            async for _ in response.aiter_raw():
                return

    conversation_id = ""
    async with app.stream(f"Count {script}") as response:
        async for frame in frames_of(response):
            if frame.event == "conversation":
                conversation_id = frame.data["id"]
            if frame.event == "delta" and not gate.is_set():
                await asyncio.gather(*(cut(conversation_id) for _ in range(50)))
                async with asyncio.timeout(2):
                    while app.parts.live.attached_readers > before + 1:
                        await asyncio.sleep(0)
                gate.set()
    pool: Any = app.parts.database.engine.pool
    async with asyncio.timeout(2):
        while pool.checkedout():
            await asyncio.sleep(0)
    idle = await app.rows(
        "SELECT count(*) AS n FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' "
        "AND datname = current_database() AND pid <> pg_backend_pid()"
    )
    assert idle[0].n == 0


async def test_at_shutdown_streams_end_with_a_hint_and_the_turn_is_given_up_whole(
    new_database: Callable[[], AbstractAsyncContextManager[URL]], endpoint: ScriptedEndpoint
) -> None:
    """Open streams end at once (case S07); a turn that doesn't end in time is left to whoever takes it."""
    script = endpoint.script(
        call(("no_evidence_needed", {"reason": "t"})), stream(event({"content": "Half "}), close="hang")
    )
    async with new_database() as url:
        reader = StreamReader()
        turn = Turn()
        async with running_app(url, llm=endpoint.base_url, drain_s=0.2) as app:
            async with app.stream(f"Tell me {script}") as response:
                async for piece in response.aiter_raw():
                    turn.frames += reader.feed(piece)
                    if turn.answer and not app.server.should_exit:
                        app.server.should_exit = True
            assert turn.events[-1] == "delta"
            assert reader.retry_ms is not None
        given_up = await run_sql(
            url,
            "SELECT content FROM turn_pieces p JOIN turns t ON t.id = turn_id WHERE status = 'running' AND replica IS NULL",
        )
        assert given_up == "Half "


async def test_a_turn_that_ends_in_time_is_finished_during_shutdown(
    new_database: Callable[[], AbstractAsyncContextManager[URL]], endpoint: ScriptedEndpoint
) -> None:
    """Draining waits for it; nothing is cut."""
    gate = asyncio.Event()
    script = endpoint.script(
        call(("no_evidence_needed", {"reason": "t"})),
        stream(event({"content": "All "}), gate, event({"content": "of it."}), finish()),
    )
    async with new_database() as url:
        turn = Turn()
        async with running_app(url, llm=endpoint.base_url, drain_s=10) as app:
            async with app.stream(f"Tell me {script}") as response:
                async for frame in frames_of(response):
                    turn.frames.append(frame)
                    if frame.event == "delta" and not app.server.should_exit:
                        app.server.should_exit = True
            gate.set()
        async with running_app(url, llm=endpoint.base_url) as app:
            stored = (await app.messages(turn.conversation_id))[-1]
            assert (stored["content"], stored["error_code"]) == ("All of it.", None)


async def test_a_server_that_is_shutting_down_admits_nothing(
    new_database: Callable[[], AbstractAsyncContextManager[URL]], endpoint: ScriptedEndpoint
) -> None:
    """503 with Retry-After, on questions and on /readyz."""
    async with new_database() as url, running_app(url, llm=endpoint.base_url) as app:
        assert (await app.http.get("/readyz")).status_code == 200
        app.parts.begin_shutdown()
        refused = await app.http.post("/api/chat", json={"message": "hello"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "draining")
        assert refused.headers["retry-after"]
        ready = await app.http.get("/readyz")
        assert (ready.status_code, ready.json()["status"]) == (503, "shutting down")
