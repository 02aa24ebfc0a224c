"""The database that a command needs before its work, whatever that is."""

from collections.abc import Generator
from contextlib import contextmanager

from sqlalchemy import URL, make_url

from app.settings import Settings
from app.store import migrate


@contextmanager
def database_address(settings: Settings, *, migrated: bool = True) -> Generator[URL, None, None]:
    """The database to use: the configured one, or the embedded server, started for the block.

    It is brought to the current schema, unless it is to be taken as it is.
    """
    if settings.database_url is not None:
        url = make_url(settings.database_url.get_secret_value())
        if migrated:
            migrate.upgrade(url)
        yield url
        return
    # where a database is given, a system without unix sockets and flock can serve too
    from app.store.embedded import EmbeddedConfig, EmbeddedPostgres  # noqa: PLC0415

    config = EmbeddedConfig(settings.data_dir, settings.pg_bin_dir, settings.pg_account)
    postgres = EmbeddedPostgres.start(config)
    try:
        if migrated:
            migrate.upgrade(postgres.url)
        yield postgres.url
    finally:
        postgres.stop()
