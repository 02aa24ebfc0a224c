"""The schema brought to the code's revision, by one process at a time.

Decides how migrations run; what they do stands in migrations/versions/, where a file is named after its
revision: `0001_foundation.py` is revision `0001`, and the highest number is the head. Blocking: each call
runs an event loop of its own, so a server calls it through `asyncio.to_thread`. alembic is imported only when
there is something to do: an up-to-date start costs one connection. Works the same through a proxy that pools
transactions, such as pgbouncer: lock, migrations and new revision are one transaction (case D02).
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal, TypeVar

from sqlalchemy import URL, Connection, text
from sqlalchemy.exc import ArgumentError, DBAPIError, ProgrammingError
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.pool import NullPool

from app.errors import StartError
from app.store.engine import NOTHING_PREPARED, TROUBLE, async_url

LOCK_KEY = 0x7475726E7374726D
"""The Postgres advisory lock that a migrating transaction holds: `turnstrm` in ASCII."""

LOCK_TIMEOUT_S = 120
CONNECT_TIMEOUT_S = 10.0

_UNDEFINED_TABLE = "42P01"
_LOCK_NOT_AVAILABLE = "55P03"

T = TypeVar("T")


class MigrationError(StartError):
    """The schema could not be brought to its revision: one plain sentence on what and what to do."""


def upgrade(url: URL | str, revision: str = "head") -> None:
    """Bring the database up to `revision`. Does nothing where it is there already.

    Raises MigrationError: no connection, a schema newer than this code, an extension that may not be made,
    another process that has been migrating for LOCK_TIMEOUT_S.
    """
    at = current(url)
    if at == (head() if revision == "head" else revision):
        return
    if at is not None and at not in revisions():
        raise MigrationError(
            f"the database is at revision {at}, which this version does not know (its newest is {head()}): "
            "run the newer version that made it, or restore a backup"
        )
    _alembic(url, "upgrade", revision)


def downgrade(url: URL | str, revision: str) -> None:
    """Take the database back to `revision`; `base` drops every table. Raises MigrationError."""
    _alembic(url, "downgrade", revision)


def current(url: URL | str) -> str | None:
    """The revision of the database, None where it has none. Raises MigrationError without a connection."""
    return asyncio.run(_connected(url, _revision))


def head() -> str:
    """The newest revision that this code has."""
    return max(revisions())


def folder() -> Path:
    """migrations/: inside the installed package in a wheel, beside it in the source tree."""
    package = Path(__file__).resolve().parents[1]
    shipped = package / "_shipped" / "migrations"
    return shipped if shipped.is_dir() else package.parent / "migrations"


def run_locked(url: URL | str, work: Callable[[Connection], None]) -> None:
    """`work` in a transaction that holds the migration lock, committed afterwards. Raises MigrationError.

    The lock is the transaction's: a session's would stay on one server of a pooling proxy while the work is on another.
    So no migration can commit in between; an index that must be built concurrently is the running server's job, as in
    app/store/embeddings.py.
    """

    async def locked(connection: AsyncConnection) -> None:
        await connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT_S}s'"))
        await connection.execute(text(f"SELECT pg_advisory_xact_lock({LOCK_KEY})"))
        await connection.execute(text("SET LOCAL lock_timeout TO DEFAULT"))
        await connection.run_sync(work)
        await connection.commit()

    asyncio.run(_connected(url, locked))


def _alembic(url: URL | str, direction: Literal["upgrade", "downgrade"], revision: str) -> None:
    from alembic import command, util  # noqa: PLC0415 - 0.2 s that an up-to-date start does not pay
    from alembic.config import Config  # noqa: PLC0415

    run = command.upgrade if direction == "upgrade" else command.downgrade
    config = Config()
    config.set_main_option("script_location", str(folder()).replace("%", "%%"))

    def work(connection: Connection) -> None:
        config.attributes["connection"] = connection
        try:
            run(config, revision)
        except util.CommandError as failure:
            raise MigrationError(f"alembic refused to {direction} to {revision}: {failure}") from failure

    run_locked(url, work)


def revisions() -> set[str]:
    """Every revision that this code knows."""
    return {file.name.partition("_")[0] for file in (folder() / "versions").glob("[0-9]*_*.py")}


async def _revision(connection: AsyncConnection) -> str | None:
    try:
        return await connection.scalar(text("SELECT version_num FROM alembic_version"))
    except ProgrammingError as failure:
        if _sqlstate(failure) == _UNDEFINED_TABLE:
            return None
        raise


async def _connected(url: URL | str, act: Callable[[AsyncConnection], Awaitable[T]]) -> T:
    """What `act` gives on a connection of its own, closed afterwards. Raises MigrationError."""
    try:
        target = async_url(url)
    except ArgumentError as failure:
        raise MigrationError("not a database URL: postgresql://user:password@host:5432/name is one") from failure
    arguments = {
        "timeout": CONNECT_TIMEOUT_S,
        "server_settings": {"application_name": "turnstream migrate"},
        **NOTHING_PREPARED,  # whether the URL leads to a pooling proxy needn't be known here: nothing runs twice
    }
    engine = create_async_engine(target, poolclass=NullPool, connect_args=arguments)
    try:
        try:
            connection = await engine.connect()
        except TROUBLE as failure:
            reason = failure.orig if isinstance(failure, DBAPIError) else failure
            raise MigrationError(
                f"no connection to the database {target.render_as_string()} ({reason}): "
                "check TURNSTREAM_DATABASE_URL and that its server runs"
            ) from failure
        try:
            return await act(connection)
        except DBAPIError as failure:
            raise MigrationError(_explain(failure)) from failure
        finally:
            await connection.close()
    finally:
        await engine.dispose()


def _explain(failure: DBAPIError) -> str:
    words = (failure.statement or "").split()
    if words[:2] == ["CREATE", "EXTENSION"]:
        return (
            f"the database needs the extension {words[-1]} and it could not be made ({failure.orig}): "
            f"install it on the server, then run CREATE EXTENSION {words[-1]} in this database as a superuser"
        )
    if _sqlstate(failure) == _LOCK_NOT_AVAILABLE and f"pg_advisory_xact_lock({LOCK_KEY})" in words:
        return f"another process has been migrating this database for {LOCK_TIMEOUT_S} s: end it, start again"
    return f"the migration failed: {failure.orig}"


def _sqlstate(failure: DBAPIError) -> str | None:
    return getattr(failure.orig, "sqlstate", None)
