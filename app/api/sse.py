"""A reader of the live log as an HTTP response: headers, heartbeat, disconnect. Knows no frame's meaning.

Intentional differences from sse_starlette.EventSourceResponse, whose headers and guards it keeps:

1. Frames are bytes already; nothing is parsed, wrapped or logged per frame.
2. One listener task per stream instead of a task group of four: the heartbeat is the reader's own time-out, and
   shutdown closes readers (LiveLog.close_readers) instead of each stream polling for a signal.
3. Cache-Control is `no-cache, no-transform`, as DESIGN section 5 says.

Measured in docs/decisions/0007-own-sse-response.md. Never compressed (case S02), works behind buffering proxies
(case S01), and a reader that goes away ends only its own stream (case S03).
"""

import asyncio
from collections.abc import AsyncIterator

from sse_starlette import EventSourceResponse
from starlette.types import Receive, Scope, Send

from app.live.frames import HEARTBEAT, IDLE
from app.live.log import Reader

HEADERS = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}
GOODBYE = b"retry: 1000\n\n"
"""Sent when the server ends a stream whose turn goes on: come back in a second."""


async def _nothing() -> AsyncIterator[bytes]:
    for frame in ():
        yield frame


class FrameStream(EventSourceResponse):
    """Streams a reader to its end; `reader` None answers with the idle frame. A stream that ends before its turn
    did says goodbye with a hint to come back.
    """

    def __init__(self, reader: Reader | None, *, heartbeat_s: float) -> None:
        super().__init__(  # pyright: ignore[reportUnknownMemberType] - a Mapping without its types
            _nothing(), headers=HEADERS, ping=0, media_type="text/event-stream"
        )
        self._reader = reader
        self._heartbeat_s = heartbeat_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        reader = self._reader
        if reader is None:
            await send({"type": "http.response.body", "body": IDLE})
            return
        # a task of its own, so that a frame wakes three coroutines, not also the twenty of the way to this route
        sending = asyncio.create_task(self._send_all(reader, send), name="sse frames")
        gone = asyncio.create_task(_close_when_gone(receive, reader), name="sse disconnect")
        try:
            await sending
        finally:
            reader.close()
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)

    async def _send_all(self, reader: Reader, send: Send) -> None:
        while (data := await reader.read(self._heartbeat_s)) is not None:
            await send({"type": "http.response.body", "body": data or HEARTBEAT, "more_body": True})
        await send({"type": "http.response.body", "body": b"" if reader.finished else GOODBYE})


async def _close_when_gone(receive: Receive, reader: Reader) -> None:
    """End the reader as soon as the client is gone, also while nothing is being sent."""
    while (await receive())["type"] != "http.disconnect":
        pass
    reader.close()
