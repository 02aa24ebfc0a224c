"""How much of a kind one owner may do in a minute: requests, what open tabs need, and the model's tokens.

Counted by the sliding windows of the `limits` library: in this process, or for all replicas together in Redis. While
Redis is away each process counts by itself, so that a limit never stops anybody for Redis' sake and never stands open.
Turns that run at once aren't counted here but in the statement that admits one (app/store/turns.py). Source: issue 9
item 2, decision 0020.
"""

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from math import ceil, floor
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import structlog

from app.errors import AppError, RefusalCode

if TYPE_CHECKING:
    from limits.aio.storage import RedisStorage

MINUTE_S = 60
REDIS_S = 0.25
"""How long Redis may take for a count."""
AWAY_S = 5.0
"""How long it isn't asked again after it didn't answer."""

_UNBOUNDED = 2**53 - 1
"""More than can be counted: what is charged afterwards is charged whole. The largest number that Lua knows exactly."""

T = TypeVar("T")

_log = structlog.get_logger(__name__)


class Lane(StrEnum):
    """What is counted apart, so that none of it takes from another."""

    REQUESTS = "requests"
    TABS = "tabs"
    """What keeps an open tab going: attaching again, looking whether a turn runs, stopping one."""
    TOKENS = "tokens"


@dataclass(frozen=True, slots=True)
class Window:
    """A sliding count: what the minute before and this one hold, and how many seconds each still counts whole or
    in part. What the earlier one holds fades as its seconds go by.
    """

    earlier: int
    earlier_left_s: float
    current: int
    current_left_s: float

    @property
    def used(self) -> int:
        return floor(self.earlier * self.earlier_left_s / MINUTE_S) + self.current

    def wait_s(self, limit: int) -> float:
        """How long until one more fits under the limit; 0.0 where it does."""
        room = limit - 1
        if self.used <= room:
            return 0.0
        if self.current <= room:
            return max(0.0, self.earlier_left_s - (room - self.current) * MINUTE_S / self.earlier)
        return self.current_left_s + max(0.0, MINUTE_S - room * MINUTE_S / self.current)

    @property
    def empty_s(self) -> float:
        """How long until nothing of it counts any more."""
        return self.current_left_s + MINUTE_S if self.current else self.earlier_left_s if self.earlier else 0.0


@dataclass(frozen=True, slots=True)
class Standing:
    """How an owner stands with a limit: so many are left, and after `reset_s` seconds of rest all are."""

    limit: int
    left: int
    reset_s: float


class _Counts(Protocol):
    """What is asked of the library's storages."""

    async def acquire_sliding_window_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool: ...

    async def get_sliding_window(self, key: str, expiry: int) -> tuple[int, float, int, float]: ...


class Rates:
    """The counts of one application. `most` is what each owner may do in a minute; a lane that isn't there is open."""

    def __init__(self, most: Mapping[Lane, int], redis_url: str | None) -> None:
        from limits.aio.storage import MemoryStorage  # noqa: PLC0415 - a server without limits starts without it

        self._most = most
        self._own: _Counts = MemoryStorage()
        self._shared: RedisStorage | None = None
        self._trouble: tuple[type[Exception], ...] = ()
        if redis_url is not None:
            from redis.exceptions import RedisError  # noqa: PLC0415 - as above

            self._shared, self._trouble = _redis(redis_url), (RedisError, OSError, TimeoutError)
        self._away_until = 0.0

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        """Close what is connected to at the end of the block; nothing runs in the background."""
        try:
            yield
        finally:
            if self._shared is not None:
                bridge: Any = self._shared.bridge  # which type it has isn't said; the library itself closes nothing
                await bridge.get_connection().aclose()

    async def take(self, owner: str, lane: Lane) -> None:
        """Count one of the lane.

        Raises:
            AppError: too_many_requests; it isn't counted then.
        """
        limit = self._most.get(lane)
        if limit is None:
            return
        key = _key(lane, owner)
        if not await self._ask(lambda counts: counts.acquire_sliding_window_entry(key, limit, MINUTE_S)):
            wait_s = (await self._window(key)).wait_s(limit)
            message = f"Requests are limited to {limit} a minute, and as many were made; {_again(wait_s)}."
            raise AppError(RefusalCode.TOO_MANY_REQUESTS, message, retry_after_s=_whole(wait_s))

    async def may_spend(self, owner: str) -> None:
        """Whether another turn may spend tokens.

        Raises:
            AppError: too_many_tokens, where those of the last minute are used up.
        """
        limit = self._most.get(Lane.TOKENS)
        if limit is None:
            return
        window = await self._window(_key(Lane.TOKENS, owner))
        wait_s = window.wait_s(limit)
        if wait_s:
            message = (
                f"The model's tokens are limited to {limit} a minute, and {window.used} were used; {_again(wait_s)}."
            )
            raise AppError(RefusalCode.TOO_MANY_TOKENS, message, retry_after_s=_whole(wait_s))

    async def charge(self, owner: str, tokens: int) -> None:
        """Count tokens that a turn has used, also where they are more than were left."""
        if tokens > 0 and Lane.TOKENS in self._most:
            key = _key(Lane.TOKENS, owner)
            await self._ask(
                lambda counts: counts.acquire_sliding_window_entry(key, _UNBOUNDED, MINUTE_S, amount=tokens)
            )

    async def standing(self, owner: str, lane: Lane) -> Standing | None:
        """How the owner stands with a lane; None where it is open."""
        limit = self._most.get(lane)
        if limit is None:
            return None
        window = await self._window(_key(lane, owner))
        return Standing(limit, max(0, limit - window.used), window.empty_s)

    async def _window(self, key: str) -> Window:
        earlier, earlier_left_s, current, expires_s = await self._ask(
            lambda counts: counts.get_sliding_window(key, MINUTE_S)
        )
        # the library keeps a minute's count for two, the second time as the earlier one's
        return Window(earlier, earlier_left_s, current, max(0.0, expires_s - MINUTE_S))

    async def _ask(self, do: Callable[[_Counts], Awaitable[T]]) -> T:
        """Ask Redis, or, where there is none or it is away, this process's own counts."""
        if self._shared is not None and time.monotonic() >= self._away_until:
            try:
                async with asyncio.timeout(REDIS_S):
                    return await do(self._shared)
            except self._trouble as error:
                self._away_until = time.monotonic() + AWAY_S
                _log.warning("limits_counted_alone", for_s=AWAY_S, reason=str(error) or type(error).__name__)
        return await do(self._own)


def _redis(url: str) -> "RedisStorage":
    """Counts in the Redis of this address, connected to when first asked."""
    from limits.aio.storage import RedisStorage  # noqa: PLC0415 - as above

    address = url.replace("unix://", "redis+unix://", 1) if url.startswith("unix://") else url
    return RedisStorage(
        f"async+{address}",
        implementation="redispy",
        key_prefix="turnstream:limits",
        socket_connect_timeout=REDIS_S,
        socket_timeout=REDIS_S,
    )


def _key(lane: Lane, owner: str) -> str:
    """Names no person: an owner may be an address."""
    return f"{lane}/{hashlib.sha256(owner.encode()).hexdigest()[:32]}"


def _whole(wait_s: float) -> int:
    return max(1, ceil(wait_s))


def _again(wait_s: float) -> str:
    return f"ask again in {_whole(wait_s)} s"
