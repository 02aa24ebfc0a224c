"""What is kept no longer than it is to be: old conversations, and excerpts that came after their document had gone.

Decides when it is looked for. What is old: app/store/retention.py; what an excerpt is: app/store/excerpts.py.
Source: issue 9 item 6, decision 0021.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import structlog

from app.store import excerpts, retention
from app.store.engine import Database, StoreUnavailable

FIRST_S = 30.0
"""How long after the start it is looked for first: a start has other things to do."""
EVERY_S = 600.0
BATCH = 100
"""Conversations that are deleted in one transaction."""
LATE_H = 24
"""For how long after a document was deleted answers are looked through that a turn may have stored since."""

_log = structlog.get_logger(__name__)


class Keeping:
    """One per process, made by main.py. A conversation is kept `days` after its last message; None: for ever."""

    def __init__(self, database: Database, *, days: int | None) -> None:
        self._database = database
        self._days = days
        self._task: asyncio.Task[None] | None = None

    @property
    def healthy(self) -> bool:
        """Whether it is looked for."""
        return self._task is not None and not self._task.done()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        """Look every EVERY_S until the block ends."""
        self._task = task = asyncio.create_task(self._run(), name="keeping")
        try:
            yield
        finally:
            task.cancel()
            (ended,) = await asyncio.gather(task, return_exceptions=True)
            if isinstance(ended, Exception):
                _log.error("keeping_failed", exc_info=ended)

    async def _run(self) -> None:
        await asyncio.sleep(FIRST_S)
        while True:
            try:
                await self.look()
            except StoreUnavailable as error:
                _log.warning("keeping_waits_for_the_database", exc_info=error)
            await asyncio.sleep(EVERY_S)

    async def look(self) -> int:
        """One pass; how many conversations were deleted. Raises StoreUnavailable: the rest is for the next pass."""
        deleted = 0
        while self._days is not None:
            batch = await retention.expire(self._database, days=self._days, limit=BATCH)
            deleted += batch
            if batch < BATCH:
                break
        late = await excerpts.remove_late(self._database, hours=LATE_H)
        if deleted or late:
            _log.info("kept_no_longer", conversations=deleted, answers_with_excerpts=late)
        return deleted
