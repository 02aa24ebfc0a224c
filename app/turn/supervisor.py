"""Owns the tasks: every turn of this process, its lease, stop, take-over, and the way down.

A turn's task belongs to the server, not to a request: losing a reader cancels nothing (case S03). Two named
background tasks look after them: one writes down what they have (books.py), the other renews leases, hears stops
asked for elsewhere, and takes turns whose process is gone. Source: DESIGN sections 5 and 8, decision 0015.
"""

import asyncio
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog

from app.errors import AppError, RefusalCode, TurnErrorCode
from app.live.frames import Done, Failed
from app.live.log import LiveLog, Signal, StopAsked, TurnLost, TurnsReleased
from app.store import answers, leases, turns
from app.store.answers import Answer
from app.store.engine import StoreUnavailable
from app.store.leases import LostTurn
from app.store.turns import AdmittedTurn, KnownRequest, NewTurn
from app.turn import replay, takeover
from app.turn.books import Books
from app.turn.checkpoint import Kept
from app.turn.lifecycle import (
    Conclusion,
    GivenUp,
    Reason,
    Running,
    TurnParts,
    charge,
    conclude,
    prepare,
    run_turn,
    save,
    summary,
    unsaved,
)
from app.turn.outcome import INTERNAL, NOT_SAVED, failed_frame

HOUSEKEEPING_S = 5.0
"""How often leases are renewed and lost turns looked for; a third of a lease."""
SILENT_S = 2.0
"""How long after its end a turn may still be on its way to readers elsewhere."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Owned:
    running: Running
    task: asyncio.Task[None]


class Supervisor:
    """The turns of this process. Made by main.py; `active` spans its life."""

    def __init__(self, parts: TurnParts, live: LiveLog, *, replica: str, takes_over: bool = True) -> None:
        """`takes_over`: whether it goes on with turns whose process is gone; the harness has no business with them."""
        self._parts = parts
        self._live = live
        self._replica = replica
        self._takes_over = takes_over
        self._owned: dict[str, _Owned] = {}
        self._unsaved: dict[str, Answer] = {}
        self._strays: frozenset[str] = frozenset()
        self._books = Books(parts.database, replica, self._unconcluded)
        self._look_now = asyncio.Event()
        self._hurry = asyncio.Event()
        self._background: tuple[asyncio.Task[None], ...] = ()
        self._stops: set[asyncio.Task[None]] = set()
        self.draining = False
        live.on_signal(self._hear)

    @asynccontextmanager
    async def active(self, *, drain_s: float) -> AsyncGenerator[None, None]:
        """Run the background tasks for the block; at its end, let running turns finish for `drain_s` seconds."""
        self._background = (
            asyncio.create_task(self._books.keep(), name="turn checkpoints"),
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
            if self._stops:
                await asyncio.wait(self._stops)

    @property
    def healthy(self) -> bool:
        """Whether the background tasks run."""
        return bool(self._background) and not any(task.done() for task in self._background)

    @property
    def running_turns(self) -> int:
        """How many turns this process runs."""
        return len(self._owned)

    async def start(self, new: NewTurn, *, retry: bool) -> AdmittedTurn | KnownRequest:
        """Admit a question and start its turn, or give the turn that its request id has already started.

        Raises:
            AppError: draining; and as store.turns.admit and admit_retry.
        """
        if self.draining:
            raise AppError(RefusalCode.DRAINING, "The server is shutting down; ask again in a moment.", retry_after_s=2)
        admitted = await (turns.admit_retry if retry else turns.admit)(self._parts.database, new)
        if isinstance(admitted, AdmittedTurn):
            writer = self._live.open(admitted.turn_id)
            self._own(prepare(self._parts, admitted, writer, Kept(), self._books.round_ended))
        return admitted

    def _own(self, running: Running) -> None:
        task = asyncio.create_task(self._run(running), name=f"turn {running.turn.turn_id}")
        self._owned[running.turn.turn_id] = _Owned(running, task)

    def _unconcluded(self) -> Collection[Running]:
        return [owned.running for owned in self._owned.values() if not owned.running.saving]

    async def _run(self, running: Running) -> None:
        """The task of one turn, and its boundary: whatever happens inside, the reader gets one terminal frame.

        Unless the turn is given up: its next owner sends it then.
        """
        turn_id, trace = running.turn.turn_id, running.trace
        frame: Done | Failed | None = failed_frame(INTERNAL)
        names = {"turn_id": turn_id} if trace is None else {"turn_id": turn_id, "trace_id": trace.trace_id}
        with structlog.contextvars.bound_contextvars(**names):
            try:
                frame = await self._terminal(running)
            finally:
                # released first: a follow-up sent the instant a client sees the terminal frame is admitted
                self._owned.pop(turn_id, None)
                self._books.close(turn_id)
                if trace is not None:
                    trace.end(frame, running.publisher.usage(truncated=False))
                if frame is None:
                    self._live.abandon(turn_id)
                    _log.info("turn_given_up", reason=running.reason)
                else:
                    running.publisher.end(frame)
                    _log.info("turn_ended", frame=frame.event.decode(), code=getattr(frame, "code", None))

    async def _terminal(self, running: Running) -> Done | Failed | None:
        """Run the turn and save it; the frame that says so, None when it isn't this process's to say."""
        try:
            conclusion = await self._conclusion(running)
        except GivenUp:
            return None
        stored = await save(self._parts, conclusion.answer)
        if stored != "not_ours":  # else its next owner's turn has all of it
            await charge(self._parts, running)
        match stored:
            case "saved":
                self._parts.metrics.turn_ended(summary(self._parts, running, conclusion.answer))
                return conclusion.frame
            case "not_ours":
                return None
            case "gone":
                return failed_frame(NOT_SAVED)
            case None:
                self._unsaved[running.turn.turn_id] = unsaved(conclusion.answer)
                return failed_frame(NOT_SAVED)

    async def _conclusion(self, running: Running) -> Conclusion:
        try:
            return await run_turn(self._parts, running)
        except GivenUp:
            raise
        except Exception:  # noqa: BLE001 - the task boundary: a fault of ours ends one turn, not the process
            _log.exception("turn_failed")
            return conclude(self._parts, running, INTERNAL, ())

    def stop_here(self, turn_id: str) -> bool:
        """Stop a turn of this process; False when it isn't one. A turn that is being saved completes instead."""
        return self._cancel(turn_id, "stop")

    async def stop(self, *, owner: str, conversation_id: str, turn_id: str) -> None:
        """Stop a running turn, whichever process runs it: here at once, elsewhere as soon as it hears of it.

        Raises:
            AppError: turn_not_running for a turn that is over, was never there, or isn't the caller's.
        """
        mark = await leases.request_stop(
            self._parts.database, owner=owner, conversation_id=conversation_id, turn_id=turn_id
        )
        if mark is None:
            raise AppError(TurnErrorCode.TURN_NOT_RUNNING, "That turn isn't running in this conversation.")
        if not self.stop_here(turn_id) and mark.replica is not None:
            await self._live.ask_to_stop(mark.replica, turn_id)

    def stop_soon(self, *, owner: str, conversation_id: str, turn_id: str) -> None:
        """As `stop`, for a caller that can't wait, such as a stream whose client has left."""
        if not self.stop_here(turn_id):
            stopping = self._stop_elsewhere(owner=owner, conversation_id=conversation_id, turn_id=turn_id)
            task = asyncio.create_task(stopping, name=f"stop {turn_id}")
            self._stops.add(task)
            task.add_done_callback(self._stops.discard)

    async def _stop_elsewhere(self, *, owner: str, conversation_id: str, turn_id: str) -> None:
        try:
            await self.stop(owner=owner, conversation_id=conversation_id, turn_id=turn_id)
        except StoreUnavailable as error:
            _log.warning("stop_not_left", turn_id=turn_id, exc_info=error)  # nobody waits for an answer; the turn ends
        except AppError as refusal:
            _log.info("stop_too_late", turn_id=turn_id, code=refusal.code)

    def _cancel(self, turn_id: str, reason: Reason) -> bool:
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

    def hurry(self) -> None:
        """End a drain now: running turns are handed over at once."""
        self._hurry.set()

    async def drain(self, seconds: float) -> None:
        """Admit nothing more, let running turns finish for a while, hand the rest over. Safe to call again."""
        self.draining = True
        tasks = {owned.task for owned in self._owned.values()}
        if not tasks:
            return
        await self._wait_for_all(tasks, seconds)
        late = [owned for owned in self._owned.values() if not owned.running.saving]
        for turn_id in tuple(self._owned):
            self._cancel(turn_id, "hand_over")
        if self._owned:
            await asyncio.wait({owned.task for owned in self._owned.values()})
        await self._hand_over([owned.running for owned in late if owned.running.reason == "hand_over"])

    async def _wait_for_all(self, tasks: set[asyncio.Task[None]], seconds: float) -> None:
        finishing = asyncio.create_task(asyncio.wait(tasks), name="turns finishing")
        hurried = asyncio.create_task(self._hurry.wait(), name="drain hurried")
        await asyncio.wait({finishing, hurried}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for waiting in (finishing, hurried):
            waiting.cancel()
        await asyncio.gather(finishing, hurried, return_exceptions=True)

    async def _hand_over(self, given_up: Collection[Running]) -> None:
        """Write down all that these turns have, then let others have them at once."""
        if not given_up:
            return
        try:
            await self._books.write(given_up)
            await leases.release(self._parts.database, self._replica, [r.turn.turn_id for r in given_up])
        except StoreUnavailable as error:
            _log.warning("hand_over_failed", turns=len(given_up), exc_info=error)  # the leases lapse
            return
        await self._live.tell_released()
        _log.info("turns_handed_over", turns=len(given_up))

    def _hear(self, signal: Signal) -> None:
        match signal:
            case StopAsked(turn_id=turn_id):
                self.stop_here(turn_id)
            case TurnsReleased():
                self._look_now.set()
            case TurnLost(turn_id=turn_id):
                self._cancel(turn_id, "lost")

    async def _housekeeping(self) -> None:
        """Renew leases, hear stops, store what could not be stored, take what nobody runs any more."""
        while True:
            self._look_now.clear()
            try:
                await self.keep_house()
            except StoreUnavailable as error:
                _log.warning("housekeeping_failed", exc_info=error)
            try:
                async with asyncio.timeout(HOUSEKEEPING_S):
                    await self._look_now.wait()
            except TimeoutError:
                continue

    async def keep_house(self) -> None:
        """One pass of housekeeping; the background task makes one every HOUSEKEEPING_S, and when turns were released.

        Raises:
            StoreUnavailable: the rest is for the next pass.
        """
        for turn_id, answer in tuple(self._unsaved.items()):
            await answers.save(self._parts.database, answer)
            self._unsaved.pop(turn_id, None)
        await self._renew()
        await self._end_silence()
        if self.draining or not self._takes_over:
            return
        taken = await leases.take(self._parts.database, self._replica)
        for lost in taken:
            await self._take_over(lost)
        if len(taken) == leases.TAKE_AT_ONCE:
            self._look_now.set()  # there may be more of them

    async def _renew(self) -> None:
        ours = {turn_id for turn_id, owned in self._owned.items() if not owned.running.saving}
        running, to_stop = await leases.renew(self._parts.database, self._replica)
        for turn_id in to_stop:
            self.stop_here(turn_id)
        for turn_id in ours - running:
            self._cancel(turn_id, "lost")  # another process has it, or its conversation is gone
        # ours by the database, unknown here: seen twice, it isn't one that is just being admitted or saved
        strays = running - self._owned.keys()
        if forgotten := strays & self._strays:
            await leases.release(self._parts.database, self._replica, forgotten)
        self._strays = strays

    async def _take_over(self, lost: LostTurn) -> None:
        """Go on with a turn whose owner is gone, or end it."""
        turn = lost.turn
        if (before := self._owned.get(turn.turn_id)) is not None:  # lost from here, and won back meanwhile
            self._cancel(turn.turn_id, "lost")
            await asyncio.wait({before.task})
        kept, outcome = takeover.judge(lost)
        known_seq = max(lost.last_seq, await self._live.last_seq(turn.turn_id))
        writer = self._live.open(turn.turn_id, attempt=turn.attempt, after_seq=known_seq)
        running = prepare(self._parts, turn, writer, kept, self._books.round_ended)
        running.outcome = outcome
        self._own(running)
        self._parts.metrics.taken_over(goes_on=outcome is None)
        _log.warning("turn_taken_over", turn_id=turn.turn_id, attempt=turn.attempt, deaths=lost.deaths, ends=outcome)

    async def _end_silence(self) -> None:
        """Give readers here the end of turns that are over elsewhere and whose terminal frame never came."""
        followed = self._live.followed()
        if not followed:
            return
        ended = await leases.ended(self._parts.database, followed, since_s=SILENT_S)
        for turn_id, owner in ended.over.items():
            stored = await replay.stored_turn(self._parts.database, owner, turn_id)
            if stored is not None:
                self._live.conclude(turn_id, stored)
        for turn_id in ended.gone:
            self._live.abandon(turn_id)


def _report_death(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.critical("background_task_died", task=task.get_name(), exc_info=error)
