"""Redis or Postgres killed, cut off or mute in the middle of a turn: the turn goes on, and every tab ends with all of it.

Issue 5 items 1 and 5, decision 0015, case D08.
"""

import asyncio
import time
from pathlib import Path

import httpx
import pytest

from app.store import migrate
from app.store.embedded import EmbeddedConfig, EmbeddedPostgres
from tests.harness.cluster import SKIP, Cluster, Member, attempts, both_tabs, by_progress, running_cluster
from tests.harness.redis import redis_server
from tests.harness.scripted_endpoint import Body, Reply, Script, event, finish, stream
from tests.harness.tab import Tab

QUICK_S = 3.0
"""A stop that travels takes less; one that is heard at a renewal can't be relied on to."""
RENEWED_S = 8.0
"""A renewal comes every 5 s."""


class Steps:
    """An answer in parts, each said when the test says so."""

    def __init__(self, cluster: Cluster, *parts: str) -> None:
        self.gates = [asyncio.Event() for _ in parts]
        gated = [
            piece for gate, part in zip(self.gates, parts, strict=True) for piece in (gate, event({"content": part}))
        ]
        self.script: Script = cluster.endpoint.script(by_progress(SKIP, stream(*gated, finish())))

    def say(self, number: int) -> None:
        self.gates[number].set()


async def begun(cluster: Cluster, tabs: asyncio.TaskGroup, steps: Steps) -> tuple[Tab, Tab]:
    """A tab at the owner and one elsewhere, both with the first part."""
    near, far = await both_tabs(cluster, tabs, f"Count {steps.script}")
    steps.say(0)
    for tab in (near, far):
        await tab.until(lambda tab=tab: tab.content == "One ")
    return near, far


def unbroken(tab: Tab) -> None:
    """The tab noticed nothing: one connection, and no snapshot after its first frame."""
    assert (tab.connections, tab.breaks) == (1, 0)
    assert "snapshot" not in tab.events[1:]


async def test_redis_is_killed_and_started_again_empty(pair: Cluster) -> None:
    """The owner's tab doesn't notice; the one elsewhere is given a snapshot, and then what follows."""
    steps = Steps(pair, "One ", "two ", "three.")
    async with asyncio.TaskGroup() as tabs:
        near, far = await begun(pair, tabs, steps)
        await asyncio.to_thread(pair.redis.kill)
        steps.say(1)
        await near.until(lambda: near.content == "One two ")
        assert far.content == "One "
        await asyncio.to_thread(pair.redis.start)
        await far.until(lambda: far.content == "One two ")
        assert far.events[-1] == "snapshot"
        steps.say(2)
    unbroken(near)
    assert far.connections == 1
    assert near.content == "One two three."
    await pair.check(near, far)


async def test_redis_is_killed_and_stays_away(pair: Cluster) -> None:
    """The answer is saved, and the tab elsewhere gets its end from the row."""
    steps = Steps(pair, "One ", "two.")
    async with asyncio.TaskGroup() as tabs:
        near, far = await begun(pair, tabs, steps)
        await asyncio.to_thread(pair.redis.kill)
        steps.say(1)
    unbroken(near)
    assert near.content == "One two."
    await pair.check(near, far)


@pytest.mark.parametrize("member", [0, 1], ids=["the owner", "the other"])
@pytest.mark.parametrize("how", ["cut", "mute"])
async def test_one_replica_is_cut_off_from_redis(pair: Cluster, member: int, how: str) -> None:
    """Connections break, or nothing passes any more; when the way is mended the tab elsewhere catches up."""
    way = pair.members[member].redis
    steps = Steps(pair, "One ", "two ", "three.")
    async with asyncio.TaskGroup() as tabs:
        near, far = await begun(pair, tabs, steps)
        if how == "cut":
            way.cut()
        else:
            way.pause()
        steps.say(1)
        await near.until(lambda: near.content == "One two ")
        assert far.content == "One "
        way.mend()
        await far.until(lambda: far.content == "One two ")
        steps.say(2)
    unbroken(near)
    assert near.content == "One two three."
    await pair.check(near, far)


async def stop(through: Member, tab: Tab) -> httpx.Response:
    path = f"/api/conversations/{tab.conversation_id}/stop"
    return await through.http.post(path, json={"turn_id": tab.turn_id})


async def test_a_stop_through_another_replica_is_quick(pair: Cluster) -> None:
    """It travels to the owner; a second one is harmless, a late one changes nothing (case D08)."""
    steps = Steps(pair, "One ", "two.")
    async with asyncio.TaskGroup() as tabs:
        near, far = await begun(pair, tabs, steps)
        asked = time.monotonic()
        statuses = [(await stop(pair.members[1], near)).status_code for _ in range(2)]
        await near.until(lambda: near.ended)
        assert time.monotonic() - asked < QUICK_S
    assert statuses[0] == 202
    assert statuses[1] in (202, 409)
    assert (near.content, near.terminal.data["stopped"]) == ("One ", True)
    assert (await stop(pair.members[1], near)).status_code == 409
    await pair.check(near, far)
    await pair.usable(near, pair.members[1])


@pytest.mark.parametrize("how", ["killed", "cut off from the owner"])
async def test_a_stop_is_heard_without_redis(pair: Cluster, how: str) -> None:
    """The mark in the row is enough: the owner reads it when it renews its lease (case D08)."""
    steps = Steps(pair, "One ", "two.")
    async with asyncio.TaskGroup() as tabs:
        near, far = await begun(pair, tabs, steps)
        if how == "killed":
            await asyncio.to_thread(pair.redis.kill)
        else:
            pair.members[0].redis.cut()
        asked = time.monotonic()
        assert (await stop(pair.members[1], near)).status_code == 202
        await near.until(lambda: near.ended)
        assert time.monotonic() - asked < RENEWED_S
    assert (near.content, near.terminal.data["stopped"]) == ("One ", True)
    unbroken(near)
    await pair.check(near, far)


async def test_the_way_to_postgres_breaks_before_the_save(pair: Cluster) -> None:
    """The save is tried again until it succeeds, and only then do tabs hear of the end."""
    way = pair.members[0].postgres
    steps = Steps(pair, "One ", "two.")
    async with asyncio.TaskGroup() as tabs:
        near, far = await begun(pair, tabs, steps)
        way.cut()
        refused = way.connections
        steps.say(1)
        async with asyncio.timeout(10):
            while way.connections < refused + 10:  # a try to save may take several, as may others' doings
                await asyncio.sleep(0.02)
        assert (near.content, near.ended, far.ended) == ("One two.", False, False)
        way.mend()
    unbroken(near)
    assert near.terminal.event == "done"
    await pair.check(near, far)


async def test_an_owner_that_postgres_and_redis_can_not_hear_is_overtaken_and_silenced(pair: Cluster) -> None:
    """It writes on while another goes on with its turn: one answer is stored, and its own tab ends with that one."""
    owner = pair.members[0]
    lost, mended = asyncio.Event(), asyncio.Event()

    def reply(body: Body) -> Reply:
        if (due := first(body)) is not answer:
            return due
        return answer if len(script.requests) < 3 else others

    answer = stream(event({"content": "One "}), lost, event({"content": "mine."}), finish())
    others = stream(event({"content": "Two, "}), mended, event({"content": "not yours."}), finish())
    first = by_progress(SKIP, answer)
    script = pair.endpoint.script(reply)
    async with asyncio.TaskGroup() as tabs:
        near, far = await both_tabs(pair, tabs, f"Count {script}")
        for tab in (near, far):
            await tab.until(lambda tab=tab: tab.content == "One ")
        await pair.until_row(
            "SELECT 1 FROM turns WHERE checkpoint IS NOT NULL AND id = CAST(:t AS uuid)", t=near.turn_id
        )
        owner.postgres.pause()
        owner.redis.pause()
        await pair.lapse(owner)
        await far.until(lambda: far.content == "Two, ")
        lost.set()
        await near.until(lambda: near.content == "One mine.")
        assert not near.ended
        owner.postgres.mend()
        owner.redis.mend()
        await near.until(lambda: near.content == "Two, ")
        mended.set()
    assert near.content == "Two, not yours."
    await pair.check(near, far)
    assert await attempts(pair, near) == (1, 1)


async def test_postgres_is_restarted_in_the_middle_of_a_turn(folder: Path) -> None:
    """Every connection breaks and none is taken for a while; the turn notices nothing, and is saved after it."""
    config = EmbeddedConfig(folder, durable=False)
    postgres = await asyncio.to_thread(EmbeddedPostgres.start, config)
    try:
        await asyncio.to_thread(migrate.upgrade, postgres.url)
        async with (
            redis_server(folder) as redis,
            running_cluster(folder, postgres.url, redis, count=1) as cluster,
            asyncio.TaskGroup() as tabs,
        ):
            steps = Steps(cluster, "One ", "two.")
            tab = cluster.tab(cluster.members[0])
            tabs.create_task(tab.ask(f"Count {steps.script}"))
            steps.say(0)
            await tab.until(lambda: tab.content == "One ")
            await asyncio.to_thread(postgres.stop)
            steps.say(1)
            await tab.until(lambda: tab.content == "One two.")
            assert not tab.ended
            assert (await cluster.members[0].http.get("/readyz")).status_code == 503
            postgres = await asyncio.to_thread(EmbeddedPostgres.start, config)
            await tab.until(lambda: tab.ended)
            unbroken(tab)
            await cluster.check(tab)
            await cluster.usable(tab, cluster.members[0])
    finally:
        await asyncio.to_thread(postgres.stop)
