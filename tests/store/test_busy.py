"""A pool that is used up and a statement that takes too long: typed, in time, and over. Source: issue 9 item 2."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
from psycopg import AsyncConnection
from sqlalchemy import URL, text

from app.store.engine import ENDED_BY_THE_SERVER, Database, StoreBusy, StoreUnavailable
from app.store.jobs import conninfo
from tests.harness.app import running_app

SETTINGS = " || ' ' || ".join(f"current_setting('{name}')" for name in ENDED_BY_THE_SERVER)


@pytest.fixture
async def hasty(database_url: URL) -> AsyncGenerator[Database]:
    """A pool of one connection, on which nothing may take longer than a fifth of a second."""
    pool = Database(database_url, pool_size=1, pool_timeout_s=0.05, statement_timeout_s=0.2)
    try:
        yield pool
    finally:
        await pool.aclose()


async def test_a_statement_that_takes_too_long_is_ended_by_the_server(hasty: Database) -> None:
    """So that it is over there too, not only given up here; the connection goes on."""
    async with hasty.read() as connection:
        pid = (await connection.execute(text("SELECT pg_backend_pid()"))).scalar_one()
    with pytest.raises(StoreUnavailable) as refused:
        async with hasty.single() as connection:
            await connection.execute(text("SELECT pg_sleep(60)"))
    said_by_the_server = getattr(refused.value.__cause__, "orig", None)
    assert getattr(said_by_the_server, "sqlstate", None) == "57014"  # query_canceled
    async with hasty.read() as connection:
        assert (await connection.execute(text("SELECT pg_backend_pid()"))).scalar_one() == pid


async def test_a_transaction_that_is_left_open_is_ended_by_the_server(hasty: Database, database: Database) -> None:
    """Its locks are free again though its process hangs; the pool makes a new connection."""

    async def leave_open() -> None:
        async with hasty.begin() as connection:
            pids.append((await connection.execute(text("SELECT pg_backend_pid()"))).scalar_one())
            async with asyncio.timeout(5), database.read() as watching:
                while (await watching.execute(there, {"pid": pids[0]})).scalar_one():
                    await watching.rollback()  # the view is the transaction's, as it was when first looked at
            await connection.execute(text("SELECT 1"))

    pids: list[int] = []
    there = text("SELECT count(*) FROM pg_stat_activity WHERE pid = :pid")
    with pytest.raises(StoreUnavailable):
        await leave_open()
    async with hasty.read() as connection:
        assert (await connection.execute(text("SELECT pg_backend_pid()"))).scalar_one() != pids[0]


async def test_what_may_take_minutes_is_not_ended(hasty: Database, database_url: URL) -> None:
    """Building an index, extraction's jobs, and whatever goes through a proxy, which takes no such settings."""
    proxied = Database(database_url, pooler=True)
    try:
        async with hasty.read() as usual, hasty.apart() as apart, proxied.read() as through:
            told = [(await each.execute(text(f"SELECT {SETTINGS}"))).scalar_one() for each in (usual, apart, through)]
    finally:
        await proxied.aclose()
    async with await AsyncConnection.connect(conninfo(database_url, pooler=False)) as jobs:
        row = await (await jobs.execute(f"SELECT {SETTINGS}".encode())).fetchone()
    assert told == ["200ms 200ms", "0 0", "0 0"]
    assert row == ("0 0",)


async def test_a_pool_that_is_used_up_is_a_refusal_with_when_to_ask_again(database_url: URL) -> None:
    """503 `database_busy`, for a question too; once a connection is back, all is as before."""
    async with running_app(database_url, database_connections=2) as app:
        database = app.parts.database
        async with database.read(), database.read():
            setattr(database.engine.pool, "_timeout", 0.05)  # noqa: B010 - the pool's own name, which has no type
            asked = [
                app.http.get("/api/conversations"),
                app.http.post("/api/chat", json={"message": "Who?"}),
                app.http.get("/v1/models"),
            ]
            for answer in await asyncio.gather(*asked):
                assert (answer.status_code, answer.json()["error"]["code"]) == (503, "database_busy")
                assert answer.headers["retry-after"] == "2"
                assert "All 2 connections to the database are in use" in answer.json()["error"]["message"]
            with pytest.raises(StoreBusy):
                async with database.begin():
                    pass
            setattr(database.engine.pool, "_timeout", 5.0)  # noqa: B010
        assert (await app.http.get("/api/conversations")).status_code == 200
