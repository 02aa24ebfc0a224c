"""Chunks of any httpx response -> everything that has arrived since the last look, and the clock of progress.

For the way through a proxy, and for a body that is compressed; over a connection of our own straight.py does the same
for less. A task reads while its owner works, so that what arrived meanwhile is taken as one piece, and so that no
cancellation of the owner reaches httpcore while it gives a connection back, which would lose the connection's place in
its pool. The task belongs to the ReadAhead, which its owner closes.
"""

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from types import TracebackType
from typing import Protocol, Self

MAX_AHEAD_BYTES = 1024 * 1024
"""Reading stops while so much is waiting, so that a flood meets TCP's own brake."""


class Stalled(Exception):
    """No progress by the time that was set with `expect_within`."""


class Reading(Protocol):
    """The body of a reply as its one owner takes it.

    Bytes that are only comments don't count as progress: the owner says what does (case P15).
    """

    async def take(self) -> bytes:
        """All that has arrived, waiting for the first byte of it; nothing at the end.

        Raises:
            Stalled: the deadline passed while nothing came.
            Exception: whatever reading raised, after everything before it was taken.
        """
        ...

    def expect_within(self, seconds: float) -> None:
        """Waiting for longer than this from now on is Stalled. Cheap: one timer serves many deadlines."""
        ...

    async def ended(self, within_s: float) -> None:
        """Wait a moment for the end, dropping what still comes, so that the connection can be used again."""
        ...


class ReadAhead:
    """Reads chunks in a task of its own. Implements Reading. Use as an async context manager.

    `close` ends the source, so that a pending read of it fails; it may be called when all has been read.
    """

    def __init__(self, chunks: AsyncGenerator[bytes, None], close: Callable[[], Awaitable[None]]) -> None:
        self._chunks = chunks
        self._close = close
        self._loop = asyncio.get_running_loop()
        self._arrived: list[bytes] = []
        self._size = 0
        self._waiter: asyncio.Future[None] | None = None
        self._room = asyncio.Event()
        self._deadline = math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._closing = False
        self._task = asyncio.create_task(self._read(), name="model reply reader")
        self._task.add_done_callback(self._wake)

    async def take(self) -> bytes:
        while not self._arrived:
            if self._task.done():
                self._task.result()
                return b""
            if self._timer is None and self._deadline < math.inf:
                if self._loop.time() >= self._deadline:
                    raise Stalled
                self._arm()
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        data = self._arrived[0] if len(self._arrived) == 1 else b"".join(self._arrived)
        self._arrived.clear()
        self._size = 0
        self._room.set()
        return data

    def expect_within(self, seconds: float) -> None:
        self._deadline = self._loop.time() + seconds
        if self._timer is None or self._deadline < self._timer.when():
            self._arm()

    async def ended(self, within_s: float) -> None:
        if not self._task.done():
            await asyncio.wait([self._task], timeout=within_s)

    async def aclose(self) -> None:
        """Close the source and wait until the reading task has ended; a cancellation meanwhile is raised afterwards."""
        self._closing = True
        if self._timer is not None:
            self._timer.cancel()
        closing = asyncio.create_task(self._end(), name="model reply closer")
        cancelled = False
        while not closing.done():
            try:
                await asyncio.wait([closing])
            except asyncio.CancelledError:
                cancelled = True
        closing.result()
        if cancelled:
            raise asyncio.CancelledError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _end(self) -> None:
        """End reading by closing what is read.

        The task isn't cancelled: httpcore loses a connection's place in its pool when a task is cancelled while it
        gives the connection back.
        """
        if not self._task.done():
            await self._close()
            self._room.set()
            await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.exception()

    async def _read(self) -> None:
        async with aclosing(self._chunks) as chunks:
            async for chunk in chunks:
                if not chunk:
                    continue
                self._arrived.append(chunk)
                self._size += len(chunk)
                if self._waiter is not None:
                    self._wake(None)
                if self._size > MAX_AHEAD_BYTES and not self._closing:
                    self._room.clear()
                    await self._room.wait()

    def _wake(self, _: object) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._deadline, self._check)

    def _check(self) -> None:
        """The timer rang: for a deadline that was moved meanwhile, or for the one that holds."""
        self._timer = None
        if self._loop.time() < self._deadline:
            self._arm()
        elif self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(Stalled())
        # else the owner is at work, and its next take looks at the deadline itself
