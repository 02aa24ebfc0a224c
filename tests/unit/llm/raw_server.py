"""A server on a real port that says the bytes a test gives it, one accepted connection at a time in the test's hands.

`peer = await server.accept()`, `await peer.request()`, `peer.say(OK)`; `on_both_loops` runs a test with each loop.
"""

import asyncio
import inspect
import socket
import ssl
import struct
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self

import httpx
import pytest
import uvloop

from app.llm.direct import DirectTransport

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
DEADLINE_S = 5.0


class Peer:
    """The server's side of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def request(self) -> bytes:
        """The next request, its head and its body."""
        async with asyncio.timeout(DEADLINE_S):
            head = await self.reader.readuntil(b"\r\n\r\n")
            lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            return head + (await self.reader.readexactly(int(lengths[0].partition(b":")[2])) if lengths else b"")

    def say(self, *pieces: bytes) -> None:
        """Send this; what can't be sent any more is dropped, as a network does."""
        if not self.writer.is_closing():
            self.writer.write(b"".join(pieces))

    def end(self) -> None:
        """Close in the orderly way."""
        self.writer.close()

    def reset(self) -> None:
        """Break the connection."""
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def gone(self) -> bytes:
        """What else the client sent before it closed; waits until it has."""
        async with asyncio.timeout(DEADLINE_S):
            try:
                return await self.reader.read()
            except ConnectionError:
                return b""


class RawServer:
    """Use as an async context manager; leaving it breaks every connection."""

    def __init__(self, tls: ssl.SSLContext | None = None, *, host: str = "127.0.0.1") -> None:
        self._tls = tls
        self._host = host
        self.accepted: asyncio.Queue[Peer] = asyncio.Queue()
        self.peers: list[Peer] = []
        self.port = 0

    @property
    def url(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}/v1?q=1"

    async def accept(self) -> Peer:
        """The next connection."""
        async with asyncio.timeout(DEADLINE_S):
            return await self.accepted.get()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, self._host, 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for peer in self.peers:
            peer.writer.transport.abort()
        await self._server.wait_closed()
        await asyncio.sleep(0)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(reader, writer)
        self.peers.append(peer)
        self.accepted.put_nowait(peer)


@asynccontextmanager
async def direct(
    tls: ssl.SSLContext | None = None, **times: Any
) -> AsyncGenerator[tuple[DirectTransport, httpx.AsyncClient]]:
    """A direct transport and a client over it."""
    transport = DirectTransport(tls or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))  # which trusts nobody
    async with httpx.AsyncClient(transport=transport, timeout=httpx.Timeout(DEADLINE_S, **times)) as client:
        yield transport, client


async def answered(server: RawServer, client: httpx.AsyncClient, peer: Peer | None, *pieces: bytes) -> httpx.Response:
    """One exchange, over the connection of `peer` or over the next one that is made."""
    asking = asyncio.create_task(client.post(server.url, content=b"{}"))
    peer = peer or await server.accept()
    await peer.request()
    peer.say(*pieces)
    return await asking


async def kept(server: RawServer, client: httpx.AsyncClient) -> Peer:
    """Have a first exchange; the other side of the connection that is idle now."""
    assert (await answered(server, client, None, OK)).content == b"ok"
    return server.peers[-1]


async def until(holds: Callable[[], bool]) -> None:
    """Poll with a deadline, for what has no event."""
    async with asyncio.timeout(DEADLINE_S):
        while not holds():
            await asyncio.sleep(0.001)


def on_both_loops(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test on a loop of its own: asyncio's, and uvloop's, which the server uses."""

    @pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
    def run(new_loop: Callable[[], asyncio.AbstractEventLoop], **given: object) -> None:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(test(**given))

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    own = inspect.Parameter("new_loop", inspect.Parameter.KEYWORD_ONLY)
    run.__signature__ = inspect.Signature([*inspect.signature(test).parameters.values(), own])
    return run
