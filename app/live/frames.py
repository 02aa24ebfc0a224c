"""The eight frames of the SSE contract, how one becomes bytes, and how a process that was sent the bytes reads them.

Decides each frame's fields and the bytes on the wire. A frame is encoded once, when it is published;
every reader is sent the same bytes. Source: DESIGN section 5; framing by WHATWG HTML 9.2.6.
"""

from collections.abc import Iterator
from typing import ClassVar, NamedTuple

import msgspec


class Conversation(msgspec.Struct, frozen=True):
    """The first frame of a turn. `message_id` is the stored question."""

    event: ClassVar[bytes] = b"conversation"
    id: str
    turn_id: str
    message_id: str
    title: str


class Step(msgspec.Struct, frozen=True):
    """One tool call as the reader sees it: `n` counts from 1, `at` is in UTF-16 units, `ms` is how long it took."""

    event: ClassVar[bytes] = b"step"
    n: int
    at: int
    call_id: str
    tool: str
    kind: str
    label: str
    detail: str
    status: str
    ms: int


class Source(msgspec.Struct, frozen=True):
    """An entry of the `sources` frame: a passage the answer may cite as [n]."""

    n: int
    kind: str
    id: str
    document_id: str | None
    title: str
    locator: str
    excerpt: str


class Sources(msgspec.Struct, frozen=True):
    """The whole list of sources; its data is the list itself."""

    event: ClassVar[bytes] = b"sources"
    sources: tuple[Source, ...]


class Delta(msgspec.Struct, frozen=True):
    """Answer text that begins at `at` UTF-16 units."""

    event: ClassVar[bytes] = b"delta"
    at: int
    text: str


class TurnUsage(msgspec.Struct, frozen=True):
    """Tokens of all model requests of a turn; None where no provider said. `truncated`: cut by a token limit."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None
    requests: int = 0
    truncated: bool = False


class Done(msgspec.Struct, frozen=True):
    """A turn that ended with its answer saved as `message_id`."""

    event: ClassVar[bytes] = b"done"
    message_id: str
    stopped: bool
    evidence: str
    cited: tuple[int, ...]
    usage: TurnUsage


class Failed(msgspec.Struct, frozen=True):
    """A turn that ended without an answer, or with one cut off."""

    event: ClassVar[bytes] = b"error"
    code: str
    message: str
    retryable: bool


class Snapshot(msgspec.Struct, frozen=True):
    """All that was published so far; replaces whatever the reader had. Steps and sources as their frames' data."""

    event: ClassVar[bytes] = b"snapshot"
    turn_id: str
    content: str
    steps: tuple[Step, ...]
    sources: tuple[Source, ...]


Frame = Conversation | Step | Sources | Delta | Done | Failed | Snapshot

IDLE = b"event: idle\ndata: {}\n\n"
"""Says that nothing runs. It belongs to no turn and so carries no id: a reader keeps the last one it saw."""

HEARTBEAT = b": keep-alive\n\n"
"""A comment: keeps proxies from cutting a quiet stream, and carries no id (case S10)."""

_encoder = msgspec.json.Encoder()


def encode(frame: Frame, frame_id: bytes) -> bytes:
    """The frame's bytes: id, event, one line of JSON, a blank line. JSON escapes CR and LF, so one line is enough."""
    data = _encoder.encode(frame.sources if isinstance(frame, Sources) else frame)
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (frame_id, frame.event, data)


_decoders = {
    kind.event: msgspec.json.Decoder(tuple[Source, ...] if kind is Sources else kind)
    for kind in (Conversation, Step, Sources, Delta, Done, Failed, Snapshot)
}


class NotAFrame(ValueError):
    """Bytes that `encode` of this version can't have made."""


class Sent(NamedTuple):
    """The three lines of a frame as they stand on the wire; `data` is JSON."""

    id: bytes
    event: bytes
    data: bytes


def sent(data: bytes) -> Iterator[Sent]:
    """The frames in what a reader gave, which is always whole ones."""
    for block in data.split(b"\n\n"):
        if block:
            yield _lines(block)


def decode(data: bytes) -> Frame:
    """The frame whose bytes these are, without its id. Raises NotAFrame."""
    return decoded(_lines(data))


def decoded(frame: Sent) -> Frame:
    """The frame that was sent, without its id. Raises NotAFrame."""
    decoder = _decoders.get(frame.event)
    if decoder is None:
        raise NotAFrame(f"no frame is called {frame.event[:40]!r}")
    try:
        found = decoder.decode(frame.data)
    except msgspec.DecodeError as error:
        raise NotAFrame(f"not the data of {frame.event.decode()}: {error}") from error
    return Sources(found) if isinstance(found, tuple) else found


def _lines(block: bytes) -> Sent:
    head, _, data = block.partition(b"\ndata: ")
    frame_id, _, event = head.rpartition(b"\nevent: ")
    return Sent(frame_id.removeprefix(b"id: "), event, data)
