"""Locks between processes that the kernel frees when a process dies, however it dies.

flock, not lockf: a lock belongs to one opening of the file, so two servers in one process exclude each other
too, and closing an unrelated descriptor of the same file gives nothing away.
"""

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from app.store.embedded.config import EmbeddedError

_POLL_S = 0.01


class FileLock:
    """One opening of a lock file. Held shared or exclusive until `close`."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)

    def fileno(self) -> int:
        return self._fd

    def share(self) -> None:
        """Hold it together with others. Waits only for an exclusive holder."""
        fcntl.flock(self._fd, fcntl.LOCK_SH)

    def try_exclusive(self) -> bool:
        """Hold it alone, giving up one's own share for the attempt; False where somebody else holds it."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """Free it. Only once: the descriptor's number may be somebody else's afterwards."""
        os.close(self._fd)


@contextmanager
def exclusive(path: Path, *, timeout_s: float) -> Generator[FileLock]:
    """The lock held alone for the block. Raises EmbeddedError when others keep it over `timeout_s`."""
    lock = FileLock(path)
    try:
        deadline = time.monotonic() + timeout_s
        while not lock.try_exclusive():
            if time.monotonic() > deadline:
                raise EmbeddedError(
                    f"another process has been starting or stopping the Postgres under {path.parent} "
                    f"for {timeout_s:.0f} s: end it, then start again"
                )
            time.sleep(_POLL_S)
        yield lock
    finally:
        lock.close()
