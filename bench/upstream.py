"""A model endpoint for measurements, in a process of its own; the question says what it answers (tabs.script).

A request that offers tools and holds no result of one is answered with one search. Any other is answered with tokens,
each a write of its own: as fast as the connection takes them, or paced by one timer for all streams, so that the
endpoint costs little. Where stamps are asked for, some tokens are the monotonic time in nanoseconds at which they were
written, and the others are as long as tokens are.
"""

import asyncio
import heapq
import itertools
import json
import re
import sys
import time
from dataclasses import dataclass

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
UP = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
SCRIPT = re.compile(rb"bench tokens=(\d+) pace_ms=([\d.]+) stamp=(\d+) chars=(\d+) wait_ms=([\d.]+) hold=(\d)")
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


def event(delta: dict[str, object], finish: str | None = None) -> bytes:
    """One event of the protocol."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
    body = {"id": "chatcmpl-bench", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def chunk(data: bytes) -> bytes:
    """A chunk of HTTP."""
    return b"%x\r\n%b\r\n" % (len(data), data)


FUNCTION = {"name": "search_chunks", "arguments": '{"query": "board"}'}
CALL = event(
    {"role": "assistant", "tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": FUNCTION}]}
)
DONE = chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"
SEARCH = HEAD + chunk(CALL) + chunk(event({}, "tool_calls")) + DONE
END = chunk(event({}, "stop")) + DONE
STAMPED, STAMPED_REST = event({"content": "@@"}).split(b"@@")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a question asked for."""

    tokens: int
    pace_s: float
    stamp_every: int
    token: bytes
    wait_s: float
    hold: bool

    def token_with(self, left: int) -> bytes:
        """The token after which so many are left: stamped, or like all others."""
        if not self.stamp_every or left % self.stamp_every:
            return self.token
        return chunk(b"%b@%d %b" % (STAMPED, time.monotonic_ns(), STAMPED_REST))


def scripted(body: bytes) -> Answer:
    """What the last script in the request asks for; ValueError where there is none."""
    found = SCRIPT.findall(body)
    if not found:
        raise ValueError("the request holds no script")
    tokens, pace_ms, stamp, chars, wait_ms, hold = found[-1]
    text = "token".ljust(int(chars) - 1, "n") + " "
    token = chunk(event({"content": text}))
    return Answer(int(tokens), float(pace_ms) / 1000, int(stamp), token, float(wait_ms) / 1000, hold == b"1")


class Stream(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self, pacer: "Pacer") -> None:
        self._pacer = pacer
        self._received = b""
        self._left = 0
        self._paused = False
        self._transport: asyncio.Transport | None = None
        self.answer: Answer | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._transport = self.answer = None

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, blank, body = self._received.partition(b"\r\n\r\n")
        length = LENGTH.search(head)
        size = int(length[1]) if length else 0
        if not blank or len(body) < size or self._transport is None:
            return
        self._received = body[size:]
        if head.startswith(b"GET"):
            self._transport.write(UP)
            return
        request = json.loads(body[:size])
        if request.get("tools") and not any(message["role"] == "tool" for message in request["messages"]):
            self._transport.write(SEARCH)
            return
        self._transport.write(HEAD)
        self.answer = scripted(body[:size])
        self._left = self.answer.tokens
        if self.answer.pace_s or self.answer.wait_s:
            self._pacer.add(self, time.monotonic() + self.answer.wait_s)
        else:
            self._pour()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        if self.answer is not None and not self.answer.pace_s:
            self._pour()

    def _pour(self) -> None:
        """Write until the connection is full or all is written."""
        while not self._paused and self.step():
            pass

    def step(self) -> bool:
        """Write the next token, or the end after the last; False when nothing is left to write."""
        if self.answer is None or self._transport is None:
            return False
        if self._left:
            self._left -= 1
            self._transport.write(self.answer.token_with(self._left))
            return True
        if not self.answer.hold:
            self._transport.write(END)
            self.answer = None
        return False

    def due(self) -> None:
        """The pacer's turn for this stream."""
        answer = self.answer
        if answer is not None and not answer.pace_s:
            self._pour()
        elif self.step() and answer is not None:
            self._pacer.add_after(self, answer.pace_s)


class Pacer:
    """One timer for all paced streams: a late tick catches up, so that a stream's rate holds."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Stream]] = []
        self._order = itertools.count()
        self._at = 0.0
        self._added = asyncio.Event()

    def add(self, stream: Stream, at: float) -> None:
        """Have the stream step at this time, and from then on as it asks."""
        heapq.heappush(self._due, (at, next(self._order), stream))
        self._added.set()

    def add_after(self, stream: Stream, seconds: float) -> None:
        """From a step: step again so long after the time that this one was due."""
        heapq.heappush(self._due, (self._at + seconds, next(self._order), stream))

    async def run(self) -> None:
        """Pace for as long as the process serves."""
        while True:
            now = time.monotonic()
            while self._due and self._due[0][0] <= now:
                self._at, _, stream = heapq.heappop(self._due)
                stream.due()
            self._added.clear()
            wait_s = max(self._due[0][0] - time.monotonic(), 0) if self._due else None
            try:
                async with asyncio.timeout(wait_s):
                    await self._added.wait()
            except TimeoutError:
                continue


async def serve(port: int) -> None:
    """Serve until the process is ended."""
    pacer = Pacer()
    server = await asyncio.get_running_loop().create_server(lambda: Stream(pacer), "127.0.0.1", port, backlog=2000)
    async with server, asyncio.TaskGroup() as tasks:
        tasks.create_task(pacer.run(), name="pacer")
        tasks.create_task(server.serve_forever(), name="server")


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
