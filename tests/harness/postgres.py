"""A Postgres for the tests: embedded and thrown away, or the server that TURNSTREAM_TEST_DATABASE_URL names.

The schema is migrated once into a template database; every database that a test gets is a copy of it.
"""

import asyncio
import os
import secrets
import shutil
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from sqlalchemy import URL, text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from app.store import migrate
from app.store.embedded import EmbeddedConfig, EmbeddedPostgres
from app.store.engine import async_url


class PostgresServer:
    """A running server. `url` is the database from which others are made; its role may make databases."""

    def __init__(self, url: URL) -> None:
        self.url = url
        self._template: str | None = None
        self._making = asyncio.Lock()

    @asynccontextmanager
    async def new_database(self, *, migrated: bool = True) -> AsyncGenerator[URL]:
        """The URL of a database of one's own, dropped afterwards whoever is still connected."""
        name = await self._create(template=await self._migrated_template() if migrated else "template0")
        try:
            yield self.url.set(database=name)
        finally:
            await self._drop(name)

    async def aclose(self) -> None:
        if self._template is not None:
            await self._drop(self._template)

    async def _migrated_template(self) -> str:
        async with self._making:
            if self._template is None:
                self._template = await self._create(template="template0")
                await asyncio.to_thread(migrate.upgrade, self.url.set(database=self._template))
            return self._template

    async def _create(self, *, template: str) -> str:
        name = f"turnstream_test_{secrets.token_hex(6)}"
        await run_sql(self.url, f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return name

    async def _drop(self, name: str) -> None:
        await run_sql(self.url, f'DROP DATABASE "{name}" WITH (FORCE)')


async def run_sql(url: URL, statement: str) -> object:
    """The first value of the statement's result, None where it has no rows. On a connection of its own."""
    engine = create_async_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    try:
        async with engine.connect() as connection:
            result = await connection.execute(text(statement))
            return result.scalar() if result.returns_rows else None
    finally:
        await engine.dispose()


@asynccontextmanager
async def running_postgres() -> AsyncGenerator[PostgresServer]:
    """The server of a test session, stopped and removed at the end where it is embedded."""
    given = os.environ.get("TURNSTREAM_TEST_DATABASE_URL")
    if given:
        server = PostgresServer(async_url(given))
        try:
            yield server
        finally:
            await server.aclose()
        return
    data_dir = Path(tempfile.mkdtemp(prefix="turnstream-test-"))
    try:
        embedded = await asyncio.to_thread(EmbeddedPostgres.start, EmbeddedConfig(data_dir, durable=False))
        server = PostgresServer(embedded.url)
        try:
            yield server
        finally:
            await server.aclose()
            await asyncio.to_thread(embedded.stop)
    finally:
        shutil.rmtree(data_dir)
