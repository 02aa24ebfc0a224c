"""What the log on Redis promises beside the laws: fencing, one connection, expiry, bounds, signals."""

# A test may look inside.
# pyright: reportPrivateUsage=false

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from redis.asyncio import Redis
from structlog.testing import capture_logs

from app.live.frames import Snapshot
from app.live.log import LogUnavailable, Position, Signal, StopAsked, TurnLost, TurnsReleased
from app.live.redis_keys import SNAPSHOT, EntryId, inbox_key, turn_key
from app.live.redis_pump import RUNNING_TTL_S, STREAM_LENGTH, WHOLE_FRAMES
from app.live.redis_streams import COMMAND_CONNECTIONS, RedisLog
from tests.harness.redis import RedisServer
from tests.live.tabs import DONE, SOON_S, Published, State, Tab, attach, begin, empty, redis_log, tab_at


@pytest.fixture
async def logs(redis: RedisServer) -> AsyncGenerator[list[RedisLog]]:
    """Three processes on one server that is empty at first."""
    await empty(redis.url)
    async with AsyncExitStack() as stack:
        names = ("one", "two", "three")
        yield [await stack.enter_async_context(redis_log(redis.url, replica=name)) for name in names]


@pytest.fixture
async def client(redis: RedisServer) -> AsyncGenerator[Any]:
    """A look at what the server holds."""
    async with Redis.from_url(redis.url) as found:  # pyright: ignore[reportUnknownMemberType]
        yield found


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what has no event."""
    async with asyncio.timeout(SOON_S):
        while not condition():
            await asyncio.sleep(0.002)


async def test_a_tab_that_is_ahead_of_its_next_process_goes_on_where_it_was(logs: list[RedisLog]) -> None:
    """Law 2: frames that the owner has shown and that are still on their way are waited for, not shown anew."""
    owner, other, _ = logs
    turn = begin(owner)
    turn.say("begun")
    watching = await attach(other, turn, None)
    await watching.read_all()
    for n in range(20):
        turn.say(f"{n} ")
        reader = await other.attach("t1", Position("t1", turn.seq), running=True)
        moved = Tab(turn, reader, turn.seq, turn.states[turn.seq]) if reader is not None else None
        turn.say("next")
        assert moved is not None
        assert [(frame.event, frame.id) for frame in await moved.read(SOON_S)] == [("delta", f"t1:{turn.seq}")]
        moved.reader.close()


async def test_what_a_process_that_lost_its_turn_appends_reaches_nobody(logs: list[RedisLog]) -> None:
    """Law 7: Redis refuses its frames; its own tabs end so that they come back, and it is told."""
    lost, owner, third = logs
    heard: list[Signal] = []
    lost.on_signal(heard.append)
    turn = begin(lost)
    for n in range(10):
        turn.say(f"{n} ")
    own_tab = await tab_at(lost, turn, 0)
    await own_tab.read_all()
    await lost._pump.flush(SOON_S)
    far_tab = await attach(third, turn, None)
    await far_tab.read_all()

    zombie = turn.writer
    assert await owner.last_seq("t1") == 10
    turn.take_over(owner)
    turn.say("on")
    await owner._pump.flush(SOON_S)
    for n in range(40):
        zombie.append(Snapshot("t1", f"zombie {n}", (), ()))
    async with asyncio.timeout(SOON_S):
        while await own_tab.reader.read(SOON_S) is not None:
            pass
    assert (own_tab.reader.finished, heard) == (False, [TurnLost("t1")])
    zombie.append(DONE)
    await lost._pump.flush(SOON_S)
    turn.say("!")
    turn.append(DONE)
    await owner._pump.flush(SOON_S)
    for log in logs:
        again = await attach(log, turn, Position("t1", 11))
        assert [(frame.event, frame.seq) for frame in await again.read_all()] == [("snapshot", 13), ("done", 14)]
    assert [frame.seq for frame in await far_tab.read_all()] == [11, 12, 13, 14]
    assert far_tab.state == turn.states[-1]


async def test_a_tab_that_comes_while_frames_fly_loses_none_and_gets_none_twice(logs: list[RedisLog]) -> None:
    """Case S11: subscribe at a random moment while 500 deltas are published; the joined text is the whole text."""
    writes, reads, _ = logs
    moments = random.Random(11)
    for n in range(40):
        turn = begin(writes, f"s11-{n}")
        task = asyncio.create_task(publish_500(turn))
        for _ in range(moments.randrange(500)):
            await asyncio.sleep(0)
        after = moments.choice([None, Position(turn.turn_id, 0), Position(turn.turn_id, turn.seq)])
        reader = await reads.attach(turn.turn_id, after, running=True)
        assert reader is not None
        held = after.seq if after and reader._seen >= 0 else None
        tab = Tab(turn, reader, held, State() if held is None else turn.states[held])
        async with asyncio.timeout(SOON_S):
            while not tab.over:
                await tab.read(SOON_S)
        await task
        assert (tab.seq, tab.state, reader.finished) == (501, turn.states[-1], True)
        reader.close()
    assert list(reads.followed()) == []


async def publish_500(turn: Published) -> None:
    for n in range(500):
        turn.say(f"word {n} 🦀 ")
        await asyncio.sleep(0)
    turn.append(DONE)


async def test_any_number_of_tabs_of_any_turns_use_one_connection_to_wait(logs: list[RedisLog], client: Any) -> None:
    """A connection per tab would exhaust the server's long before this process is tired."""
    writes, reads, _ = logs
    turns = [begin(writes, f"t{n}") for n in range(5)]
    for turn in turns:
        turn.say("hello")
    await writes._pump.flush(SOON_S)
    tabs = await asyncio.gather(*[attach(reads, turns[n % 5], None) for n in range(200)])
    for turn in turns:
        turn.append(DONE)
    for tab in tabs:
        await tab.read_all()
        assert (tab.state, tab.over) == (State("hello"), True)
    connections = await client.client_list()
    assert len(connections) <= 3 * (1 + 1 + COMMAND_CONNECTIONS) + 1


async def test_a_turns_stream_expires(redis: RedisServer, client: Any) -> None:
    """A running one long after its last frame, a finished one soon; and so does what processes tell each other."""
    async with redis_log(redis.url, keep_s=0.2, replica="brief") as log:
        turn = begin(log, "brief")
        turn.say("hello")
        await log._pump.flush(SOON_S)
        assert RUNNING_TTL_S - 5 <= await client.ttl(turn_key("brief")) <= RUNNING_TTL_S
        turn.append(DONE)
        await log._pump.flush(SOON_S)
        assert await client.pttl(turn_key("brief")) <= 200
        await log.ask_to_stop("other", "brief")
        assert 0 < await client.ttl(inbox_key("other")) <= 3600
        async with asyncio.timeout(SOON_S):
            while await client.exists(turn_key("brief")) or log._memory.find("brief"):
                await asyncio.sleep(0.01)
        assert (log._pump._lanes, await log.last_seq("brief")) == ({}, 0)


async def test_the_stream_of_a_running_turn_is_kept_from_expiring(logs: list[RedisLog], client: Any) -> None:
    """Also while the model is silent for long; a stream that is gone anyway gets a snapshot."""
    log = logs[0]
    turn = begin(log)
    turn.say("hello")
    await log._pump.flush(SOON_S)
    await client.expire(turn_key("t1"), 5)
    await log._pump._renew()
    assert await client.ttl(turn_key("t1")) > 5
    await client.delete(turn_key("t1"))
    await log._pump._renew()
    await log._pump.flush(SOON_S)
    assert [entry_id for entry_id, _ in await client.xrange(turn_key("t1"))] == [b"0-3"]


async def test_a_stream_that_vanished_begins_again_with_a_snapshot(logs: list[RedisLog], client: Any) -> None:
    """Somebody emptied the server, and no connection broke: who follows then needs nothing that was lost."""
    writes, reads, _ = logs
    turn = begin(writes)
    turn.say("hello")
    await writes._pump.flush(SOON_S)
    old = await tab_at(reads, turn, 1)
    await client.flushall()
    turn.say(" again")
    await writes._pump.flush(SOON_S)
    assert [entry_id for entry_id, _ in await client.xrange(turn_key("t1"))] == [b"0-5"]
    new = await attach(reads, turn, None)
    turn.append(DONE)
    assert [frame.event for frame in await old.read_all()] == ["snapshot", "done"]
    assert [frame.event for frame in await new.read_all()][-2:] == ["snapshot", "done"]


async def test_a_long_turns_stream_is_bounded_and_can_be_followed_at_any_time(
    logs: list[RedisLog], client: Any
) -> None:
    """By number of entries and by bytes: there is always a snapshot in it, and who comes late starts from that."""
    writes, reads, _ = logs
    small = begin(writes, "small")
    for n in range(3 * WHOLE_FRAMES):
        small.say("x")
        if n % 500 == 0:
            await writes._pump.flush(SOON_S)
    large = begin(writes, "large")
    for _ in range(100):
        large.say("x" * 100_000)
        await writes._pump.flush(SOON_S)
    await writes._pump.flush(SOON_S)
    for turn in (small, large):
        assert await client.xlen(turn_key(turn.turn_id)) <= STREAM_LENGTH + 500
        first = (await client.xrange(turn_key(turn.turn_id), count=1))[0]
        assert SNAPSHOT in first[1]
        late = await attach(reads, turn, None)
        await late.read_all()
        assert late.state == turn.states[-1]
    assert await client.memory_usage(turn_key("small")) < 2_000_000
    assert await client.xlen(turn_key("large")) < 20


async def test_what_waits_for_redis_is_bounded(redis: RedisServer) -> None:
    """Case S13: 20 MB are appended while nothing is carried; one snapshot is what remains to be sent."""
    await empty(redis.url)
    log = RedisLog(redis.url, "one")
    turn = begin(log)
    for n in range(2_000):
        turn.writer.append(Snapshot("t1", f"{n}" + "x" * 10_000, (), ()))
    lane = log._pump._lanes["t1"]
    assert (lane.whole, lane.pending, lane.pending_bytes) == (True, [], 0)
    async with log.running():
        await log._pump.flush(SOON_S)
        assert await log.last_seq("t1") == 2_000
        assert log._pump._waiting == 0


async def test_nothing_is_left_of_turns_that_ended(redis: RedisServer) -> None:
    """Memory returns to where it was, in the process that writes and in the one that follows."""
    async with redis_log(redis.url, 0.05, replica="one") as writes, redis_log(redis.url, 0.05, replica="two") as reads:
        for n in range(100):
            turn = begin(writes, f"ended-{n}")
            reader = await reads.attach(turn.turn_id, Position(turn.turn_id, 0), running=True)
            assert reader is not None
            turn.say("hello")
            turn.append(DONE)
            if n % 2:
                reader.close()
        reads.close_readers()
        await until(lambda: not writes._memory._turns and not writes._pump._lanes)
        assert (reads._memory._turns, reads._follower._mirrors, reads.attached_readers) == ({}, {}, 0)
        assert (writes._pump._dirty, writes.live_turns) == ({}, 0)


async def test_a_turn_that_was_deleted_is_forgotten_by_every_process_at_once(logs: list[RedisLog], client: Any) -> None:
    """By the one that runs it too, which sends no more; no expiry is waited for."""
    owner, reading, deleting = logs
    turn, ended = begin(owner), begin(owner, turn_id="t0")
    ended.append(DONE)
    turn.say("secret")
    tab = await attach(reading, turn, None)
    await tab.read_all()
    assert await client.exists(turn_key("t1"), turn_key("t0")) == 2
    await deleting.forget(["t1", "t0"])
    assert await client.exists(turn_key("t1"), turn_key("t0")) == 0
    await tab.read_all()
    assert (tab.over, tab.reader.finished) == (True, False)
    await until(lambda: owner.live_turns == 0)
    turn.say("more")
    await owner._pump.flush(SOON_S)
    assert await client.exists(turn_key("t1")) == 0
    for log in logs:
        assert await log.attach("t0", None, running=False) is None


async def test_signals_reach_the_processes_they_are_meant_for(logs: list[RedisLog]) -> None:
    """A stop the process that runs the turn, wherever it was asked for; released turns everybody else."""
    heard: dict[int, list[Signal]] = {0: [], 1: [], 2: []}
    for n, log in enumerate(logs):
        log.on_signal(heard[n].append)
    await logs[0].ask_to_stop("two", "t1")
    await logs[1].ask_to_stop("two", "t2")
    await logs[2].tell_released()
    await until(lambda: len(heard[0]) == 1 and len(heard[1]) == 3)
    await logs[0].tell_released()
    await until(lambda: len(heard[1]) == 4 and len(heard[2]) == 1)
    assert heard[0] == [TurnsReleased()]
    stops = {signal.turn_id for signal in heard[1] if isinstance(signal, StopAsked)}
    assert (stops, heard[1].count(TurnsReleased())) == ({"t1", "t2"}, 2)
    assert heard[2] == [TurnsReleased()]


async def test_a_process_hears_only_what_is_said_after_it_came(redis: RedisServer, logs: list[RedisLog]) -> None:
    """What a process of the same name was told before concerns turns that it no longer runs."""
    await logs[0].ask_to_stop("four", "old")
    await logs[0].tell_released()
    async with redis_log(redis.url, replica="four") as late:
        heard: list[Signal] = []
        late.on_signal(heard.append)
        await logs[0].ask_to_stop("four", "new")
        await until(lambda: bool(heard))
        assert heard == [StopAsked("new")]


async def test_an_entry_that_this_version_cant_read_is_made_good_by_the_next_snapshot(
    logs: list[RedisLog], client: Any
) -> None:
    """A newer process may publish kinds of frames that an older one doesn't know; it keeps following."""
    reads = logs[1]
    turn = Published("t1", logs[0].open("t1"))
    turn.say("hello")
    await logs[0]._pump.flush(SOON_S)
    tab = await tab_at(reads, turn, 0)
    assert [frame.event for frame in await tab.read_all()] == ["delta"]
    await client.xadd(turn_key("t1"), {b"frame": b"id: t1:2\nevent: dance\ndata: {}\n\n"}, id="0-4")
    await client.xadd(turn_key("t1"), {b"frame": b"id: t1:3\nevent: delta\ndata: 7\n\n"}, id="0-6")
    snapshot = b'id: t1:4\nevent: snapshot\ndata: {"turn_id":"t1","content":"hi","steps":[],"sources":[]}\n\n'
    await client.xadd(turn_key("t1"), {b"snapshot": snapshot}, id="0-9")
    turn.states += [State(), State(), State("hi")]
    assert [(frame.event, frame.seq) for frame in await tab.read_all()] == [("snapshot", 4)]
    assert reads.healthy


async def test_a_death_of_what_carries_frames_can_be_seen(redis: RedisServer) -> None:
    """A bug in who hears a signal ends the task; the process says that it isn't healthy."""
    async with redis_log(redis.url, replica="five") as log, redis_log(redis.url, replica="six") as other:

        def fail(signal: Signal) -> None:
            raise RuntimeError("a bug")

        log.on_signal(fail)
        assert log.healthy
        with capture_logs() as logged:
            await other.ask_to_stop("five", "t1")
            await until(lambda: not log.healthy)
        assert other.healthy
        assert [(entry["event"], entry["task"]) for entry in logged] == [("live_log_task_died", "live log follower")]


async def test_without_redis_at_the_start_there_is_a_clear_refusal(redis: RedisServer) -> None:
    """Absent is not the same as away: somebody set a wrong address. The address's password isn't told."""
    free = RedisServer(redis._folder)
    log = RedisLog(f"redis://:secret-word@127.0.0.1:{free.port}/0", "one")
    with pytest.raises(LogUnavailable, match="TURNSTREAM_REDIS_URL doesn't answer") as refused:
        async with log.running():
            pass
    assert (refused.value.code, refused.value.status, refused.value.retry_after_s) == ("live_log_unavailable", 503, 1)
    assert "secret-word" not in str(refused.value)


def test_entry_ids_are_in_the_order_of_owners_then_seqs_then_what_a_snapshot_covers() -> None:
    """The fence: whatever an earlier owner adds is smaller than the first entry of the next."""
    ids = [
        EntryId.of_frame(0, 1),
        EntryId.of_snapshot(0, 1),
        EntryId.of_frame(0, 2),
        EntryId.of_frame(0, 999_999),
        EntryId.of_snapshot(1, 0),
        EntryId.of_frame(1, 1),
    ]
    assert ids == sorted(ids)
    assert [EntryId.parse(str(entry).encode()) for entry in ids] == ids
    assert [entry.seq for entry in ids] == [1, 1, 2, 999_999, 0, 1]
