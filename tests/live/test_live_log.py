"""The laws of the live log, for every implementation of the port."""

import asyncio

import pytest

from app.errors import TurnErrorCode
from app.live.frames import Conversation, Failed, Snapshot, Sources
from app.live.log import LAG_BYTES, LiveLog, Position
from tests.live.tabs import (
    DONE,
    SOON_S,
    LogFactory,
    Published,
    State,
    Tab,
    attach,
    begin,
    carried,
    source,
    step,
    tab_at,
)


def forty(log: LiveLog) -> Published:
    """A running turn of forty frames."""
    turn = begin(log)
    turn.append(Conversation("c1", "t1", "m0", "Who?"))
    turn.append(step(1, 0))
    turn.append(Sources((source(1),)))
    for n in range(37):
        turn.say(f"word {n} 🦀 ")
    return turn


async def test_frames_are_numbered_from_one_without_a_gap(log: LiveLog) -> None:
    """Law 1: the id is `<turn_id>:<seq>`; who was attached from the start gets every frame."""
    turn = begin(log)
    first = await tab_at(log, turn, 0)
    turn.append(Conversation("c1", "t1", "m0", "Who?"))
    for n in range(5):
        turn.say(f"{n}")
    turn.append(DONE)
    frames = await first.read_all()
    assert [frame.id for frame in frames] == [f"t1:{seq}" for seq in range(1, 8)]
    assert [frame.event for frame in frames] == ["conversation", *["delta"] * 5, "done"]
    assert (first.over, first.reader.finished) == (True, True)


@pytest.mark.parametrize("seq", [0, 1, 25, 39, 40])
async def test_a_position_in_the_log_goes_on_from_the_next_frame(log: LiveLog, seq: int) -> None:
    """Case S10: reconnect with 25 gives 26 to 40 exactly once, and then what follows."""
    turn = forty(log)
    again = await tab_at(log, turn, seq)
    assert [frame.seq for frame in await again.read_all()] == list(range(seq + 1, 41))
    turn.say("more")
    turn.append(DONE)
    assert [frame.seq for frame in await again.read_all()] == [41, 42]
    assert again.over


@pytest.mark.parametrize("after", [None, Position("t0", 25), Position("t1", 999), Position("t1", 41)])
async def test_no_foreign_and_no_future_position_gets_one_snapshot(log: LiveLog, after: Position | None) -> None:
    """Case S10: none, an id of the previous turn, 999, one too far: a snapshot that replaces, then what follows."""
    begin(log, turn_id="t0").append(DONE)
    turn = forty(log)
    late = await attach(log, turn, after)
    frames = await late.read_all()
    assert [(frame.event, frame.id) for frame in frames] == [("snapshot", "t1:40")]
    assert frames[0].data["turn_id"] == "t1"
    turn.say("more")
    assert [(frame.event, frame.id) for frame in await late.read_all()] == [("delta", "t1:41")]


async def test_an_expired_position_gets_a_snapshot(log: LiveLog) -> None:
    """Case S10: what the log has let go of can't be resumed from."""
    turn = begin(log)
    for _ in range(40):
        turn.say("x" * 100_000)
    late = await tab_at(log, turn, 1)
    assert [(frame.event, frame.id) for frame in await late.read_all()] == [("snapshot", "t1:40")]


async def test_what_is_still_in_the_log_can_be_resumed_from_after_older_frames_were_let_go(log: LiveLog) -> None:
    """Case S10: near the end of a long turn a position still gives the next frame, and none twice."""
    turn = begin(log)
    for _ in range(40):
        turn.say("x" * 100_000)
        await carried(log)
    for n in range(5):
        turn.say(f"word {n}")
    for seq in range(39, 46):
        again = await tab_at(log, turn, seq)
        assert [frame.id for frame in await again.read_all()] == [f"t1:{n}" for n in range(seq + 1, 46)]


async def test_a_reader_that_lags_gets_a_snapshot_and_slows_nobody(log: LiveLog) -> None:
    """Case S13: 5 MB pass one that does not read, while two others get every frame."""
    turn = begin(log)
    slow = await tab_at(log, turn, 0)
    others = [await tab_at(log, turn, 0) for _ in range(2)]
    for _ in range(100):
        turn.say("x" * 50_000)
        for other in others:
            await other.read_all()
    for other in others:
        assert [(frame.event, frame.seq) for frame in other.frames] == [("delta", seq) for seq in range(1, 101)]
    assert [(frame.event, frame.id) for frame in await slow.read_all()] == [("snapshot", "t1:100")]
    turn.append(DONE)
    assert [frame.event for frame in await slow.read_all()] == ["done"]


async def test_a_reader_just_within_the_lag_gets_its_frames(log: LiveLog) -> None:
    """Law 4: a snapshot only beyond LAG_BYTES."""
    turn = begin(log)
    near, far = [await tab_at(log, turn, 0) for _ in range(2)]
    while turn.behind(0) <= LAG_BYTES - 11_000:
        turn.say("x" * 10_000)
    assert {frame.event for frame in await near.read_all()} == {"delta"}
    turn.say("x" * 10_000)
    turn.say("x" * 10_000)
    assert turn.behind(0) > LAG_BYTES
    assert [frame.event for frame in await far.read_all()] == ["snapshot"]


async def test_a_snapshot_for_a_laggard_of_a_finished_turn_is_followed_by_its_end(log: LiveLog) -> None:
    """Case S13: who fell behind is never told less than that the turn is over."""
    turn = begin(log)
    slow = await tab_at(log, turn, 0)
    for _ in range(10):
        turn.say("x" * 100_000)
    turn.append(DONE)
    assert [(frame.event, frame.id) for frame in await slow.read_all()] == [("snapshot", "t1:10"), ("done", "t1:11")]
    assert (slow.over, slow.reader.finished) == (True, True)


async def test_after_the_terminal_frame_nothing_can_be_appended(log: LiveLog) -> None:
    """Law 5."""
    turn = begin(log)
    turn.append(Failed(TurnErrorCode.INTERNAL, "x", retryable=True))
    with pytest.raises(RuntimeError, match="after the terminal frame"):
        turn.writer.append(DONE)


async def test_a_late_tab_gets_the_terminal_frame(log: LiveLog) -> None:
    """Law 5: with a position just that, without one a snapshot before it; who has it has nothing to wait for."""
    turn = forty(log)
    turn.append(DONE)
    resumed = await tab_at(log, turn, 40)
    assert not resumed.reader.finished
    assert [(frame.event, frame.id) for frame in await resumed.read_all()] == [("done", "t1:41")]
    fresh = await attach(log, turn, None)
    assert [(frame.event, frame.id) for frame in await fresh.read_all()] == [("snapshot", "t1:40"), ("done", "t1:41")]
    assert all(late.over and late.reader.finished for late in (resumed, fresh))
    assert await log.attach("t1", Position("t1", 41), running=False) is None


async def test_a_turn_of_which_nothing_is_left_has_nothing_to_attach_to(log: LiveLog) -> None:
    """DESIGN 5: the caller then sends `idle`, or what was stored."""
    for after in (None, Position("t1", 0), Position("t1", 3)):
        assert await log.attach("t1", after, running=False) is None
    assert list(log.followed()) == []


async def test_the_log_of_a_finished_turn_expires_and_who_is_attached_reads_on(factory: LogFactory) -> None:
    """Law 5: kept for a while, then forgotten; a running turn is kept however long it takes."""
    async with factory(0.2) as log:
        running = begin(log, "t2")
        running.say("on")
        turn = forty(log)
        attached = await tab_at(log, turn, 10)
        turn.append(DONE)
        await attached.arrived()
        async with asyncio.timeout(SOON_S):
            while (late := await log.attach("t1", None, running=False)) is not None:
                late.close()
                await asyncio.sleep(0.01)
        assert [frame.seq for frame in await attached.read_all()] == list(range(11, 42))
        assert [frame.event for frame in await (await attach(log, running, None)).read_all()] == ["snapshot"]
        running.append(DONE)


async def test_attaching_means_the_turn_that_is_named(log: LiveLog) -> None:
    """Readers of an old turn end with it; a new one's are told its own story."""
    first = begin(log)
    first.say("old")
    old = await attach(log, first, None)
    first.append(DONE)
    second = begin(log, turn_id="t2")
    second.say("new")
    new = await attach(log, second, Position("t1", 1))
    assert [(frame.event, frame.id) for frame in await new.read_all()] == [("snapshot", "t2:1")]
    assert [frame.event for frame in await old.read_all()] == ["snapshot", "done"]
    again = await tab_at(log, first, 0)
    assert [frame.id for frame in await again.read_all()] == ["t1:1", "t1:2"]


async def test_a_snapshot_of_a_take_over_replaces_what_readers_had(log: LiveLog) -> None:
    """DESIGN 5: `snapshot` is also a frame of the turn, and later tabs start from it."""
    turn = forty(log)
    attached = await tab_at(log, turn, 38)
    turn.take_over(log)
    turn.say("on")
    assert [frame.event for frame in await attached.read_all()] == ["delta", "delta", "snapshot", "delta"]
    fresh = await attach(log, turn, None)
    await fresh.read_all()
    assert fresh.state == attached.state == turn.states[-1]


async def test_a_waiting_reader_is_woken_by_a_frame(log: LiveLog) -> None:
    """Frames reach a tab when they are published."""
    turn = begin(log)
    waiting = await tab_at(log, turn, 0)
    read = asyncio.create_task(waiting.read(30))
    await asyncio.sleep(0)
    turn.say("a")
    turn.say("b")
    async with asyncio.timeout(SOON_S):
        assert [frame.seq for frame in [*await read, *await waiting.read_all()]] == [1, 2]


async def test_a_quiet_turn_gives_nothing_after_the_timeout(log: LiveLog) -> None:
    """So that the caller can send a heartbeat; the reader stays attached."""
    turn = begin(log)
    quiet = await tab_at(log, turn, 0)
    assert await quiet.reader.read(0.001) == b""
    assert not quiet.reader.finished
    turn.say("a")
    assert [frame.seq for frame in await quiet.read_all()] == [1]


async def test_a_cancelled_read_loses_nothing(log: LiveLog) -> None:
    """A caller may give up waiting and read again."""
    turn = begin(log)
    reader = await tab_at(log, turn, 0)
    read = asyncio.create_task(reader.reader.read(30))
    await asyncio.sleep(0)
    read.cancel()
    with pytest.raises(asyncio.CancelledError):
        await read
    turn.say("a")
    assert [frame.seq for frame in await reader.read_all()] == [1]


async def test_closing_a_reader_ends_its_pending_read_and_no_other(log: LiveLog) -> None:
    """Detaching is safe at any time, and twice."""
    turn = begin(log)
    one, other = [await tab_at(log, turn, 0) for _ in range(2)]
    read = asyncio.create_task(one.reader.read(30))
    await asyncio.sleep(0)
    one.reader.close()
    one.reader.close()
    async with asyncio.timeout(SOON_S):
        assert await read is None
    turn.say("a")
    assert await one.reader.read(0) is None
    assert not one.reader.finished
    assert [frame.seq for frame in await other.read_all()] == [1]


async def test_closing_all_readers_leaves_turns_running(log: LiveLog) -> None:
    """At shutdown open streams end, while a turn still finishes."""
    turn = forty(log)
    tabs = [await tab_at(log, turn, 40) for _ in range(3)]
    reads = [asyncio.create_task(attached.reader.read(30)) for attached in tabs]
    await asyncio.sleep(0)
    log.close_readers()
    async with asyncio.timeout(SOON_S):
        assert await asyncio.gather(*reads) == [None, None, None]
    turn.say("more")
    turn.append(DONE)
    late = await tab_at(log, turn, 40)
    assert [frame.seq for frame in await late.read_all()] == [41, 42]


async def test_a_tab_may_come_before_the_turn_and_gets_every_frame(log: LiveLog) -> None:
    """The database says that it runs: who has seen nothing gets all from the first frame, anybody else a snapshot."""
    first, other = [await log.attach("t1", Position("t1", seq), running=True) for seq in (0, 7)]
    assert first is not None
    assert other is not None
    assert [await first.read(0), await other.read(0)] == [b"", b""]
    assert list(log.followed()) == ["t1"]
    turn = forty(log)
    tabs = Tab(turn, first, 0), Tab(turn, other, None)
    assert [frame.seq for frame in await tabs[0].read_all()] == list(range(1, 41))
    await tabs[1].read_all()
    assert other.finished is False
    assert tabs[1].frames[0].event == "snapshot"
    turn.append(DONE)
    assert [[frame.event for frame in await tab.read_all()] for tab in tabs] == [["done"], ["done"]]
    assert list(log.followed()) == []


async def test_a_turn_that_never_comes_is_forgotten_with_its_last_reader(log: LiveLog) -> None:
    """Nothing is left of a wait in vain."""
    readers = [await log.attach("t1", None, running=True) for _ in range(2)]
    for reader in readers:
        assert list(log.followed()) == ["t1"]
        assert reader is not None
        reader.close()
    assert list(log.followed()) == []
    assert await log.attach("t1", None, running=False) is None


async def test_a_new_owner_goes_on_with_the_numbers(log: LiveLog) -> None:
    """Laws 1 and 3: who is attached gets the new owner's frames; a position that two may have given out a snapshot."""
    turn = forty(log)
    attached = await tab_at(log, turn, 30)
    turn.take_over(log)
    for n in range(5):
        turn.say(f"anew {n}")
    assert [frame.id for frame in await attached.read_all()] == [f"t1:{seq}" for seq in range(31, 47)]
    seen: dict[int, list[str]] = {}
    for seq in (38, 39, 40, 41, 45):
        again = await attach(log, turn, Position("t1", seq), seen=seq)
        seen[seq] = [frame.id for frame in await again.read_all()]
        assert again.state == turn.states[-1]
    later = [f"t1:{seq}" for seq in range(41, 47)]
    assert seen == {38: ["t1:39", "t1:40", *later], 39: ["t1:40", *later], 40: later, 41: ["t1:46"], 45: ["t1:46"]}
    assert await log.last_seq("t1") == 46


async def test_an_owner_that_knows_only_a_number_begins_with_a_snapshot(log: LiveLog) -> None:
    """Law 1: after 40 comes 41, and who waits is told everything by it."""
    waiting = [await log.attach("t1", after, running=True) for after in (None, Position("t1", 0), Position("t1", 40))]
    writer = log.open("t1", attempt=1, after_seq=40)
    assert writer.next_seq == 41
    with pytest.raises(RuntimeError, match="begins with a frame that replaces"):
        writer.append(DONE)
    turn = Published("t1", writer, [State()] * 41, [0] * 41, attempt=1, sure_to=40)
    turn.append(Snapshot("t1", "Two", (), ()))
    turn.say(" people")
    for reader in waiting:
        assert reader is not None
        tab = Tab(turn, reader, None)
        await tab.read_all()
        assert (tab.frames[0].event, tab.state) == ("snapshot", State("Two people"))
    late = await tab_at(log, turn, 40)
    assert [frame.id for frame in await late.read_all()] == ["t1:41", "t1:42"]


async def test_a_deleted_turns_log_is_not_kept(log: LiveLog) -> None:
    """Law 5 ends where the conversation is deleted: a late tab gets nothing, and who still reads is ended."""
    turn = begin(log)
    turn.say("secret")
    tab = await attach(log, turn, None)
    await tab.read_all()
    turn.append(DONE)
    await carried(log)
    await log.forget(["t1", "unknown"])
    assert await log.attach("t1", None, running=False) is None


async def test_an_abandoned_turn_ends_its_readers_without_an_end(log: LiveLog) -> None:
    """They come back, to wherever the turn is now."""
    turn = forty(log)
    tabs = [await tab_at(log, turn, seq) for seq in (10, 40)]
    read = asyncio.create_task(tabs[1].reader.read(30))
    await asyncio.sleep(0)
    log.abandon("t1")
    log.abandon("t1")
    async with asyncio.timeout(SOON_S):
        assert [await tabs[0].reader.read(30), await read] == [None, None]
    assert [tab.reader.finished for tab in tabs] == [False, False]
    assert list(log.followed()) == []


@pytest.mark.parametrize(
    ("header", "position"),
    [
        ("t1:25", Position("t1", 25)),
        (" t1:25 ", Position("t1", 25)),
        ("t1:0", Position("t1", 0)),
        ("a:b:3", Position("a:b", 3)),
        (None, None),
        ("", None),
        ("25", None),
        (":25", None),
        ("t1:", None),
        ("t1:-1", None),
        ("t1:2.5", None),
        ("t1:x", None),
        ("t1:٢", None),
        ("t1:" + "9" * 13, None),
    ],
)
def test_a_last_event_id_is_a_turn_and_a_number_or_nothing(header: str | None, position: Position | None) -> None:
    """Case S10: whatever else a client sends is as good as none."""
    assert Position.parse(header) == position
