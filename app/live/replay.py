"""A finished turn as a stream, when its log is gone: a snapshot of what was stored, and the terminal frame.

For a request that comes back with a request_id whose turn ended long ago (case S09).
"""

from app.live.frames import Done, Failed, Snapshot, encode


class Replay:
    """Gives its bytes once. Implements Reader."""

    def __init__(self, snapshot: Snapshot, terminal: Done | Failed, last_seq: int) -> None:
        prefix = snapshot.turn_id.encode()
        covered = max(last_seq - 1, 1)
        self._data: bytes | None = encode(snapshot, b"%b:%d" % (prefix, covered)) + encode(
            terminal, b"%b:%d" % (prefix, covered + 1)
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
