"""The live log of one process.

Readers hold no queue, only how many of the turn's frames they have seen; a slow one therefore costs nothing, and
one that catches up gets all that waits in a single write. Also what a log that reaches further serves its tabs
from: the turns it writes, and the mirrors of turns that others write.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Generator
from contextlib import asynccontextmanager, contextmanager

from app.live.frames import encode
from app.live.log import KEEP_S, Position, Signal, Stored
from app.live.memory_turn import MemoryTurn


class MemoryReader:
    """A cursor over one turn. Implements Reader.

    Its one timer is not armed anew for each read: it fires now and then, and looks whether a read waited too long.
    """

    __slots__ = ("_closed", "_deadline", "_loop", "_on_closed", "_pending", "_seen", "_timer", "turn")

    def __init__(self, turn: MemoryTurn, seen: int, on_closed: "Callable[[MemoryReader], None]") -> None:
        self.turn = turn
        turn.readers += 1
        turn.follow(self)
        self._seen = seen
        self._closed = False
        self._pending: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0
        self._loop = asyncio.get_running_loop()
        self._on_closed = on_closed

    async def read(self, timeout_s: float) -> bytes | None:
        turn = self.turn
        if (self._seen == turn.count or not turn.known) and not self._over:
            self._pending = self._loop.create_future()
            self._deadline = self._loop.time() + timeout_s
            if self._timer is None or self._timer.when() > self._deadline:
                self._arm()
            try:
                await self._pending
            finally:
                self._pending = None
        if self._over:
            return None
        if self._seen == turn.count or not turn.known:
            return b""
        data = turn.since(self._seen)
        self._seen = turn.count
        return data

    @property
    def _over(self) -> bool:
        return self._closed or self.turn.abandoned or self.finished

    @property
    def finished(self) -> bool:
        return self.turn.closed and self._seen == self.turn.count

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._deadline, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._pending is None:
            return
        if self._loop.time() < self._deadline:
            self._arm()
        else:
            self.wake()

    def wake(self) -> None:
        if self._pending is not None and not self._pending.done():
            self._pending.set_result(None)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self.turn.readers -= 1
        self.turn.leave(self)
        self.wake()
        self._on_closed(self)


class MemoryLog:
    """The turns whose frames are in this process. Implements LiveLog, for one process alone."""

    where = "in this process"

    def __init__(self, keep_s: float = KEEP_S, *, on_dropped: Callable[[MemoryTurn], None] | None = None) -> None:
        self._keep_s = keep_s
        self._on_dropped = on_dropped
        self._turns: dict[str, MemoryTurn] = {}
        self._readers: set[MemoryReader] = set()

    @property
    def healthy(self) -> bool:
        return True

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Needs nothing."""
        yield

    def open(self, turn_id: str, *, attempt: int = 0, after_seq: int = 0) -> MemoryTurn:
        turn = self._turns.get(turn_id)
        if turn is not None and turn.closed:
            after_seq = max(after_seq, turn.seq)
            turn = None
        turn = turn or self.make(turn_id)
        turn.own(attempt, after_seq)
        return turn

    def make(self, turn_id: str) -> MemoryTurn:
        """The log of a turn of which nothing is known yet; forgotten with its last reader, unless it is opened."""
        turn = self._turns[turn_id] = MemoryTurn(turn_id, self._finished)
        return turn

    def find(self, turn_id: str) -> MemoryTurn | None:
        """The turn's log, where one is held here."""
        return self._turns.get(turn_id)

    async def last_seq(self, turn_id: str) -> int:
        turn = self._turns.get(turn_id)
        return turn.seq if turn else 0

    async def attach(self, turn_id: str, after: Position | None, *, running: bool) -> MemoryReader | None:
        turn = self._turns.get(turn_id) or (self.make(turn_id) if running else None)
        return None if turn is None else self.reader(turn, after)

    def reader(self, turn: MemoryTurn, after: Position | None) -> MemoryReader | None:
        """A reader of this turn from after a position; None when all of it was seen."""
        seen = turn.cursor(after)
        if turn.closed and seen == turn.count:
            return None
        reader = MemoryReader(turn, seen, self._left)
        self._readers.add(reader)
        return reader

    def abandon(self, turn_id: str) -> None:
        turn = self._turns.get(turn_id)
        if turn is not None:
            self.drop(turn)
            turn.abandon()

    async def forget(self, turn_ids: Collection[str]) -> None:
        for turn_id in turn_ids:
            self.abandon(turn_id)

    def followed(self) -> Collection[str]:
        return [turn.turn_id for turn in self._turns.values() if turn.readers and not turn.owned and not turn.closed]

    def conclude(self, turn_id: str, stored: Stored) -> None:
        turn = self._turns.get(turn_id)
        if turn is None or turn.owned or turn.closed:
            return
        last_seq = max(stored.last_seq, turn.seq + 1)
        turn.reset(stored.snapshot, attempt=turn.attempt, seq=last_seq - 1)
        data = encode(stored.terminal, f"{turn_id}:{last_seq}".encode())
        turn.take(stored.terminal, data, attempt=turn.attempt, seq=last_seq)

    def close_readers(self) -> None:
        for reader in tuple(self._readers):
            reader.close()

    def on_signal(self, hear: Callable[[Signal], None]) -> None:
        """Nobody else is there to send one."""

    async def ask_to_stop(self, replica: str, turn_id: str) -> None:
        """Nobody else runs turns."""

    async def tell_released(self) -> None:
        """Nobody else could take them."""

    def _left(self, reader: MemoryReader) -> None:
        self._readers.discard(reader)
        self._drop_unread(reader.turn)

    @contextmanager
    def held(self, turn: MemoryTurn) -> Generator[None]:
        """Keep a turn in the block as a reader of it would."""
        turn.readers += 1
        try:
            yield
        finally:
            turn.readers -= 1
            self._drop_unread(turn)

    def _drop_unread(self, turn: MemoryTurn) -> None:
        if not turn.readers and not turn.owned:
            self.drop(turn)

    def _finished(self, turn: MemoryTurn) -> None:
        """Keep a finished turn's frames a while, then forget them."""
        asyncio.get_running_loop().call_later(self._keep_s, self.drop, turn)

    def drop(self, turn: MemoryTurn) -> None:
        """Forget a turn; who reads it reads on."""
        if self._turns.get(turn.turn_id) is turn:
            del self._turns[turn.turn_id]
            if self._on_dropped is not None:
                self._on_dropped(turn)

    @property
    def live_turns(self) -> int:
        """Turns of this process without a terminal frame."""
        return sum(turn.owned and not turn.closed for turn in self._turns.values())

    @property
    def attached_readers(self) -> int:
        return len(self._readers)
