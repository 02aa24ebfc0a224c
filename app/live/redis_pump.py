"""Carries the frames of this process's turns into Redis. Nothing that publishes waits for it.

One task for all turns: what waits is sent in one pipeline, at once when the pump was idle or a turn ended, else
20 ms after the last or when 32 frames wait. What couldn't be sent is not kept: the stream then gets a snapshot.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import structlog
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from app.live.memory_turn import MemoryTurn
from app.live.redis_keys import FRAME, SNAPSHOT, TROUBLE, EntryId, last_entry, pause_s, turn_key

BATCH_S = 0.02
BATCH_FRAMES = 32
BATCH_BYTES = 1024 * 1024
"""Bounds of one pipeline: the next one follows at once."""

PENDING_BYTES = 256 * 1024
PENDING_FRAMES = 2_000
"""How much of a turn waits while a pipeline is under way, before it is dropped for a snapshot."""

WHOLE_FRAMES = 2_000
WHOLE_BYTES = 512 * 1024
"""A snapshot is written after so much, so that who begins to follow late needs nothing that was trimmed."""

STREAM_LENGTH = WHOLE_FRAMES + PENDING_FRAMES + 1_000
"""MAXLEN of a turn's stream. Redis keeps at least so many entries, and a snapshot is never further from the one
before it than WHOLE_FRAMES and one batch, so one of them, or the start, is always there. In bytes the stream is
bounded by each snapshot, which trims all before the one before it."""

RUNNING_TTL_S = 900
UPKEEP_S = 10.0
"""How often the expiry of running turns' streams is renewed, and with it seen whether they are still there."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True, eq=False)
class Lane:
    """One turn's way into its stream."""

    turn: MemoryTurn
    attempt: int
    key: str
    pending: list[tuple[int, bytes]] = field(default_factory=list[tuple[int, bytes]])
    pending_bytes: int = 0
    published: bool = False  # whether its owner appended anything
    begun: bool = False  # whether its stream was seen to be there
    whole: bool = False  # whether the stream must get a snapshot before anything else
    frames_since: int = 0  # since the last snapshot or the start
    bytes_since: int = 0
    last_whole: EntryId | None = None
    ended_at: float | None = None

    def need_whole(self) -> None:
        """Some frames won't reach the stream: give it a snapshot instead."""
        self.whole = True
        self.pending.clear()
        self.pending_bytes = 0


@dataclass(frozen=True, slots=True)
class _Entry:
    """What is to be added to a lane's stream; `makes`: also when the stream isn't there."""

    id: EntryId
    kind: bytes
    data: bytes
    makes: bool


class Pump:
    """Give it a client of one connection and run `run` as a task. `lost` is called with a turn that another owns."""

    def __init__(self, client: Redis, *, keep_s: float, lost: Callable[[MemoryTurn], None]) -> None:
        self._client = client
        self._keep_ms = max(int(keep_s * 1000), 1)
        self._lost = lost
        self._lanes: dict[str, Lane] = {}
        self._dirty: dict[Lane, None] = {}
        self._waiting = 0  # frames
        self._work = asyncio.Event()
        self._hurry = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._failures = 0
        self._upkeep_at = 0.0

    def open(self, turn: MemoryTurn, attempt: int) -> Lane:
        """The way for a turn that this process owns as number `attempt`."""
        self.forget(turn.turn_id)
        lane = self._lanes[turn.turn_id] = Lane(turn, attempt, turn_key(turn.turn_id))
        return lane

    def push(self, lane: Lane, seq: int) -> None:
        """Send the turn's newest frame, which is `seq`; soon, and without waiting."""
        turn = lane.turn
        if self._lanes.get(turn.turn_id) is not lane:
            return
        lane.published = True
        if not lane.whole:
            lane.pending.append((seq, turn.newest))
            lane.pending_bytes += len(turn.newest)
            waiting = len(lane.pending)
            if waiting > PENDING_FRAMES or (waiting > 1 and lane.pending_bytes > PENDING_BYTES):
                lane.need_whole()
        self._waiting += 1
        if turn.closed:
            lane.ended_at = asyncio.get_running_loop().time()
        if turn.closed or self._waiting >= BATCH_FRAMES:
            self._hurry.set()
        self._mark(lane)

    def forget(self, turn_id: str) -> None:
        """Send no more of this turn."""
        lane = self._lanes.pop(turn_id, None)
        if lane is not None:
            self._dirty.pop(lane, None)

    async def flush(self, timeout_s: float) -> None:
        """Wait until everything is sent, but no longer than this."""
        self._hurry.set()
        try:
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()
        except TimeoutError:
            _log.warning("live_log_not_flushed", turns=len(self._dirty))

    def look_again(self) -> None:
        """The server was away: see at once whether the streams are still there."""
        self._upkeep_at = 0.0
        self._hurry.set()
        self._work.set()

    def _mark(self, lane: Lane) -> None:
        self._dirty[lane] = None
        self._idle.clear()
        self._work.set()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        sent_at = loop.time()
        self._upkeep_at = sent_at + UPKEEP_S
        while True:
            if not self._work.is_set():
                await _wait_until(self._upkeep_at, self._work)
            if self._work.is_set() and not self._hurry.is_set() and loop.time() < sent_at + BATCH_S:
                await _wait_until(sent_at + BATCH_S, self._hurry)
            try:
                if loop.time() >= self._upkeep_at:
                    await self._renew()
                    self._upkeep_at = loop.time() + UPKEEP_S
                await self._send()
            except TROUBLE as error:
                self._interrupted(error)
                await asyncio.sleep(pause_s(self._failures))
            sent_at = loop.time()

    def _interrupted(self, error: Exception) -> None:
        """What was under way may have arrived or not, and the server may have lost all it had: begin anew."""
        if not self._failures:
            _log.warning("live_log_unreachable", error=str(error))
        self._failures += 1
        too_old = asyncio.get_running_loop().time() - self._keep_ms / 1000
        for lane in tuple(self._lanes.values()):
            lane.need_whole()
            if lane.ended_at is not None and lane.ended_at < too_old:
                self.forget(lane.turn.turn_id)
            elif lane.published:
                self._mark(lane)
        self._settle()

    def _answered(self) -> None:
        if self._failures:
            _log.info("live_log_reachable_again", failures=self._failures)
        self._failures = 0

    def _settle(self) -> None:
        if not self._dirty:
            self._work.clear()
            self._idle.set()

    async def _renew(self) -> None:
        """Keep the streams of running turns from expiring; one that is gone anyway gets a snapshot."""
        lanes = [lane for lane in self._lanes.values() if lane.begun]
        if not lanes:
            return
        pipe: Any = self._client.pipeline(transaction=False)
        for lane in lanes:
            pipe.expire(lane.key, RUNNING_TTL_S)
        for lane, there in zip(lanes, await pipe.execute(), strict=True):
            if not there:
                lane.need_whole()
                self._mark(lane)
        self._answered()

    async def _send(self) -> None:
        """Send what waits, up to BATCH_BYTES; the rest is next."""
        self._waiting = 0
        self._hurry.clear()
        batch: list[tuple[Lane, _Entry | None, bool]] = []
        pipe: Any = self._client.pipeline(transaction=False)
        size = 0
        while self._dirty and size < BATCH_BYTES:
            lane = next(iter(self._dirty))
            del self._dirty[lane]
            entries = _take(lane)
            for entry in entries:
                _add(pipe, lane, entry)
                batch.append((lane, entry, False))
                size += len(entry.data)
            if lane.turn.closed:
                pipe.pexpire(lane.key, self._keep_ms)
                batch.append((lane, None, True))
            elif any(entry.makes for entry in entries):
                pipe.expire(lane.key, RUNNING_TTL_S)
                batch.append((lane, None, False))
        if batch:
            await self._check(batch, await pipe.execute(raise_on_error=False))
            self._answered()
        if self._dirty:
            self._hurry.set()
        self._settle()

    async def _check(self, batch: list[tuple[Lane, _Entry | None, bool]], results: list[Any]) -> None:
        """Each entry's answer, and each expiry's (no entry); the last of a turn's ends its lane."""
        for (lane, entry, ends), result in zip(batch, results, strict=True):
            if self._lanes.get(lane.turn.turn_id) is not lane:
                continue
            if entry is not None and isinstance(result, ResponseError):
                await self._refused(lane, entry, result)
            elif isinstance(result, Exception):
                raise result
            elif entry is None:
                if ends and not lane.whole:
                    self.forget(lane.turn.turn_id)
            elif result is None:  # the stream is gone
                lane.need_whole()
                self._mark(lane)
            else:
                lane.begun = True

    async def _refused(self, lane: Lane, entry: _Entry, error: ResponseError) -> None:
        """The stream's last entry tells why: another owner's, or this very entry that arrived before the line broke."""
        last = await last_entry(self._client, lane.key)
        if last is not None and last.high > lane.attempt:
            self.forget(lane.turn.turn_id)
            _log.warning("turn_lost", turn_id=lane.turn.turn_id, attempt=lane.attempt, owner=last.high)
            self._lost(lane.turn)
        elif last is None or last < entry.id:
            raise error


async def _wait_until(when: float, event: asyncio.Event) -> None:
    """Wait for the event, or until then."""
    with suppress(TimeoutError):
        async with asyncio.timeout_at(when):
            await event.wait()


def _take(lane: Lane) -> list[_Entry]:
    """Everything that a lane has to send now."""
    turn = lane.turn
    pending, lane.pending, lane.pending_bytes = lane.pending, [], 0
    entries: list[_Entry] = []
    if lane.whole:
        entries.append(_whole(lane))
        if turn.closed:
            entries.append(_Entry(EntryId.of_frame(lane.attempt, turn.seq), FRAME, turn.newest, makes=False))
        return entries
    begins = not lane.begun
    for seq, data in pending:
        entries.append(_Entry(EntryId.of_frame(lane.attempt, seq), FRAME, data, makes=begins))
        lane.frames_since += 1
        lane.bytes_since += len(data)
        begins = False
    if (lane.frames_since >= WHOLE_FRAMES or lane.bytes_since >= WHOLE_BYTES) and not turn.closed:
        entries.append(_whole(lane))
    return entries


def _whole(lane: Lane) -> _Entry:
    covered, data = lane.turn.state()
    lane.whole = False
    lane.frames_since = lane.bytes_since = 0
    return _Entry(EntryId.of_snapshot(lane.attempt, covered), SNAPSHOT, data, makes=True)


def _add(pipe: Any, lane: Lane, entry: _Entry) -> None:
    """A snapshot also trims: all before the one before it."""
    fields = {entry.kind: entry.data}
    if entry.kind == FRAME:
        pipe.xadd(lane.key, fields, id=str(entry.id), maxlen=STREAM_LENGTH, nomkstream=not entry.makes)
        return
    before, lane.last_whole = lane.last_whole, entry.id
    if before is None:
        pipe.xadd(lane.key, fields, id=str(entry.id))
    else:
        pipe.xadd(lane.key, fields, id=str(entry.id), minid=str(before), approximate=False)
