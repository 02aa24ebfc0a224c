"""The live log of many processes, on Redis Streams: any of them serves any turn. Implements LiveLog.

The process that writes a turn serves its own tabs from memory, whatever Redis is doing (law 6), and sends each frame
on (redis_pump.py). The others mirror the streams of those turns that their tabs read (redis_follow.py). The streams
carry what is on its way and no more: Postgres alone knows turns.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager

import structlog

from app.live.frames import Frame
from app.live.log import KEEP_S, LogUnavailable, Position, Signal, StopAsked, Stored, TurnLost
from app.live.memory import MemoryLog, MemoryReader
from app.live.memory_turn import MemoryTurn
from app.live.redis_follow import BLOCK_S, Follower
from app.live.redis_keys import FORGET, RELEASED, STOP, TIMEOUT_S, TROUBLE, connect, last_entry, turn_key
from app.live.redis_pump import BATCH_S, Lane, Pump

FLUSH_S = 2.0
"""How long the end waits for the last frames to be sent."""

ON_ITS_WAY_S = 0.5
"""How long a tab that comes from another process waits here for the frames that it saw there: 25 batches."""

COMMAND_CONNECTIONS = 8

_log = structlog.get_logger(__name__)


class RedisWriter:
    """Writes a turn here and sends it on. Implements Writer."""

    __slots__ = ("_lane", "_pump", "_turn")

    def __init__(self, turn: MemoryTurn, pump: Pump, lane: Lane) -> None:
        self._turn = turn
        self._pump = pump
        self._lane = lane

    def append(self, frame: Frame) -> int:
        seq = self._turn.append(frame)
        self._pump.push(self._lane, seq)
        return seq

    @property
    def next_seq(self) -> int:
        return self._turn.next_seq


class RedisLog:
    """`url` is a redis:// or rediss:// address, and may hold a password; `replica` is this process's own name."""

    def __init__(self, url: str, replica: str, *, keep_s: float = KEEP_S) -> None:
        self._replica = replica
        self._commands = connect(url, connections=COMMAND_CONNECTIONS, again=1)
        self._pumping = connect(url, connections=1)
        self._waiting = connect(url, connections=1, timeout_s=BLOCK_S + TIMEOUT_S)
        self._memory = MemoryLog(keep_s, on_dropped=self._dropped)
        self._pump = Pump(self._pumping, keep_s=keep_s, lost=self._lose)
        self._follower = Follower(self._memory, waiting=self._waiting, commands=self._commands, replica=replica)
        self._follower.on_return = self._pump.look_again
        self._follower.on_forgotten = self.abandon
        self._tasks: list[asyncio.Task[None]] = []

    where = "Redis Streams"

    @property
    def healthy(self) -> bool:
        """Whether frames are carried, or will be when Redis is back; false when a task died."""
        return not any(task.done() for task in self._tasks)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        try:
            await self._follower.find_position()
        except TROUBLE as error:
            await self._disconnect()
            message = f"Redis at the address in TURNSTREAM_REDIS_URL doesn't answer ({error})."
            raise LogUnavailable(message) from error
        self._tasks = [
            asyncio.create_task(self._pump.run(), name="live log pump"),
            asyncio.create_task(self._follower.run(), name="live log follower"),
        ]
        for task in self._tasks:
            task.add_done_callback(_report_death)
        try:
            yield
        finally:
            await self._pump.flush(FLUSH_S)
            tasks, self._tasks = self._tasks, []
            for task in tasks:
                await _end(task)
            await self._disconnect()

    async def _disconnect(self) -> None:
        for client in (self._commands, self._pumping, self._waiting):
            await client.aclose()

    def open(self, turn_id: str, *, attempt: int = 0, after_seq: int = 0) -> RedisWriter:
        turn = self._memory.open(turn_id, attempt=attempt, after_seq=after_seq)
        self._follower.drop(turn)
        return RedisWriter(turn, self._pump, self._pump.open(turn, attempt))

    async def last_seq(self, turn_id: str) -> int:
        held = await self._memory.last_seq(turn_id)
        try:
            last = await last_entry(self._commands, turn_key(turn_id))
        except TROUBLE as error:
            _log.warning("last_seq_unknown", turn_id=turn_id, error=str(error))
            return held
        return max(held, last.seq) if last else held

    async def attach(self, turn_id: str, after: Position | None, *, running: bool) -> MemoryReader | None:
        turn = self._memory.find(turn_id)
        if turn is not None and turn.owned:
            return self._memory.reader(turn, after)
        async with self._follower.following(turn_id) as turn:
            if not turn.known and not running:
                return None
            await _caught_up(turn, after)
            return self._memory.reader(turn, after)

    def abandon(self, turn_id: str) -> None:
        self._pump.forget(turn_id)
        self._memory.abandon(turn_id)

    async def forget(self, turn_ids: Collection[str]) -> None:
        if not turn_ids:
            return
        for turn_id in turn_ids:
            self.abandon(turn_id)
        # before the streams go: whoever writes one must send no more
        await self._tell(None, {FORGET: b" ".join(turn_id.encode() for turn_id in turn_ids)})
        try:
            await self._commands.delete(*map(turn_key, turn_ids))
        except TROUBLE as error:
            _log.warning("live_log_not_deleted", turns=len(turn_ids), error=str(error))

    def followed(self) -> Collection[str]:
        return self._memory.followed()

    def conclude(self, turn_id: str, stored: Stored) -> None:
        self._memory.conclude(turn_id, stored)

    def close_readers(self) -> None:
        self._memory.close_readers()

    def on_signal(self, hear: Callable[[Signal], None]) -> None:
        self._follower.hear = hear

    async def ask_to_stop(self, replica: str, turn_id: str) -> None:
        if replica == self._replica:
            self._hear(StopAsked(turn_id))
        else:
            await self._tell(replica, {STOP: turn_id.encode()})

    async def tell_released(self) -> None:
        await self._tell(None, {RELEASED: self._replica.encode()})

    async def _tell(self, replica: str | None, fields: dict[bytes, bytes]) -> None:
        try:
            await self._follower.tell(replica, fields)
        except TROUBLE as error:
            _log.warning("signal_not_sent", to=replica or "everyone", error=str(error))

    def _hear(self, signal: Signal) -> None:
        if self._follower.hear is not None:
            self._follower.hear(signal)

    def _lose(self, turn: MemoryTurn) -> None:
        self._memory.abandon(turn.turn_id)
        self._hear(TurnLost(turn.turn_id))

    def _dropped(self, turn: MemoryTurn) -> None:
        self._follower.drop(turn)

    @property
    def live_turns(self) -> int:
        return self._memory.live_turns

    @property
    def attached_readers(self) -> int:
        return self._memory.attached_readers


async def _end(task: asyncio.Task[None]) -> None:
    """Cancel a task, and again where the client library took the cancellation for an answer that came just then."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=0.1)


async def _caught_up(turn: MemoryTurn, after: Position | None) -> None:
    """Wait a moment where the tab is ahead of the mirror, so that it goes on and needs no older snapshot."""
    if after is None or after.turn_id != turn.turn_id:
        return
    loop = asyncio.get_running_loop()
    until = loop.time() + ON_ITS_WAY_S
    while turn.seq < after.seq and not turn.closed and loop.time() < until:  # noqa: ASYNC110 - 25 looks at most
        await asyncio.sleep(BATCH_S)


def _report_death(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.critical("live_log_task_died", task=task.get_name(), exc_info=error)
