"""The live log's laws as an observer sees them: what was published, and a tab that checks what it is sent.

Written against the port (app/live/log.py); used for every implementation of it.
"""

# A test may look inside.
# pyright: reportPrivateUsage=false

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec
from redis.asyncio import Redis

from app.live.frames import Delta, Done, Failed, Frame, Snapshot, Source, Sources, Step, TurnUsage, encode
from app.live.log import LiveLog, Position, Reader, Writer
from app.live.memory import MemoryLog, MemoryReader
from app.live.redis_streams import RedisLog
from tests.harness.sse_reader import Frame as Sent
from tests.harness.sse_reader import StreamReader

LogFactory = Callable[[float], AbstractAsyncContextManager[LiveLog]]
"""Makes a log that keeps a finished turn so many seconds."""

SOON_S = 5.0
"""How long what is on its way may take."""


@asynccontextmanager
async def memory_log(keep_s: float) -> AsyncGenerator[LiveLog]:
    """The log of one process."""
    yield MemoryLog(keep_s)


@asynccontextmanager
async def redis_log(url: str, keep_s: float = 60, *, replica: str = "one") -> AsyncGenerator[RedisLog]:
    """A running log on the server; everybody else's streams stay."""
    log = RedisLog(url, replica, keep_s=keep_s)
    async with log.running():
        yield log


async def empty(url: str) -> None:
    """Delete all that the server holds."""
    client: Any = Redis.from_url(url)  # pyright: ignore[reportUnknownMemberType]
    async with client:
        await client.flushall()


class TwoProcesses(RedisLog):
    """Turns are written in one process and read in another. A tab comes when what was published has arrived."""

    def __init__(self, url: str, replica: str, *, keep_s: float, writes: RedisLog) -> None:
        super().__init__(url, replica, keep_s=keep_s)
        self._writes = writes

    def open(self, turn_id: str, *, attempt: int = 0, after_seq: int = 0) -> Any:
        return self._writes.open(turn_id, attempt=attempt, after_seq=after_seq)

    async def attach(self, turn_id: str, after: Position | None, *, running: bool) -> MemoryReader | None:
        await self._writes._pump.flush(SOON_S)
        return await super().attach(turn_id, after, running=running)

    async def last_seq(self, turn_id: str) -> int:
        await self._writes._pump.flush(SOON_S)
        return await super().last_seq(turn_id)


@asynccontextmanager
async def own_redis_log(url: str, keep_s: float) -> AsyncGenerator[LiveLog]:
    await empty(url)
    async with redis_log(url, keep_s) as log:
        yield log


@asynccontextmanager
async def far_redis_log(url: str, keep_s: float) -> AsyncGenerator[LiveLog]:
    await empty(url)
    async with redis_log(url, keep_s) as writes:
        reads = TwoProcesses(url, "two", keep_s=keep_s, writes=writes)
        async with reads.running():
            yield reads


IMPLEMENTATIONS = ("memory", "redis", "redis from another process")


def log_factory(implementation: str, url: str | None) -> LogFactory:
    """How to make a log of this kind; `url` is the server, where it needs one."""
    if url is None:
        return memory_log
    return partial(own_redis_log if implementation == "redis" else far_redis_log, url)


DONE = Done("m1", stopped=False, evidence="none", cited=(), usage=TurnUsage())


def step(n: int, at: int) -> Step:
    return Step(n, at, f"c{n}", "search_chunks", "search", "query", "1 passage", "ok", 3)


def source(n: int) -> Source:
    return Source(n, "chunk", f"k{n}", None, "board.md", "The board", "On 17 November …")


@dataclass(frozen=True, repr=False)  # megabytes, which asyncio would write out for each task that gives one
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


@dataclass(repr=False)
class Published:
    """A turn's log with the record of all that was appended to it: `states[seq]` is what it amounted to then.

    `sure_to` is the last seq that only one owner can have given out; None while it had but one.
    """

    turn_id: str
    writer: Writer
    states: list[State] = field(default_factory=lambda: [State()])
    sizes: list[int] = field(default_factory=lambda: [0])
    finished: bool = False
    attempt: int = 0
    sure_to: int | None = None

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

    def take_over(self, log: LiveLog) -> None:
        """The next owner goes on from what was checkpointed: less than what was published."""
        self.attempt += 1
        self.sure_to = self.seq if self.sure_to is None else self.sure_to
        self.writer = log.open(self.turn_id, attempt=self.attempt, after_seq=self.seq)
        self.append(Snapshot(self.turn_id, self.states[-1].content[:10], (), (source(1),)))

    def sure(self, seq: int) -> bool:
        """Law 3: whether only one owner can have given out this seq."""
        return seq <= self.seq and (self.sure_to is None or seq <= self.sure_to)

    def behind(self, seq: int) -> int:
        """Bytes of the frames after `seq`."""
        return sum(self.sizes[seq + 1 :])


@dataclass(repr=False)
class Tab:
    """A reader with what it has been sent. `seq` is None until a first frame says where it is."""

    turn: Published
    reader: Reader
    seq: int | None
    state: State = State()
    frames: list[Sent] = field(default_factory=list[Sent])
    over: bool = False

    async def arrived(self) -> None:
        """Wait until all that was published can be read here: another process's frames take a moment."""
        assert isinstance(self.reader, MemoryReader)
        held, expected = self.reader.turn, (self.turn.attempt, self.turn.seq)
        deadline = time.monotonic() + SOON_S
        while self.turn.seq and (held.attempt, held.seq) != expected and not self.reader._closed:
            assert time.monotonic() < deadline, f"{(held.attempt, held.seq)} arrived of {expected}"
            await asyncio.sleep(0.001)

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
        """Read all that was published, and that nothing else waits."""
        await self.arrived()
        frames: list[Sent] = []
        while more := await self.read():
            frames += more
        return frames


async def carried(log: LiveLog) -> None:
    """Wait until all that was published is where every process can read it."""
    if isinstance(log, TwoProcesses):
        await log._writes._pump.flush(SOON_S)


async def attach(log: LiveLog, turn: Published, after: Position | None, *, seen: int | None = None) -> Tab:
    """A tab that is sent what comes after a position; `seen` is what it holds of the turn, if anything."""
    reader = await log.attach(turn.turn_id, after, running=not turn.finished)
    assert reader is not None
    return Tab(turn, reader, seen, State() if seen is None else turn.states[seen])


async def tab_at(log: LiveLog, turn: Published, seq: int) -> Tab:
    """A tab that goes on after a seq of the turn."""
    return await attach(log, turn, Position(turn.turn_id, seq), seen=seq)


def begin(log: LiveLog, turn_id: str = "t1") -> Published:
    return Published(turn_id, log.open(turn_id))
