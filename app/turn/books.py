"""Writes down what running turns have, so that another process could go on from it: all of them in one statement.

What is new of a turn's text at least once a second while it grows; what a next owner goes on from, as soon as a round
has ended. Owned by the supervisor. Source: DESIGN section 8, decision 0023.
"""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass

import structlog

from app.store import leases
from app.store.engine import Database, StoreUnavailable
from app.turn import checkpoint
from app.turn.lifecycle import Running

CHECKPOINT_S = 1.0
"""How often growing text is written; a killed process loses at most this much of it."""
ROUND_BATCH_S = 0.05
"""How long a finished round waits for others, so that they share a statement."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Written:
    """How far a turn had been written down: its last seq, its steps, the characters of its text."""

    seq: int = 1
    steps: int = 0
    chars: int = 0


_NOTHING = _Written()


class Books:
    """What was written down of each running turn. `running` gives those that may be written."""

    def __init__(self, database: Database, replica: str, running: Callable[[], Collection[Running]]) -> None:
        self._database = database
        self._replica = replica
        self._running = running
        self._written: dict[str, _Written] = {}
        self._over: set[str] = set()
        self.round_ended = asyncio.Event()
        """Set by a turn when a round of it has ended."""

    async def keep(self) -> None:
        """Write for as long as the process serves."""
        while True:
            try:
                async with asyncio.timeout(CHECKPOINT_S):
                    await self.round_ended.wait()
                await asyncio.sleep(ROUND_BATCH_S)
            except TimeoutError:
                pass
            self.round_ended.clear()
            try:
                await self.write(self._running())
            except StoreUnavailable as error:
                _log.warning("checkpoint_failed", exc_info=error)

    async def write(self, turns: Collection[Running]) -> None:
        """Write down what changed of these turns since the last time.

        Raises:
            StoreUnavailable: nothing was written; the next time writes it all.
        """
        drafts: list[leases.Draft] = []
        written: dict[str, tuple[Running, _Written]] = {}
        for running in turns:
            turn, publisher = running.turn, running.publisher
            before = self._written.setdefault(turn.turn_id, _NOTHING)
            now = _Written(publisher.next_seq - 1, len(running.kept.draft.steps), publisher.chars)
            if now == before:
                continue
            takes_back = turn.attempt > 0 and before is _NOTHING
            piece = publisher.text_after(before.chars) if now.chars > before.chars or takes_back else None
            kept = checkpoint.encode(running.kept) if now.steps != before.steps else None
            drafts.append(leases.Draft(turn.turn_id, turn.attempt, before.chars, piece, now.seq, kept))
            written[turn.turn_id] = running, now
        if not drafts and not self._over:
            return
        over = frozenset(self._over)
        try:
            await leases.write(self._database, self._replica, drafts, over)
            self._over -= over
        finally:
            self._over |= {turn_id for turn_id, (running, _) in written.items() if running.saving}
        for turn_id in written.keys() & self._written.keys():  # a turn may have been closed meanwhile
            self._written[turn_id] = written[turn_id][1]

    def close(self, turn_id: str) -> None:
        """The turn is over, or not ours any more."""
        self._written.pop(turn_id, None)
