"""Reads an event stream as a browser does: bytes in, frames out; only CR, LF and CRLF end a line."""

import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import httpx


@dataclass(frozen=True, slots=True)
class Frame:
    """One event: its name, its decoded data, its id (empty when it carried none)."""

    event: str
    data: Any
    id: str

    @property
    def seq(self) -> int:
        return int(self.id.rpartition(":")[2])


class StreamReader:
    """Incremental: `feed` gives the frames that a piece completes. Comments and retry hints are kept aside."""

    def __init__(self) -> None:
        self._buffer = b""
        self.comments: list[str] = []
        self.retry_ms: int | None = None

    def feed(self, piece: bytes) -> list[Frame]:
        self._buffer += piece
        frames: list[Frame] = []
        while (end := self._buffer.find(b"\n\n")) >= 0:
            block, self._buffer = self._buffer[:end], self._buffer[end + 2 :]
            frame = self._block(block.decode())
            if frame is not None:
                frames.append(frame)
        return frames

    def _block(self, block: str) -> Frame | None:
        fields: dict[str, str] = {}
        for line in block.split("\n"):
            if line.startswith(":"):
                self.comments.append(line[1:].strip())
                continue
            name, _, value = line.partition(":")
            assert name not in fields, f"a second {name} line in one frame"
            fields[name] = value.removeprefix(" ")
        if "retry" in fields:
            self.retry_ms = int(fields["retry"])
        if "data" not in fields:
            return None
        return Frame(fields.get("event", "message"), json.loads(fields["data"]), fields.get("id", ""))


async def frames_of(response: httpx.Response, reader: StreamReader | None = None) -> AsyncGenerator[Frame, None]:
    """The frames of an open response, to its end."""
    reader = reader or StreamReader()
    async for piece in response.aiter_raw():
        for frame in reader.feed(piece):
            yield frame
