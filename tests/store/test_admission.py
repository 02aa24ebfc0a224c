"""How many turns of one owner run at once, whoever admits them. Source: issue 9 item 2, decision 0020."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

import pytest
from sqlalchemy import URL, text

from app.errors import AppError, RefusalCode, TurnErrorCode
from app.store import bases, turns
from app.store.engine import Database
from app.store.ids import new_id
from app.store.threads import EarlierMessage
from app.store.turns import AdmittedTurn, KnownRequest, NewTurn
from tests.harness.app import new_turn

MOST = 5


@pytest.fixture
async def replicas(
    new_database: Callable[[], AbstractAsyncContextManager[URL]],
) -> AsyncGenerator[tuple[Database, Database]]:
    """Two processes' pools on one database that holds nothing but a base."""
    async with new_database() as url:
        pools = Database(url), Database(url)
        try:
            await bases.ensure_default(pools[0])
            yield pools
        finally:
            for pool in pools:
                await pool.aclose()


def question(owner: str = "ann", *, most: int | None = MOST, request_id: str | None = None) -> NewTurn:
    return replace(new_turn("Who?", replica="here", request_id=request_id), owner=owner, most_running=most)


async def outcome(database: Database, new: NewTurn) -> str:
    try:
        return type(await turns.admit(database, new)).__name__
    except AppError as refusal:
        return refusal.code


async def running(database: Database, owner: str) -> int:
    async with database.read() as connection:
        counted = text("SELECT count(*) FROM turns WHERE owner = :owner AND status = 'running'")
        return int((await connection.execute(counted, {"owner": owner})).scalar_one())


async def end(database: Database, turn_id: str) -> None:
    async with database.begin() as connection:
        await connection.execute(text("UPDATE turns SET status = 'done' WHERE id = CAST(:id AS uuid)"), {"id": turn_id})


async def admitted(database: Database, new: NewTurn) -> AdmittedTurn:
    turn = await turns.admit(database, new)
    assert isinstance(turn, AdmittedTurn)
    return turn


async def test_replicas_that_admit_at_once_never_admit_more_than_may_run(replicas: tuple[Database, Database]) -> None:
    """Exactly as many as are allowed, in any race; others' turns are no business of theirs."""
    for owner in ("ann", "bob", "cid"):
        asked = [outcome(replicas[n % 2], question(owner)) for n in range(24)]
        assert Counter(await asyncio.gather(*asked)) == {"AdmittedTurn": MOST, RefusalCode.TOO_MANY_TURNS: 24 - MOST}
        assert await running(replicas[0], owner) == MOST


async def test_a_refused_question_leaves_nothing_and_says_what_is_allowed(replicas: tuple[Database, Database]) -> None:
    """No conversation, no message; with messages from elsewhere, of a conversation's next question and of a retry too."""
    database = replicas[0]
    first = await admitted(database, question(most=None))
    await end(database, first.turn_id)
    await admitted(database, question(most=None))
    with pytest.raises(AppError) as refused:
        await turns.admit(database, question(most=1))
    assert (refused.value.status, refused.value.code, refused.value.retry_after_s) == (429, "too_many_turns", 5)
    assert "no more than 1 may be at once" in refused.value.message
    imported = replace(
        question(most=1), earlier=(EarlierMessage("user", "Before?"), EarlierMessage("assistant", "Yes"))
    )
    following = replace(question(most=1), conversation_id=first.conversation_id, base=None)
    assert await outcome(database, imported) == await outcome(database, following) == "too_many_turns"
    with pytest.raises(AppError) as retried:
        await turns.admit_retry(database, replace(following, question_id=first.question_id))
    assert retried.value.code == "too_many_turns"
    async with database.read() as connection:
        left = await connection.execute(
            text("SELECT (SELECT count(*) FROM conversations), (SELECT count(*) FROM messages)")
        )
        assert tuple(left.one()) == (2, 2)
    assert await outcome(database, replace(following, most_running=2)) == "AdmittedTurn"


async def test_a_turn_counts_until_it_has_ended_also_without_its_process(replicas: tuple[Database, Database]) -> None:
    """A killed process' turn still runs: another one goes on with it. What ended has made room at once."""
    turn = await admitted(replicas[0], replace(question(most=1), replica="killed"))
    async with replicas[0].begin() as connection:
        await connection.execute(text("UPDATE turns SET replica = NULL, lease_until = now() - interval '1 hour'"))
    assert await outcome(replicas[1], question(most=1)) == "too_many_turns"
    await end(replicas[0], turn.turn_id)
    assert await outcome(replicas[1], question(most=1)) == "AdmittedTurn"


async def test_a_request_that_comes_again_gets_its_turn_though_there_is_no_room(
    replicas: tuple[Database, Database],
) -> None:
    """It may be the very turn that takes the room: a tab that lost its connection attaches to it."""
    request_id = new_id()
    turn = await admitted(replicas[0], question(most=1, request_id=request_id))
    again = await turns.admit(replicas[1], question(most=1, request_id=request_id))
    assert isinstance(again, KnownRequest)
    assert again.turn_id == turn.turn_id


async def test_two_questions_at_once_in_one_conversation_never_block_each_other(
    replicas: tuple[Database, Database],
) -> None:
    """Each waits for the owner's count first and for the conversation afterwards, in every process."""
    for _ in range(5):
        first = await admitted(replicas[0], question(most=None))
        await end(replicas[0], first.turn_id)
        following = replace(question(), conversation_id=first.conversation_id, base=None)
        asked = [replace(following, turn_id=new_id(), question_id=new_id()) for _ in range(8)]
        said = await asyncio.gather(*(outcome(replicas[n % 2], new) for n, new in enumerate(asked)))
        assert set(said) == {"AdmittedTurn", TurnErrorCode.ANSWER_RUNNING}
        assert said.count("AdmittedTurn") == 1
        async with replicas[0].begin() as connection:
            await connection.execute(text("UPDATE turns SET status = 'done'"))
