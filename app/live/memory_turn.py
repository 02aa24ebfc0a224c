"""One turn's frames and the state they amount to.

The hot path: a frame is encoded once, kept once, and read by cursors. Filled by the turn's owner, or, where another
process owns the turn, by whoever mirrors it.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from app.live.frames import Conversation, Delta, Done, Failed, Frame, Snapshot, Source, Sources, Step, encode
from app.live.log import LAG_BYTES, Position

LOG_BYTES = 1024 * 1024
"""How much of a turn's frames is kept for resuming; older ones are replaced by a snapshot."""

FEW = 8
"""So many readers are woken by each frame by itself."""

GATHER_S = 0.025
"""More of them are woken so long after a frame, for all that has come by then: a write to each tab is nearly all that a
tab costs, and nobody sees the difference."""

GATHER_BYTES = 64 * 1024
"""Nobody waits for more than that: who is far behind is given a snapshot, which costs as much as the whole text."""

SNAPSHOT_FIRST = -1
"""The cursor of a reader that has to be told everything."""

NO_OWNER = -1
"""The attempt of a turn of which nothing is known yet."""


class Follower(Protocol):
    """Who reads a turn."""

    def wake(self) -> None:
        """There is something new, whether it is waited for or not."""
        ...


class MemoryTurn:
    """One turn's frames and the state they amount to. Implements Writer.

    Cursors count frames ever held here, not seqs: a take-over may give seqs again, and a resync skips some.
    """

    __slots__ = (
        "_awaits_snapshot",
        "_content",
        "_ends",
        "_first",
        "_followers",
        "_frames",
        "_gathered",
        "_gathering",
        "_joined",
        "_offset",
        "_on_finished",
        "_prefix",
        "_sources",
        "_steps",
        "_sure_to",
        "abandoned",
        "attempt",
        "closed",
        "count",
        "known",
        "owned",
        "readers",
        "seq",
        "turn_id",
    )

    def __init__(self, turn_id: str, on_finished: "Callable[[MemoryTurn], None]") -> None:
        self.turn_id = turn_id
        self.attempt = NO_OWNER
        self.seq = 0
        self.count = 0  # frames ever held here
        self.readers = 0
        self.owned = False  # written by this process
        self.known = False  # whether what the turn amounts to is known; until then readers wait
        self.closed = False
        self.abandoned = False
        self._prefix = turn_id.encode() + b":"
        self._frames: list[bytes] = []
        self._ends: list[int] = []  # running total of bytes up to and with each kept frame
        self._first = 0  # frames that are no longer kept
        self._offset = 0  # cursor minus seq, for positions that can be gone on from
        self._sure_to: int | None = None  # the last seq that only one owner can have given out; None for no bound
        self._awaits_snapshot = False
        self._content: list[str] = []
        self._steps: list[Step] = []
        self._sources: tuple[Source, ...] = ()
        self._followers: dict[Follower, None] = {}
        self._gathered = 0  # bytes since the followers were woken
        self._gathering: asyncio.TimerHandle | None = None  # wakes many followers
        self._joined: tuple[int, bytes] | None = None  # frames from a cursor to the last one, as one piece
        self._on_finished = on_finished

    @property
    def next_seq(self) -> int:
        return self.seq + 1

    def own(self, attempt: int, after_seq: int) -> None:
        """Let this process write the turn from now on."""
        self.owned = True
        if attempt or after_seq:
            self._awaits_snapshot = True
            self._change_owner(attempt, max(after_seq, self.seq))
        else:
            self.attempt = 0
            self.known = True
            self._wake()

    def append(self, frame: Frame) -> int:
        if self.closed:
            raise RuntimeError("a frame after the terminal frame")
        if self._awaits_snapshot:
            if not isinstance(frame, Snapshot | Conversation):
                raise RuntimeError("a log that goes on begins with a frame that replaces all before it")
            self._awaits_snapshot = False
        seq = self.seq + 1
        self._hold(frame, encode(frame, b"%b%d" % (self._prefix, seq)), seq)
        return seq

    def take(self, frame: Frame, data: bytes, *, attempt: int, seq: int) -> None:
        """Hold a frame that another process published; a new owner's first one may have any seq."""
        if attempt != self.attempt:
            self._change_owner(attempt, seq - 1)
        self._hold(frame, data, seq)

    def reset(self, snapshot: Snapshot, *, attempt: int, seq: int) -> None:
        """Replace all that is held by a snapshot that covers `seq`; every reader is sent one."""
        self._remember(snapshot)
        self._frames.clear()
        self._ends.clear()
        self.count += 1
        self._first = self.count
        self._offset = self.count - seq
        self._sure_to = -1 if attempt else None
        self.attempt, self.seq, self.known = attempt, seq, True
        self._wake()

    def abandon(self) -> None:
        """End every reader without a terminal frame."""
        self.abandoned = True
        self._wake()

    def _change_owner(self, attempt: int, after_seq: int) -> None:
        """The next frame is `after_seq` + 1, given out by owner number `attempt`."""
        if not self.known:
            self._offset = -after_seq
        if attempt or after_seq:
            held = min(self.seq, after_seq) if self.known else after_seq
            self._sure_to = held if self._sure_to is None else min(self._sure_to, held)
        self.attempt, self.seq = attempt, after_seq

    def _hold(self, frame: Frame, data: bytes, seq: int) -> None:
        self.seq = seq
        self.known = True
        self._remember(frame)
        self.count += 1
        self._frames.append(data)
        self._ends.append((self._ends[-1] if self._ends else 0) + len(data))
        if self._ends[-1] - self._ends[0] > 2 * LOG_BYTES:
            self._trim()
        self._joined = None
        self._gathered += len(data)
        if len(self._followers) <= FEW or self._gathered > GATHER_BYTES:
            self._wake()
        elif self._gathering is None:
            self._gathering = asyncio.get_running_loop().call_later(GATHER_S, self._wake)
        if self.closed:
            self._on_finished(self)

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
                self._content, self._steps, self._sources = [], [], ()

    def _trim(self) -> None:
        """Forget the oldest frames down to LOG_BYTES; done rarely, so that the cost per frame is constant."""
        total = self._ends[-1]
        keep_from = next(i for i, end in enumerate(self._ends) if total - end <= LOG_BYTES)
        del self._frames[:keep_from]
        del self._ends[:keep_from]
        self._first += keep_from

    def holds_after(self, seq: int) -> bool:
        """Whether every frame after `seq` is kept; false for a seq never given out, or by an owner that is unsure."""
        if not self.known or seq > self.seq or (self._sure_to is not None and seq > self._sure_to):
            return False
        return self._first <= seq + self._offset

    def cursor(self, after: Position | None) -> int:
        """Where a reader that has seen `after` goes on."""
        if after is None or after.turn_id != self.turn_id:
            return SNAPSHOT_FIRST
        if not self.known:
            return SNAPSHOT_FIRST if after.seq else 0
        return after.seq + self._offset if self.holds_after(after.seq) else SNAPSHOT_FIRST

    def since(self, cursor: int) -> bytes:
        """What a reader at `cursor` is sent next: the frames after it, or a snapshot and the rest."""
        index = cursor - self._first
        if index < 0:
            return self.snapshot()
        if index == len(self._frames) - 1:
            return self._frames[index]
        if self._joined is not None and self._joined[0] == cursor:
            return self._joined[1]
        behind = self._ends[-1] - (self._ends[index - 1] if index else self._ends[0] - len(self._frames[0]))
        if behind > LAG_BYTES:
            return self.snapshot()
        data = b"".join(self._frames[index:])
        self._joined = cursor, data  # most tabs are as far
        return data

    def snapshot(self) -> bytes:
        """A snapshot of everything published, followed by the terminal frame when the turn is over."""
        _, data = self.state()
        return data + self.newest if self.closed else data

    def state(self) -> tuple[int, bytes]:
        """What was published except the terminal frame: the last seq of it, and a snapshot with that id."""
        content = "".join(self._content)
        self._content = [content]  # joined once, not again by the next tab
        frame = Snapshot(self.turn_id, content, tuple(self._steps), self._sources)
        covered = self.seq - 1 if self.closed else self.seq
        return covered, encode(frame, b"%b%d" % (self._prefix, covered))

    @property
    def newest(self) -> bytes:
        """The bytes of the last frame."""
        return self._frames[-1]

    def follow(self, reader: Follower) -> None:
        """Have the reader woken by each frame from now on."""
        self._followers[reader] = None

    def leave(self, reader: Follower) -> None:
        """Take back `follow`."""
        self._followers.pop(reader, None)

    def _wake(self) -> None:
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        self._gathered = 0
        for reader in self._followers:
            reader.wake()
