"""The real application on a real port, in the test's own loop, driven as a browser drives it.

async with running_app(database_url, llm=endpoint.base_url) as app:
    turn = await app.ask("Who sat on the board?")
    assert turn.done["evidence"] == "cited"
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import uvicorn
from sqlalchemy import URL, text

from app.main import Application, create_app
from app.serve import Server
from app.settings import Settings
from app.store.ids import new_id
from app.store.turns import NewTurn
from tests.harness.sse_reader import Frame, StreamReader, frames_of


def utf16(value: str) -> int:
    """The length a browser sees."""
    return len(value.encode("utf-16-le")) // 2


@dataclass(slots=True)
class Turn:
    """The frames of one stream, in order."""

    frames: list[Frame] = field(default_factory=list[Frame])

    def of(self, event: str) -> list[Any]:
        """The data of every frame of one kind."""
        return [f.data for f in self.frames if f.event == event]

    @property
    def events(self) -> list[str]:
        return [f.event for f in self.frames]

    @property
    def start(self) -> dict[str, Any]:
        """The conversation frame's data."""
        assert self.frames[0].event == "conversation", self.events
        return self.frames[0].data

    @property
    def conversation_id(self) -> str:
        return self.start["id"]

    @property
    def turn_id(self) -> str:
        return self.start["turn_id"]

    @property
    def answer(self) -> str:
        return "".join(d["text"] for d in self.of("delta"))

    @property
    def sources(self) -> list[dict[str, Any]]:
        found = self.of("sources")
        return found[-1] if found else []

    @property
    def done(self) -> dict[str, Any]:
        assert self.frames[-1].event == "done", self.frames[-1]
        return self.frames[-1].data

    @property
    def error(self) -> dict[str, Any]:
        assert self.frames[-1].event == "error", self.frames[-1]
        return self.frames[-1].data


def check_contract(turn: Turn) -> None:
    """What holds for the stream of every whole turn. Source: DESIGN section 5."""
    frames = turn.frames
    assert [f.id for f in frames] == [f"{turn.turn_id}:{n}" for n in range(1, len(frames) + 1)]
    assert [e for e in turn.events if e in ("done", "error")] == [turn.events[-1]], turn.events
    published, steps, sources = "", 0, 0
    for frame in frames:
        if frame.event in ("delta", "step"):
            assert frame.data["at"] == utf16(published), frame
        if frame.event == "delta":
            published += frame.data["text"]
        if frame.event == "step":
            steps += 1
            assert frame.data["n"] == steps
            assert frame.data["status"] in ("ok", "empty", "error")
        if frame.event == "sources":
            assert [s["n"] for s in frame.data] == list(range(1, len(frame.data) + 1))
            assert len(frame.data) >= sources
            sources = len(frame.data)


class App:
    """One running server: `http` speaks to it, `parts` is the application object, for what can't be seen outside."""

    def __init__(self, parts: Application, server: Server, url: str) -> None:
        self.parts = parts
        self.server = server
        self.url = url
        self.http = httpx.AsyncClient(base_url=url, timeout=30, trust_env=False)

    @asynccontextmanager
    async def stream(self, message: str, **body: object) -> AsyncGenerator[httpx.Response, None]:
        """An open POST /api/chat."""
        async with self.http.stream("POST", "/api/chat", json={"message": message, **body}) as response:
            yield response

    async def ask(self, message: str, **body: object) -> Turn:
        """Ask and read to the end; the stream's contract is checked for every turn that is asked this way."""
        async with self.stream(message, **body) as response:
            assert response.status_code == 200, (response.status_code, await response.aread())
            turn = Turn([frame async for frame in frames_of(response)])
        check_contract(turn)
        return turn

    async def attach(self, conversation_id: str, last_event_id: str | None = None) -> Turn:
        """Attach to a conversation and read to the end."""
        headers = {"Last-Event-ID": last_event_id} if last_event_id else {}
        path = f"/api/conversations/{conversation_id}/live"
        async with self.http.stream("GET", path, headers=headers) as response:
            assert response.status_code == 200, (response.status_code, await response.aread())
            return Turn([frame async for frame in frames_of(response)])

    async def messages(self, conversation_id: str) -> list[dict[str, Any]]:
        """The stored messages, as the API gives them."""
        response = await self.http.get(f"/api/conversations/{conversation_id}")
        assert response.status_code == 200, response.text
        return response.json()["messages"]

    async def rows(self, sql: str, **parameters: object) -> list[Any]:
        """What a statement of the test's own finds in the database."""
        async with self.parts.database.read() as connection:
            return list((await connection.execute(text(sql), parameters)).all())

    async def execute(self, sql: str, **parameters: object) -> None:
        """Change the database behind the application's back."""
        async with self.parts.database.begin() as connection:
            await connection.execute(text(sql), parameters)

    async def upload(self, name: str, data: bytes, *, base: str = "default") -> str:
        """Put a document into a base and wait until it is ready; gives its id."""
        response = await self.http.post(f"/api/bases/{base}/documents", files={"file": (name, data)})
        assert response.status_code == 202, response.text
        document_id: str = response.json()["id"]
        async with asyncio.timeout(20):
            while True:
                status = (await self.http.get(f"/api/bases/{base}/documents/{document_id}")).json()["status"]
                if status not in ("pending", "reading"):
                    assert status == "ready", status
                    return document_id
                await asyncio.sleep(0.01)


class _TestServer(Server):
    """The product's server, without signal handlers, and with an event where tests would poll."""

    def __init__(self, config: uvicorn.Config, app: Application) -> None:
        super().__init__(config, app)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def new_turn(question: str, *, replica: str, request_id: str | None = None) -> NewTurn:
    """A first question in the default base, for a test that asks the supervisor itself."""
    return NewTurn(
        turn_id=new_id(),
        question_id=new_id(),
        new_conversation_id=new_id(),
        owner="local",
        replica=replica,
        question=question,
        title=question[:80],
        conversation_id=None,
        base="default",
        as_of=None,
        request_id=request_id,
    )


def settings_for(url: URL, llm: str | None, **given: object) -> Settings:
    """Settings of a test: no environment, no .env, quick retries."""
    values: dict[str, Any] = {
        "database_url": url.render_as_string(hide_password=False),
        "llm_base_url": llm,
        "llm_model": "scripted" if llm else None,
        "llm_api_key": "key-for-tests" if llm else None,
        "llm_retry_base_s": 0.01,
        "drain_s": 1.0,
        "log_level": "warning",
        **given,
    }
    return Settings(_env_file=None, **values)  # pyright: ignore[reportCallIssue]


@asynccontextmanager
async def running_app(url: URL, *, llm: str | None = None, **settings: object) -> AsyncGenerator[App, None]:
    """The application on a free port, stopped at the end as a signal would stop it."""
    application = create_app(settings_for(url, llm, **settings), url)
    # with the protocol named asyncio turns Nagle's algorithm off, as it does for a listener of uvicorn's own
    listener = socket.socket(proto=socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        application,
        log_config=None,
        access_log=False,
        lifespan="on",
        ws="none",
        timeout_graceful_shutdown=5,
        forwarded_allow_ips=list(application.settings.trusted_proxies),
    )
    server = _TestServer(config, application)
    serving = asyncio.create_task(server.serve(sockets=[listener]), name="test server")
    await _first_of(server.ready, serving)
    app = App(application, server, f"http://127.0.0.1:{listener.getsockname()[1]}")
    try:
        yield app
    finally:
        await app.http.aclose()
        server.should_exit = True
        await serving
        listener.close()


async def _first_of(ready: asyncio.Event, serving: asyncio.Task[None]) -> None:
    """Wait until the server serves; a server that ends instead raises what it ended with."""
    waiting = asyncio.create_task(ready.wait(), name="server ready")
    await asyncio.wait({waiting, serving}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    if serving.done():
        serving.result()
        raise RuntimeError("the server ended before it served")


__all__ = ["App", "Frame", "StreamReader", "Turn", "check_contract", "running_app", "settings_for", "utf16"]
