"""Mirrors the turns that other processes write, and hears what processes tell each other.

One connection waits for all of it, however many tabs there are: the streams of the turns that somebody here reads,
this process's inbox, and the stream that everybody hears. A mirror is a MemoryTurn; readers are its cursors.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import structlog
from redis.asyncio import Redis

from app.live.frames import Conversation, Frame, NotAFrame, Snapshot, decode
from app.live.log import LogUnavailable, Signal, StopAsked, TurnsReleased
from app.live.memory import MemoryLog
from app.live.memory_turn import NO_OWNER, MemoryTurn
from app.live.redis_keys import (
    EVERYONE,
    FORGET,
    FRAME,
    RELEASED,
    SIGNALS_KEPT,
    SIGNALS_TTL_S,
    SNAPSHOT,
    START,
    STOP,
    TROUBLE,
    WAKE,
    EntryId,
    inbox_key,
    last_entry,
    pause_s,
    turn_key,
)

BLOCK_S = 5.0
"""How long one read of the streams waits; its connection's time-out is longer."""

ENTRIES = 256
"""Entries of one stream that are read at once."""

_log = structlog.get_logger(__name__)


class Mirror:
    """What another process publishes of one turn. `cursor` is the last entry that was read."""

    __slots__ = ("cursor", "gap", "key", "loaded", "loading", "turn")

    def __init__(self, turn: MemoryTurn) -> None:
        self.turn = turn
        self.key = turn_key(turn.turn_id)
        self.cursor = START
        self.loaded = False
        self.loading = asyncio.Lock()
        self.gap = False

    def take(self, entry_id: EntryId, fields: dict[bytes, bytes]) -> None:
        """Hold what the entry brings, unless it is held already or was overtaken by another owner."""
        if entry_id <= self.cursor:
            return
        self.cursor = entry_id
        turn, seq = self.turn, entry_id.seq
        if turn.owned or turn.closed or (entry_id.high, seq) <= (turn.attempt, turn.seq):
            return
        data = fields.get(SNAPSHOT) or fields.get(FRAME, b"")
        try:
            frame = decode(data)
        except NotAFrame as error:
            self._skip(entry_id, str(error))
            return
        if SNAPSHOT in fields and isinstance(frame, Snapshot):
            turn.reset(frame, attempt=entry_id.high, seq=seq)
        elif self._follows(entry_id, frame):
            turn.take(frame, data, attempt=entry_id.high, seq=seq)
        else:
            self._skip(entry_id, "frames before it are missing")
            return
        self.gap = False

    def _follows(self, entry_id: EntryId, frame: Frame) -> bool:
        """The next frame, or the first of a new owner, which says or replaces all that went before."""
        if entry_id.high > self.turn.attempt and isinstance(frame, Snapshot | Conversation):
            return True
        return self.turn.attempt in (entry_id.high, NO_OWNER) and entry_id.seq == self.turn.seq + 1

    def _skip(self, entry_id: EntryId, reason: str) -> None:
        """Wait for the next snapshot: entries come in order, so it comes, or is further on in what is being read."""
        if not self.gap:
            _log.warning("live_log_gap", turn_id=self.turn.turn_id, entry=str(entry_id), reason=reason)
        self.gap = True


class Follower:
    """`waiting` is a client for the blocking read alone, `commands` one for all else. Run `run` as a task."""

    def __init__(self, memory: MemoryLog, *, waiting: Redis, commands: Redis, replica: str) -> None:
        self._memory = memory
        self._waiting = waiting
        self._commands = commands
        self._replica = replica
        self._inbox = inbox_key(replica)
        self._mirrors: dict[str, Mirror] = {}
        self._heard: dict[str, EntryId] = {}
        self._positioned = False
        self.hear: Callable[[Signal], None] | None = None
        self.on_return: Callable[[], None] | None = None
        """Called when the server is there again after it was away; it may have lost all it had."""
        self.on_forgotten: Callable[[str], None] | None = None
        """Called with each turn that some process was told to forget."""

    @asynccontextmanager
    async def following(self, turn_id: str) -> AsyncGenerator[MemoryTurn]:
        """The turn's mirror, with all that its stream held; without a reader it goes with the block.

        Raises:
            LogUnavailable: it wasn't followed yet, and its stream can't be read.
        """
        turn = self._memory.find(turn_id) or self._memory.make(turn_id)
        with self._memory.held(turn):
            mirror = self._mirrors.get(turn_id)
            if mirror is None or mirror.turn is not turn:
                mirror = self._mirrors[turn_id] = Mirror(turn)
            async with mirror.loading:
                if not mirror.loaded and not turn.owned:
                    await self._load(mirror)
            yield turn

    async def _load(self, mirror: Mirror) -> None:
        try:
            while await self._read_on(mirror):
                pass
            mirror.loaded = True
            if not mirror.turn.closed:
                await self.tell(self._replica, {WAKE: b""})  # the read that waits doesn't know this stream
        except TROUBLE as error:
            _log.warning("turn_not_followed", turn_id=mirror.turn.turn_id, error=str(error))
            raise LogUnavailable("The live answer can't be reached right now. Try again in a second.") from error

    async def _read_on(self, mirror: Mirror) -> bool:
        """Take the next entries of the stream; whether there were as many as were asked for."""
        found: Any = await self._commands.xread({mirror.key: str(mirror.cursor)}, count=ENTRIES)
        entries: list[Any] = found[0][1] if found else []
        for entry_id, fields in entries:
            mirror.take(EntryId.parse(entry_id), fields)
        return len(entries) == ENTRIES

    def drop(self, turn: MemoryTurn) -> None:
        """Follow this turn no more."""
        mirror = self._mirrors.get(turn.turn_id)
        if mirror is not None and mirror.turn is turn:
            del self._mirrors[turn.turn_id]

    async def tell(self, replica: str | None, fields: dict[bytes, bytes]) -> None:
        """Put a message into a process's inbox, or before everyone. Raises what Redis raises."""
        key = EVERYONE if replica is None else inbox_key(replica)
        pipe: Any = self._commands.pipeline(transaction=False)
        pipe.xadd(key, fields, maxlen=SIGNALS_KEPT)
        pipe.expire(key, SIGNALS_TTL_S)
        await pipe.execute()

    async def find_position(self) -> None:
        """Hear only what is said from now on; after a break also what was said meanwhile, if the server kept it."""
        for key in (EVERYONE, self._inbox):
            last = await last_entry(self._commands, key)
            heard = self._heard.get(key)
            if heard is None:
                self._heard[key] = last or START
            elif last is None or last < heard:  # another server, or one that forgot: all of it is new
                self._heard[key] = START
        self._positioned = True

    async def run(self) -> None:
        failures = 0
        while True:
            try:
                if not self._positioned:
                    await self.find_position()
                    if failures and self.on_return is not None:
                        self.on_return()
                found = await self._wait_for_entries()
            except TROUBLE as error:
                if not failures:
                    _log.warning("live_log_not_followed", error=str(error))
                failures += 1
                self._positioned = False
                await asyncio.sleep(pause_s(failures))
                continue
            if failures:
                _log.info("live_log_followed_again", failures=failures)
                failures = 0
            for key, entries in found:
                self._deliver(key.decode(), entries)

    async def _wait_for_entries(self) -> Any:
        streams: dict[Any, Any] = {key: str(heard) for key, heard in self._heard.items()}
        for mirror in self._mirrors.values():
            if mirror.loaded and not mirror.turn.closed:
                streams[mirror.key] = str(mirror.cursor)
        return await self._waiting.xread(streams, count=ENTRIES, block=int(BLOCK_S * 1000)) or ()

    def _deliver(self, key: str, entries: list[tuple[bytes, dict[bytes, bytes]]]) -> None:
        if key in self._heard:
            for entry_id, fields in entries:
                self._heard[key] = EntryId.parse(entry_id)
                self._signal(fields)
            return
        mirror = self._mirrors.get(key.removeprefix(turn_key("")))
        if mirror is not None:
            for entry_id, fields in entries:
                mirror.take(EntryId.parse(entry_id), fields)

    def _signal(self, fields: dict[bytes, bytes]) -> None:
        if FORGET in fields and self.on_forgotten is not None:
            for turn_id in fields[FORGET].decode().split():
                self.on_forgotten(turn_id)
            return
        if self.hear is None:
            return
        if STOP in fields:
            self.hear(StopAsked(fields[STOP].decode()))
        elif RELEASED in fields and fields[RELEASED] != self._replica.encode():
            self.hear(TurnsReleased())
