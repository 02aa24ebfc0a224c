"""The protocol of decision 0015 under any order of its events: the states of a turn's row, and the seven invariants.

The machine is the decision's table: a rule for each event, on the real statements and the real logs. What a rule
expects of a turn's row stands in tests/live/protocol.py beside what it does; where an invariant is held is said here.

1. only the last owner writes, saves, is heard    the row equals the model's after every event; tabs never go back
2. one answer, which nothing changes              the same
3. terminal only after the save                   each tab, at every terminal frame
4. a tab's text is some owner's; then the stored  each tab, at every frame and at the end
5. only a certain position is continued           each tab, at its first frame
6. a turn without owner is taken, by exactly one  `take`, also by two at once
7. no stop is lost                                `renew`, `ask_to_stop`, `take`, `save`

Not played: Postgres or Redis going away (tests/faults, test_redis_faults.py), and time, which is one UPDATE here.
"""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, ClassVar, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)
from sqlalchemy import text

from app.live.log import LiveLog, Position
from app.live.memory import MemoryLog
from app.live.redis_streams import RedisLog
from app.store.ids import new_id
from app.turn.lifecycle import TurnParts
from tests.live import protocol
from tests.live.protocol import Owner, Replica, Turn, until
from tests.live.protocol_tab import Tab
from tests.live.tabs import SOON_S, State

T = TypeVar("T")
INDEX = st.integers(0, 1_000)
AT_ONCE = 2
"""Turns that run at the same time: few, so that their events meet."""

ROWS = text("""
SELECT t.id, t.status, t.replica, t.attempt, t.deaths, t.stop_requested,
       (SELECT coalesce(string_agg(p.content, '' ORDER BY p.at), '') FROM turn_pieces p WHERE p.turn_id = t.id
        AND p.attempt = (SELECT max(l.attempt) FROM turn_pieces l WHERE l.turn_id = t.id)) AS draft,
       t.last_seq, CAST(t.answer_id AS text),
       (SELECT count(*) FROM messages m WHERE m.turn_id = t.id AND m.role = 'assistant') AS answers,
       (SELECT max(content) FROM messages m WHERE m.turn_id = t.id AND m.role = 'assistant') AS content
FROM turns t
""")
LAPSE = text("UPDATE turns SET lease_until = now() - interval '1 second' WHERE id = CAST(:id AS uuid)")
EMPTY = text("DELETE FROM conversations")


def pick(some: list[T], index: int) -> T | None:
    """Rules look themselves whether there is anything to do: who wins a race differs from run to run, and hypothesis
    needs preconditions that don't.
    """
    return some[index % len(some)] if some else None


class ProtocolMachine(RuleBasedStateMachine):
    """Some replicas on one database, with one Redis or each alone; turns that run on them, and tabs.

    Without a Redis one process serves at a time; one before it may still be about, and does not know its time is up.
    """

    runner: ClassVar[asyncio.Runner]
    parts: ClassVar[TurnParts]
    redis_url: ClassVar[str | None]

    def __init__(self) -> None:
        super().__init__()
        self.turns: list[Turn] = []
        self.tabs: list[Tab] = []
        self.replicas: list[Replica] = []  # all that ever were
        self.serving: list[Replica] = []
        self.do(self.execute(EMPTY))
        for _ in range(3 if self.redis_url else 1):
            self.do(self.start_replica())

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    async def execute(self, statement: Any, **parameters: object) -> None:
        async with self.parts.database.begin() as connection:
            await connection.execute(statement, parameters)

    async def start_replica(self) -> None:
        name = f"replica {len(self.replicas) + 1} {new_id()}"
        log: LiveLog = MemoryLog() if self.redis_url is None else RedisLog(self.redis_url, name)
        replica = Replica(name, log, self.parts)
        await replica.stack.enter_async_context(log.running())
        self.replicas.append(replica)
        self.serving.append(replica)

    # who an event happens to

    def replica(self, index: int) -> Replica:
        return self.serving[index % len(self.serving)]

    @property
    def alive(self) -> list[Replica]:
        """Those that serve, and those that were thought dead."""
        return [replica for replica in self.replicas if not replica.dead]

    @property
    def running(self) -> list[Turn]:
        return [turn for turn in self.turns if not turn.over]

    @property
    def owners(self) -> list[Owner]:
        return [owner for turn in self.turns if (owner := turn.owner) is not None]

    @property
    def zombies(self) -> list[Owner]:
        return [owner for turn in self.turns for owner in turn.zombies if not owner.gone]

    # the decision's events

    @initialize(index=INDEX)
    def begin(self, index: int) -> None:
        self.admit(index)

    @rule(index=INDEX)
    def admit(self, index: int) -> None:
        if len(self.running) == AT_ONCE:
            return
        replica = self.replica(index)
        turn = self.do(protocol.admit(self.parts.database, replica))
        self.turns.append(turn)
        self.open_tab(turn, replica, Position(turn.turn_id, 0), State())

    @rule(index=INDEX, calls=st.booleans(), arrives=st.booleans())
    def publish(self, index: int, calls: bool, arrives: bool) -> None:
        if owner := pick(self.owners, index):
            self.do(self.publish_by(owner, calls, arrives))

    async def publish_by(self, owner: Owner, calls: bool, arrives: bool) -> None:
        if not owner.free:
            return
        if calls:
            owner.call()
        owner.say()
        if arrives:
            await owner.replica.carried()

    @rule(index=INDEX)
    def write_down(self, index: int) -> None:
        owner = pick(self.owners, index)
        if owner and not owner.conclusion:
            self.do(protocol.write_down(owner))

    @rule(index=INDEX, renews=st.booleans(), ends=st.booleans())
    def keep_house(self, index: int, renews: bool, ends: bool) -> None:
        """By any process that is there, also one that was thought dead."""
        replica = self.alive[index % len(self.alive)]
        if renews:
            self.do(protocol.renew(replica, self.turns))
        if ends:
            self.do(protocol.end_silence(replica))

    @rule(index=INDEX)
    def lapse(self, index: int) -> None:
        """Fifteen seconds without a renewal."""
        if turn := pick(self.running, index):
            self.do(self.let_lapse(turn))

    async def let_lapse(self, turn: Turn) -> None:
        if not turn.lost:
            await self.execute(LAPSE, id=turn.turn_id)
            turn.lapsed = True

    @rule(index=INDEX)
    def release(self, index: int) -> None:
        """Others hear of it."""
        owner = pick(self.owners, index)
        if owner is None or owner.running.reason or owner.conclusion:
            return
        others = [replica for replica in self.serving if replica is not owner.replica]
        for other in others:
            other.heard_release.clear()
        self.do(protocol.release(owner))
        if self.redis_url:
            self.do(until(lambda: all(other.heard_release.is_set() for other in others), "a release was not heard"))

    @rule(index=INDEX, by=INDEX, racing=st.booleans(), lapsed=st.booleans())
    def take(self, index: int, by: int, racing: bool, lapsed: bool) -> None:
        """One or two look for lost turns, perhaps the owner itself; mostly there is one."""
        if lapsed:
            self.lapse(index)
        takers = {self.replica(by), self.replica(by + racing)}
        self.do(protocol.take(sorted(takers, key=lambda replica: replica.name), self.turns))

    @rule(index=INDEX, by=INDEX)
    def ask_to_stop(self, index: int, by: int) -> None:
        """Asked through any replica, heard by the owner's, if it is there."""
        turn = self.turns[index % len(self.turns)]
        self.do(protocol.ask_to_stop(self.replica(by), turn))
        owner = turn.owner
        if owner is not None and (self.redis_url or owner.replica is self.replica(by)):
            self.do(until(lambda: owner.running.reason == "stop" or not owner.listens, "a stop was not heard"))

    @rule(index=INDEX, upto=st.sampled_from(["made", "made", "stored again", "said"]))
    def save(self, index: int, upto: str) -> None:
        """Much may happen until Postgres answers, and the process may die before it can say so."""
        if owner := pick(self.owners, index):
            self.do(self.save_by(owner, upto))

    async def save_by(self, owner: Owner, upto: str) -> None:
        if not owner.conclusion:
            protocol.begin_to_save(owner)
        if upto == "made":
            return
        await protocol.save(owner)
        if upto == "stored again":
            await protocol.save_again(owner)
        if upto == "said":
            protocol.say_end(owner)

    # what goes wrong

    @rule(index=INDEX, dies=st.booleans())
    def replace_replica(self, index: int, dies: bool) -> None:
        """A process dies, or is cut off and does not know it; another is started."""
        self.do(self.replace(self.replica(index), dies))

    async def replace(self, replica: Replica, dies: bool) -> None:
        self.serving.remove(replica)
        if dies:
            await replica.die()
        await self.start_replica()

    @rule(
        index=INDEX,
        events=st.lists(st.sampled_from(["publish", "write down", "save", "release"]), min_size=1, max_size=3),
    )
    def act_too_late(self, index: int, events: list[str]) -> None:
        """An owner that lost its turn goes on as if it had it. Where none has lost one, one loses it now."""
        owner = pick(self.zombies, index) or pick(self.owners, index)
        if owner is None:
            return
        if owner not in self.zombies:
            self.do(self.lose(owner))
        for event in events:
            self.do(self.act_late(owner, event))

    async def lose(self, owner: Owner) -> None:
        if owner.replica in self.serving:
            await self.replace(owner.replica, dies=False)
        await self.let_lapse(owner.turn)
        await protocol.take(self.serving[-1:], self.turns)

    @rule(index=INDEX, saving=st.booleans())
    def win_back(self, index: int, saving: bool) -> None:
        """A turn comes back to a process whose earlier task has it still, and perhaps is about to save it."""
        if owner := pick(self.owners, index):
            self.do(self.lose_and_win_back(owner, saving))

    async def lose_and_win_back(self, owner: Owner, saving: bool) -> None:
        if saving and not owner.conclusion:
            protocol.begin_to_save(owner)
        await self.lose(owner)
        between = owner.turn.owner
        if between is None or owner.gone:
            return
        await protocol.release(between)
        await protocol.take([owner.replica], self.turns)
        self.serving.remove(between.replica)
        self.serving.append(owner.replica)

    async def act_late(self, owner: Owner, event: str) -> None:
        if owner.gone:
            return
        if event == "save" or owner.conclusion:
            await protocol.save(owner)
        elif event == "write down":
            await protocol.write_down(owner)
        elif event == "release":
            await protocol.release(owner)
        else:
            await self.publish_late(owner)

    async def publish_late(self, owner: Owner) -> None:
        """Redis refuses it, and so the process learns that the turn is another's."""
        successor = owner.turn.owner
        if successor is not None:
            await successor.replica.carried()
        speaks = owner.free
        await self.publish_by(owner, calls=False, arrives=True)
        if speaks and self.redis_url and successor is not None:
            await until(lambda: owner.gone, "a process that lost its turn was not told so by Redis")

    # tabs

    def open_tab(self, turn: Turn, replica: Replica, after: Position | None, state: State) -> None:
        tab = Tab(turn, after, state)
        self.tabs.append(tab)
        self.do(tab.attach(replica))

    @rule(
        index=INDEX, on=INDEX, knows=st.sampled_from(["nothing", "a foreign turn", "something", "something"]), had=INDEX
    )
    def attach(self, index: int, on: int, knows: str, had: int) -> None:
        """A new tab, a tab of another turn, or one that was away, with anything that any owner had published."""
        turn = self.turns[index % len(self.turns)]
        known = sorted(turn.states)
        attempt_seq = known[-1 - had % len(known)]
        match knows:
            case "nothing":
                after, state = None, State()
            case "a foreign turn":
                after, state = Position(new_id(), 1 + had), State("somebody else's")
            case _:
                after, state = Position(turn.turn_id, attempt_seq[1]), turn.states[attempt_seq]
        self.open_tab(turn, self.replica(on), after, state)

    @rule(index=INDEX, on=INDEX, breaks=st.booleans())
    def read(self, index: int, on: int, breaks: bool) -> None:
        """Read, or where the stream has ended or the connection breaks, come back somewhere with the last id."""
        if tab := pick(self.tabs, index):
            if breaks and not tab.over:
                tab.leave()
            self.do(self.go_on(tab, self.replica(on)))

    async def go_on(self, tab: Tab, replica: Replica) -> None:
        if tab.reader is None and not tab.over:
            await tab.attach(replica)
        await tab.read()

    @rule(index=INDEX)
    def catch_up(self, index: int) -> None:
        """What a turn's owner publishes comes to all tabs that follow it, wherever they are."""
        if owner := pick(self.owners, index):
            self.do(self.all_catch_up(owner.turn))

    async def all_catch_up(self, turn: Turn) -> None:
        await turn.owners[-1].replica.carried()
        for tab in self.tabs:
            if tab.turn is turn and tab.follows_the_owner:
                await tab.catch_up()

    @invariant()
    def postgres_says_what_the_model_says(self) -> None:
        """Whoever acted, the rows changed as the decision's table says, and not otherwise."""
        assert self.do(self.rows()) == {turn.turn_id: turn.row() for turn in self.turns}

    async def rows(self) -> dict[str, tuple[Any, ...]]:
        async with self.parts.database.read() as connection:
            found = (await connection.execute(ROWS)).all()
        return {str(row[0]): tuple(row[1:]) for row in found}

    # the end

    def teardown(self) -> None:
        """Every turn gets its outcome, and every tab ends with the stored text."""
        try:
            self.do(self.end_all())
            self.postgres_says_what_the_model_says()
        finally:
            self.do(self.close())

    async def end_all(self) -> None:
        for replica in self.alive:
            await protocol.renew(replica, self.turns)
        for turn in self.running:
            if turn.owner is None:
                await self.let_lapse(turn)
        await protocol.take(self.serving, self.turns)
        for owner in self.owners:
            await protocol.save(owner)
        for turn in self.turns:
            for owner in turn.owners:
                if owner.conclusion and not owner.gone:
                    protocol.say_end(owner) if owner.saved else await protocol.save(owner)
        deadline = time.monotonic() + SOON_S
        while waiting := [tab for tab in self.tabs if not tab.over]:
            assert time.monotonic() < deadline, f"{len(waiting)} tabs never ended"
            for tab in waiting:
                await self.go_on(tab, self.serving[0])
            for replica in self.alive:
                await protocol.end_silence(replica)
        assert [tab.state.content for tab in self.tabs] == [tab.turn.row()[-1] for tab in self.tabs]

    async def close(self) -> None:
        for tab in self.tabs:
            tab.leave()
        for replica in self.alive:
            await replica.die()
