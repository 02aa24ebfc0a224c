"""The live log while Redis is killed, paused, empty or away: the turn goes on, and every tab ends with all of it."""

# A test may look inside.
# pyright: reportPrivateUsage=false

import asyncio
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio.connection import AbstractConnection

from app.live.log import LogUnavailable, Signal, StopAsked
from app.live.redis_keys import TIMEOUT_S
from app.live.redis_streams import RedisLog
from tests.harness.redis import RedisServer, redis_server
from tests.live.tabs import DONE, SOON_S, Published, Tab, attach, begin, redis_log, tab_at


@dataclass
class Scene:
    """A running turn on a server of the test's own, with a tab at its owner and one elsewhere."""

    server: RedisServer
    writes: RedisLog
    reads: RedisLog
    turn: Published
    near: Tab
    far: Tab

    async def say(self, *texts: str) -> None:
        """Law 6: publishing doesn't wait, and the owner's tab has each frame at once."""
        for text in texts:
            self.turn.say(text)
            assert [frame.seq for frame in await self.near.read()] == [self.turn.seq]

    async def far_reads_to_the_end(self) -> None:
        async with asyncio.timeout(3 * SOON_S):
            while not self.far.over:
                await self.far.read(SOON_S)


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncGenerator[Scene]:
    async with (
        redis_server(tmp_path) as server,
        redis_log(server.url, replica="one") as writes,
        redis_log(server.url, replica="two") as reads,
    ):
        turn = begin(writes)
        near = await tab_at(writes, turn, 0)
        turn.say("begun ")
        await near.read()
        await writes._pump.flush(SOON_S)
        far = await tab_at(reads, turn, 0)
        await far.read_all()
        yield Scene(server, writes, reads, turn, near, far)


async def test_a_write_to_a_connection_that_closed_a_moment_ago_is_redis_being_away(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bare RuntimeError is uvloop's word for it; what carries frames must not end of it for good."""
    real, left = AbstractConnection.send_packed_command, [6]

    async def closed(self: Any, *given: Any, **named: Any) -> None:
        if left[0]:
            left[0] -= 1
            raise RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed")
        await real(self, *given, **named)

    monkeypatch.setattr(AbstractConnection, "send_packed_command", closed)
    scene.server.kill()
    scene.server.start()
    await scene.say("one ")
    await scene.far.arrived()
    assert left == [0]
    assert (scene.writes.healthy, scene.reads.healthy) == (True, True)
    scene.turn.append(DONE)
    await scene.far_reads_to_the_end()
    assert scene.far.state.content == "begun one "


async def test_redis_dies_and_comes_back_empty_in_the_middle_of_a_turn(scene: Scene) -> None:
    """The owner's tab notices nothing, the other gets a snapshot and then the rest; a new one the same."""
    scene.server.kill()
    await scene.say("one ", "two ")
    await until_unreachable(scene.writes)
    await scene.say("three ")
    scene.server.start()
    await scene.far.arrived()
    assert [(frame.event, frame.seq) for frame in await scene.far.read()] == [("snapshot", 4)]
    new = await attach(scene.reads, scene.turn, None)
    await scene.say("four")
    scene.turn.append(DONE)
    await scene.far_reads_to_the_end()
    assert [frame.event for frame in scene.far.frames] == ["delta", "snapshot", "delta", "done"]
    assert [frame.event for frame in scene.near.frames] == ["delta"] * 5
    await new.read_all()
    assert new.state == scene.far.state == scene.turn.states[-1]
    assert (scene.writes.healthy, scene.reads.healthy) == (True, True)


async def until_unreachable(log: RedisLog) -> None:
    async with asyncio.timeout(SOON_S):
        while not log._pump._failures:
            await asyncio.sleep(0.002)


async def test_a_turn_ends_while_redis_is_away_and_its_far_tab_is_told_when_it_is_back(scene: Scene) -> None:
    """A terminal frame is worth carrying as long as the log of a finished turn is kept."""
    scene.server.kill()
    await scene.say("one ")
    scene.turn.append(DONE)
    await until_unreachable(scene.writes)
    assert [frame.event for frame in await scene.near.read_all()] == ["done"]
    scene.server.start()
    await scene.far_reads_to_the_end()
    assert [(frame.event, frame.seq) for frame in scene.far.frames[1:]] == [("snapshot", 2), ("done", 3)]
    assert scene.far.reader.finished
    late = await attach(scene.reads, scene.turn, None)
    assert [frame.event for frame in await late.read_all()] == ["snapshot", "done"]


async def test_redis_stands_still_longer_than_a_command_may_take(scene: Scene) -> None:
    """Its answers come when nobody waits for them any more, and frames that were given up were written after all."""
    scene.server.pause()
    started = time.monotonic()
    await scene.say(*[f"{n} " for n in range(200)])
    assert time.monotonic() - started < TIMEOUT_S
    await until_unreachable(scene.writes)
    await scene.say("more ")
    scene.server.go_on()
    await scene.say("and more")
    scene.turn.append(DONE)
    await scene.far_reads_to_the_end()
    assert scene.far.state == scene.turn.states[-1]
    assert scene.far.reader.finished


async def test_a_tab_elsewhere_is_refused_while_redis_is_away_unless_the_turn_is_followed(scene: Scene) -> None:
    """What is in this process is served; for the rest the caller is asked to come back."""
    elsewhere = begin(scene.writes, "t2")
    elsewhere.say("hello")
    await scene.writes._pump.flush(SOON_S)
    scene.server.kill()
    with pytest.raises(LogUnavailable, match="Try again"):
        await scene.reads.attach("t2", None, running=True)
    assert list(scene.reads.followed()) == ["t1"]
    assert await scene.reads.last_seq("t1") == 1
    assert await scene.reads.last_seq("t2") == 0
    second = await attach(scene.reads, scene.turn, None)
    assert [frame.event for frame in await second.read()] == ["snapshot"]
    own = await attach(scene.writes, elsewhere, None)
    assert [frame.event for frame in await own.read()] == ["snapshot"]
    await scene.reads.ask_to_stop("one", "t1")
    await scene.reads.tell_released()
    scene.server.start()
    third = await attach(scene.reads, elsewhere, None)
    await third.read_all()
    assert third.state == elsewhere.states[-1]


async def test_signals_are_heard_again_after_redis_came_back_empty(scene: Scene) -> None:
    """Whatever a new server's clock says."""
    heard: list[Signal] = []
    scene.writes.on_signal(heard.append)
    await scene.reads.ask_to_stop("one", "t1")
    async with asyncio.timeout(SOON_S):
        while not heard:
            await asyncio.sleep(0.002)
        scene.server.kill()
        scene.server.start()
        await scene.reads.ask_to_stop("one", "t2")
        while len(heard) < 2:
            await asyncio.sleep(0.002)
    assert heard == [StopAsked("t1"), StopAsked("t2")]


async def test_the_end_of_a_process_waits_only_so_long_for_redis(tmp_path: Path) -> None:
    """A drain isn't held up by a server that is gone."""
    async with redis_server(tmp_path) as server:
        async with redis_log(server.url) as log:
            begin(log).say("hello")
            server.kill()
            started = time.monotonic()
        assert time.monotonic() - started < SOON_S
