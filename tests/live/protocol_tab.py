"""A tab in the protocol of decision 0015: it checks each frame against all that the owners of its turn published."""

import asyncio
import time
from dataclasses import dataclass

import msgspec

from app.api.conversations import _reader as reader_of  # pyright: ignore[reportPrivateUsage]
from app.api.principal import LOCAL
from app.live.log import Position, Reader
from app.live.redis_streams import RedisLog
from app.store.engine import Database
from app.turn import replay
from tests.harness.sse_reader import Frame as Sent
from tests.harness.sse_reader import StreamReader
from tests.live.protocol import Replica, Turn, after
from tests.live.tabs import SOON_S, State

TERMINAL = ("done", "error")
STORED = 1_000
"""The attempt that is noted for a tab which was given the stored end: nothing comes after it."""


@dataclass(eq=False, repr=False)
class Tab:
    """A reader of one turn. What it holds must be what some owner had published there, at every frame."""

    turn: Turn
    last: Position | None
    state: State
    replica: Replica | None = None
    reader: Reader | None = None
    attempt: int = 0
    """Of the owner that it follows; one reader never goes back to an earlier one."""
    first: bool = True
    over: bool = False

    async def attach(self, replica: Replica) -> None:
        """As GET …/live does, with the last id it has."""
        parts = replica.parts
        self.reader = await reader_of(replica.log, parts.database, self.turn.conversation_id, LOCAL, self.last)
        self.replica, self.first, self.attempt = replica, True, 0
        if self.reader is None:
            await self._reload(parts.database)

    async def _reload(self, database: Database) -> None:
        """Idle: nothing runs, so the page shows what is stored."""
        assert self.turn.over, "a running turn must be streamed"
        stored = await replay.stored_turn(database, "local", self.turn.turn_id)
        assert stored is not None
        self.state, self.over = State().after("snapshot", msgspec.to_builtins(stored.snapshot)), True

    async def read(self) -> None:
        """Take what waits. A stream that ends before its turn did leaves the tab without a reader."""
        if self.reader is None:
            return
        data = await self.reader.read(0)
        if data is None:
            assert self.over == self.reader.finished
            self.leave()
            return
        for frame in StreamReader().feed(data):
            self._take(frame)

    def leave(self) -> None:
        if self.reader is not None:
            self.reader.close()
        self.reader = None

    def _take(self, frame: Sent) -> None:
        turn_id, _, seq = frame.id.rpartition(":")
        assert turn_id == self.turn.turn_id
        assert not self.over, "a frame after the terminal frame"
        if frame.event not in ("snapshot", "conversation"):  # these replace all that it holds
            seen = self.last.seq if self.last and self.last.turn_id == turn_id else 0
            assert int(seq) == seen + 1
            if self.first:
                assert self.turn.certain(seen, self.state), "a position that isn't certain must get a snapshot"
        self.state = after(self.state, frame.event, frame.data)
        self.last, self.first = Position(turn_id, int(seq)), False
        self.attempt = self._publisher(int(seq))
        if frame.event in TERMINAL:
            assert self.turn.answer is not None, "a terminal frame before the save"
            assert self.state.content == self.turn.answer.content
            self.over = True

    def _publisher(self, seq: int) -> int:
        """The owner from which the tab can have this; never one before the owner that it already follows."""
        for (attempt, known), state in sorted(self.turn.states.items(), key=lambda item: item[0]):
            if known == seq and state == self.state and attempt >= self.attempt:
                return attempt
        answer = self.turn.answer
        assert answer is not None, f"no owner from {self.attempt} on published {self.state.content!r} at {seq}"
        assert self.state.content == answer.content
        return STORED

    @property
    def follows_the_owner(self) -> bool:
        """Whether all that the turn's owner publishes must come here."""
        owner, replica = self.turn.owner, self.replica
        if self.reader is None or replica is None or replica.dead or owner is None:
            return False
        here = replica.owners.get(self.turn.turn_id)
        return here is owner or (isinstance(replica.log, RedisLog) and (here is None or here.gone))

    async def catch_up(self) -> None:
        """Read until it holds all that the owner has published."""
        owner = self.turn.owner
        assert owner is not None
        deadline = time.monotonic() + SOON_S
        while self.reader is not None and self.state != owner.recorder.state:
            assert time.monotonic() < deadline, f"{self.state} arrived of {owner.recorder.state}"
            await self.read()
            await asyncio.sleep(0.001)
