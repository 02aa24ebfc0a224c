"""What a command can't do is said in one line on stderr, with exit status 2; anything else is a bug and shows."""

import sys
from collections.abc import Generator
from contextlib import contextmanager

import click

from app.errors import StartError


@contextmanager
def report() -> Generator[None, None, None]:
    """End the process for the errors that a user can do something about."""
    try:
        yield
    except StartError as error:
        click.echo(f"turnstream: {error}", err=True)
        sys.exit(2)
