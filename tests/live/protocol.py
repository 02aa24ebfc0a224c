"""What the protocol of decision 0015 is played with: replicas, owners of turns, tabs, and a model of each turn's row.

What an owner does is the product's (app/turn: prepare, write down, judge, conclude); when it does it is the test's
choice, so that every order can be tried. Each event is written as the supervisor does it, with the model's row beside.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import msgspec

from app.errors import TurnErrorCode
from app.live.frames import Frame, Sources
from app.live.log import LiveLog, Signal, StopAsked, TurnLost, TurnsReleased, Writer
from app.live.redis_streams import RedisLog
from app.llm.model import AssistantMessage, ToolCall, ToolMessage
from app.store import answers, leases, turns
from app.store.answers import Answer
from app.store.engine import Database
from app.store.turns import AdmittedTurn
from app.turn import lifecycle, replay, takeover
from app.turn.books import Books
from app.turn.checkpoint import Kept
from app.turn.hooks import CallOutcome
from app.turn.lifecycle import Conclusion, Running, TurnParts
from app.turn.outcome import Answered, Broke, Outcome, Stopped
from app.turn.policy import Ledger
from app.turn.runner import Called, CallEnded, RunEvent, Text
from tests.harness.app import new_turn
from tests.live.tabs import SOON_S, State


def after(state: State, event: str, data: object) -> State:
    """What a tab holds after a frame; the first frame of a turn replaces all, as a snapshot does."""
    return State() if event == "conversation" else state.after(event, data)


@dataclass(eq=False, repr=False)
class Turn:
    """The model: what the turn's row must say, and every state that some owner has published."""

    turn_id: str
    conversation_id: str
    replica: str | None
    attempt: int = 0
    deaths: int = 0
    lapsed: bool = False
    stop: bool = False
    draft: str = ""
    last_seq: int | None = None
    kept: str = ""
    """The text up to the last call that was written down."""
    answer: Answer | None = None
    owners: list["Owner"] = field(default_factory=list["Owner"])
    states: dict[tuple[int, int], State] = field(default_factory=dict[tuple[int, int], State])
    """By attempt and seq."""

    @property
    def over(self) -> bool:
        return self.answer is not None

    @property
    def lost(self) -> bool:
        """Whether whoever looks must take it."""
        return not self.over and (self.replica is None or self.lapsed)

    @property
    def owner(self) -> "Owner | None":
        """The process that has it, if it is there to do anything."""
        last = self.owners[-1]
        return None if self.over or self.replica is None or last.gone or last.attempt < self.attempt else last

    @property
    def zombies(self) -> "list[Owner]":
        """Owners that lost it and may not know."""
        return [owner for owner in self.owners if owner is not self.owners[-1]]

    def row(self) -> tuple[object, ...]:
        status = "running" if self.answer is None else self.answer.status
        answer_id = self.answer and self.answer.answer_id
        now = (status, self.replica, self.attempt, self.deaths, self.stop)
        return (*now, self.draft, self.last_seq, answer_id, int(self.over), self.answer and self.answer.content)

    def certain(self, seq: int, held: State) -> bool:
        """Whether everybody with this position holds the same."""
        return all(state == held for (_, known), state in self.states.items() if known == seq)


@dataclass(repr=False)
class Recorder:
    """An owner's writer; records what it has published by then. Implements Writer."""

    writer: Writer
    turn: Turn
    attempt: int
    state: State = field(default_factory=State)

    def append(self, frame: Frame) -> int:
        data = msgspec.to_builtins(frame.sources if isinstance(frame, Sources) else frame)
        self.state = after(self.state, frame.event.decode(), data)
        seq = self.writer.append(frame)
        self.turn.states[self.attempt, seq] = self.state
        return seq

    @property
    def next_seq(self) -> int:
        return self.writer.next_seq


@dataclass(eq=False, repr=False)
class Owner:
    """A turn's task in one process. `gone`: the task is over, or the process is."""

    replica: "Replica"
    turn: Turn
    running: Running
    recorder: Recorder
    gone: bool = False
    conclusion: Conclusion | None = None
    """What it is saving, or has saved. From then on it completes: it hears nothing any more."""
    saved: bool = False

    @property
    def attempt(self) -> int:
        return self.running.turn.attempt

    @property
    def free(self) -> bool:
        """Whether it goes on answering: nobody has told it to end, and it has not begun to."""
        return self.listens and self.running.reason is None and self.running.outcome is None

    @property
    def listens(self) -> bool:
        """Whether what it is told still makes a difference."""
        return not self.gone and not self.conclusion

    def publish(self, event: RunEvent) -> None:
        self.running.publisher.take(event)

    def say(self) -> None:
        """Text that nobody else publishes there."""
        self.publish(Text(f"{self.attempt}.{self.recorder.next_seq} "))

    def call(self) -> None:
        """A finished call, from which a next owner goes on."""
        n = len(self.running.publisher.steps) + 1
        call_id = f"call{self.attempt}.{n}"
        self.publish(Called(AssistantMessage(None, (ToolCall(call_id, "search_chunks", '{"query": "x"}'),))))
        outcome = CallOutcome("ok", "OK: x", "search", f"{self.attempt}", "")
        self.publish(CallEnded(call_id, "search_chunks", outcome, 1, ToolMessage(call_id, "OK: x")))
        self.running.kept = Kept(self.running.publisher.draft(), Ledger(), skipped=False)

    def end(self) -> None:
        """The task is over."""
        self.gone = True
        self.replica.books.close(self.turn.turn_id)

    def give_up(self) -> None:
        """The turn isn't this process's any more: no terminal frame."""
        self.end()
        self.replica.log.abandon(self.turn.turn_id)


class Replica:
    """A process: its log, and what it hears."""

    def __init__(self, name: str, log: LiveLog, parts: TurnParts) -> None:
        self.name = name
        self.log = log
        self.parts = parts
        self.dead = False
        self.stack = AsyncExitStack()
        self.books = Books(parts.database, name, lambda: ())
        self.owners: dict[str, Owner] = {}
        self.heard_release = asyncio.Event()
        log.on_signal(self._hear)

    def _hear(self, signal: Signal) -> None:
        match signal:
            case StopAsked(turn_id=turn_id):
                self.stop_here(turn_id)
            case TurnLost(turn_id=turn_id):
                self.lose(turn_id)
            case TurnsReleased():
                self.heard_release.set()

    def stop_here(self, turn_id: str) -> None:
        owner = self.owners.get(turn_id)
        if owner is not None and owner.running.reason is None and owner.listens:
            owner.running.reason = "stop"

    def lose(self, turn_id: str) -> None:
        owner = self.owners.get(turn_id)
        if owner is not None and owner.listens:
            owner.give_up()

    def own(self, turn: Turn, admitted: AdmittedTurn, kept: Kept, after_seq: int) -> Owner:
        writer = self.log.open(turn.turn_id, attempt=admitted.attempt, after_seq=after_seq)
        recorder = Recorder(writer, turn, admitted.attempt)
        running = lifecycle.prepare(self.parts, admitted, recorder, kept, self.books.round_ended)
        owner = self.owners[turn.turn_id] = Owner(self, turn, running, recorder)
        turn.owners.append(owner)
        return owner

    async def carried(self) -> None:
        """Wait until what was published here is where every process can read it."""
        if isinstance(self.log, RedisLog):
            await self.log._pump.flush(SOON_S)  # pyright: ignore[reportPrivateUsage]

    async def die(self) -> None:
        """As kill -9 does: what wasn't sent is lost, and nothing is said to anybody."""
        self.dead = True
        for turn_id, owner in self.owners.items():
            owner.gone = True
            self.log.abandon(turn_id)
        self.log.close_readers()
        await self.stack.aclose()


async def until(met: Callable[[], bool], what: str) -> None:
    """Wait for what another process is told or sent."""
    deadline = time.monotonic() + SOON_S
    while not met():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.001)


async def admit(database: Database, replica: Replica) -> Turn:
    """None -> owned: question, turn and lease in one statement; the log is opened; `conversation` is published."""
    admitted = await turns.admit(database, new_turn("Who?", replica=replica.name))
    assert isinstance(admitted, AdmittedTurn)
    turn = Turn(admitted.turn_id, admitted.conversation_id, replica.name)
    replica.own(turn, admitted, Kept(), 0)
    return turn


async def write_down(owner: Owner) -> None:
    """Owned -> owned: text and seq, and the checkpoint; changes nothing where the turn is another's."""
    turn, publisher = owner.turn, owner.running.publisher
    await owner.replica.books.write([owner.running])
    seq, steps = publisher.next_seq - 1, len(owner.running.kept.draft.steps)
    if turn.owner is owner and (seq > 1 or steps):
        turn.draft, turn.last_seq = publisher.content, seq
        turn.kept = owner.running.kept.draft.content


async def renew(replica: Replica, turns_: list[Turn]) -> None:
    """Owned or lost -> owned: what it hears is which turns it has, and which of them are to stop."""
    running, to_stop = await leases.renew(replica.parts.database, replica.name)
    ours = [turn for turn in turns_ if turn.replica == replica.name and not turn.over]
    assert running == {turn.turn_id for turn in ours}
    assert to_stop == {turn.turn_id for turn in ours if turn.stop}
    for turn in ours:
        turn.lapsed = False
    for turn_id in to_stop:
        replica.stop_here(turn_id)
    for turn_id in replica.owners.keys() - running:
        replica.lose(turn_id)


async def release(owner: Owner) -> None:
    """Owned -> released, at drain: the task ends, all is written down, the row is given up, the others are told."""
    turn, replica, ours = owner.turn, owner.replica, owner.turn.owner is owner
    owner.running.reason = "hand_over"
    replica.log.abandon(turn.turn_id)
    await write_down(owner)
    owner.end()
    await leases.release(replica.parts.database, replica.name, [turn.turn_id])
    if ours:
        turn.replica = None
    await replica.log.tell_released()


async def take(replicas: list[Replica], turns_: list[Turn]) -> None:
    """Lost or released -> owned: at the same time by all these replicas, and each turn by exactly one.

    What a process owns by its row it does not take but renew.
    """
    expected = {turn.turn_id: turn for turn in turns_ if turn.lost and any(turn.replica != r.name for r in replicas)}
    found = await asyncio.gather(*(leases.take(r.parts.database, r.name) for r in replicas))
    assert sorted(lost.turn.turn_id for each in found for lost in each) == sorted(expected)
    for replica, each in zip(replicas, found, strict=True):
        for lost in each:
            await _take_over(replica, expected[lost.turn.turn_id], lost)


async def _take_over(replica: Replica, turn: Turn, lost: leases.LostTurn) -> None:
    turn.attempt += 1
    turn.deaths += turn.replica is not None
    turn.replica, turn.lapsed = replica.name, False
    assert (lost.turn.attempt, lost.deaths, lost.stop_requested) == (turn.attempt, turn.deaths, turn.stop)
    assert (lost.content, lost.last_seq) == (turn.draft, turn.last_seq or 0)
    before = replica.owners.get(turn.turn_id)
    if before is not None and before.conclusion and not before.gone:  # lost and won back before its save came through
        await save(before)
    replica.lose(turn.turn_id)
    kept, outcome = takeover.judge(lost)
    known = max(lost.last_seq, await replica.log.last_seq(turn.turn_id))
    owner = replica.own(turn, lost.turn, kept, known)
    owner.running.outcome = outcome
    assert outcome == _expected_ending(turn)
    assert owner.running.publisher.content == (turn.kept if outcome is None else turn.draft)


def _expected_ending(turn: Turn) -> Outcome | None:
    if turn.stop:
        return Stopped()
    if turn.deaths < 3:
        return None
    message = "The processes that answered ended three times before the answer was complete."
    return Broke(TurnErrorCode.TURN_INTERRUPTED, message)


def begin_to_save(owner: Owner) -> None:
    """The answer is made; whatever is heard from now on comes too late."""
    running = owner.running
    outcome = running.outcome or (Stopped() if running.reason == "stop" else Answered())
    owner.conclusion = lifecycle.conclude(owner.replica.parts, running, outcome, ())
    answer = owner.conclusion.answer
    assert (answer.content, answer.stopped) == (owner.recorder.state.content, isinstance(outcome, Stopped))


async def save(owner: Owner) -> None:
    """Owned or lost -> over: one statement that names replica and attempt. An earlier owner's changes nothing."""
    if owner.conclusion is None:
        begin_to_save(owner)
    assert owner.conclusion is not None
    turn, answer = owner.turn, owner.conclusion.answer
    ours = turn.owner is owner
    assert await answers.save(owner.replica.parts.database, answer) == ("saved" if ours else "not_ours")
    if not ours:
        owner.give_up()
        return
    owner.saved = True
    turn.answer, turn.draft, turn.last_seq = answer, "", answer.last_seq


async def save_again(owner: Owner) -> None:
    """The word of the first save was lost; the second one changes nothing, and says the same."""
    if owner.saved and owner.conclusion is not None:
        assert await answers.save(owner.replica.parts.database, owner.conclusion.answer) == "saved"


def say_end(owner: Owner) -> None:
    """over: the terminal frame, by whoever saved, after the save returned."""
    assert owner.saved
    assert owner.conclusion is not None
    owner.running.publisher.end(owner.conclusion.frame)
    owner.end()


async def ask_to_stop(replica: Replica, turn: Turn) -> None:
    """The mark is stored first, then the owner is told, wherever it is; a turn that is over can't be stopped."""
    database = replica.parts.database
    mark = await leases.request_stop(
        database, owner="local", conversation_id=turn.conversation_id, turn_id=turn.turn_id
    )
    assert (mark is None) == turn.over
    if mark is None:
        return
    turn.stop = True
    assert mark.replica == turn.replica
    replica.stop_here(turn.turn_id)
    if mark.replica not in (None, replica.name):
        await replica.log.ask_to_stop(mark.replica or "", turn.turn_id)


async def end_silence(replica: Replica) -> None:
    """Give readers here the end of turns that are over elsewhere."""
    followed = replica.log.followed()
    ended = await leases.ended(replica.parts.database, followed, since_s=0)
    assert not ended.gone
    for turn_id, who in ended.over.items():
        stored = await replay.stored_turn(replica.parts.database, who, turn_id)
        assert stored is not None
        replica.log.conclude(turn_id, stored)
