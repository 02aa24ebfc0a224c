"""Who waits for a connection of the pool gets one in the order of asking. Issue 9 items 2 and 7."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
from sqlalchemy import URL, event, text

from app.store.engine import Database, StoreBusy


@pytest.fixture
async def narrow(database_url: URL) -> AsyncGenerator[Database]:
    """A pool of one connection."""
    pool = Database(database_url, pool_size=1, pool_timeout_s=0.2)
    try:
        yield pool
    finally:
        await pool.aclose()


async def test_one_who_comes_as_a_connection_is_given_back_does_not_pass_those_who_wait(narrow: Database) -> None:
    """Under load there is always such a one, and those who wait would time out though connections come back."""
    served: list[str] = []
    coming_back = asyncio.Event()

    async def ask(name: str) -> None:
        async with narrow.single() as connection:
            await connection.execute(text("SELECT 1"))
            served.append(name)

    async def come_late() -> None:
        await coming_back.wait()
        await ask("late")

    event.listen(narrow.engine.sync_engine, "checkin", lambda *_: coming_back.set())
    async with asyncio.TaskGroup() as asking, narrow.single():
        for one in (come_late(), ask("first"), ask("second")):
            asking.create_task(one)
            await asyncio.sleep(0)
    assert served == ["first", "second", "late"]


async def test_who_has_waited_too_long_is_refused_and_leaves_the_line(narrow: Database) -> None:
    """And one whose task was cancelled; the room of both is there for the next."""
    async with narrow.single():
        cancelled = asyncio.create_task(narrow.single().__aenter__())
        await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(StoreBusy):
            async with narrow.single():
                pass
        await asyncio.gather(cancelled, return_exceptions=True)
    for _ in range(3):
        async with narrow.read() as connection:
            assert (await connection.execute(text("SELECT 1"))).scalar_one() == 1
    assert narrow.connections_used == 0
