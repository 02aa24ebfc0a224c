"""What the pool makes of a database in trouble. Issue 5 item 5, case D04."""

from typing import Any

import pytest
from sqlalchemy import URL, event, text

from app.store.engine import Database, StoreUnavailable


async def test_a_connection_that_breaks_while_it_is_set_up_is_a_database_that_is_away(database_url: URL) -> None:
    """What the driver raises there SQLAlchemy passes on as it is; background tasks that met it would be gone for good."""

    def cut(connection: Any, _: object) -> None:
        connection.driver_connection.terminate()

    database = Database(database_url)
    event.listen(database.engine.sync_engine, "connect", cut, insert=True)  # before SQLAlchemy's own set-up
    try:
        with pytest.raises(StoreUnavailable) as refused:
            async with database.single() as connection:
                await connection.execute(text("SELECT 1"))
        assert "connection is closed" in repr(refused.value.__cause__)
    finally:
        await database.aclose()


async def test_a_write_to_a_connection_that_closed_a_moment_ago_is_a_database_that_is_away(database: Database) -> None:
    """A bare RuntimeError is uvloop's word for it; every other one is a fault of ours."""
    for words, expected in (
        ("unable to perform operation; the handler is closed", StoreUnavailable),
        ("x", RuntimeError),
    ):
        with pytest.raises(expected):
            async with database.read():
                raise RuntimeError(words)
