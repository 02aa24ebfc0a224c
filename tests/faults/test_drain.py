"""SIGTERM: what runs is finished or handed over, nothing is lost, and a load balancer sees it in time. Issue 5 item 4."""

import asyncio
import signal
from pathlib import Path

import pytest

from tests.harness.cluster import SKIP, Cluster, attempts, both_tabs, by_progress, running_cluster
from tests.harness.postgres import PostgresServer
from tests.harness.redis import redis_server
from tests.harness.scripted_endpoint import Reply, event, finish, stream
from tests.harness.tab import Tab

TURNS = 30
WORDS = 60
PACE_S = 0.05


async def test_a_replica_that_drains_says_so_with_its_listener_open_and_a_second_signal_ends_it(pair: Cluster) -> None:
    """Refusals say when to come back; its turn goes on elsewhere, and no owner died."""
    owner, other = pair.members
    gate = asyncio.Event()
    answer = stream(event({"content": "Half an "}), gate, event({"content": "answer."}), finish())
    script = pair.endpoint.script(by_progress(SKIP, answer))
    async with asyncio.TaskGroup() as tabs:
        near, far = await both_tabs(pair, tabs, f"Tell me {script}")
        await near.until(lambda: near.content == "Half an ")
        owner.running.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(5):
            while (ready := await owner.http.get("/readyz")).json()["status"] != "shutting down":
                await asyncio.sleep(0.01)
        assert ready.status_code == 503
        assert ready.headers["retry-after"] == "2"
        live = f"/api/conversations/{near.conversation_id}/live"
        for refused in (await owner.http.post("/api/chat", json={"message": "Hello"}), await owner.http.get(live)):
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "draining")
            assert int(refused.headers["retry-after"]) > 0
        assert (await owner.http.get("/healthz")).status_code == 200
        assert (await other.http.get("/readyz")).status_code == 200
        assert await owner.end() == 0  # the second signal; without it the turn had 30 s
        await script.request(2)
        gate.set()
    assert near.content == "Half an answer."
    assert (near.breaks, far.breaks) == (0, 0)
    await pair.check(near, far)
    assert await attempts(pair, near) == (1, 0)


@pytest.mark.timeout(180)
async def test_a_rolling_restart_under_load_loses_no_turn_and_no_character(
    postgres: PostgresServer, folder: Path
) -> None:
    """Three replicas, one after the other, with thirty turns under way; no tab sees an error or a broken stream."""
    async with (
        redis_server(folder) as redis,
        postgres.new_database() as url,
        running_cluster(folder, url, redis, count=3, proxied=False, drain_s="0.2") as cluster,
    ):
        asked: list[Tab] = []
        async with asyncio.TaskGroup() as tabs:
            for number in range(TURNS):
                words = [event({"content": f"{number}:{word} "}) for word in range(WORDS)]
                answer = Reply((*words, finish()), headers=SKIP.headers, pace_s=PACE_S)
                script = cluster.endpoint.script(by_progress(SKIP, answer))
                tab = cluster.tab(cluster.members[number % 3])
                tabs.create_task(tab.ask(f"Count {script}"))
                asked.append(tab)
            for tab in asked:
                await tab.until(lambda tab=tab: tab.content != "")
            for member in cluster.members:
                assert await member.end() == 0
                await member.start()
        for number, tab in enumerate(asked):
            assert tab.content == "".join(f"{number}:{word} " for word in range(WORDS))
            assert tab.terminal.event == "done"
        await cluster.check(*asked)
        handed_over = await cluster.rows("SELECT max(attempt) AS most, max(deaths) AS deaths FROM turns")
        assert handed_over[0].deaths == 0
        assert handed_over[0].most > 0
        await cluster.usable(asked[0], cluster.members[0])
