"""How a completion is read from its turn's live log: as a stream of chunks, or waited for.

The turn is the server's: neither way of reading it is noticed by it, and a reader that goes away ends nothing but
itself, unless the request said otherwise. Source: DESIGN section 5, decision 0018.
"""

from collections.abc import Callable

from app.api.completions_frames import Chunks, Whole
from app.errors import AppError, RefusalCode
from app.live.frames import Done, Failed
from app.live.log import Reader

CUT_SHORT = "This response had to end before its turn did; the answer is kept in the conversation."


class ChunkReader:
    """A reader of a turn that gives chunks for frames, and always an end: `[DONE]` or an error. Implements Reader.

    `when_left` is called when the client leaves before the end.
    """

    def __init__(self, reader: Reader, chunks: Chunks, when_left: Callable[[], object] | None) -> None:
        self._reader = reader
        self._chunks = chunks
        self._when_left = when_left

    async def read(self, timeout_s: float) -> bytes | None:
        if self._chunks.over:
            return None
        data = await self._reader.read(timeout_s)
        if data is None:
            return self._chunks.fail(RefusalCode.DRAINING, CUT_SHORT)
        return self._chunks.take(data)

    @property
    def finished(self) -> bool:
        """The hint to attach again is nothing for these clients, so that the end is always the end."""
        return True

    def close(self) -> None:
        left, self._when_left = self._when_left, None
        if left is not None and not self._chunks.over:
            left()
        self._reader.close()


async def wait_for(whole: Whole, reader: Reader, *, timeout_s: float) -> Done | Failed:
    """Read a turn to its end. `timeout_s` is how often the reader looks up; it doesn't bound the turn.

    Raises:
        AppError: the server is going down. The same request with its Idempotency-Key gets the answer elsewhere.
    """
    try:
        while (data := await reader.read(timeout_s)) is not None:
            whole.take(data)
    finally:
        reader.close()
    if whole.end is None:
        raise AppError(RefusalCode.DRAINING, CUT_SHORT, retry_after_s=1)
    return whole.end
