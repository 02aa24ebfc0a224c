"""The shipped nginx configuration before real processes: frames, silence, compression, who is asked instead of whom.

Cases S01 and S02; issue 5. nginx is Debian's.
"""

import asyncio
import subprocess
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import httpx
import pytest
from sqlalchemy import URL

from app.settings import Settings
from tests.harness.app import Turn, check_contract, running_app
from tests.harness.nginx import nginx, render
from tests.harness.postgres import PostgresServer
from tests.harness.programs import installed
from tests.harness.replica import Replica, free_port, replica
from tests.harness.scripted_endpoint import RESET, Script, ScriptedEndpoint, call, event, finish, http, stream, text
from tests.harness.sse_reader import StreamReader, frames_of

SKIP = call(("no_evidence_needed", {"reason": "t"}))
SOON_S = 1.0
"""How long after the model said it a frame may take to reach the browser (case S01)."""

GZIP = {"Accept-Encoding": "gzip, deflate, br"}
DRAINING = http(503, {"error": {"code": "draining", "message": "The server is shutting down."}}, retry_after="2")


@pytest.fixture(scope="module")
async def endpoint() -> AsyncGenerator[ScriptedEndpoint, None]:
    """The model behind the replicas."""
    async with ScriptedEndpoint() as scripted:
        yield scripted


@pytest.fixture(scope="module")
async def served(
    postgres: PostgresServer, endpoint: ScriptedEndpoint, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Replica, None]:
    """A process on a database of its own, with a heartbeat that a test can wait for."""
    installed("nginx")
    async with postgres.new_database() as url:
        given = {
            "database_url": url.render_as_string(hide_password=False),
            "llm_base_url": endpoint.base_url,
            "llm_model": "scripted",
            "heartbeat_s": "0.2",
        }
        async with replica(tmp_path_factory.mktemp("served"), **given) as started:
            yield started


@asynccontextmanager
async def client(address: str) -> AsyncGenerator[httpx.AsyncClient, None]:
    """A browser at that address."""
    async with httpx.AsyncClient(base_url=address, timeout=10, trust_env=False) as opened:
        yield opened


async def ask(browser: httpx.AsyncClient, question: str) -> Turn:
    """Ask and read to the end."""
    async with browser.stream("POST", "/api/chat", json={"message": question}) as response:
        assert response.status_code == 200, await response.aread()
        turn = Turn([frame async for frame in frames_of(response)])
    check_contract(turn)
    return turn


async def test_each_frame_arrives_while_the_model_still_holds_the_next_back(
    served: Replica, endpoint: ScriptedEndpoint
) -> None:
    """Uncompressed though the browser takes gzip, for the tab that asked and for one that attached (S01, S02 A)."""
    words = [f"word{number} " for number in range(5)]
    gates = [asyncio.Event() for _ in words]
    pieces = [piece for gate, word in zip(gates, words, strict=True) for piece in (gate, event({"content": word}))]
    script = endpoint.script(SKIP, stream(*pieces, finish()))
    async with nginx(served.port) as address, client(address) as browser, client(address) as other:
        asking = browser.stream("POST", "/api/chat", json={"message": f"Count {script}"}, headers=GZIP)
        async with asking as response:
            frames = frames_of(response)
            conversation = (await anext(frames)).data["id"]
            await script.request(1)
            attaching = other.stream("GET", f"/api/conversations/{conversation}/live", headers=GZIP)
            async with attaching as attached:
                tabs = [frames, frames_of(attached)]
                for gate, word in zip(gates, words, strict=True):
                    gate.set()
                    async with asyncio.timeout(SOON_S):
                        for tab in tabs:
                            while (frame := await anext(tab)).event != "delta":
                                pass
                            assert frame.data["text"] == word
                for tab in tabs:
                    assert [frame.event async for frame in tab] == ["done"]
    for answer in (response, attached):
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert answer.headers["cache-control"] == "no-cache, no-transform"
        assert "content-encoding" not in answer.headers


async def test_other_answers_are_compressed(served: Replica) -> None:
    """So that the streams' being plain says something."""
    async with nginx(served.port) as address, client(address) as browser:
        assert (await browser.get("/openapi.json", headers=GZIP)).headers["content-encoding"] == "gzip"


async def test_a_silence_longer_than_nginx_s_patience_doesn_t_end_the_stream(
    served: Replica, endpoint: ScriptedEndpoint
) -> None:
    """Heartbeats pass while the model says nothing, before the first token (case S01)."""
    gate = asyncio.Event()
    script = endpoint.script(stream(gate, event({"content": "x"}), finish()), SKIP, text("At last."))
    reader, turn = StreamReader(), Turn()
    async with (
        nginx(served.port, changes={"proxy_read_timeout": "1s"}) as address,
        client(address) as browser,
        browser.stream("POST", "/api/chat", json={"message": f"Wait {script}"}) as response,
    ):
        async for piece in response.aiter_raw():
            turn.frames += reader.feed(piece)
            if len(reader.comments) == 10:  # of a fifth of a second each
                gate.set()
    assert (turn.events[-1], turn.answer) == ("done", "At last.")


async def test_the_server_sees_that_a_browser_went_away(
    new_database: Callable[[], AbstractAsyncContextManager[URL]], endpoint: ScriptedEndpoint
) -> None:
    """The end of the connection is passed on; the turn goes on without it (cases S02 C, S03)."""
    installed("nginx")
    gate = asyncio.Event()
    script = endpoint.script(SKIP, stream(event({"content": "One "}), gate, event({"content": "two."}), finish()))
    async with (
        new_database() as url,
        running_app(url, llm=endpoint.base_url) as app,
        nginx(app.http.base_url.port or 0) as address,
        client(address) as browser,
    ):
        conversation = ""
        async with browser.stream("POST", "/api/chat", json={"message": f"Count {script}"}) as response:
            async for frame in frames_of(response):
                conversation = conversation or frame.data["id"]
                if frame.event == "delta":
                    break
            assert app.parts.live.attached_readers == 1
        async with asyncio.timeout(SOON_S):
            while app.parts.live.attached_readers:
                await asyncio.sleep(0.01)
        gate.set()
        async with asyncio.timeout(10):
            while len(stored := await app.messages(conversation)) < 2:
                await asyncio.sleep(0.01)
    assert stored[1]["content"] == "One two."


async def test_what_a_draining_replica_refuses_another_one_answers(served: Replica, endpoint: ScriptedEndpoint) -> None:
    """A 503 came before anything began, so that a question may be sent elsewhere."""
    async with ScriptedEndpoint() as draining:
        draining.default = Script("", [DRAINING])
        async with nginx(draining.port, draining.port, served.port) as address, client(address) as browser:
            for _ in range(4):
                assert (await ask(browser, f"Hello {endpoint.script(SKIP, text('Hi.'))}")).answer == "Hi."
                assert (await browser.get("/readyz")).status_code == 200
        assert len(draining.default.requests) >= 4


async def test_where_all_replicas_drain_the_browser_gets_their_refusal(served: Replica) -> None:
    """Word for word, not a page of nginx's."""
    async with ScriptedEndpoint() as draining:
        draining.default = Script("", [DRAINING])
        async with nginx(draining.port, draining.port) as address, client(address) as browser:
            refused = await browser.post("/api/chat", json={"message": "Hello"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "draining")
    assert refused.headers["retry-after"] == "2"


async def test_a_replica_that_is_gone_is_passed_over(served: Replica, endpoint: ScriptedEndpoint) -> None:
    """A question that could not be sent is sent elsewhere."""
    async with nginx(free_port(), free_port(), served.port) as address, client(address) as browser:
        for _ in range(4):
            assert (await ask(browser, f"Hello {endpoint.script(SKIP, text('Hi.'))}")).answer == "Hi."


async def test_a_question_whose_connection_broke_is_not_asked_again_elsewhere(
    served: Replica, endpoint: ScriptedEndpoint
) -> None:
    """Its turn may run already; what only reads is read elsewhere."""
    before = (await served.http.get("/api/conversations")).json()["total"]
    async with ScriptedEndpoint() as dying:
        dying.default = Script("", [RESET])
        async with nginx(dying.port, served.port) as address, client(address) as browser:
            script = endpoint.script(SKIP, text("Hi."))
            statuses = [
                (await browser.post("/api/chat", json={"message": f"Hello {script}"})).status_code for _ in range(4)
            ]
            for _ in range(4):
                assert (await browser.get("/readyz")).status_code == 200
    assert (statuses.count(200), statuses.count(502)) == (2, 2)
    assert (await served.http.get("/api/conversations")).json()["total"] == before + 2


async def test_a_file_that_is_too_large_is_refused_by_the_server_and_not_by_nginx(served: Replica) -> None:
    """With a reason. The largest file that is taken passes."""
    most = Settings.model_fields["max_upload_bytes"].default
    async with nginx(served.port) as address, client(address) as browser:
        for size, status in ((most, 202), (most + 1, 413)):
            sent = await browser.post("/api/bases/default/documents", files={"file": ("a.txt", b"a" * size)})
            assert (sent.status_code, sent.headers["content-type"]) == (status, "application/json")


def test_nginx_itself_finds_nothing_wrong_with_the_configuration(folder: Path) -> None:
    """`nginx -t`, with local addresses for the replicas'."""
    main = render(folder, free_port(), [free_port() for _ in range(3)])
    argv = [installed("nginx"), "-t", "-c", str(main), "-p", str(folder), "-e", "stderr"]
    tested = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (tested.returncode, [line for line in tested.stderr.splitlines() if "[" in line]) == (0, []), tested.stderr
