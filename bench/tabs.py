"""Clients that read streams over raw sockets, cheap enough to be many: one protocol object each, no parsing on the way.

A tab keeps what came and when; what it means is looked up afterwards. Times are monotonic nanoseconds, the clock that
the scripted endpoint stamps its tokens with.
"""

import asyncio
import json
import re
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate

_END = b"0\r\n\r\n"
_STAMP = re.compile(rb"@(\d+) ")
_CONVERSATION = re.compile(rb'event: conversation\ndata: \{"id":"([^"]+)","turn_id":"([^"]+)"')


class TabFailed(Exception):
    """The server refused, or the stream broke off."""


class Tab(asyncio.Protocol):
    """One request and its streamed answer. `begun` is done with the first frame, `ended` with the last byte."""

    def __init__(self, request: bytes) -> None:
        loop = asyncio.get_running_loop()
        self._request = request
        self._wanted: dict[bytes, tuple[int, asyncio.Future[None]]] = {}
        self._transport: asyncio.BaseTransport | None = None
        self.pieces: list[tuple[int, bytes]] = []
        self.asked_ns = 0
        self.ended: asyncio.Future[None] = loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        if isinstance(transport, asyncio.WriteTransport):
            self.asked_ns = time.monotonic_ns()
            transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self.pieces.append((time.monotonic_ns(), data))
        if len(self.pieces) == 1 and not data.startswith(b"HTTP/1.1 200"):
            head, _, body = data.decode(errors="replace").partition("\r\n\r\n")
            self._fail(TabFailed(f"{head.splitlines()[0]}: {body[:500]}"))
            return
        for text, (before, waiting) in tuple(self._wanted.items()):
            missing = before - self._tail(len(data) + len(text) - 1).count(text)  # all that end in this piece
            self._wanted[text] = (missing, waiting)
            if missing <= 0:
                del self._wanted[text]
                waiting.set_result(None)
        if self._tail(len(_END)) == _END and not self.ended.done():
            self.ended.set_result(None)
            for text, (_, waiting) in self._wanted.items():
                waiting.set_exception(_ended_without(text))
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self._fail(TabFailed(f"the stream broke off: {exc}"))

    def _fail(self, error: TabFailed) -> None:
        for waiting in (*(waiting for _, waiting in self._wanted.values()), self.ended):
            if not waiting.done():
                waiting.set_exception(error)
        self._wanted.clear()
        self.ended.exception()  # who waits for something else hears of it there
        self.close()

    def _tail(self, size: int) -> bytes:
        """The last bytes that came, at least so many where there are."""
        tail = b""
        for _, data in reversed(self.pieces):
            tail = data + tail
            if len(tail) >= size:
                break
        return tail[-size:]

    async def until(self, text: bytes, times: int = 1) -> None:
        """Wait until this came so many times.

        Raises:
            TabFailed: the stream ended without.
        """
        missing = times - self.body.count(text)
        if missing > 0:
            if self.ended.done():
                await self.ended
                raise _ended_without(text)
            waiting = asyncio.get_running_loop().create_future()
            self._wanted[text] = (missing, waiting)
            await waiting

    def close(self) -> None:
        """Go away; what came stays."""
        if self._transport is not None:
            self._transport.close()
        if not self.ended.done():
            self.ended.cancel()

    @property
    def body(self) -> bytes:
        """All that came, with the heads of responses and chunks."""
        return b"".join(data for _, data in self.pieces)

    def arrived_ns(self, text: bytes) -> int:
        """When the first occurrence of this was complete."""
        at = self.body.index(text) + len(text)
        return self.pieces[bisect_left(self._ends(), at)][0]

    def delays(self) -> Iterator[tuple[int, int]]:
        """For each stamped token when it was written, and for how many nanoseconds it was on its way."""
        ends = self._ends()
        for found in _STAMP.finditer(self.body):
            written = int(found[1])
            yield written, self.pieces[bisect_left(ends, found.end())][0] - written

    def _ends(self) -> list[int]:
        return list(accumulate(len(data) for _, data in self.pieces))

    @property
    def conversation(self) -> tuple[str, str]:
        """The ids of the conversation and of the turn that were begun."""
        found = _CONVERSATION.search(self.body)
        if found is None:
            raise TabFailed("no conversation frame came")
        return found[1].decode(), found[2].decode()


def _ended_without(text: bytes) -> TabFailed:
    return TabFailed(f"the stream ended without {text!r}")


def script(
    *, tokens: int, pace_ms: float = 0, stamp_every: int = 0, chars: int = 6, wait_ms: float = 0, hold: bool = False
) -> str:
    """A question that tells bench/upstream.py what to answer: so many tokens, so far apart.

    Every `stamp_every`th token is a stamp; `wait_ms` comes before the first one; `hold` leaves the answer open until it
    is given up.
    """
    return (
        f"bench tokens={tokens} pace_ms={pace_ms:g} stamp={stamp_every} chars={chars} wait_ms={wait_ms:g} "
        f"hold={int(hold)}"
    )


def post(path: str, body: object) -> bytes:
    """A request with a JSON body."""
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(data)}"
    return head.encode() + b"\r\n\r\n" + data


def question(message: str) -> Tab:
    """A tab that asks turnstream."""
    return Tab(post("/api/chat", {"message": message}))


def attached(conversation_id: str) -> Tab:
    """A tab that attaches to what runs in the conversation."""
    return Tab(f"GET /api/conversations/{conversation_id}/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())


async def open_tab(tab: Tab, port: int) -> Tab:
    """Connect it; the request is sent at once."""
    await asyncio.get_running_loop().create_connection(lambda: tab, "127.0.0.1", port)
    return tab


async def read_to_end(tabs: Sequence[Tab], port: int) -> None:
    """Open these at once and read all of them to their ends."""
    for tab in tabs:
        await open_tab(tab, port)
    await asyncio.gather(*(tab.ended for tab in tabs))
