"""The live log of one process. The hot path: a frame is encoded once, kept once, and read by cursors.

Readers hold no queue, only the seq they have seen; a slow one therefore costs nothing, and one that catches
up gets all that waits in a single write. Held by main.py; written only by turn/publish.py through a Writer.
"""

import asyncio
from collections.abc import Callable

from app.live.frames import Conversation, Delta, Done, Failed, Frame, Snapshot, Source, Sources, Step, encode
from app.live.log import KEEP_S, LAG_BYTES, Position

LOG_BYTES = 1024 * 1024
"""How much of a turn's frames is kept for resuming; older ones are replaced by a snapshot."""


class MemoryTurn:
    """One turn's frames and the state they amount to. Implements Writer."""

    __slots__ = (
        "_content",
        "_ends",
        "_first_seq",
        "_frames",
        "_on_finished",
        "_prefix",
        "_sources",
        "_steps",
        "_waiting",
        "closed",
        "conversation_id",
        "seq",
        "turn_id",
    )

    def __init__(self, conversation_id: str, turn_id: str, on_finished: "Callable[[MemoryTurn], None]") -> None:
        self.conversation_id = conversation_id
        self.turn_id = turn_id
        self.seq = 0
        self.closed = False
        self._prefix = turn_id.encode() + b":"
        self._frames: list[bytes] = []
        self._ends: list[int] = []  # running total of bytes up to and with each kept frame
        self._first_seq = 1
        self._content: list[str] = []
        self._steps: list[Step] = []
        self._sources: tuple[Source, ...] = ()
        self._waiting: list[MemoryReader] = []
        self._on_finished = on_finished

    @property
    def next_seq(self) -> int:
        return self.seq + 1

    def append(self, frame: Frame) -> int:
        if self.closed:
            raise RuntimeError("a frame after the terminal frame")
        self.seq += 1
        self._remember(frame)
        data = encode(frame, b"%b%d" % (self._prefix, self.seq))
        self._frames.append(data)
        self._ends.append((self._ends[-1] if self._ends else 0) + len(data))
        if self._ends[-1] - self._ends[0] > 2 * LOG_BYTES:
            self._trim()
        self._wake()
        if self.closed:
            self._on_finished(self)
        return self.seq

    def _remember(self, frame: Frame) -> None:
        match frame:
            case Delta():
                self._content.append(frame.text)
            case Step():
                self._steps.append(frame)
            case Sources():
                self._sources = frame.sources
            case Snapshot():
                self._content = [frame.content]
                self._steps = list(frame.steps)
                self._sources = frame.sources
            case Done() | Failed():
                self.closed = True
            case Conversation():
                pass

    def _trim(self) -> None:
        """Forget the oldest frames down to LOG_BYTES; done rarely, so that the cost per frame is constant."""
        total = self._ends[-1]
        keep_from = next(i for i, end in enumerate(self._ends) if total - end <= LOG_BYTES)
        del self._frames[:keep_from]
        del self._ends[:keep_from]
        self._first_seq += keep_from

    def holds_after(self, seq: int) -> bool:
        """Whether every frame after `seq` is still kept; false for a seq that was never given out."""
        return self._first_seq - 1 <= seq <= self.seq

    def since(self, seq: int) -> bytes:
        """What a reader that has seen `seq` is sent next: the frames after it, or a snapshot and the rest."""
        if not self.holds_after(seq):
            return self.snapshot()
        index = seq + 1 - self._first_seq
        missed = self._frames[index:]
        if len(missed) == 1:
            return missed[0]
        behind = self._ends[-1] - (self._ends[index - 1] if index else self._ends[0] - len(self._frames[0]))
        return self.snapshot() if behind > LAG_BYTES else b"".join(missed)

    def snapshot(self) -> bytes:
        """A snapshot of everything published, followed by the terminal frame when the turn is over."""
        content = "".join(self._content)
        self._content = [content]  # joined once, not again by the next tab
        frame = Snapshot(self.turn_id, content, tuple(self._steps), self._sources)
        covered = self.seq - 1 if self.closed else self.seq
        data = encode(frame, b"%b%d" % (self._prefix, covered))
        return data + self._frames[-1] if self.closed else data

    def wait(self, reader: "MemoryReader") -> None:
        """Have the reader woken by the next frame."""
        self._waiting.append(reader)

    def forget(self, reader: "MemoryReader") -> None:
        """Take back `wait`."""
        if reader in self._waiting:
            self._waiting.remove(reader)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for reader in waiting:
            reader.wake()


class MemoryReader:
    """A cursor over one turn. Implements Reader."""

    __slots__ = ("_closed", "_loop", "_pending", "_seen", "_snapshot_first", "_timer", "_turn", "_wakers")

    def __init__(self, turn: MemoryTurn, seen: int | None, wakers: "set[MemoryReader]") -> None:
        self._turn = turn
        self._seen = seen or 0
        self._snapshot_first = seen is None
        self._closed = False
        self._pending: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._wakers = wakers
        wakers.add(self)

    async def read(self, timeout_s: float) -> bytes | None:
        turn = self._turn
        if self._closed:
            return None
        if self._snapshot_first:
            self._snapshot_first = False
            data = turn.snapshot()
            self._seen = turn.seq
            return data
        if self._seen == turn.seq:
            if turn.closed:
                return None
            await self._next_frame(timeout_s)
            if self._closed:
                return None
            if self._seen == turn.seq:
                return b""
        data = turn.since(self._seen)
        self._seen = turn.seq
        return data

    async def _next_frame(self, timeout_s: float) -> None:
        self._pending = self._loop.create_future()
        self._timer = self._loop.call_later(timeout_s, self.wake)
        self._turn.wait(self)
        try:
            await self._pending
        finally:
            self._timer.cancel()
            self._turn.forget(self)
            self._pending = None

    @property
    def finished(self) -> bool:
        return self._turn.closed and self._seen == self._turn.seq and not self._snapshot_first

    def wake(self) -> None:
        if self._pending is not None and not self._pending.done():
            self._pending.set_result(None)

    def close(self) -> None:
        self._closed = True
        self._wakers.discard(self)
        self.wake()


class MemoryLog:
    """The live turns of this process. Implements LiveLog."""

    def __init__(self, keep_s: float = KEEP_S) -> None:
        self._keep_s = keep_s
        self._by_conversation: dict[str, MemoryTurn] = {}
        self._by_turn: dict[str, MemoryTurn] = {}
        self._readers: set[MemoryReader] = set()

    def open(self, conversation_id: str, turn_id: str) -> MemoryTurn:
        turn = MemoryTurn(conversation_id, turn_id, self._finished)
        self._by_conversation[conversation_id] = turn
        self._by_turn[turn_id] = turn
        return turn

    async def attach(self, conversation_id: str, after: Position | None) -> MemoryReader | None:
        turn = self._by_conversation.get(conversation_id)
        if turn is None:
            return None
        if after is None or after.turn_id != turn.turn_id or not turn.holds_after(after.seq):
            return MemoryReader(turn, None, self._readers)
        if turn.closed and after.seq == turn.seq:
            return None
        return MemoryReader(turn, after.seq, self._readers)

    async def attach_turn(self, turn_id: str, after_seq: int) -> MemoryReader | None:
        turn = self._by_turn.get(turn_id)
        if turn is None:
            return None
        return MemoryReader(turn, after_seq if turn.holds_after(after_seq) else None, self._readers)

    def close_readers(self) -> None:
        for reader in tuple(self._readers):
            reader.close()

    def _finished(self, turn: MemoryTurn) -> None:
        """Keep a finished turn's frames a while, then forget them."""
        asyncio.get_running_loop().call_later(self._keep_s, self._expire, turn)

    def _expire(self, turn: MemoryTurn) -> None:
        self._by_turn.pop(turn.turn_id, None)
        if self._by_conversation.get(turn.conversation_id) is turn:
            del self._by_conversation[turn.conversation_id]

    @property
    def live_turns(self) -> int:
        """Turns without a terminal frame."""
        return sum(not turn.closed for turn in self._by_turn.values())

    @property
    def attached_readers(self) -> int:
        return len(self._readers)
