"""The clock of the limits that a process counts by itself, so that a test is in no hurry and waits for no minute."""

import pytest


class Clock:
    """Stands still unless it is moved. `time` is what the library asks."""

    def __init__(self, now: float = 1_800_000_030.0) -> None:
        self.now = now

    def time(self) -> float:
        return self.now

    def put_in_place(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have the library's own counts ask this clock; each of them asks its module's `time`."""
        monkeypatch.setattr("limits.aio.storage.memory.time", self)
