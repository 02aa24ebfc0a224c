"""The connection pool, and the one way to use it: a transaction that is closed before anything else is awaited.

Functions of the store open, use and close a connection; nobody outside holds one. No statement runs
inside a scope that a reader's disconnect can cancel: request handlers do their reads before they stream.

Behind a proxy that pools transactions (pgbouncer) two statements of one connection may meet two servers, so nothing
may be kept from one transaction to the next. The store keeps nothing itself: its settings are SET LOCAL, its advisory
locks a transaction's. What the two drivers keep, prepared statements, `pooler` turns off (case D02).
"""

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
from sqlalchemy import URL, event, make_url
from sqlalchemy.exc import DisconnectionError, IntegrityError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry, NullPool, QueuePool

from app.errors import AppError, RefusalCode

NOTHING_PREPARED = {"statement_cache_size": 0, "prepared_statement_cache_size": 0}
"""asyncpg's cache off and SQLAlchemy's too. Only without both does asyncpg prepare without a name and send each
statement whole with its values, so that no name can be taken or missing on the server that a proxy chose.
"""


TROUBLE = (
    SQLAlchemyError,
    OSError,
    TimeoutError,
    # what the driver raises while SQLAlchemy sets a new connection up reaches us as it is
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
"""What is raised for a database that is gone or in trouble."""

CLOSED = "the handler is closed"
"""What uvloop says, in a bare RuntimeError, of a write to a connection that closed a moment ago."""

ENDED_BY_THE_SERVER = ("statement_timeout", "idle_in_transaction_session_timeout")
"""What Postgres bounds for each connection of the pool. Migrations and extraction's jobs have connections of their own,
without these."""
WORD_S = 5.0
"""How much longer the driver waits for the server's word that it has ended a statement."""

PING_AFTER_S = 10.0
"""After so long without use a connection is tried before it is handed out. One that the server closed is known as such
at once; a ping each time would cost three round trips beside the one that is wanted.
"""


class StoreUnavailable(AppError):
    """The database did not do what it was asked: gone, out of connections, or in trouble. Details are in the log."""

    def __init__(
        self,
        code: RefusalCode = RefusalCode.DATABASE_UNAVAILABLE,
        message: str = "The database is not available right now; try again.",
    ) -> None:
        super().__init__(code, message, retry_after_s=2)


class StoreBusy(StoreUnavailable):
    """Every connection of the pool was in use for as long as one is waited for."""

    def __init__(self, size: int) -> None:
        super().__init__(
            RefusalCode.DATABASE_BUSY, f"All {size} connections to the database are in use; try again in a moment."
        )


class Database:
    """A pool of connections to one Postgres. Made by main.py, closed by it.

    `pooler` says that the URL leads to a proxy that pools transactions. A statement may take `statement_timeout_s`, and
    a transaction may wait as long for its next one; Postgres ends it then, so that it also does where this process or
    the way to it is gone. A proxy takes no such settings: there the driver's clock alone holds, a little later.
    """

    def __init__(
        self,
        url: str | URL,
        *,
        pool_size: int = 10,
        pool_timeout_s: float = 5.0,
        statement_timeout_s: float = 30.0,
        pooler: bool = False,
    ) -> None:
        self.pooler = pooler
        self.size = pool_size
        self._room = asyncio.Semaphore(pool_size)
        self._prepared = NOTHING_PREPARED if pooler else {}
        milliseconds = str(round(statement_timeout_s * 1000))
        ended = {} if pooler else dict.fromkeys(ENDED_BY_THE_SERVER, milliseconds)
        self.engine: AsyncEngine = create_async_engine(
            async_url(url),
            pool_size=pool_size,
            max_overflow=0,
            hide_parameters=True,  # what an error says may be logged
            pool_timeout=pool_timeout_s,
            connect_args={
                "timeout": pool_timeout_s,
                "command_timeout": statement_timeout_s + WORD_S,
                "server_settings": {"application_name": "turnstream", **ended},
                **self._prepared,
            },
        )
        self._each_alone = self.engine.execution_options(isolation_level="AUTOCOMMIT")
        event.listen(self.engine.sync_engine, "checkout", _alive)
        event.listen(self.engine.sync_engine, "checkin", _note_idle)

    @asynccontextmanager
    async def begin(self) -> AsyncGenerator[AsyncConnection, None]:
        """A transaction: committed at the end of the block, rolled back when it raises.

        Raises:
            StoreUnavailable: for whatever the database or the way to it does wrong, the cause chained.
            IntegrityError: a constraint said no; the caller knows what that means.
        """
        with self._as_unavailable():
            async with self._in_turn(), self.engine.begin() as connection:
                yield connection

    @asynccontextmanager
    async def single(self) -> AsyncGenerator[AsyncConnection, None]:
        """A connection for one statement, reading or writing, which is a transaction by itself: one round trip, not
        three. An error leaves nothing of it. Raises as `begin`.
        """
        with self._as_unavailable():
            async with self._in_turn(), self._each_alone.connect() as connection:
                yield connection

    @asynccontextmanager
    async def read(self) -> AsyncGenerator[AsyncConnection, None]:
        """A connection for one read; nothing it does is committed. Raises as `begin`."""
        with self._as_unavailable():
            async with self._in_turn(), self.engine.connect() as connection:
                yield connection

    @asynccontextmanager
    async def apart(self) -> AsyncGenerator[AsyncConnection, None]:
        """A connection beside the pool, without a timeout, where each statement is a transaction of its own.

        For what may take minutes, or can't run in a transaction. Raises as `begin`.
        """
        engine = create_async_engine(
            self.engine.url, poolclass=NullPool, isolation_level="AUTOCOMMIT", connect_args=self._prepared
        )
        try:
            with self._as_unavailable():
                async with engine.connect() as connection:
                    yield connection
        finally:
            await engine.dispose()

    @asynccontextmanager
    async def _in_turn(self) -> AsyncGenerator[None, None]:
        """Room for one connection, in the order of asking. The pool's own queue gives one that comes back to whoever
        asks next, so that in a crowd those who wait may wait for good (sqlalchemy/sqlalchemy issue 7679 on GitHub).

        Raises:
            PoolTimeout: there was none in the pool's time for it.
        """
        if self._room.locked():
            try:
                async with asyncio.timeout(self._pool.timeout()):
                    await self._room.acquire()
            except TimeoutError as error:
                raise PoolTimeout(f"no connection of {self.size} came back in time") from error
        else:
            await self._room.acquire()
        try:
            yield
        finally:
            self._room.release()

    @property
    def connections_used(self) -> int:
        """How many connections are out right now."""
        return self._pool.checkedout()

    @property
    def _pool(self) -> QueuePool:
        pool = self.engine.pool
        if not isinstance(pool, QueuePool):
            raise TypeError(f"{pool!r} has no bound")
        return pool

    async def aclose(self) -> None:
        await self.engine.dispose()

    @contextmanager
    def _as_unavailable(self) -> Generator[None, None, None]:
        try:
            yield
        except IntegrityError:
            raise
        except PoolTimeout as error:
            raise StoreBusy(self.size) from error
        except TROUBLE as error:
            raise StoreUnavailable from error
        except RuntimeError as error:
            if CLOSED not in str(error):
                raise
            raise StoreUnavailable from error


def _note_idle(_: object, record: ConnectionPoolEntry) -> None:
    record.info["idle_since"] = time.monotonic()


def _alive(connection: Any, record: ConnectionPoolEntry, _: object) -> None:
    """Don't hand out a connection that the server closed, nor one unused for long that may be dead without word of it.

    Raises:
        DisconnectionError: the pool tries another.
    """
    driver: Any = record.driver_connection  # asyncpg's, which has no types
    if driver is not None and driver.is_closed():
        raise DisconnectionError("closed by the server")
    if time.monotonic() - record.info.get("idle_since", math.inf) > PING_AFTER_S:
        try:
            connection.ping()
        except Exception as error:
            raise DisconnectionError("no answer to a ping") from error


def async_url(url: str | URL) -> URL:
    """The URL with the asyncpg driver, whichever way the user wrote it (`postgres://`, `postgresql://`)."""
    parsed = make_url(url.replace("postgres://", "postgresql://", 1) if isinstance(url, str) else url)
    return parsed.set(drivername="postgresql+asyncpg")
