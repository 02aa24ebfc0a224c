"""A turn's frames as a tab reads them from the live log, with the times at which they came.

Source: DESIGN section 5.
"""

import time
from dataclasses import dataclass, field
from typing import Any

import msgspec

from app.live.frames import sent
from app.live.log import Reader

READ_S = 15.0


class StreamBroke(Exception):
    """The live log ended without a terminal frame."""


@dataclass(slots=True)
class Heard:
    """What the frames amounted to. Times are seconds since `begun`; `first_token` is None where no text came."""

    begun: float = field(default_factory=time.perf_counter)
    content: str = ""
    steps: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    sources: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    terminal: str = ""
    ending: dict[str, Any] = field(default_factory=dict[str, Any])
    first_token: float | None = None
    total: float = 0.0

    def take(self, event: str, data: Any) -> None:
        """One frame. A snapshot replaces what was there."""
        now = time.perf_counter() - self.begun
        match event:
            case "delta":
                self.content += data["text"]
            case "step":
                self.steps.append(data)
            case "sources":
                self.sources = data
            case "snapshot":
                self.content, self.steps, self.sources = data["content"], list(data["steps"]), data["sources"]
            case "done" | "error":
                self.terminal, self.ending, self.total = event, data, now
            case _:
                return
        if self.content and self.first_token is None:
            self.first_token = now


async def hear(reader: Reader, heard: Heard) -> None:
    """Read to the terminal frame into `heard`.

    Raises:
        StreamBroke: the log ended before it.
    """
    try:
        while (data := await reader.read(READ_S)) is not None:
            for frame in sent(data):
                heard.take(frame.event.decode(), msgspec.json.decode(frame.data))
            if heard.terminal:
                return
    finally:
        reader.close()
    raise StreamBroke("the live log ended without a terminal frame")
