"""An httpx transport straight to an endpoint, over connections of http1.py. Knows no proxy and no HTTP/2.

httpx stays the way requests are made and replies are read; this is its documented extension point. Idle connections
are kept a while, the last used one first. Source: httpx "Custom Transports"; decision 0017.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from typing import Any, cast

import httpx
from aiohappyeyeballs import start_connection  # pyright: ignore[reportUnknownVariableType]  # a bare tuple in it

from app.llm.http1 import Connection

KEPT_FOR_S = 30.0
"""How long an idle connection is kept for the next round of a turn."""
KEPT = 64
"""How many are."""
_NEXT_ADDRESS_S = 0.25
"""After so long another address of the host is tried as well. Source: RFC 8305; uvloop can't do it by itself."""
_METHODS = frozenset({"GET", "POST"})

BODY = "turnstream.body"
"""The response's extension that is its Body."""

Origin = tuple[str, str, int]


class DirectTransport(httpx.AsyncBaseTransport):
    """`tls` is used for https, and offers HTTP/1.1 alone from now on. Close the transport with `aclose`.

    Takes GET and POST, with a body of known length.
    """

    def __init__(self, tls: ssl.SSLContext) -> None:
        self._tls = tls
        self._tls.set_alpn_protocols(["http/1.1"])
        self._closed = False
        self._open: dict[Connection, Origin] = {}
        self._idle: dict[Connection, asyncio.TimerHandle] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request; the response with its headers, its body still to be read.

        A connection that was used before may be closed by its other side at any time. Where that is all that came
        back, the request is sent once more, over a new one (decision 0017).

        Raises:
            httpx.TransportError: no connection, no reply, or none that is HTTP.
            httpx.LocalProtocolError: the request isn't one that is sent here.
        """
        message = _message(request, await request.aread())
        times = cast("dict[str, float | None]", request.extensions.get("timeout", {}))
        origin = _origin(request.url)
        connection = self._kept(origin)
        if connection is not None:
            try:
                return await _exchange(connection, message, times)
            except (httpx.NetworkError, httpx.RemoteProtocolError):
                if connection.answered or self._closed:
                    raise
        return await _exchange(await self._connect(origin, times.get("connect")), message, times)

    async def aclose(self) -> None:
        """End every connection, and wait until they are gone."""
        self._closed = True
        connections = tuple(self._open)
        for connection in connections:
            connection.close()
        for connection in connections:
            await connection.ended.wait()

    @property
    def open(self) -> int:
        """Connections that there are, idle or busy."""
        return len(self._open)

    @property
    def idle(self) -> int:
        """Connections that are kept for a next request."""
        return len(self._idle)

    def _kept(self, origin: Origin) -> Connection | None:
        for connection in reversed(self._idle):
            if self._open[connection] == origin and not connection.closed:
                self._idle.pop(connection).cancel()
                return connection
        return None

    async def _connect(self, origin: Origin, timeout_s: float | None) -> Connection:
        scheme, host, port = origin
        security: dict[str, Any] = {"ssl": self._tls, "server_hostname": host} if scheme == "https" else {}
        loop = asyncio.get_running_loop()
        connection = Connection(self._keep, self._forget)
        try:
            async with asyncio.timeout(timeout_s):
                addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
                sock = await start_connection(addresses, happy_eyeballs_delay=_NEXT_ADDRESS_S)
                await loop.create_connection(lambda: connection, sock=sock, **security)
        except TimeoutError as error:
            raise httpx.ConnectTimeout("") from error
        except (OSError, UnicodeError, RuntimeError) as error:  # a host that is no name; uvloop's own way to fail
            raise httpx.ConnectError(str(error)) from error
        self._open[connection] = origin
        return connection

    def _keep(self, connection: Connection) -> None:
        """A reply was read whole: the connection waits for another request."""
        if self._closed or len(self._idle) >= KEPT:
            connection.close()
        else:
            self._idle[connection] = asyncio.get_running_loop().call_later(KEPT_FOR_S, connection.close)

    def _forget(self, connection: Connection) -> None:
        """The connection is gone."""
        self._open.pop(connection, None)
        timer = self._idle.pop(connection, None)
        if timer is not None:
            timer.cancel()


class Body(httpx.AsyncByteStream):
    """A reply's body, in the pieces in which it arrived.

    Who wants to say at each read how long it may take finds it in the response's extensions and reads it there, which
    also saves httpx's way through three generators. Closed with the response.
    """

    def __init__(self, connection: Connection, timeout_s: float | None) -> None:
        self._connection: Connection | None = connection
        self.timeout_s = timeout_s
        """How long the endpoint may keep silent, as the request said."""

    async def read(self, timeout_s: float | None) -> bytes:
        """All that has arrived, waiting for the first byte of it; nothing at the end, or once it is closed.

        Raises:
            httpx.TransportError: the connection broke, kept silent for so long, or what came is not HTTP.
        """
        return b"" if self._connection is None else await self._connection.read(timeout_s)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while data := await self.read(self.timeout_s):
            yield data

    async def aclose(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.release()


async def _exchange(connection: Connection, message: bytes, times: dict[str, float | None]) -> httpx.Response:
    try:
        await connection.send(message, times.get("write"))
        status, headers = await connection.head(times.get("read"))
    except BaseException:
        connection.close()
        raise
    body = Body(connection, times.get("read"))
    return httpx.Response(status, headers=headers, stream=body, extensions={BODY: body})


def _origin(url: httpx.URL) -> Origin:
    """Scheme, host as the resolver and TLS want it (no brackets, no Unicode), and port."""
    return url.scheme, url.raw_host.decode("ascii"), url.port or (443 if url.scheme == "https" else 80)


def _message(request: httpx.Request, body: bytes) -> bytes:
    """The request's bytes. httpx doesn't look at what a header holds: a line break would end it, and begin another."""
    if request.method not in _METHODS:
        raise httpx.LocalProtocolError(f"the method must be GET or POST, not {request.method!r}")
    if "transfer-encoding" in request.headers:
        raise httpx.LocalProtocolError("a request's body must have a known length")
    lines = [b"%b %b HTTP/1.1" % (request.method.encode("ascii"), request.url.raw_path)]
    lines += [b"%b: %b" % header for header in request.headers.raw]
    if any(character in line for line in lines for character in (b"\r", b"\n", b"\0")):
        raise httpx.LocalProtocolError("a header may not hold a line break or NUL")
    return b"\r\n".join((*lines, b"", body))
