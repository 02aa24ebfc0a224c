"""Attaching to a running turn, from any tab, at any moment. Source: DESIGN section 5, the laws of app/live/log.py."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import URL

from tests.harness.app import App, Turn, check_contract, running_app
from tests.harness.scripted_endpoint import ScriptedEndpoint, call, event, finish, stream, text
from tests.harness.sse_reader import Frame, frames_of

SEARCH = call(("search_chunks", {"query": "board"}))


class Half:
    """A turn that has published "One two " and waits at a gate before "three four [1]."."""

    def __init__(
        self, gate: asyncio.Event, turn: Turn, response: httpx.Response, frames: AsyncGenerator[Frame, None]
    ) -> None:
        self.gate = gate
        self.turn = turn
        self.response = response
        self._frames = frames

    async def rest(self) -> Turn:
        """Let it go on, and read the first tab's stream to its end."""
        self.gate.set()
        async for frame in self._frames:
            self.turn.frames.append(frame)
        check_contract(self.turn)
        return self.turn


@asynccontextmanager
async def half_way(app: App, endpoint: ScriptedEndpoint, **body: object) -> AsyncGenerator[Half, None]:
    """A turn stopped at its gate, with the asking tab still attached."""
    gate = asyncio.Event()
    answer = stream(
        event({"content": "One "}), event({"content": "two "}), gate, event({"content": "three four [1]."}), finish()
    )
    script = endpoint.script(SEARCH, answer)
    async with app.stream(f"Count {script}", **body) as response:
        turn = Turn()
        frames = frames_of(response)
        async for frame in frames:
            turn.frames.append(frame)
            if turn.answer == "One two ":
                break
        yield Half(gate, turn, response, frames)


async def test_a_fresh_tab_gets_a_snapshot_and_then_what_follows(app: App, endpoint: ScriptedEndpoint) -> None:
    """Snapshot plus deltas is the answer; steps and sources are in the snapshot."""
    async with half_way(app, endpoint) as half:
        tab = asyncio.create_task(app.attach(half.turn.conversation_id))
        async for reader in readers(app, 2):
            assert reader
        whole = await half.rest()
    second = await tab
    assert second.events[0] == "snapshot"
    assert second.events[-1] == "done"
    snapshot = second.frames[0].data
    assert snapshot["turn_id"] == whole.turn_id
    assert snapshot["content"] + second.answer == whole.answer == "One two three four [1]."
    assert snapshot["steps"] == whole.of("step")
    assert snapshot["sources"] == whole.sources
    assert second.frames[0].seq == second.frames[1].seq - 1


async def readers(app: App, count: int) -> AsyncGenerator[bool, None]:
    """Yields once, when so many readers are attached."""
    async with asyncio.timeout(5):
        while app.parts.live.attached_readers < count:
            await asyncio.sleep(0)
    yield True


async def test_a_tab_that_comes_back_goes_on_where_it_was(app: App, endpoint: ScriptedEndpoint) -> None:
    """Frames go on from the next seq, nothing twice, nothing missing (case S10)."""
    async with half_way(app, endpoint) as half:
        seen = half.turn.frames[2].id
        tab = asyncio.create_task(app.attach(half.turn.conversation_id, seen))
        whole = await half.rest()
    assert (await tab).frames == whole.frames[3:]


@pytest.mark.parametrize("position", ["foreign", "future", "nonsense"])
async def test_a_position_that_is_not_in_the_log_gets_one_snapshot(
    app: App, endpoint: ScriptedEndpoint, position: str
) -> None:
    """A foreign, a future and a meaningless id replace what the tab had (case S10)."""
    async with half_way(app, endpoint) as half:
        ids = {"foreign": f"{uuid4()}:3", "future": f"{half.turn.turn_id}:999", "nonsense": "what?"}
        tab = asyncio.create_task(app.attach(half.turn.conversation_id, ids[position]))
        whole = await half.rest()
    second = await tab
    assert second.events.count("snapshot") == 1
    assert second.events[0] == "snapshot"
    assert second.frames[0].data["content"] + second.answer == whole.answer


async def test_losing_the_connection_cancels_nothing(app: App, endpoint: ScriptedEndpoint) -> None:
    """The turn belongs to the server: it ends, is stored, and another tab shows it (case S03)."""
    async with half_way(app, endpoint) as half:
        await half.response.aclose()
        tab = asyncio.create_task(app.attach(half.turn.conversation_id))
        half.gate.set()
    second = await tab
    assert second.events[-1] == "done"
    assert (await app.messages(half.turn.conversation_id))[-1]["content"] == "One two three four [1]."


async def test_a_late_tab_gets_the_terminal_frame_of_a_turn_that_just_ended(
    app: App, endpoint: ScriptedEndpoint
) -> None:
    """For a minute the log is kept: whole by snapshot, the rest by id, nothing to a tab that has it all."""
    turn = await app.ask(f"How many? {endpoint.script(SEARCH, text('Four [1].'))}")
    late = await app.attach(turn.conversation_id)
    assert late.events == ["snapshot", "done"]
    assert late.frames[0].data["content"] == turn.answer
    assert late.frames[1] == turn.frames[-1]
    resumed = await app.attach(turn.conversation_id, turn.frames[-2].id)
    assert resumed.frames == turn.frames[-1:]
    assert (await app.attach(turn.conversation_id, turn.frames[-1].id)).events == ["idle"]


async def test_a_conversation_where_nothing_runs_is_idle(app: App, endpoint: ScriptedEndpoint) -> None:
    """The idle frame carries no id, and the stream ends."""
    turn = await app.ask(f"How many? {endpoint.script(SEARCH, text('Four [1].'))}")
    app.parts.live.abandon(turn.turn_id)
    idle = await app.attach(turn.conversation_id)
    assert idle.frames == [Frame("idle", {}, "")]
    assert (await app.attach(turn.conversation_id, turn.frames[-1].id)).frames == idle.frames


async def test_a_tab_whose_turn_ended_while_it_slept_is_given_the_stored_end(
    app: App, endpoint: ScriptedEndpoint
) -> None:
    """The log is gone, but the tab names the turn that it was following and hasn't seen the end of."""
    turn = await app.ask(f"How many? {endpoint.script(SEARCH, text('Four [1].'))}")
    app.parts.live.abandon(turn.turn_id)
    woken = await app.attach(turn.conversation_id, turn.frames[2].id)
    assert woken.events == ["snapshot", "done"]
    assert woken.frames[0].data["content"] == turn.answer
    assert woken.frames[-1] == turn.frames[-1]


async def test_attaching_to_what_is_not_there_is_404(app: App) -> None:
    """An unknown conversation is refused before any stream."""
    response = await app.http.get(f"/api/conversations/{uuid4()}/live")
    assert (response.status_code, response.json()["error"]["code"]) == (404, "not_found")


async def test_the_same_request_id_never_starts_a_second_turn(app: App, endpoint: ScriptedEndpoint) -> None:
    """Sent again while it runs it attaches from the first frame; afterwards it gets the stored result (case S09)."""
    request_id = str(uuid4())
    async with half_way(app, endpoint, request_id=request_id) as half:
        again = asyncio.create_task(app.ask("anything", request_id=request_id))
        whole = await half.rest()
    assert (await again).frames == whole.frames
    assert (await app.ask("anything", request_id=request_id)).frames == whole.frames
    app.parts.live.abandon(whole.turn_id)
    async with app.stream("anything", request_id=request_id) as response:
        stored = Turn([frame async for frame in frames_of(response)])
    assert stored.events == ["conversation", "snapshot", "done"]
    assert stored.frames[0] == whole.frames[0]
    assert stored.frames[1].data["content"] == whole.answer
    assert stored.frames[-1] == whole.frames[-1]
    rows = await app.rows("SELECT count(*) AS n FROM turns WHERE request_id = CAST(:r AS uuid)", r=request_id)
    assert rows[0].n == 1


async def test_a_hundred_tabs_get_the_same_bytes(app: App, endpoint: ScriptedEndpoint) -> None:
    """Frames are encoded once; every tab ends with the same answer."""
    async with httpx.AsyncClient(base_url=app.url, limits=httpx.Limits(max_connections=None), timeout=30) as many:
        app.http, kept = many, app.http
        try:
            async with half_way(app, endpoint) as half:
                tabs = [asyncio.create_task(app.attach(half.turn.conversation_id)) for _ in range(100)]
                async for _ in readers(app, 101):
                    pass
                await half.rest()
                ended = await asyncio.gather(*tabs)
        finally:
            app.http = kept
    assert len({tuple((f.event, f.id) for f in tab.frames) for tab in ended}) == 1
    assert all(tab.frames[0].data["content"] + tab.answer == half.turn.answer for tab in ended)


async def test_a_reader_that_falls_behind_gets_a_snapshot_and_slows_nobody(
    app: App, endpoint: ScriptedEndpoint, database_url: URL
) -> None:
    """While one tab reads nothing, five megabytes pass to the other; then the slow one has the same answer (S13)."""
    piece = "0123456789abcdef" * 512
    gate = asyncio.Event()
    answer = stream(event({"content": "begun "}), gate, *(event({"content": piece}) for _ in range(640)), finish())
    script = endpoint.script(SEARCH, answer)
    async with running_app(database_url, llm=endpoint.base_url, answer_max_chars=8_000_000) as wide:
        asking = asyncio.create_task(wide.ask(f"Write {script}"))
        await script.request(1)
        conversation = (await wide.http.get("/api/conversations")).json()["conversations"][0]["id"]
        port = int(wide.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(f"GET /api/conversations/{conversation}/live HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        await reader.readuntil(b"event: snapshot")
        received = b"event: snapshot"
        gate.set()
        whole = await asking
        assert len(whole.answer) == len("begun ") + 640 * len(piece)
        async with asyncio.timeout(20):
            while not received.endswith(b"0\r\n\r\n"):
                received += await reader.read(1 << 20)
        writer.close()
    assert received.count(b"event: snapshot") == 2
    last = received[received.rindex(b"event: snapshot") :]
    assert json.loads(last.split(b"data: ", 1)[1].split(b"\n", 1)[0])["content"] == whole.answer
    assert b"event: delta" not in last


async def test_a_citation_cut_into_single_characters_is_shown_as_it_was_written(
    app: App, endpoint: ScriptedEndpoint
) -> None:
    """No bracket is held back or removed, so live and stored text agree; only valid numbers count (case T03)."""
    words = "See [note], a[0] and [1]; not [[7]]."
    turn = await app.ask(f"How many? {endpoint.script(SEARCH, text(words, size=1))}")
    assert turn.answer == words
    assert (await app.messages(turn.conversation_id))[-1]["content"] == words
    assert turn.done["cited"] == [1]
