"""The live log: the frames of running turns, from which any tab can attach. The port, and its laws.

Laws, held by one test suite over every implementation (tests/live):

1. `Writer.append` gives seqs 1, 2, 3 … without a gap; the frame's id is `<turn_id>:<seq>`.
2. A reader gets every frame after its position exactly once and in order, or one snapshot whose id is the
   last seq it covers, and then every frame after that.
3. A position is honoured only when its frame's successor is still in the log and it is the same turn;
   a foreign, future or expired position gets a snapshot (case S10).
4. A reader that is more than `LAG_BYTES` behind gets a fresh snapshot instead of the frames it missed; it
   never slows the writer or another reader, and holds no buffer of its own (case S13).
5. After the terminal frame nothing is appended; readers get it and then end. The log of a finished turn is
   kept `KEEP_S`, so that a late tab gets its terminal frame.
6. Appending never waits.
"""

from dataclasses import dataclass
from typing import Protocol

from app.live.frames import Frame

LAG_BYTES = 256 * 1024
"""How far a reader may fall behind before it is given a snapshot."""

KEEP_S = 60.0
"""How long a finished turn's frames stay."""


@dataclass(frozen=True, slots=True)
class Position:
    """What a reader has seen: the turn, and the seq of its last frame there."""

    turn_id: str
    seq: int

    @classmethod
    def parse(cls, last_event_id: str | None) -> "Position | None":
        """The position a `Last-Event-ID` header names; None for none, or for what isn't one of ours."""
        if not last_event_id:
            return None
        turn_id, colon, seq = last_event_id.strip().rpartition(":")
        if not colon or not turn_id or not seq.isascii() or not seq.isdigit() or len(seq) > 12:
            return None
        return cls(turn_id, int(seq))


class Writer(Protocol):
    """The only writer of one turn's log."""

    def append(self, frame: Frame) -> int:
        """Publish a frame and give its seq. Never waits."""
        ...

    @property
    def next_seq(self) -> int:
        """The seq the next appended frame will get."""
        ...


class Reader(Protocol):
    """One attached tab."""

    async def read(self, timeout_s: float) -> bytes | None:
        """The next frames as bytes, several joined where several wait; b"" after `timeout_s` without any;
        None when the turn is over or the reader was closed.
        """
        ...

    @property
    def finished(self) -> bool:
        """Whether everything was read, up to and with the terminal frame."""
        ...

    def close(self) -> None:
        """Detach. A pending `read` then returns None. Safe to call twice."""
        ...


class LiveLog(Protocol):
    """All live turns that this process can serve."""

    def open(self, conversation_id: str, turn_id: str) -> Writer:
        """Begin a turn's log; from now on attaching to the conversation means this turn."""
        ...

    async def attach(self, conversation_id: str, after: Position | None) -> Reader | None:
        """Attach to the conversation's running or just finished turn; None when there is nothing to send."""
        ...

    async def attach_turn(self, turn_id: str, after_seq: int) -> Reader | None:
        """Attach to one turn, from after a seq (0: its beginning); None when its log is gone."""
        ...

    def close_readers(self) -> None:
        """End every reader, as at shutdown; turns and their logs stay."""
        ...
