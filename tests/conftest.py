"""Fixtures that every chapter of the tests shares. Machinery is in tests/harness/."""

import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager

import pytest
import structlog
from sqlalchemy import URL

from app.store.engine import Database
from tests.harness.postgres import PostgresServer, running_postgres

# a shell gives what it runs in the background an ignored SIGINT, which every process that tests start would inherit
signal.signal(signal.SIGINT, signal.default_int_handler)

# drawn with all its locals, as structlog does by default, one traceback holds the loop for seconds
structlog.configure(
    processors=[
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ]
)


@pytest.fixture(scope="session")
async def postgres() -> AsyncGenerator[PostgresServer]:
    """One server for the session."""
    async with running_postgres() as server:
        yield server


@pytest.fixture(scope="session")
async def database_url(postgres: PostgresServer) -> AsyncGenerator[URL]:
    """A migrated database that the session's tests share."""
    async with postgres.new_database() as url:
        yield url


@pytest.fixture(scope="session")
async def database(database_url: URL) -> AsyncGenerator[Database]:
    """The pool on the shared database."""
    pool = Database(database_url)
    try:
        yield pool
    finally:
        await pool.aclose()


@pytest.fixture
def new_database(postgres: PostgresServer) -> Callable[[], AbstractAsyncContextManager[URL]]:
    """Makes a migrated database of the test's own, as an async context that gives its URL and drops it."""
    return postgres.new_database
