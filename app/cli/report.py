"""What a command can't do is said in one line on stderr, with exit status 2; anything else is a bug and shows.

And where a command's tables go.
"""

import sys
from collections.abc import Generator
from contextlib import contextmanager

import click
from rich.console import Console

from app.errors import StartError

WIDTH_UNKNOWN = 200


@contextmanager
def report() -> Generator[None, None, None]:
    """End the process for the errors that a user can do something about."""
    try:
        yield
    except StartError as error:
        click.echo(f"turnstream: {error}", err=True)
        sys.exit(2)


def table_console() -> Console:
    """Standard output for tables; where it is no terminal, wide enough for their cells."""
    console = Console()
    return console if console.is_terminal else Console(width=WIDTH_UNKNOWN)
