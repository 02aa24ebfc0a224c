"""`turnstream ask`: over HTTP and in process, cut connections, Ctrl-C, exit statuses. Source: issue 9, docs/manual."""

import asyncio
import io
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from sqlalchemy import URL

from app.cli.ask_frames import Lost, Question, Shown
from app.cli.ask_http import Remote, answers
from app.cli.ask_show import Text, printable
from app.errors import StartError
from tests.harness.app import App, running_app
from tests.harness.postgres import PostgresServer
from tests.harness.replica import COMMAND, environment
from tests.harness.scripted_endpoint import ScriptedEndpoint, call, event, finish, http, stream, text
from tests.harness.tcp_proxy import TcpProxy

ROOT = Path(__file__).parents[2]
SEARCH = call(("search_chunks", {"query": "board"}))


@pytest.fixture(scope="module")
async def endpoint() -> AsyncGenerator[ScriptedEndpoint, None]:
    async with ScriptedEndpoint() as running:
        yield running


@pytest.fixture(scope="module")
async def database_url(postgres: PostgresServer) -> AsyncGenerator[URL, None]:
    """A database of this module's own: others count what is in theirs."""
    async with postgres.new_database() as url:
        yield url


@pytest.fixture(scope="module")
async def app(database_url: URL, endpoint: ScriptedEndpoint) -> AsyncGenerator[App, None]:
    """A server with a document; its heartbeat is quick, so that silence is never long."""
    async with running_app(database_url, llm=endpoint.base_url, heartbeat_s=0.2) as running:
        await running.upload("ask.md", b"# The board\n\nFour members of the board remained besides Altman.\n")
        yield running


@asynccontextmanager
async def asking(*arguments: str, **given: str) -> AsyncGenerator[asyncio.subprocess.Process, None]:
    """`turnstream ask` as a process, with pipes for its outputs."""
    process = await asyncio.create_subprocess_exec(
        COMMAND,
        "ask",
        *arguments,
        env=environment(**given),
        stdout=PIPE,
        stderr=PIPE,
        cwd=os.sep,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def shown() -> tuple[Text, io.StringIO, io.StringIO]:
    out, aside = io.StringIO(), io.StringIO()
    return Text(Console(file=out, highlight=False), Console(file=aside, highlight=False)), out, aside


async def ask(url: str, message: str, **given: Any) -> list[Shown]:
    question = Question(message, given.get("base"), given.get("conversation_id"), None)
    async with aclosing(Remote(url, question, token=None).frames()) as frames:
        return [frame async for frame in frames]


async def test_the_answer_goes_to_stdout_and_its_steps_beside_it(app: App, endpoint: ScriptedEndpoint) -> None:
    """A server that answers at HOST:PORT is found and asked; nothing of this process's own is started."""
    script = endpoint.script(SEARCH, text("Four [1]."))
    port = app.url.rpartition(":")[2]
    nowhere = "postgresql://nobody@127.0.0.1:1/nothing"
    async with asking(f"How many? {script}", port=port, database_url=nowhere) as process:
        out, aside = await process.communicate()
    assert process.returncode == 0, aside
    answer, sources = out.decode().split("\n\n")
    assert answer == "Four [1]."
    assert sources.splitlines()[0].startswith("[1] The board")
    steps, go_on = aside.decode().splitlines()
    assert steps.startswith("● search_chunks board")
    conversation = go_on.removeprefix("To go on: --conversation ")
    assert (await app.messages(conversation))[1]["content"] == "Four [1]."


async def test_with_json_every_frame_is_a_line(app: App, endpoint: ScriptedEndpoint) -> None:
    """The lines are the frames of the contract, and the status tells how the turn ended."""
    script = endpoint.script(http(402, {"error": {"message": "pay first"}}))
    async with asking("--url", app.url, "--json", f"How many? {script}") as process:
        out, _ = await process.communicate()
    frames = [json.loads(line) for line in out.splitlines()]
    assert [frame["event"] for frame in frames] == ["conversation", "error"]
    turn = frames[0]["data"]["turn_id"]
    assert [frame["id"] for frame in frames] == [f"{turn}:1", f"{turn}:2"]
    assert (frames[1]["data"]["code"], process.returncode) == ("model_out_of_credit", 1)


async def first_text(process: asyncio.subprocess.Process) -> str:
    """Read frames until text comes; gives the conversation."""
    assert process.stdout is not None
    conversation = ""
    async with asyncio.timeout(30):
        while True:
            line = await process.stdout.readline()
            assert line, "it ended before any text came"
            frame = json.loads(line)
            conversation = frame["data"]["id"] if frame["event"] == "conversation" else conversation
            if frame["event"] == "delta":
                return conversation


@pytest.mark.parametrize("where", ["server", "here"])
async def test_ctrl_c_stops_the_turn_and_waits_for_its_end(
    app: App, endpoint: ScriptedEndpoint, database_url: URL, where: str
) -> None:
    """The answer is stored as stopped, over HTTP and in process (on the configured database, without a server)."""
    never = asyncio.Event()
    script = endpoint.script(SEARCH, stream(event({"content": "Four "}), never, finish()))
    url = database_url.render_as_string(hide_password=False)
    here = {"database_url": url, "port": "0", "llm_base_url": endpoint.base_url, "llm_model": "scripted"}
    there = {"url": app.url}
    async with asking("--json", f"How many? {script}", **(there if where == "server" else here)) as process:
        conversation = await first_text(process)
        process.send_signal(signal.SIGINT)
        out, aside = await process.communicate()
    assert process.returncode == 130, aside
    assert json.loads(out.splitlines()[-1])["data"]["stopped"] is True
    answer = (await app.messages(conversation))[1]
    assert (answer["content"], answer["stopped"]) == ("Four ", True)


async def test_a_cut_connection_is_taken_up_where_it_broke_off(app: App, endpoint: ScriptedEndpoint) -> None:
    """Every frame comes once and in order, though the connection was cut in the middle (case S10)."""
    gate = asyncio.Event()
    script = endpoint.script(SEARCH, stream(event({"content": "Four "}), gate, event({"content": "[1]."}), finish()))
    proxy = TcpProxy(("127.0.0.1", int(app.url.rpartition(":")[2])))
    seen: list[Shown] = []
    async with proxy.running():
        remote = Remote(f"http://127.0.0.1:{proxy.port}", Question(f"How many? {script}", None, None, None), token=None)
        async with aclosing(remote.frames()) as frames:
            async for frame in frames:
                seen.append(frame)
                if frame.event == "delta" and not gate.is_set():
                    proxy.cut()
                    gate.set()
                    proxy.mend()
    assert proxy.connections >= 2
    assert [int(frame.id.rpartition(":")[2]) for frame in seen] == list(range(1, len(seen) + 1))
    assert "".join(frame.data["text"] for frame in seen if frame.event == "delta") == "Four [1]."
    assert seen[-1].event == "done"


async def test_the_example_follows_a_turn_over_a_cut_connection(app: App, endpoint: ScriptedEndpoint) -> None:
    """`python -m examples.follow`, which knows nothing of this server's code."""
    gate = asyncio.Event()
    script = endpoint.script(SEARCH, stream(event({"content": "Four "}), gate, event({"content": "[1]."}), finish()))
    proxy = TcpProxy(("127.0.0.1", int(app.url.rpartition(":")[2])))
    async with proxy.running():
        argv = (sys.executable, "-m", "examples.follow", f"How many? {script}", f"http://127.0.0.1:{proxy.port}")
        process = await asyncio.create_subprocess_exec(*argv, stdout=PIPE, stderr=PIPE, cwd=ROOT)
        assert process.stdout is not None
        assert await process.stdout.readexactly(5) == b"Four "
        proxy.cut()
        gate.set()
        proxy.mend()
        out, aside = await process.communicate()
    assert (out, process.returncode) == (b"[1].\n", 0), aside
    assert b"search_chunks board: ok" in aside


async def test_a_question_whose_response_never_came_is_asked_once(app: App, endpoint: ScriptedEndpoint) -> None:
    """It is sent again with the same request_id, which attaches to the turn it started (case S09)."""
    script = endpoint.script(SEARCH, text("Four [1]."))
    proxy = TcpProxy(("127.0.0.1", int(app.url.rpartition(":")[2])))
    async with proxy.running():
        asked = asyncio.create_task(ask(f"http://127.0.0.1:{proxy.port}", f"How many? {script}"))
        await script.request(0)  # the turn runs; the stream is behind it
        proxy.cut()
        proxy.mend()
        seen = await asked
    assert seen[-1].event == "done"
    assert len(script.requests) == 2
    found = await app.rows("SELECT count(*) AS n FROM messages WHERE content = :q", q=f"How many? {script}")
    assert found[0].n == 1


async def test_what_is_refused_is_said_before_anything_begins(app: App) -> None:
    """The server's own sentence; an address where nothing listens is named."""
    with pytest.raises(StartError, match="no base named 'nope'"):
        await ask(app.url, "x", base="nope")
    with pytest.raises(StartError, match=r"No server answers at http://127\.0\.0\.1:1"):
        await ask("http://127.0.0.1:1", "x")
    with pytest.raises(StartError, match="no address of a server"):
        Remote("ftp://example", Question("x", None, None, None), token=None)


async def ask_and_delete(app: App, proxy: TcpProxy, message: str) -> None:
    """Ask through the proxy, and delete the conversation while the connection is cut."""
    remote = Remote(f"http://127.0.0.1:{proxy.port}", Question(message, None, None, None), token=None)
    async with aclosing(remote.frames()) as frames:
        async for frame in frames:
            if frame.event == "conversation":
                proxy.cut()
                deleted = await app.http.delete(f"/api/conversations/{frame.data['id']}")
                assert deleted.status_code == 204
                proxy.mend()


async def test_a_conversation_that_is_deleted_meanwhile_is_lost(app: App, endpoint: ScriptedEndpoint) -> None:
    """Its end can't be seen any more, which is said instead of waiting for it."""
    never = asyncio.Event()
    script = endpoint.script(SEARCH, stream(event({"content": "Four "}), never, finish()))
    proxy = TcpProxy(("127.0.0.1", int(app.url.rpartition(":")[2])))
    async with proxy.running():
        with pytest.raises(Lost, match="no such conversation"):
            await ask_and_delete(app, proxy, f"How many? {script}")


async def test_only_a_server_of_ours_is_taken_for_one(app: App, endpoint: ScriptedEndpoint) -> None:
    """Another program on the port is not asked."""
    assert await answers(app.url) is True
    assert await answers(endpoint.base_url.removesuffix("/v1")) is False
    assert await answers("http://127.0.0.1:1") is False


async def test_a_server_that_asks_who_we_are_is_one_of_ours(database_url: URL, endpoint: ScriptedEndpoint) -> None:
    """Without a token it refuses, in its own words."""
    async with running_app(database_url, llm=endpoint.base_url, auth="token") as running:
        assert await answers(running.url) is True
        with pytest.raises(StartError, match="Say who asks"):
            await ask(running.url, "x")


def test_a_terminal_is_not_steered_by_what_was_answered() -> None:
    """Control characters and turned direction don't reach it, wherever in a frame they are."""
    show, out, aside = shown()
    show.take(Shown("t:1", "conversation", {"id": "c"}))
    step = {"n": 1, "tool": "search_chunks", "label": "\x1b]0;x\x07", "detail": "", "status": "ok", "ms": 1}
    show.take(Shown("t:2", "step", step))
    source = {"n": 1, "title": "\x1b[2J[bold]T[/]", "locator": "\u202eL"}
    show.take(Shown("t:3", "sources", [source]))
    show.take(Shown("t:4", "delta", {"at": 0, "text": "a\x1b[31mb\tc\n"}))
    show.take(Shown("t:5", "done", {"stopped": False, "evidence": "uncited", "cited": []}))
    assert out.getvalue() == "a[31mb\tc\n\n[1] [2J[bold]T[/] · L\n"
    assert "\x1b" not in aside.getvalue()
    assert printable("你好 é\r\x9b\x00") == "你好 é"
    assert show.status == 0


def test_an_answer_that_was_begun_again_is_shown_again() -> None:
    """After a take-over a snapshot replaces the text; one that only goes on is continued."""
    show, out, aside = shown()
    show.take(Shown("t:1", "conversation", {"id": "c"}))
    show.take(Shown("t:2", "delta", {"at": 0, "text": "Four mem"}))
    show.take(Shown("t:3", "snapshot", {"content": "Four members", "steps": [], "sources": []}))
    show.take(Shown("t:4", "snapshot", {"content": "There were", "steps": [], "sources": []}))
    show.take(Shown("t:5", "delta", {"at": 10, "text": " four."}))
    show.take(Shown("t:6", "done", {"stopped": True, "evidence": "none", "cited": []}))
    assert out.getvalue() == "Four members\nThere were four.\n"
    assert "The answer was begun again." in aside.getvalue()
    assert "The answer was stopped." in aside.getvalue()
    assert show.status == 130
