"""What the live log is called in Redis, and how it connects.

One stream per turn, one inbox per process, and one stream that every process reads. A turn's entries have ids that
fence: `<attempt>-<2 seq>` is a frame, `<attempt>-<2 seq + 1>` a snapshot that covers that seq. Redis refuses an id
that isn't greater than the last one, and so everything from an owner before the present one.
"""

import random
from dataclasses import dataclass
from typing import Any

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

PREFIX = "turnstream"
EVERYONE = f"{PREFIX}:everyone"
"""What every process hears."""

FRAME = b"frame"
SNAPSHOT = b"snapshot"
STOP = b"stop"
WAKE = b"wake"
RELEASED = b"released"
FORGET = b"forget"

SIGNALS_KEPT = 1_000
SIGNALS_TTL_S = 3600

TIMEOUT_S = 2.0
"""How long a command may take, and a connection."""

TROUBLE = (RedisError, OSError, RuntimeError)
"""All that a command can raise when Redis is away, is wrong, or refuses. A RuntimeError is uvloop's word for a write to
a connection that closed a moment ago.
"""

_FIRST_WAIT_S = 0.05
_LONGEST_WAIT_S = 2.0


def turn_key(turn_id: str) -> str:
    return f"{PREFIX}:turn:{turn_id}"


def inbox_key(replica: str) -> str:
    return f"{PREFIX}:inbox:{replica}"


@dataclass(frozen=True, slots=True, order=True)
class EntryId:
    """The two numbers of a stream entry's id."""

    high: int
    low: int

    @classmethod
    def parse(cls, text: bytes | str) -> "EntryId":
        high, _, low = (text.decode() if isinstance(text, bytes) else text).partition("-")
        return cls(int(high), int(low))

    @classmethod
    def of_frame(cls, attempt: int, seq: int) -> "EntryId":
        return cls(attempt, 2 * seq)

    @classmethod
    def of_snapshot(cls, attempt: int, seq: int) -> "EntryId":
        """Of a snapshot that covers `seq`: after that frame, before the next one."""
        return cls(attempt, 2 * seq + 1)

    @property
    def seq(self) -> int:
        """In a turn's stream, the seq of the frame, or the last that the snapshot covers."""
        return self.low // 2

    def __str__(self) -> str:
        return f"{self.high}-{self.low}"


START = EntryId(0, 0)
"""Before every entry."""


def connect(url: str, *, connections: int, timeout_s: float = TIMEOUT_S, again: int = 0) -> Redis:
    """A client of at most so many connections; nothing is connected yet. `again`: how often a command whose
    connection broke is tried anew at once, as one that stood idle while the server restarted does.
    """
    pool: Any = BlockingConnectionPool.from_url(  # pyright: ignore[reportUnknownMemberType] - untyped keywords
        url,
        max_connections=connections,
        timeout=timeout_s,
        protocol=2,
        decode_responses=False,
        socket_timeout=timeout_s,
        socket_connect_timeout=TIMEOUT_S,
        socket_keepalive=True,
        health_check_interval=30,
        retry=Retry(NoBackoff(), again, supported_errors=(RedisConnectionError,)),
    )
    return Redis.from_pool(pool)


async def last_entry(client: Redis, key: str) -> EntryId | None:
    """The id of a stream's newest entry; None where there is none."""
    entries: Any = await client.xrevrange(key, count=1)
    return EntryId.parse(entries[0][0]) if entries else None


def pause_s(failures: int) -> float:
    """How long to wait after so many failures in a row: longer each time, and not in step with other processes."""
    return min(_FIRST_WAIT_S * 2 ** min(failures, 10), _LONGEST_WAIT_S) * random.uniform(0.5, 1)  # noqa: S311 - jitter
