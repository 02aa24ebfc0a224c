"""The live log: the frames of running turns, from which any tab can attach. The port, and its laws.

Laws, held by one test suite over every implementation (tests/live):

1. `Writer.append` gives the next seq: 1, 2, 3 … without a gap, also over a take-over; the frame's id is
   `<turn_id>:<seq>`.
2. A reader gets every frame after its position exactly once and in order, or one snapshot whose id is the
   last seq it covers, and then every frame after that.
3. A position is honoured only when its frame's successor is still in the log, it is the same turn, and nobody
   but the present owner can have given it out; any other position gets a snapshot (case S10). After a take-over
   the new owner's seqs may repeat some that the dead one gave out, so positions from there on get a snapshot.
4. A reader that is more than `LAG_BYTES` behind gets a fresh snapshot instead of the frames it missed; it
   never slows the writer or another reader, and holds no buffer of its own (case S13).
5. After the terminal frame nothing is appended; readers get it and then end. The log of a finished turn is
   kept `KEEP_S`, so that a late tab gets its terminal frame.
6. Appending never waits, whatever carries the frames to other processes is doing.
7. A process that lost a turn can't make itself heard: what it still appends reaches nobody who follows the new owner.
"""

from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from app.errors import AppError, RefusalCode
from app.live.frames import Done, Failed, Frame, Snapshot

LAG_BYTES = 256 * 1024
"""How far a reader may fall behind before it is given a snapshot."""

KEEP_S = 60.0
"""How long a finished turn's frames stay."""


@dataclass(frozen=True, slots=True)
class Position:
    """What a reader has seen: the turn, and the seq of its last frame there. Seq 0 is before its first frame."""

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


@dataclass(frozen=True, slots=True)
class Stored:
    """What a finished turn amounts to; `last_seq` is the terminal frame's."""

    snapshot: Snapshot
    terminal: Done | Failed
    last_seq: int


@dataclass(frozen=True, slots=True)
class StopAsked:
    """Somebody asked, in whichever process, that this turn be stopped; its owner hears it."""

    turn_id: str


@dataclass(frozen=True, slots=True)
class TurnsReleased:
    """Some process gave its turns up: whoever can, take them."""


@dataclass(frozen=True, slots=True)
class TurnLost:
    """Another process writes this turn now. Heard by the one that wrote it; its readers were ended already."""

    turn_id: str


Signal = StopAsked | TurnsReleased | TurnLost


class LogUnavailable(AppError):
    """What carries frames between processes can't be reached: at the start, or where a tab wants another's turn."""

    def __init__(self, message: str) -> None:
        super().__init__(RefusalCode.LIVE_LOG_UNAVAILABLE, message, retry_after_s=1)


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
    """All live turns that this process can serve, and what processes have to tell each other about them."""

    @property
    def where(self) -> str:
        """Where frames are kept, for a person; without secrets."""
        ...

    @property
    def healthy(self) -> bool:
        """Whether all that the log needs to run does; false only where something died that must not."""
        ...

    def running(self) -> AbstractAsyncContextManager[None]:
        """What the log needs to run, for the block; a log that needs a server raises LogUnavailable without it."""
        ...

    def open(self, turn_id: str, *, attempt: int = 0, after_seq: int = 0) -> Writer:
        """Begin a turn's log here, or go on with one as its owner number `attempt` (0: the first).

        `after_seq` is the last seq that is known to have been given out; the first frame appended to a log that
        goes on replaces all before it: a Snapshot, or where no seq is known, the Conversation that begins a turn.
        Readers that already wait for the turn here get its frames.
        """
        ...

    async def last_seq(self, turn_id: str) -> int:
        """The last seq of the turn that reached the log, whoever wrote it; 0 where nothing is known."""
        ...

    async def attach(self, turn_id: str, after: Position | None, *, running: bool) -> Reader | None:
        """Attach to a turn; None when there is nothing to send: its log is gone, or all of it was seen.

        `running` says that the turn runs somewhere, by the database: the reader then waits for a log that isn't
        there yet. A position of seq 0 asks for every frame from the first. Raises LogUnavailable.
        """
        ...

    def abandon(self, turn_id: str) -> None:
        """End a turn's log here without a terminal frame, and its readers: another process has the turn, or nobody."""
        ...

    async def forget(self, turn_ids: Collection[str]) -> None:
        """Drop all that is left of these turns' logs, wherever it is kept, and end their readers: they were deleted.

        Best effort where other processes hold it: what they keep expires.
        """
        ...

    @property
    def attached_readers(self) -> int:
        """How many readers are attached here."""
        ...

    def followed(self) -> Collection[str]:
        """Turns that readers here wait for and that this process doesn't write; the supervisor looks after them."""
        ...

    def conclude(self, turn_id: str, stored: Stored) -> None:
        """Give readers that still follow the turn its stored end, which never came over the log."""
        ...

    def close_readers(self) -> None:
        """End every reader, as at shutdown; turns and their logs stay."""
        ...

    def on_signal(self, hear: Callable[[Signal], None]) -> None:
        """Have this called for every signal that reaches this process; set once, before `running`."""
        ...

    async def ask_to_stop(self, replica: str, turn_id: str) -> None:
        """Tell the process that runs the turn. Best effort: the lasting mark is in the database."""
        ...

    async def tell_released(self) -> None:
        """Tell every process that turns were given up. Best effort: every process looks by itself, a little later."""
        ...
