"""The live log's laws as an observer sees them: what was published, and a tab that checks what it is sent.

Written against the port (app/live/log.py); used for every implementation of it.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from app.live.frames import Delta, Done, Failed, Frame, Snapshot, Source, Sources, Step, TurnUsage, encode
from app.live.log import LiveLog, Reader, Writer
from app.live.memory import MemoryLog
from tests.harness.sse_reader import Frame as Sent
from tests.harness.sse_reader import StreamReader

LogFactory = Callable[[float], AbstractAsyncContextManager[LiveLog]]


@asynccontextmanager
async def memory_log(keep_s: float):  # noqa: ANN201 - the decorator's own type is the one that counts
    """The log of one process; a finished turn is kept `keep_s` seconds."""
    yield MemoryLog(keep_s)


FACTORIES: dict[str, LogFactory] = {"memory": memory_log}
"""Every implementation of the port."""

DONE = Done("m1", stopped=False, evidence="none", cited=(), usage=TurnUsage())


def step(n: int, at: int) -> Step:
    return Step(n, at, f"c{n}", "search_chunks", "search", "query", "1 passage", "ok", 3)


def source(n: int) -> Source:
    return Source(n, "chunk", f"k{n}", None, "board.md", "The board", "On 17 November …")


@dataclass(frozen=True)
class State:
    """What a turn's frames amount to."""

    content: str = ""
    steps: tuple[Any, ...] = ()
    sources: tuple[Any, ...] = ()

    def after(self, event: str, data: Any) -> "State":
        match event:
            case "delta":
                return State(self.content + data["text"], self.steps, self.sources)
            case "step":
                return State(self.content, (*self.steps, data), self.sources)
            case "sources":
                return State(self.content, self.steps, tuple(data))
            case "snapshot":
                return State(data["content"], tuple(data["steps"]), tuple(data["sources"]))
            case _:
                return self


@dataclass
class Published:
    """A turn's log with the record of all that was appended to it: `states[seq]` is what it amounted to then."""

    turn_id: str
    writer: Writer
    states: list[State] = field(default_factory=lambda: [State()])
    sizes: list[int] = field(default_factory=lambda: [0])
    finished: bool = False

    @property
    def seq(self) -> int:
        return len(self.states) - 1

    def append(self, frame: Frame) -> None:
        """Law 1: the next seq, without a gap."""
        assert self.writer.next_seq == self.seq + 1
        assert self.writer.append(frame) == self.seq + 1
        data: Any = msgspec.to_builtins(frame.sources if isinstance(frame, Sources) else frame)
        event = frame.event.decode()
        self.sizes.append(len(encode(frame, f"{self.turn_id}:{self.seq + 1}".encode())))
        self.states.append(self.states[-1].after(event, data))
        self.finished = isinstance(frame, Done | Failed)

    def say(self, text: str) -> None:
        self.append(Delta(len(self.states[-1].content.encode("utf-16-le")) // 2, text))

    def take_over(self) -> None:
        """Another replica goes on from what was checkpointed: less than what was published."""
        self.append(Snapshot(self.turn_id, self.states[-1].content[:10], (), (source(1),)))

    def behind(self, seq: int) -> int:
        """Bytes of the frames after `seq`."""
        return sum(self.sizes[seq + 1 :])


@dataclass
class Tab:
    """A reader with what it has been sent. `seq` is None until a first frame says where it is."""

    turn: Published
    reader: Reader
    seq: int | None
    state: State = State()
    frames: list[Sent] = field(default_factory=list[Sent])
    over: bool = False

    async def read(self, timeout_s: float = 0) -> list[Sent]:
        """Read once; law 2: the next frames in order, or a snapshot that replaces, and nothing twice."""
        data = await self.reader.read(timeout_s)
        if data is None:
            self.over = True
            return []
        stream = StreamReader()
        frames = stream.feed(data)
        assert (stream.comments, stream.feed(b"\n\n")) == ([], [])
        for frame in frames:
            self._take(frame)
        assert self.seq is None or self.state == self.turn.states[self.seq]
        return frames

    def _take(self, frame: Sent) -> None:
        turn_id, _, seq = frame.id.rpartition(":")
        assert turn_id == self.turn.turn_id
        assert int(seq) <= self.turn.seq
        if frame.event == "snapshot":
            assert self.seq is None or int(seq) >= self.seq
        else:
            assert self.seq is not None, "a first frame without a position must be a snapshot"
            assert int(seq) == self.seq + 1
        self.seq = int(seq)
        self.state = self.state.after(frame.event, frame.data)
        self.frames.append(frame)

    async def read_all(self) -> list[Sent]:
        """Read until nothing waits."""
        frames: list[Sent] = []
        while more := await self.read():
            frames += more
        return frames


def tab(turn: Published, reader: Reader | None, seq: int | None = None) -> Tab:
    """A tab that had seen everything up to `seq`."""
    assert reader is not None
    return Tab(turn, reader, seq, State() if seq is None else turn.states[seq])


def begin(log: LiveLog, conversation_id: str = "c1", turn_id: str = "t1") -> Published:
    return Published(turn_id, log.open(conversation_id, turn_id))
