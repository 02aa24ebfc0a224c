"""What a command can't do is said in one line on stderr, with exit status 2; anything else is a bug and shows.

And how a command gets its database, and where its tables go.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import click
from rich.console import Console

from app.errors import AppError, StartError

if TYPE_CHECKING:
    from app.store.engine import Database

WIDTH_UNKNOWN = 200


@contextmanager
def report() -> Generator[None, None, None]:
    """End the process for the errors that a user can do something about."""
    try:
        yield
    except StartError as error:
        click.echo(f"turnstream: {error}", err=True)
        sys.exit(2)


T = TypeVar("T")


def with_database(work: "Callable[[Database], Awaitable[T]]") -> T:
    """What `work` gives on the migrated database of the settings; its refusals are said in one line."""
    from app.logs import configure_logging
    from app.process import database_address
    from app.settings import read
    from app.store.engine import Database

    with report():
        settings = read()
        configure_logging("error")
        with database_address(settings) as url:

            async def run() -> T:
                database = Database(url, pooler=settings.database_pooler)
                try:
                    return await work(database)
                except AppError as error:
                    raise StartError(error.message) from error
                finally:
                    await database.aclose()

            return asyncio.run(run())


def table_console() -> Console:
    """Standard output for tables; where it is no terminal, wide enough for their cells."""
    console = Console()
    return console if console.is_terminal else Console(width=WIDTH_UNKNOWN)
