"""What only the log in memory promises: how much it keeps, and what it counts for the metrics."""

import asyncio

import pytest

from app.live.frames import Delta
from app.live.log import Position
from app.live.memory import MemoryLog
from app.live.memory_turn import FEW, LOG_BYTES
from tests.live.tabs import DONE, SOON_S, Published, attach, begin


async def test_a_turn_keeps_a_bounded_part_of_its_frames() -> None:
    """Case S13: 20 MB pass, read by nobody, and what is kept stays flat."""
    turn = MemoryLog().open("t1")
    text = "x" * 10_000
    oldest, most = 0, 0
    for n in range(2_000):
        turn.append(Delta(n * len(text), text))
        while not turn.holds_after(oldest):
            oldest += 1
        most = max(most, turn.seq - oldest)
    assert LOG_BYTES < most * len(text) < 2.1 * LOG_BYTES
    assert [turn.holds_after(seq) for seq in (0, oldest - 1, oldest, 2_000, 2_001)] == [False, False, True, True, False]


async def test_one_frame_larger_than_the_log_is_kept_and_read() -> None:
    """Forgetting the old never forgets the newest."""
    log = MemoryLog()
    turn = log.open("t1")
    reader = await log.attach("t1", Position("t1", 0), running=True)
    assert reader is not None
    for n in range(3):
        turn.append(Delta(n * 3 * LOG_BYTES, "x" * 3 * LOG_BYTES))
        data = await reader.read(0)
        assert data is not None
        assert data.startswith(b"id: t1:%d\nevent: delta\n" % (n + 1))
    assert [turn.holds_after(seq) for seq in range(5)] == [False, False, True, True, False]


@pytest.mark.parametrize(("tabs", "writes"), [(FEW, 3), (FEW + 1, 1)])
async def test_many_tabs_are_given_what_a_moment_brings_in_one_piece(tabs: int, writes: int) -> None:
    """A few are given each frame as it comes; either way all of them, once and in order, and then the end."""
    log = MemoryLog()
    turn = begin(log)
    readers = [await log.attach("t1", Position("t1", 0), running=True) for _ in range(tabs)]
    pieces: list[list[bytes]] = [[] for _ in readers]

    async def read(n: int) -> None:
        reader = readers[n]
        assert reader is not None
        while (data := await reader.read(30)) is not None:
            pieces[n].append(data)

    reading = [asyncio.create_task(read(n)) for n in range(tabs)]
    await asyncio.sleep(0)
    for word in ("a", "b"):
        turn.say(word)
        for _ in range(3):
            await asyncio.sleep(0)
    turn.append(DONE)
    async with asyncio.timeout(SOON_S):
        await asyncio.gather(*reading)
    assert [len(each) for each in pieces] == [writes] * tabs
    assert {b"".join(each).count(b"id: t1:") for each in pieces} == {3}
    assert len({b"".join(each) for each in pieces}) == 1


async def test_turns_and_readers_are_counted() -> None:
    """For the metrics: live turns are those without a terminal frame, readers those that are attached."""
    log = MemoryLog()
    turns = [log.open(f"t{n}") for n in range(3)]
    readers = [await log.attach(f"t{n}", None, running=True) for n in range(3)]
    assert (log.live_turns, log.attached_readers) == (3, 3)
    turns[0].append(DONE)
    for reader in readers[:2]:
        assert reader is not None
        reader.close()
    assert (log.live_turns, log.attached_readers) == (2, 1)
    log.close_readers()
    assert (log.live_turns, log.attached_readers) == (2, 0)


async def test_a_snapshot_of_a_turn_without_frames_is_empty_and_can_be_resumed() -> None:
    """A tab that comes to the owner before the first frame misses nothing."""
    log = MemoryLog()
    turn: Published = begin(log)
    early = await attach(log, turn, None)
    assert [(frame.event, frame.id) for frame in await early.read_all()] == [("snapshot", "t1:0")]
    turn.say("first")
    again = await attach(log, turn, Position("t1", 0), seen=0)
    assert [frame.id for frame in await again.read_all()] == ["t1:1"]
    assert [frame.id for frame in await early.read_all()] == ["t1:1"]
