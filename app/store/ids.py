"""Ids of stored rows: UUIDs of version 7, which sort by the time they were made. Source: RFC 9562, 5.7."""

import secrets
import threading
import time
import uuid

_lock = threading.Lock()
_last = 0


def new_id() -> str:
    """A new id in canonical text form; within a process each is greater than the one before.

    48 bits of Unix milliseconds, 12 bits that count within a millisecond (RFC 9562, 6.2, method 3, with a
    clock of a 4,096th of a millisecond), 62 random bits.
    """
    global _last  # noqa: PLW0603  the monotonic clock of this process
    now = time.time_ns() * 4_096 // 1_000_000
    with _lock:
        _last = stamp = max(now, _last + 1)
    value = (stamp >> 12) << 80 | 0x7 << 76 | (stamp & 0xFFF) << 64 | 0b10 << 62 | secrets.randbits(62)
    return str(uuid.UUID(int=value))


def is_id(text: str) -> bool:
    """Whether a text is a UUID in canonical form, so that it may be asked for."""
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False
