"""Owns the tasks: every turn of this process, its lease and checkpoints, stop, and the way down.

A turn's task belongs to the server, not to a request: losing a reader cancels nothing (case S03). Two named
background tasks keep the books: one writes checkpoints of all turns together, the other renews leases, hears
stops asked for elsewhere and closes turns whose process died. Source: DESIGN sections 5 and 8.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal

import msgspec
import structlog

from app.errors import AppError, RefusalCode, TurnErrorCode
from app.live.frames import Done, Failed
from app.live.log import LiveLog
from app.llm.shape import to_stored
from app.store import leases, turns
from app.store.engine import StoreUnavailable
from app.store.ids import new_id
from app.store.leases import LostTurn
from app.store.turns import AdmittedTurn, Answer, KnownRequest, NewTurn
from app.turn.context import complete_exchange
from app.turn.lifecycle import Conclusion, Running, TurnParts, conclude, prepare, run_turn, save, unsaved
from app.turn.outcome import INTERNAL, NOT_SAVED, failed_frame
from app.turn.publish import Draft

CHECKPOINT_S = 1.0
"""How often growing text is written; a killed process loses at most this much of it."""
ROUND_BATCH_S = 0.05
"""How long a finished round waits for others, so that they share a statement."""
HOUSEKEEPING_S = 5.0
"""How often leases are renewed and lost turns looked for; a third of a lease."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Owned:
    running: Running
    task: asyncio.Task[None]
    written_chars: int = 0
    written_steps: int = 0


class Supervisor:
    """The turns of this process. Made by main.py; `active` spans its life."""

    def __init__(self, parts: TurnParts, live: LiveLog, *, replica: str) -> None:
        self._parts = parts
        self._live = live
        self._replica = replica
        self._owned: dict[str, _Owned] = {}
        self._unsaved: dict[str, Answer] = {}
        self._strays: frozenset[str] = frozenset()
        self._round_ended = asyncio.Event()
        self._background: tuple[asyncio.Task[None], ...] = ()
        self.draining = False

    @asynccontextmanager
    async def active(self, *, drain_s: float) -> AsyncGenerator[None, None]:
        """Run the background tasks for the block; at its end, let running turns finish for `drain_s` seconds."""
        self._background = (
            asyncio.create_task(self._checkpoints(), name="turn checkpoints"),
            asyncio.create_task(self._housekeeping(), name="turn housekeeping"),
        )
        for task in self._background:
            task.add_done_callback(_report_death)
        try:
            yield
        finally:
            await self.drain(drain_s)
            for task in self._background:
                task.cancel()
            await asyncio.gather(*self._background, return_exceptions=True)

    @property
    def healthy(self) -> bool:
        """Whether the background tasks run."""
        return bool(self._background) and not any(task.done() for task in self._background)

    async def start(self, new: NewTurn, *, retry: bool) -> AdmittedTurn | KnownRequest:
        """Admit a question and start its turn, or give the turn that its request id has already started.

        Raises:
            AppError: draining; and as store.turns.admit and admit_retry.
        """
        if self.draining:
            raise AppError(RefusalCode.DRAINING, "The server is shutting down; ask again in a moment.", retry_after_s=2)
        admitted = await (turns.admit_retry if retry else turns.admit)(self._parts.database, new)
        if isinstance(admitted, KnownRequest):
            return admitted
        writer = self._live.open(admitted.conversation_id, admitted.turn_id)
        running = prepare(self._parts, admitted, writer, self._round_ended)
        task = asyncio.create_task(self._run(running), name=f"turn {admitted.turn_id}")
        self._owned[admitted.turn_id] = _Owned(running, task)
        return admitted

    async def _run(self, running: Running) -> None:
        """The task of one turn, and its boundary: whatever happens inside, the reader gets one terminal frame."""
        turn_id = running.turn.turn_id
        frame: Done | Failed = failed_frame(INTERNAL)
        with structlog.contextvars.bound_contextvars(turn_id=turn_id):
            try:
                conclusion = await self._conclusion(running)
                if await save(self._parts, conclusion.answer):
                    frame = conclusion.frame
                else:
                    self._unsaved[turn_id] = unsaved(conclusion.answer)
                    frame = failed_frame(NOT_SAVED)
            finally:
                # released first: a follow-up sent the instant a client sees the terminal frame is admitted
                self._owned.pop(turn_id, None)
                running.publisher.end(frame)
                _log.info("turn_ended", frame=frame.event.decode(), code=getattr(frame, "code", None))

    async def _conclusion(self, running: Running) -> Conclusion:
        try:
            return await run_turn(self._parts, running)
        except Exception:  # noqa: BLE001 - the task boundary: a fault of ours ends one turn, not the process
            _log.exception("turn_failed")
            return conclude(self._parts, running, INTERNAL, ())

    def stop_here(self, turn_id: str) -> bool:
        """Stop a turn of this process; False when it isn't one. A turn that is being saved completes instead."""
        return self._cancel(turn_id, "stop")

    async def stop(self, *, owner: str, conversation_id: str, turn_id: str) -> None:
        """Stop a running turn, whichever process runs it: here at once, elsewhere at its next renewal.

        Raises:
            AppError: turn_not_running for a turn that is over, was never there, or isn't the caller's.
        """
        marked = await leases.request_stop(
            self._parts.database, owner=owner, conversation_id=conversation_id, turn_id=turn_id
        )
        if not marked:
            raise AppError(TurnErrorCode.TURN_NOT_RUNNING, "That turn isn't running in this conversation.")
        self.stop_here(turn_id)

    def _cancel(self, turn_id: str, reason: Literal["stop", "drain"]) -> bool:
        owned = self._owned.get(turn_id)
        if owned is None:
            return False
        if not owned.running.saving and owned.running.reason is None:
            owned.running.reason = reason
            if owned.running.begun:
                owned.task.cancel()
        return True

    async def wait_for(self, turn_id: str) -> None:
        """Wait until a turn of this process has ended; returns at once for any other."""
        owned = self._owned.get(turn_id)
        if owned is not None:
            await asyncio.wait({owned.task})

    async def drain(self, seconds: float) -> None:
        """Admit nothing more, let running turns finish for a while, end the rest as interrupted and saved."""
        self.draining = True
        tasks = {owned.task for owned in self._owned.values()}
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=seconds)
        for turn_id in tuple(self._owned):
            self._cancel(turn_id, "drain")
        if late:
            await asyncio.wait(late)

    async def _checkpoints(self) -> None:
        """Write what changed of all turns in one statement: after a round at once, growing text each second."""
        while True:
            try:
                async with asyncio.timeout(CHECKPOINT_S):
                    await self._round_ended.wait()
                await asyncio.sleep(ROUND_BATCH_S)
            except TimeoutError:
                pass
            self._round_ended.clear()
            changed = [owned for owned in self._owned.values() if _changed(owned)]
            if not changed:
                continue
            drafts = [(o.running.turn.turn_id, encode_draft(o.running.publisher.draft())) for o in changed]
            for owned in changed:
                owned.written_chars = owned.running.publisher.chars
                owned.written_steps = len(owned.running.publisher.steps)
            try:
                await leases.checkpoint(self._parts.database, drafts)
            except StoreUnavailable as error:
                _log.warning("checkpoint_failed", turns=len(drafts), exc_info=error)

    async def _housekeeping(self) -> None:
        """Renew leases, hear stops, store what could not be stored, close what nobody runs any more."""
        while True:
            try:
                await self.keep_house()
            except StoreUnavailable as error:
                _log.warning("housekeeping_failed", exc_info=error)
            await asyncio.sleep(HOUSEKEEPING_S)

    async def keep_house(self) -> None:
        """One pass of housekeeping; the background task makes one every HOUSEKEEPING_S.

        Raises:
            StoreUnavailable: the rest is for the next pass.
        """
        for turn_id, answer in tuple(self._unsaved.items()):
            await turns.save(self._parts.database, answer)
            self._unsaved.pop(turn_id, None)
        running, to_stop = await leases.renew(self._parts.database, self._replica)
        for turn_id in to_stop:
            self.stop_here(turn_id)
        # ours by the database, unknown here: seen twice, it isn't one that is just being admitted or saved
        strays = running - self._owned.keys()
        if forgotten := strays & self._strays:
            await leases.release(self._parts.database, forgotten)
        self._strays = strays
        for lost in await leases.claim_lost(self._parts.database, self._replica):
            _log.warning("turn_interrupted", turn_id=lost.turn_id)
            await turns.save(self._parts.database, interrupted(lost, self._parts.model.name))


def _report_death(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.critical("background_task_died", task=task.get_name(), exc_info=error)


def _changed(owned: _Owned) -> bool:
    publisher = owned.running.publisher
    return publisher.chars != owned.written_chars or len(publisher.steps) != owned.written_steps


def encode_draft(draft: Draft) -> bytes:
    """A checkpoint's JSON: {content, steps, sources, resolved, tool_exchange}."""
    return msgspec.json.encode(
        {
            "content": draft.content,
            "steps": draft.steps,
            "sources": draft.sources,
            "resolved": draft.resolved,
            "tool_exchange": [to_stored(m) for m in complete_exchange(draft.exchange)],
        }
    )


class _Checkpoint(msgspec.Struct):
    content: str = ""
    steps: msgspec.Raw = msgspec.Raw(b"[]")
    sources: msgspec.Raw = msgspec.Raw(b"[]")
    resolved: msgspec.Raw = msgspec.Raw(b"[]")
    tool_exchange: msgspec.Raw = msgspec.Raw(b"[]")


def interrupted(lost: LostTurn, model: str) -> Answer:
    """What is stored for a turn whose process died: its checkpoint as an unfinished answer."""
    draft = msgspec.json.decode(lost.checkpoint, type=_Checkpoint) if lost.checkpoint else _Checkpoint()
    return Answer(
        turn_id=lost.turn_id,
        answer_id=new_id(),
        status="failed",
        content=draft.content,
        steps=bytes(draft.steps),
        sources=bytes(draft.sources),
        resolved=bytes(draft.resolved),
        tool_exchange=bytes(draft.tool_exchange),
        evidence=None,
        cited=b"[]",
        stopped=False,
        error_code=TurnErrorCode.TURN_INTERRUPTED,
        error_message="The process that answered ended before the answer was complete.",
        model=model,
        usage=b"{}",
        last_seq=0,
    )
