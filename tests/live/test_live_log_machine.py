"""The live log under any order of appending, attaching, reading and closing."""

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from app.live.frames import Conversation, Sources
from app.live.log import LAG_BYTES, Position
from app.live.memory_turn import LOG_BYTES
from tests.live.tabs import (
    DONE,
    IMPLEMENTATIONS,
    LogFactory,
    Published,
    Tab,
    attach,
    begin,
    carried,
    log_factory,
    source,
    step,
)

T = TypeVar("T")
INDEX = st.integers(0, 1_000)
ENOUGH = 5 * LOG_BYTES
"""Of one turn, in bytes: frames are dropped from 2 LOG_BYTES on, and every state of the text is kept to compare with."""


class LogMachine(RuleBasedStateMachine):
    """One conversation, its turns one after the other, and any number of tabs. What a tab is sent it checks itself."""

    factory: ClassVar[LogFactory]

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self.stack = AsyncExitStack()
        self.log = self.do(self.stack.enter_async_context(type(self).factory(60)))
        self.turns: list[Published] = []
        self.tabs: list[Tab] = []

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    @property
    def turn(self) -> Published:
        return self.turns[-1]

    @property
    def running(self) -> bool:
        return bool(self.turns) and not self.turn.finished

    async def append(self, *frames: Any) -> None:
        """Inside the loop, where turns publish."""
        for frame in frames:
            self.turn.append(frame)

    @precondition(lambda self: not self.running)
    @rule()
    def open(self) -> None:
        turn_id = f"t{len(self.turns) + 1}"
        self.turns.append(begin(self.log, turn_id=turn_id))
        self.do(self.append(Conversation("c1", turn_id, "m0", "Who?")))

    @precondition(lambda self: self.running)
    @rule(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1))
    def say(self, text: str) -> None:
        async def publish() -> None:
            self.turn.say(text)

        self.do(publish())

    @precondition(lambda self: self.running and sum(self.turn.sizes) < ENOUGH)
    @rule(kilobytes=st.sampled_from([60, 200, 300, 1_100, 2_200]), pieces=st.integers(1, 2))
    def say_much(self, kilobytes: int, pieces: int) -> None:
        async def publish() -> None:
            for _ in range(pieces):
                self.turn.say("x" * 1024 * kilobytes)

        self.do(publish())

    @precondition(lambda self: self.running)
    @rule(sources=st.integers(0, 3))
    def gather(self, sources: int) -> None:
        found = Sources(tuple(source(n + 1) for n in range(sources)))
        self.do(self.append(step(len(self.turn.states[-1].steps) + 1, 0), found))

    @precondition(lambda self: self.running)
    @rule()
    def take_over(self) -> None:
        async def publish() -> None:
            await carried(self.log)  # what its old owner had not sent on would be lost with it
            self.turn.take_over(self.log)

        self.do(publish())

    @precondition(lambda self: self.running)
    @rule()
    def finish(self) -> None:
        self.do(self.append(DONE))

    @rule(where=st.sampled_from(["none", "foreign", "future", "seen", "recent", "recent", "start"]), index=INDEX)
    def attach(self, where: str, index: int) -> None:
        """Law 3: a position that only one owner gave out is gone on from; any other one gets a snapshot."""
        if not self.turns:
            assert self.do(self.log.attach("t1", None, running=False)) is None
            return
        turn = self.turns[index % len(self.turns)] if where == "start" else self.turn
        seq = max(turn.seq - index % 4, 0) if where == "recent" else index % (turn.seq + 1)
        after = {
            "none": None,
            "foreign": Position("t0", seq),
            "future": Position(turn.turn_id, turn.seq + 1 + index),
            "start": Position(turn.turn_id, 0),
        }.get(where, Position(turn.turn_id, seq))
        sure = after is not None and after.turn_id == turn.turn_id and turn.sure(after.seq)
        if after is not None and sure and turn.finished and after.seq == turn.seq:
            assert self.do(self.log.attach(turn.turn_id, after, running=False)) is None
        else:
            seen = after.seq if after is not None and sure else None
            self.tabs.append(self.do(attach(self.log, turn, after, seen=seen)))

    @precondition(lambda self: self.tabs)
    @rule(index=INDEX)
    def read(self, index: int) -> None:
        """Laws 2 and 4: what comes next is the next frame, or a snapshot where it must be one."""
        attached = self.tabs[index % len(self.tabs)]
        before, behind = attached.seq, 0 if attached.seq is None else attached.turn.behind(attached.seq)
        missed = 0 if before is None else attached.turn.seq - before
        self.do(attached.arrived())
        frames = self.do(attached.read())
        if before is None:
            assert frames[0].event == "snapshot"
        elif behind > LAG_BYTES and missed > 1:
            assert (frames[0].event, frames[0].seq > before) == ("snapshot", True)
        elif missed:
            assert frames[0].seq == before + 1
        else:
            assert frames == []
            assert attached.over == attached.turn.finished

    @precondition(lambda self: self.tabs)
    @rule(index=INDEX)
    def close(self, index: int) -> None:
        attached = self.tabs.pop(index % len(self.tabs))
        attached.reader.close()
        assert self.do(attached.reader.read(0)) is None

    def teardown(self) -> None:
        """Whoever is left reads to the end and has everything."""
        try:
            for attached in self.tabs:
                self.do(attached.read_all())
                assert attached.seq == attached.turn.seq
                assert attached.state == attached.turn.states[-1]
                assert attached.over == attached.reader.finished == attached.turn.finished
                attached.reader.close()
            self.do(self.stack.aclose())
        finally:
            self.runner.close()


@pytest.mark.parametrize(("implementation", "examples"), [*zip(IMPLEMENTATIONS, (40, 6, 10), strict=True)])
def test_every_reader_gets_every_frame_once_or_a_snapshot_that_covers_it(
    implementation: str, examples: int, request: pytest.FixtureRequest
) -> None:
    """Laws 1 to 5 and case S10: gapless, nothing twice, snapshot and deltas equal the content."""
    url = None if implementation == "memory" else request.getfixturevalue("redis").url
    machine = type("Machine", (LogMachine,), {"factory": staticmethod(log_factory(implementation, url))})
    run_state_machine_as_test(machine, settings=settings(max_examples=examples, stateful_step_count=40, deadline=None))
