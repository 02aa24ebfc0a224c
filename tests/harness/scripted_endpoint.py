"""A scripted OpenAI-protocol endpoint on a real port, for every test that needs a model which does as told.

    async with ScriptedEndpoint() as endpoint:
        asked = endpoint.script(call(("search_chunks", {"query": "board"})), text("Four members [1]."))
        ...                                    # point LLM_BASE_URL at endpoint.base_url
        await ask(f"Who was on the board? {asked}")        # the marker in the question picks the script
        assert asked.requests[0].body["tool_choice"] == "required"

A request belongs to the script whose marker `[[name:nonce]]` stands last in its last user message that has one;
the script's replies are given in order, the last one again and again. A request without a marker gets
`endpoint.default`. An entry of a script is a Reply, or a function of the request's body that returns one:
`unless("tool_choice", refused, otherwise)` makes one of those.

A reply is bytes, written piece by piece. Between them may stand an `asyncio.Event`: writing goes on when the
test sets it, so that no test sleeps.

    gate = asyncio.Event()
    asked = endpoint.script(stream(event({"content": "Half"}), gate, event({"content": " more"}), finish()))
    ...                                        # read "Half", look around
    gate.set()

What became of a request: `seen = await asked.request(0)` waits for it; `seen.body`, `seen.headers`,
`seen.target`; `await seen.closed.wait()` ends when the client has closed the connection before the reply was over.
`endpoint.connections` counts the connections that were opened.
"""

import asyncio
import itertools
import json
import re
import socket
import struct
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, Self, cast

Piece = bytes | asyncio.Event
Close = Literal["clean", "cut", "reset", "mute", "hang"]
Body = dict[str, object]

_MARKER = re.compile(r"\[\[[a-z0-9_]+:[^\]\s]+\]\]")
_DEADLINE_S = 10.0


@dataclass(frozen=True, slots=True)
class Reply:
    """One HTTP answer.

    `close`: clean ends the body; cut breaks the connection after the pieces; reset breaks it before any byte of
    the response; mute keeps silent before any byte, hang after the pieces until the client closes. `framing`: chunked, with a length,
    or ended by the connection's end. `pace_s` is the time between pieces, for measurements only.
    """

    pieces: Sequence[Piece] | AsyncIterable[bytes] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    close: Close = "clean"
    framing: Literal["chunked", "length", "close"] = "chunked"
    pace_s: float = 0.0


Step = Reply | Callable[[Body], Reply]

EVENT_STREAM = {"content-type": "text/event-stream; charset=utf-8"}
DONE = b"data: [DONE]\n\n"


def event(delta: Mapping[str, object] | None, finish_reason: str | None = None, **top: object) -> bytes:
    """One chunk as an event. `delta` None makes an event without choices; `top` are fields beside `choices`."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    chunk: Body = {
        "id": "chatcmpl-scripted",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "scripted",
        "choices": [] if delta is None else [choice],
    }
    return b"data: " + json.dumps(chunk | top, ensure_ascii=False).encode() + b"\n\n"


def usage(prompt: int = 11, completion: int = 7, **more: object) -> bytes:
    """The usage-only event that ends a stream when asked for."""
    counts = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return event(None, usage=counts | more)


def finish(reason: str = "stop") -> bytes:
    """The end of a stream: a finish reason, usage and [DONE]."""
    return event({}, reason) + usage() + DONE


def stream(*pieces: Piece, close: Close = "clean", **headers: str) -> Reply:
    """A reply of these pieces as they are; underscores in header names become hyphens."""
    return Reply(pieces, headers=EVENT_STREAM | _headers(headers), close=close)


def text(words: str, *, size: int = 4, reason: str = "stop") -> Reply:
    """A reply that is text, `size` characters an event."""
    return stream(*_content(words, size), finish(reason))


def call(*calls: tuple[str, Mapping[str, object] | str], say: str = "", size: int = 7) -> Reply:
    """A reply that calls tools: (name, arguments) each; a string is sent as it is. `say` is text before the calls."""
    pieces = list(_content(say, 3))
    for index, (name, arguments) in enumerate(calls):
        written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        function: Body = {"name": name, "arguments": ""}
        head: Body = {"index": index, "id": f"call_{name}_{index}", "type": "function", "function": function}
        pieces.append(event({"tool_calls": [head]}))
        for at in range(0, len(written), size):
            part = {"index": index, "function": {"arguments": written[at : at + size]}}
            pieces.append(event({"tool_calls": [part]}))
    return stream(*pieces, finish("tool_calls"))


def http(status: int, body: object, **headers: str) -> Reply:
    """A plain HTTP answer: bytes and strings as they are, anything else as JSON."""
    if isinstance(body, bytes):
        raw = body
    else:
        raw = body.encode() if isinstance(body, str) else json.dumps(body, ensure_ascii=False).encode()
    kind = "text/plain" if isinstance(body, str | bytes) else "application/json"
    return Reply((raw,), status, {"content-type": kind} | _headers(headers), framing="length")


def unless(key: str, refused: Step, otherwise: Step) -> Callable[[Body], Reply]:
    """Refuse a request that has the field `key`."""

    def step(body: Body) -> Reply:
        chosen = refused if key in body else otherwise
        return chosen if isinstance(chosen, Reply) else chosen(body)

    return step


RESET = Reply(close="reset")
"""The connection breaks before any byte of a response."""

MUTE = Reply(close="mute")
"""No byte of a response, ever; the connection stays open until the client closes it."""


@dataclass(slots=True)
class Seen:
    """A request as it arrived. `closed`: the client went away before the reply was over; `over`: the reply is over."""

    body: Body
    headers: dict[str, str]
    target: str
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)


class Script:
    """The replies for one marker, and the requests that asked for them. Put `str(script)` into a question."""

    def __init__(self, marker: str, steps: Sequence[Step]) -> None:
        self.marker = marker
        self.steps = tuple(steps)
        self.requests: list[Seen] = []
        self._arrived = asyncio.Condition()

    def __str__(self) -> str:
        return self.marker

    @property
    def bodies(self) -> list[Body]:
        """The JSON bodies of the requests so far, in order."""
        return [seen.body for seen in self.requests]

    def messages(self, number: int) -> list[dict[str, Any]]:
        """The messages of the request of that number, from 0."""
        return cast("list[dict[str, Any]]", self.requests[number].body["messages"])

    async def request(self, number: int) -> Seen:
        """The request of that number, from 0; waits until it has come."""
        async with asyncio.timeout(_DEADLINE_S), self._arrived:
            await self._arrived.wait_for(lambda: len(self.requests) > number)
        return self.requests[number]

    async def answer(self, seen: Seen) -> Reply:
        """Take down a request and give the reply that is due."""
        async with self._arrived:
            self.requests.append(seen)
            self._arrived.notify_all()
        step = self.steps[min(len(self.requests), len(self.steps)) - 1]
        return step if isinstance(step, Reply) else step(seen.body)


class ScriptedEndpoint:
    """The server. Use as an async context manager; leaving it ends every connection and waits for them."""

    def __init__(self) -> None:
        self._scripts: dict[str, Script] = {}
        self._nonces = itertools.count(1)
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self.default = Script("", [text("No script was named.")])
        self.connections = 0
        self.port = 0

    @property
    def base_url(self) -> str:
        """What goes into a base-URL setting."""
        return f"http://127.0.0.1:{self.port}/v1"

    def script(self, *steps: Step, name: str = "script") -> Script:
        """A new script with a marker of its own."""
        script = Script(f"[[{name}:{next(self._nonces)}]]", steps)
        self._scripts[script.marker] = script
        return script

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, backlog=1024)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()

    async def settled(self) -> None:
        """Wait until no connection is open."""
        async with asyncio.timeout(_DEADLINE_S):
            while self._serving:
                await asyncio.wait(self._serving)

    def script_of(self, body: Body) -> Script:
        """The script whose marker a request carries; the default one without a marker."""
        messages = cast("list[Body]", body.get("messages", []))
        for message in reversed(messages):
            content = message.get("content")
            if message.get("role") == "user" and isinstance(content, str):
                markers = _MARKER.findall(content)
                if markers:
                    return self._scripts.get(markers[-1], self.default)
        return self.default

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.create_task(self._serve(reader, writer), name="scripted connection")
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _Connection(self, reader, writer).serve()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client went away between two requests
        finally:
            writer.transport.abort()


class _Connection:
    """One connection of a client: requests and their replies, one after the other."""

    def __init__(self, endpoint: ScriptedEndpoint, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._endpoint = endpoint
        self._reader = reader
        self._writer = writer
        self._read_early = b""

    async def serve(self) -> None:
        """Answer until either side is done."""
        while True:
            seen = await self._request()
            reply = await self._endpoint.script_of(seen.body).answer(seen)
            if reply.close == "reset":
                seen.over.set()
                linger = struct.pack("ii", 1, 0)
                self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                return
            if not await self._answer(seen, reply):
                break
        self._writer.close()
        await self._writer.wait_closed()

    async def _request(self) -> Seen:
        begun, self._read_early = self._read_early, b""
        head = (begun + await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        request_line, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
        fields = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in fields}
        raw = await self._reader.readexactly(int(headers.get("content-length", "0")))
        return Seen(json.loads(raw) if raw else {}, headers, request_line.split(" ")[1])

    async def _answer(self, seen: Seen, reply: Reply) -> bool:
        """Write the reply while watching the client; whether the connection can carry another request."""
        watching = asyncio.create_task(self._reader.read(1), name="watch the client")
        writing = asyncio.create_task(self._write(reply), name="write the reply")
        try:
            await asyncio.wait((watching, writing), return_when=asyncio.FIRST_COMPLETED)
            if watching.done():
                self._read_early = watching.result()
                if not self._read_early and not writing.done():
                    seen.closed.set()
                    return False
            return await writing
        except ConnectionError:
            seen.closed.set()
            return False
        finally:
            seen.over.set()
            for task in (watching, writing):
                task.cancel()
            await asyncio.gather(watching, writing, return_exceptions=True)

    async def _write(self, reply: Reply) -> bool:
        """Write one reply; whether the connection is still good afterwards."""
        writer = self._writer
        if reply.close == "mute":
            await asyncio.Event().wait()
        writer.write(_head(reply))
        await writer.drain()
        async for piece in _pieces(reply):
            if piece:
                writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if reply.framing == "chunked" else piece)
                await writer.drain()
        if reply.close == "hang":
            await asyncio.Event().wait()
        if reply.close == "clean" and reply.framing == "chunked":
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        return reply.close == "clean" and reply.framing != "close"


def _head(reply: Reply) -> bytes:
    head = {"content-type": "application/octet-stream"} | {k.lower(): v for k, v in reply.headers.items()}
    if reply.framing == "chunked":
        head["transfer-encoding"] = "chunked"
    elif reply.framing == "close":
        head["connection"] = "close"
    elif not isinstance(reply.pieces, AsyncIterable):
        head.setdefault("content-length", str(sum(len(piece) for piece in reply.pieces if isinstance(piece, bytes))))
    lines = [f"HTTP/1.1 {reply.status} Scripted", *(f"{name}: {value}" for name, value in head.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


async def _pieces(reply: Reply) -> AsyncGenerator[bytes, None]:
    """The bytes of a reply, each when it is due."""
    if isinstance(reply.pieces, AsyncIterable):
        async for piece in reply.pieces:
            yield piece
        return
    for piece in reply.pieces:
        if isinstance(piece, asyncio.Event):
            await piece.wait()
        else:
            yield piece
            if reply.pace_s:
                await asyncio.sleep(reply.pace_s)


def _content(words: str, size: int) -> list[bytes]:
    return [event({"content": words[at : at + size]}) for at in range(0, len(words), size)]


def _headers(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}
