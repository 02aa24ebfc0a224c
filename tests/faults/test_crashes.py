"""kill -9 of the process that answers, at every stage of a turn: another goes on, and no tab is told less, or twice.

Issue 5 items 3 and 5, decision 0015, case D04.
"""

import asyncio

import pytest
from sqlalchemy import text as sql

from tests.harness.cluster import SEARCH, SKIP, Cluster, attempts, both_tabs, by_progress, held
from tests.harness.scripted_endpoint import call, event, finish, stream
from tests.harness.tab import Tab
from tests.harness.tcp_proxy import tcp_proxy

REMEMBER = call(("remember", {"text": "The board met on a Friday."}))
CHECKPOINT = "SELECT 1 FROM turns WHERE id = CAST(:t AS uuid) AND checkpoint IS NOT NULL"
DRAFT = (
    "SELECT 1 FROM turn_pieces WHERE turn_id = CAST(:t AS uuid) AND attempt = :n"
    " HAVING string_agg(content, '' ORDER BY at) = :text"
)
OVER = "SELECT 1 FROM turns WHERE id = CAST(:t AS uuid) AND status = 'done'"


async def test_killed_before_the_first_token(pair: Cluster) -> None:
    """Nothing but the question is known: the next owner asks the model as if nothing had been."""
    gate = asyncio.Event()
    script = pair.endpoint.script(by_progress(held(gate, SKIP), stream(event({"content": "Hi."}), finish())))
    async with asyncio.TaskGroup() as tabs:
        near, far = await both_tabs(pair, tabs, f"Hello {script}")
        await script.request(0)
        await pair.members[0].kill()
        await pair.lapse()
        await script.request(1)
        gate.set()
    assert near.content == "Hi."
    assert len(script.requests) == 3
    assert script.messages(1) == script.messages(0)
    await pair.check(near, far)
    assert await attempts(pair, near) == (1, 1)
    await pair.usable(near, pair.members[1])


async def test_killed_in_the_middle_of_the_text(pair: Cluster) -> None:
    """What was gathered isn't gathered again; the text since is taken back and written once more."""
    gate = asyncio.Event()
    answer = stream(event({"content": "Half an "}), gate, event({"content": "answer [1]."}), finish())
    script = pair.endpoint.script(by_progress(SEARCH, answer))
    async with asyncio.TaskGroup() as tabs:
        near, far = await both_tabs(pair, tabs, f"Who sat on the board? {script}")
        await near.until(lambda: near.content == "Half an ")
        await far.until(lambda: far.content == "Half an ")
        await pair.until_row(CHECKPOINT, t=near.turn_id)
        await pair.members[0].kill()
        await pair.lapse()
        await script.request(2)
        gate.set()
    assert near.content == "Half an answer [1]."
    assert len(near.steps) == 1
    assert near.sources
    assert near.terminal.data["cited"] == [1]
    assert len(script.requests) == 3
    assert script.messages(2) == script.messages(1)
    await pair.check(near, far)
    assert await attempts(pair, near) == (1, 1)
    await pair.usable(near, pair.members[1])


async def test_killed_in_the_middle_of_a_tool(pair: Cluster) -> None:
    """The search hangs on a locked table and dies with its process; the next owner has the model ask for it again."""
    answer = stream(event({"content": "Four [1]."}), finish())
    script = pair.endpoint.script(by_progress(SEARCH, answer))
    async with asyncio.TaskGroup() as tabs:
        async with pair.database.begin() as lock:
            await lock.execute(sql("LOCK TABLE chunks IN ACCESS EXCLUSIVE MODE"))
            near, far = await both_tabs(pair, tabs, f"Who sat on the board? {script}")
            await pair.until_row("SELECT 1 FROM pg_locks WHERE relation = 'chunks'::regclass AND NOT granted")
            await pair.members[0].kill()
        await pair.lapse()
    assert near.content == "Four [1]."
    assert [(step["tool"], step["status"]) for step in near.steps] == [("search_chunks", "ok")]
    assert len(script.requests) == 3
    assert script.messages(1) == script.messages(0)
    await pair.check(near, far)
    assert await attempts(pair, near) == (1, 1)


async def test_killed_between_the_save_and_the_terminal_frame(pair: Cluster) -> None:
    """The answer is stored, and nothing that would say so left the machine: tabs get their end from the row."""
    owner, other = pair.members
    gate = asyncio.Event()
    answer = stream(event({"content": "Half an "}), gate, event({"content": "answer [1]."}), finish())
    script = pair.endpoint.script(by_progress(SEARCH, answer))
    async with tcp_proxy(("127.0.0.1", owner.port)) as way, asyncio.TaskGroup() as tabs:
        near = Tab(pair.browser, [f"http://127.0.0.1:{way.port}", other.address])
        far = pair.tab(other)
        tabs.create_task(near.ask(f"Who sat on the board? {script}"))
        await near.until(lambda: near.content == "Half an ")
        assert near.conversation_id is not None
        tabs.create_task(far.attach(near.conversation_id))
        await far.until(lambda: far.content == "Half an ")
        owner.redis.pause()
        way.pause()
        gate.set()
        await pair.until_row(OVER, t=near.turn_id)
        assert not near.ended
        assert not far.ended
        owner.redis.cut()
        await owner.kill()
        way.cut()
    assert near.content == "Half an answer [1]."
    assert len(script.requests) == 2
    await pair.check(near, far)
    assert await attempts(pair, near) == (0, 0)
    await pair.usable(near, other)


@pytest.mark.parametrize("written", [True, False], ids=["written down", "not written down"])
async def test_what_was_remembered_by_a_process_that_died_is_not_remembered_twice(
    pair: Cluster, *, written: bool
) -> None:
    """Killed after the call, with and without its round in the checkpoint: one proposal either way."""
    before_call, after_call = asyncio.Event(), asyncio.Event()
    answer = stream(after_call, event({"content": "Noted."}), finish())
    script = pair.endpoint.script(by_progress(held(before_call, REMEMBER), answer))
    async with asyncio.TaskGroup() as tabs:
        near, far = await both_tabs(pair, tabs, f"Remember this: the board met on a Friday. {script}")
        async with pair.database.begin() as lock:
            if not written:  # whoever wants to write the turn down waits for us
                row = "SELECT 1 FROM turns WHERE id = CAST(:t AS uuid) FOR NO KEY UPDATE"
                await lock.execute(sql(row), {"t": near.turn_id})
            before_call.set()
            await far.until(lambda: far.steps != [])
            if written:
                await pair.until_row(CHECKPOINT, t=near.turn_id)
            await pair.members[0].kill()
        await pair.lapse()
        after_call.set()
    assert near.content == "Noted."
    assert [(step["tool"], step["status"]) for step in near.steps] == [("remember", "ok")]
    proposed = await pair.rows("SELECT id FROM proposals WHERE turn_id = CAST(:t AS uuid)", t=near.turn_id)
    assert len(proposed) == 1
    assert len(script.requests) == (3 if written else 4)
    await pair.check(near, far)
    assert await attempts(pair, near) == (1, 1)


async def test_a_turn_that_three_owners_died_with_ends_with_what_it_had(pair: Cluster) -> None:
    """It may be what kills them: `turn_interrupted`, its text kept, its conversation usable."""
    one, two = pair.members
    script = pair.endpoint.script(by_progress(SKIP, stream(event({"content": "Half an "}), close="hang")))
    async with asyncio.TaskGroup() as tabs:
        near = pair.tab(one)
        tabs.create_task(near.ask(f"Tell me {script}"))
        for deaths, owner in enumerate((one, two, one)):
            await script.request(deaths + 1)
            await near.until(lambda deaths=deaths: near.content == "Half an " and len(script.requests) == deaths + 2)
            await pair.until_row(DRAFT, t=near.turn_id, text="Half an ", n=deaths)
            await owner.kill()
            await pair.lapse()
            if deaths < 2:
                await pair.until_row(DRAFT, t=near.turn_id, text="Half an ", n=deaths + 1)
                await owner.start()
    assert near.terminal.data["code"] == "turn_interrupted"
    assert near.content == "Half an "
    assert len(script.requests) == 4
    await pair.check(near)
    assert await attempts(pair, near) == (3, 3)
    await pair.usable(near, two)
