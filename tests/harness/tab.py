"""A tab as a browser's page is: asks, follows, comes back after a break wherever it is let in, and puts the text together.

    tab = Tab(browser, ["http://127.0.0.1:8001", "http://127.0.0.1:8002"])
    async with asyncio.TaskGroup() as open_tabs:
        open_tabs.create_task(tab.ask("Who sat on the board?"))
        await tab.until(lambda: tab.content.startswith("Half"))
        ...                                     # kill something
    assert tab.terminal.event == "done"         # the task ends with the terminal frame, or fails

Every frame is checked against the contract as a page would meet it: text begins where `at` says, ids have no gap, a
snapshot replaces everything, nothing comes after the end. A breach fails the task.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import httpx

from tests.harness.app import utf16
from tests.harness.sse_reader import Frame, StreamReader, frames_of

AGAIN_S = 0.05
"""How soon a tab whose connection broke comes back."""
DEADLINE_S = 40.0


@asynccontextmanager
async def browsing() -> AsyncGenerator[httpx.AsyncClient, None]:
    """A browser for any number of tabs."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    timeout = httpx.Timeout(None, connect=5)
    async with httpx.AsyncClient(limits=limits, timeout=timeout, trust_env=False) as opened:
        yield opened


class Tab:
    """One tab. `addresses` are the replicas, tried in turn from `first` on. `seq` is of the last frame it saw."""

    def __init__(
        self, browser: httpx.AsyncClient, addresses: Sequence[str], *, first: int = 0, deadline_s: float = DEADLINE_S
    ) -> None:
        self._browser = browser
        self._addresses = addresses
        self._next = first
        self._deadline_s = deadline_s
        self._question: dict[str, object] = {}
        self._units = 0
        self._fresh = True
        self._fails = 0
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self.conversation_id: str | None = None
        self.turn_id: str | None = None
        self.seq = 0
        self.content = ""
        self.steps: list[dict[str, Any]] = []
        self.sources: list[dict[str, Any]] = []
        self.frames: list[Frame] = []
        self.connections = 0
        self.breaks = 0
        """How often a connection broke without a goodbye."""

    @property
    def terminal(self) -> Frame:
        """The frame that ended the turn."""
        assert self.ended, self.events
        return self.frames[-1]

    @property
    def ended(self) -> bool:
        return bool(self.frames) and self.frames[-1].event in ("done", "error")

    @property
    def events(self) -> list[str]:
        return [frame.event for frame in self.frames]

    async def ask(self, message: str, **body: object) -> None:
        """Ask with a request id, and follow the turn to its end."""
        self._question = {"message": message, "request_id": str(uuid4()), **body}
        await self._follow()

    async def attach(self, conversation_id: str, *, as_seen_by: "Tab | None" = None) -> None:
        """Follow the conversation's turn to its end, on from what another tab has seen."""
        self.conversation_id = conversation_id
        if as_seen_by is not None:
            self.turn_id, self.seq = as_seen_by.turn_id, as_seen_by.seq
            self.content, self._units = as_seen_by.content, as_seen_by._units
            self.steps, self.sources = list(as_seen_by.steps), list(as_seen_by.sources)
        await self._follow()

    async def until(self, condition: Callable[[], bool], *, within_s: float = 20) -> None:
        """Wait for a frame that makes the condition true."""
        if condition():
            return
        made: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((condition, made))
        async with asyncio.timeout(within_s):
            await made

    async def _follow(self) -> None:
        try:
            async with asyncio.timeout(self._deadline_s):
                while not self.ended:
                    await asyncio.sleep(await self._once())
        except TimeoutError:
            told = self.frames[-3:]
            raise AssertionError(
                f"no end of turn {self.turn_id} after {self.connections} connections: {told}"
            ) from None

    async def _once(self) -> float:
        """One connection, to its end; how long to wait before the next."""
        address = self._addresses[self._next % len(self._addresses)]
        self._next += 1
        self.connections += 1
        self._fresh = True
        reader = StreamReader()
        try:
            async with self._request(address) as response:
                if response.status_code == 503:
                    return self._failed(float(response.headers["Retry-After"]))
                assert response.status_code == 200, (response.status_code, await response.aread())
                async for frame in frames_of(response, reader):
                    self._fails = 0
                    self._take(frame)
        except httpx.TransportError:
            self.breaks += 1
            return self._failed(AGAIN_S * 4)
        assert self.ended or reader.retry_ms is not None, "the stream ended, not the turn, and no word to come back"
        return (reader.retry_ms or 0) / 1000

    def _failed(self, wait_s: float) -> float:
        """Another replica is tried soon; where all were, the wait that was asked for is kept."""
        self._fails += 1
        return wait_s if self._fails % len(self._addresses) == 0 else AGAIN_S

    @asynccontextmanager
    async def _request(self, address: str) -> AsyncGenerator[httpx.Response, None]:
        if self.conversation_id is None:
            async with self._browser.stream("POST", f"{address}/api/chat", json=self._question) as response:
                yield response
            return
        seen = {"Last-Event-ID": f"{self.turn_id}:{self.seq}"} if self.turn_id else {}
        path = f"{address}/api/conversations/{self.conversation_id}/live"
        async with self._browser.stream("GET", path, headers=seen) as response:
            yield response

    def _take(self, frame: Frame) -> None:
        """What a page does with a frame, and what it relies on."""
        assert not self.ended, f"{frame} after the end"
        assert frame.event != "idle", f"nothing runs, says the server, and turn {self.turn_id} has no end"
        turn_id, _, seq = frame.id.rpartition(":")
        self.turn_id = self.turn_id or turn_id
        assert turn_id == self.turn_id, frame
        match frame.event:
            case "conversation":
                assert seq == "1", frame
                self.conversation_id = frame.data["id"]
                self._replace("", [], [])
            case "snapshot":
                self._replace(frame.data["content"], frame.data["steps"], frame.data["sources"])
            case _:
                assert int(seq) == self.seq + 1, (frame, self.seq, self._fresh)
                self._add(frame)
        self.seq = int(seq)
        self._fresh = False
        self.frames.append(frame)
        self._wake()

    def _replace(self, content: str, steps: list[dict[str, Any]], sources: list[dict[str, Any]]) -> None:
        self.content, self._units = content, utf16(content)
        self.steps, self.sources = list(steps), list(sources)

    def _add(self, frame: Frame) -> None:
        match frame.event:
            case "delta":
                assert frame.data["at"] == self._units, (frame, self._units)
                self.content += frame.data["text"]
                self._units += utf16(frame.data["text"])
            case "step":
                assert (frame.data["at"], frame.data["n"]) == (self._units, len(self.steps) + 1), frame
                self.steps.append(frame.data)
            case "sources":
                assert frame.data[: len(self.sources)] == self.sources, frame
                self.sources = frame.data
            case event:
                assert event in ("done", "error"), frame

    def _wake(self) -> None:
        for waiting in tuple(self._waiting):
            condition, made = waiting
            if condition():
                self._waiting.remove(waiting)
                if not made.done():
                    made.set_result(None)
