"""What a late reader is sent beside a log: a finished turn whose log is gone, and which conversation it came back to.

For a request that comes back with a request_id whose turn ended long ago (case S09).
"""

from app.live.frames import Conversation, encode
from app.live.log import Reader, Stored


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


class Introduced:
    """Another reader, whose first frame always says which conversation it is. Implements Reader.

    For a request that comes back: its log may begin with a snapshot by now, and the asker knows no conversation yet.
    """

    def __init__(self, reader: Reader, conversation: Conversation) -> None:
        self._reader = reader
        self._conversation = conversation
        self._begun = False

    async def read(self, timeout_s: float) -> bytes | None:
        data = await self._reader.read(timeout_s)
        if not data or self._begun:
            return data
        self._begun = True
        first_id = f"{self._conversation.turn_id}:1".encode()
        return data if data.startswith(b"id: %b\n" % first_id) else encode(self._conversation, first_id) + data

    @property
    def finished(self) -> bool:
        return self._reader.finished

    def close(self) -> None:
        self._reader.close()
