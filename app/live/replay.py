"""A finished turn as a stream, when its log is gone: a snapshot of what was stored, and the terminal frame.

For a request that comes back with a request_id whose turn ended long ago (case S09).
"""

from dataclasses import dataclass

from app.live.frames import Done, Failed, Snapshot, encode


@dataclass(frozen=True, slots=True)
class Stored:
    """What a finished turn amounts to; `last_seq` is the terminal frame's."""

    snapshot: Snapshot
    terminal: Done | Failed
    last_seq: int


class Replay:
    """Gives its bytes once. Implements Reader."""

    def __init__(self, stored: Stored) -> None:
        prefix = stored.snapshot.turn_id.encode()
        covered = max(stored.last_seq - 1, 1)
        self._data: bytes | None = encode(stored.snapshot, b"%b:%d" % (prefix, covered)) + encode(
            stored.terminal, b"%b:%d" % (prefix, covered + 1)
        )

    async def read(self, timeout_s: float) -> bytes | None:
        del timeout_s
        data, self._data = self._data, None
        return data

    @property
    def finished(self) -> bool:
        return self._data is None

    def close(self) -> None:
        self._data = None
