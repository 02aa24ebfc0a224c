"""One HTTP/1.1 connection to an endpoint: a request at a time, its reply taken in the pieces in which it arrived.

Hot path. What the loop hands over is parsed at once (llhttp, by httptools) and its body bytes lie ready: a reader that
is busy finds all that came meanwhile as one piece, and a burst of small chunks costs one wake-up. Source: RFC 9112;
decision 0017 says why this isn't httpcore's, and where it reads a reply otherwise.
"""

import asyncio
from collections.abc import Callable
from typing import cast

import httptools
import httpx

HIGH_BYTES = 1024 * 1024
"""Reading from the socket pauses while so much waits, so that a flood meets TCP's own brake."""
MAX_BARREN_BYTES = 100 * 1024
"""As many bytes without one of the body are refused: headers, trailers, chunk extensions. httpcore's bound too."""


class Connection(asyncio.Protocol):
    """Made by the loop's `create_connection`.

    `on_idle` is called when a reply was read whole and more may be asked, `on_end` once, when the connection is gone.
    """

    def __init__(self, on_idle: "Callable[[Connection], None]", on_end: "Callable[[Connection], None]") -> None:
        self._loop = asyncio.get_running_loop()
        self._on_idle = on_idle
        self._on_end = on_end
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0
        self._paused = False
        self._busy = False
        self.ended = asyncio.Event()
        self._begin()

    def _begin(self) -> None:
        """Be ready for a reply."""
        self._parser = httptools.HttpResponseParser(self)
        # A length beside chunks doesn't count (RFC 9112 6.3), and the connection isn't used again.
        self._parser.set_dangerous_leniencies(lenient_chunked_length=True)
        self._status = 0
        self._headers: list[tuple[bytes, bytes]] = []
        self._head = False  # whether the headers of the final response are there
        self._sized = False  # whether the body says where it ends; else the connection's end does
        self._pieces: list[bytes] = []
        self._unread = 0  # bytes off the wire since the body was last read
        self._complete = False
        self._keep_alive = True
        self._failure: Exception | None = None
        self.answered = False

    @property
    def closed(self) -> bool:
        """Whether nothing can be asked here any more."""
        return self._transport is None or self._transport.is_closing()

    async def send(self, request: bytes, timeout_s: float | None) -> None:
        """Send a request. A connection that breaks meanwhile is told by `head`: a reply may have come before.

        Raises:
            httpx.WriteError: the connection was closed before.
            httpx.WriteTimeout: the other side doesn't take it.
        """
        if self._transport is None or self._transport.is_closing():
            raise httpx.WriteError("the connection is closed")
        self._begin()
        self._busy = True
        self._transport.write(request)
        try:
            async with asyncio.timeout(timeout_s):
                await self._can_write.wait()
        except TimeoutError as error:
            raise httpx.WriteTimeout("") from error

    async def head(self, timeout_s: float | None) -> tuple[int, list[tuple[bytes, bytes]]]:
        """The status and headers of the reply; informational responses before it are passed over.

        Raises:
            httpx.TransportError: the connection broke, kept silent, or what came is not HTTP.
        """
        while not self._head:
            if self._failure is not None:
                raise self._failure
            await self._arrival(timeout_s)
        return self._status, self._headers

    async def read(self, timeout_s: float | None) -> bytes:
        """The next bytes of the body, all that have arrived; nothing at its end. Raises as `head`."""
        while not self._pieces:
            if self._complete:
                return b""
            if self._failure is not None:
                raise self._failure
            await self._arrival(timeout_s)
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._unread = 0
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return data

    def release(self) -> None:
        """The reply isn't read any further: keep the connection where it has come whole, else close it.

        Not while a reader waits (it would take the next reply), nor before the whole request was taken.
        """
        self._stop_timer()
        whole = self._complete and self._keep_alive and not self._paused and not self._awaited
        if whole and self._transport is not None and self._transport.get_write_buffer_size() == 0 and not self.closed:
            self._busy = False
            self._on_idle(self)
        else:
            self.close()

    def close(self) -> None:
        """End the connection at once; a read that waits fails."""
        self._stop_timer()
        if self._transport is not None:
            self._transport.abort()

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._failure = self._failure or httpx.ReadError(str(exc) if exc else "the connection was closed")
        self._can_write.set()
        self._wake()
        self.ended.set()
        self._on_end(self)

    def eof_received(self) -> bool:
        """The end of a body that has no length of its own; too early for every other."""
        if self._head and not self._sized:
            self._complete = True
        words = "peer closed connection without sending complete message body"
        self._fail(words if self._head else "Server disconnected without sending a response.")
        self._wake()
        return False

    def data_received(self, data: bytes) -> None:
        if not self._busy:
            self.close()  # nobody asked
            return
        self.answered = True
        self._unread += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(str(error.__context__ or error))
        if self._unread > MAX_BARREN_BYTES:
            self._brake()
        self._wake()

    def pause_writing(self) -> None:
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._can_write.set()

    # What httptools calls, in this order, while it is fed. What is raised here is the context of its own error.

    def on_message_begin(self) -> None:
        if self._complete:
            raise ValueError("bytes follow the reply")

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._head:  # else it is a trailer
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()
        if self._status < 200:  # at 101 the parser fails
            self._headers = []
            return
        names = [name.lower() for name, _ in self._headers]
        codings = [value for name, (_, value) in zip(names, self._headers, strict=True) if name == _CODING]
        if codings and [coding.rstrip(b" ").lower() for coding in codings] != [b"chunked"]:  # as llhttp compares
            raise ValueError("the only transfer coding that is read is chunked")
        self._headers = [(name, value.rstrip(b" \t")) for name, value in self._headers]  # llhttp leaves them there
        has_length = b"content-length" in names
        self._sized = bool(codings) or has_length
        self._keep_alive = not (codings and has_length)
        self._head = True
        self._can_write.set()  # who has answered needn't take the rest of the request

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)

    def on_message_complete(self) -> None:
        if self._head:
            self._complete = True
            self._keep_alive = self._keep_alive and self._parser.should_keep_alive()

    def _fail(self, words: str) -> None:
        """End the connection; where the reply has come whole, it is still read."""
        self._failure = self._failure or httpx.RemoteProtocolError(words)
        self._keep_alive = False
        self.close()

    def _brake(self) -> None:
        """Much has come since the body was last read."""
        if not self._pieces and not self._complete:
            self._fail(f"more than {MAX_BARREN_BYTES} bytes without any of a body")
        elif self._unread > HIGH_BYTES and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def _arrival(self, timeout_s: float | None) -> asyncio.Future[None]:
        """Done when something arrives. One timer serves many waits: it isn't armed anew for each of them."""
        self._waiter = self._loop.create_future()
        if timeout_s is None:
            self._stop_timer()
        else:
            self._deadline = self._loop.time() + timeout_s
            if self._timer is None or self._timer.when() > self._deadline:
                self._stop_timer()
                self._timer = self._loop.call_at(self._deadline, self._look)
        return self._waiter

    @property
    def _awaited(self) -> bool:
        """Whether somebody waits for the next bytes."""
        return self._waiter is not None and not self._waiter.done()

    def _look(self) -> None:
        """The timer rang: for a wait that has passed meanwhile, or for the present one."""
        self._timer = None
        if self._waiter is None or self._waiter.done():
            return
        if self._loop.time() < self._deadline:
            self._timer = self._loop.call_at(self._deadline, self._look)
        else:
            self._waiter.set_exception(httpx.ReadTimeout(""))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


_CODING = b"transfer-encoding"
