"""Any replica serves any tab, and no two of them do one thing twice. Issue 5, cases D06 S06 S09 S10 S11 S13."""

import asyncio
import json
import os
import random
import re
import socket
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import text as sql

from app.store.engine import Database
from app.store.leases import take
from app.store.turns import admit
from tests.harness.app import new_turn
from tests.harness.cluster import SKIP, Cluster, Member, attempts, both_tabs, by_progress, held
from tests.harness.scripted_endpoint import Reply, event, finish, stream, text
from tests.harness.tab import Tab

LOST = 90
TAKEN_S = 9.0
"""A process takes 20 at a time, and looks every 5 s unless there may be more: without that it would take 10 s."""
SKEW_S = 30
SLOW_BYTES = 10
PIECES = 640
"""Of 16 KiB each: more than the kernel may keep for one connection (4 MiB)."""
RSS_BYTES = 100_000_000
"""What is kept for all readers is a few times what passes."""


async def test_turns_that_two_replicas_race_for_are_each_taken_by_one(pair: Cluster) -> None:
    """Ninety turns of a process that is gone: one outcome each, and at once, not twenty at a time."""
    scripts = [pair.endpoint.script(by_progress(SKIP, text(f"Answer {n}."))) for n in range(LOST)]
    turns = [new_turn(f"Question {script}", replica="dead") for script in scripts]
    for turn in turns:
        await admit(pair.database, turn)
    await pair.lapse()
    ids = [turn.turn_id for turn in turns]
    await pair.until_row(
        "SELECT 1 FROM turns WHERE id = ANY(CAST(:ids AS uuid[])) HAVING count(*) FILTER (WHERE status = 'running') = 0",
        within_s=TAKEN_S,
        ids=ids,
    )
    found = await pair.rows(
        "SELECT t.id, t.replica, t.status, t.attempt, t.deaths, array_agg(m.content) AS answers FROM turns t "
        "JOIN messages m ON m.turn_id = t.id AND m.role = 'assistant' WHERE t.id = ANY(CAST(:ids AS uuid[])) "
        "GROUP BY t.id ORDER BY t.id",
        ids=ids,
    )
    assert [(str(row.id), row.status, row.attempt, row.deaths, row.answers) for row in found] == [
        (turn_id, "done", 1, 1, [f"Answer {n}."]) for n, turn_id in enumerate(ids)
    ]
    assert [len(script.requests) for script in scripts] == [2] * LOST
    assert len({row.replica for row in found}) == 2
    await pair.check()


async def test_a_process_does_not_take_a_turn_from_itself(database: Database) -> None:
    """However late it is with its lease, as after it was suspended: two tasks of it would write one turn."""
    turn = new_turn("Hello", replica="late")
    await admit(database, turn)
    async with database.begin() as connection:
        lapse = sql("UPDATE turns SET lease_until = now() - interval '1 second' WHERE id = CAST(:t AS uuid)")
        await connection.execute(lapse, {"t": turn.turn_id})
    assert await take(database, "late") == []
    assert [lost.turn.turn_id for lost in await take(database, "another")] == [turn.turn_id]


def faketime() -> str:
    """The library that gives a process another clock; where it is missing the test is skipped, but not in CI."""
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    if found:
        return str(found[0])
    if os.environ.get("TURNSTREAM_CI") == "1":
        pytest.fail("libfaketime is not installed, and TURNSTREAM_CI=1 promises that it is", pytrace=False)
    pytest.skip("libfaketime is not installed; on Debian: apt-get install libfaketime")


@pytest.fixture(params=[SKEW_S, -SKEW_S], ids=["ahead", "behind"])
async def skewed(pair: Cluster, request: pytest.FixtureRequest) -> AsyncGenerator[Cluster, None]:
    """The second member's clock is 30 s ahead or behind; put right afterwards."""
    member = pair.members[1]
    clock = {"LD_PRELOAD": faketime(), "FAKETIME": f"{request.param:+d}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    await restarted(member, clock)
    told = parsedate_to_datetime((await member.http.get("/healthz")).headers["date"])
    assert abs((told - datetime.now(UTC)).total_seconds() - request.param) < SKEW_S / 3
    yield pair
    await restarted(member, {})


async def restarted(member: Member, extra: dict[str, str]) -> None:
    await member.end()
    member.extra = extra
    await member.start()


async def test_clocks_that_are_thirty_seconds_apart_change_nothing(skewed: Cluster) -> None:
    """Leases are by Postgres' clock: living owners are let alone by each other, a dead one is replaced."""
    owner, other = skewed.members
    gate = asyncio.Event()
    answer = stream(event({"content": "Half an "}), gate, event({"content": "answer."}), finish())
    scripts = [skewed.endpoint.script(by_progress(SKIP, answer)) for _ in range(2)]
    async with asyncio.TaskGroup() as tabs:
        near, far = await both_tabs(skewed, tabs, f"Tell me {scripts[0]}")
        back = skewed.tab(other)
        tabs.create_task(back.ask(f"Tell me {scripts[1]}"))
        for tab in (near, far, back):
            await tab.until(lambda tab=tab: tab.content == "Half an ")
        for _ in range(2):  # what follows the first renewal is over when the second comes
            await renewed_when_told(skewed, near, back)
        assert (await attempts(skewed, near), await attempts(skewed, back)) == ((0, 0), (0, 0))
        await owner.kill()
        await skewed.lapse()
        await scripts[0].request(2)
        gate.set()
    assert (near.content, back.content) == ("Half an answer.", "Half an answer.")
    await skewed.check(near, far, back)
    assert (await attempts(skewed, near), await attempts(skewed, back)) == ((1, 1), (0, 0))


async def renewed_when_told(cluster: Cluster, *tabs: Tab) -> None:
    """Have all replicas look for lost turns now, and wait until each tab's turn has got a new lease by that."""
    leases = "SELECT id, lease_until FROM turns WHERE id = ANY(CAST(:ids AS uuid[])) ORDER BY id"
    ids = [tab.turn_id for tab in tabs]
    before = await cluster.rows(leases, ids=ids)
    await cluster.tell_released()
    async with asyncio.timeout(10):
        while not all(new > old for old, new in zip(before, await cluster.rows(leases, ids=ids), strict=True)):
            await asyncio.sleep(0.02)


async def test_of_two_questions_at_once_through_two_replicas_one_runs(pair: Cluster) -> None:
    """The other is refused, and may follow the one that runs; question and answer stay in order (case D06)."""
    start = pair.tab(pair.members[0])
    await start.ask(f"Hello {pair.endpoint.script(by_progress(SKIP, text('Hi.')))}")
    gate = asyncio.Event()
    script = pair.endpoint.script(by_progress(SKIP, held(gate, text("Both read this."))))
    together = asyncio.Barrier(2)

    async def post(member: Member) -> int:
        question = {"message": f"Count {script}", "conversation_id": start.conversation_id}
        await together.wait()
        async with pair.browser.stream("POST", f"{member.address}/api/chat", json=question) as response:
            if response.status_code == 409:
                assert (await response.aread()).startswith(b'{"error":{"code":"answer_running"')
                gate.set()
            else:
                async for _ in response.aiter_raw():
                    pass
            return response.status_code

    assert sorted(await asyncio.gather(*(post(member) for member in pair.members))) == [200, 409]
    assert len(script.requests) == 2
    stored = (await pair.members[0].http.get(f"/api/conversations/{start.conversation_id}")).json()["messages"]
    assert [m["role"] for m in stored] == ["user", "assistant"] * 2
    assert stored[3]["content"] == "Both read this."


async def test_one_request_id_through_two_replicas_is_one_turn(pair: Cluster) -> None:
    """At once, while it runs, and after it ended (case S09)."""
    gate, request_id = asyncio.Event(), str(uuid4())
    script = pair.endpoint.script(by_progress(SKIP, held(gate, text("Once."))))
    tabs = [pair.tab(member) for member in (*pair.members, *pair.members)]
    async with asyncio.TaskGroup() as asking:
        for tab in tabs[:3]:
            asking.create_task(tab.ask(f"Tell me {script}", request_id=request_id))
        for tab in tabs[:3]:
            await tab.until(lambda tab=tab: tab.steps != [])
        gate.set()
    await tabs[3].ask(f"Tell me {script}", request_id=request_id)
    assert {tab.turn_id for tab in tabs} == {tabs[0].turn_id}
    assert {tab.content for tab in tabs} == {"Once."}
    assert len(script.requests) == 2
    await pair.check(*tabs)


async def test_a_tab_goes_on_through_another_replica_where_it_was(pair: Cluster) -> None:
    """Frames from its position on, none twice and none missing; an id of another turn gets a snapshot (case S10)."""
    owner, other = pair.members
    gate = asyncio.Event()
    words = [event({"content": f"{n} "}) for n in range(40)]
    script = pair.endpoint.script(by_progress(SKIP, stream(*words[:20], gate, *words[20:], finish())))
    before, whole, moved = pair.tab(owner), pair.tab(owner), pair.tab(other)
    await before.ask(f"Hello {pair.endpoint.script(by_progress(SKIP, text('Hi.')))}")
    async with asyncio.TaskGroup() as tabs:
        tabs.create_task(whole.ask(f"Count {script}"))
        await whole.until(lambda: whole.content.endswith("19 "))
        seen = len(whole.frames)
        assert whole.conversation_id is not None
        tabs.create_task(moved.attach(whole.conversation_id, as_seen_by=whole))
        address = f"{other.address}/api/conversations/{whole.conversation_id}/live"
        async with pair.browser.stream("GET", address, headers={"Last-Event-ID": f"{before.turn_id}:3"}) as response:
            assert b"event: snapshot" in await anext(response.aiter_raw())
        gate.set()
    assert moved.frames == whole.frames[seen:]
    await pair.check(whole, moved)


async def test_tabs_that_come_while_frames_fly_through_another_replica_miss_none(pair: Cluster) -> None:
    """Sixty tabs at random moments of five hundred deltas; some leave at once, in the middle of a query (S06, S11)."""
    chance = random.Random(5)
    words = tuple(event({"content": f"{n} "}) for n in range(500))
    answer = Reply((*words, finish()), headers=SKIP.headers, pace_s=0.002)
    script = pair.endpoint.script(by_progress(SKIP, answer))
    whole = pair.tab(pair.members[0])
    came: list[Tab] = []
    async with asyncio.TaskGroup() as tabs:
        tabs.create_task(whole.ask(f"Count {script}"))
        for at in sorted(chance.sample(range(480), 60)):
            await whole.until(lambda at=at: f"{at} " in whole.content)
            came.append(pair.tab(pair.members[1]))
            tabs.create_task(came[-1].attach(whole.conversation_id or ""))
            leaving = tabs.create_task(pair.tab(pair.members[1]).attach(whole.conversation_id or ""))
            asyncio.get_running_loop().call_later(chance.uniform(0, 0.3), leaving.cancel)
    assert whole.content == "".join(f"{n} " for n in range(500))
    await pair.check(whole, *came)
    await pair.until_row(
        "SELECT 1 WHERE NOT EXISTS (SELECT FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' "
        "AND datname = current_database() AND pid <> pg_backend_pid())"
    )
    await pair.usable(whole, pair.members[1])


def resident(member: Member) -> int:
    """The bytes that its process holds."""
    pages = int(Path(f"/proc/{member.pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("at", [0, 1], ids=["at the owner", "elsewhere"])
async def test_a_reader_of_ten_bytes_a_second_holds_up_nobody_and_ends_with_everything(pair: Cluster, at: int) -> None:
    """Ten megabytes pass two others; it costs no memory of its own, and gets a snapshot when it reads on (S13)."""
    member = pair.members[at]
    piece = "0123456789abcdef" * 1024
    gate = asyncio.Event()
    answer = stream(event({"content": "begun "}), gate, *(event({"content": piece}) for _ in range(PIECES)), finish())
    script = pair.endpoint.script(by_progress(SKIP, answer))
    async with asyncio.TaskGroup() as tabs:
        near, far = await both_tabs(pair, tabs, f"Write {script}")
        await far.until(lambda: far.content == "begun ")
        before = resident(member)
        narrow = socket.socket()
        narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # or the kernel takes in most of it for the reader
        narrow.setblocking(False)
        await asyncio.get_running_loop().sock_connect(narrow, ("127.0.0.1", member.port))
        reader, writer = await asyncio.open_connection(sock=narrow, limit=1024)
        writer.write(f"GET /api/conversations/{near.conversation_id}/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        received = await reader.readuntil(b"event: snapshot")
        gate.set()
        ended = asyncio.gather(*(tab.until(lambda tab=tab: tab.ended, within_s=40) for tab in (near, far)))
        while not ended.done():
            received += await reader.read(SLOW_BYTES)
            await asyncio.wait([ended], timeout=1)
        await ended
        assert resident(member) - before < RSS_BYTES
        async with asyncio.timeout(20):
            while not received.endswith(b"0\r\n\r\n"):
                received += await reader.read(1 << 20)
        writer.close()
    assert near.content == "begun " + piece * PIECES
    assert received.count(b"event: snapshot") > 1
    last = received[received.rindex(b"event: snapshot") :]
    snapshot, *deltas = (json.loads(data) for data in re.findall(rb"event: (?:snapshot|delta)\ndata: (.*)\n", last))
    assert snapshot["content"] + "".join(delta["text"] for delta in deltas) == near.content
    assert b"event: done" in last
    await pair.check(near, far)
