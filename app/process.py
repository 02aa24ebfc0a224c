"""What a command's process needs before its work, whatever that is: a log and a database."""

import logging
import sys
from collections.abc import Generator
from contextlib import contextmanager

import structlog
from sqlalchemy import URL, make_url

from app.settings import Settings
from app.store import migrate


@contextmanager
def database_address(settings: Settings) -> Generator[URL, None, None]:
    """The migrated database to use: the configured one, or the embedded server, started for the block."""
    if settings.database_url is not None:
        url = make_url(settings.database_url.get_secret_value())
        migrate.upgrade(url)
        yield url
        return
    # where a database is given, a system without unix sockets and flock can serve too
    from app.store.embedded import EmbeddedConfig, EmbeddedPostgres  # noqa: PLC0415

    config = EmbeddedConfig(settings.data_dir, settings.pg_bin_dir, settings.pg_account)
    postgres = EmbeddedPostgres.start(config)
    try:
        migrate.upgrade(postgres.url)
        yield postgres.url
    finally:
        postgres.stop()


def configure_logging(level: str) -> None:
    """One event per line on stderr, ours and the libraries': JSON, or for a person at a terminal plain text.

    Never message text, never secrets.
    """
    terminal = sys.stderr.isatty()
    # tracebacks without locals: those hold messages and keys, and drawing them holds the loop for seconds
    plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    renderer = plain if terminal else structlog.processors.JSONRenderer()
    number = logging.getLevelNamesMapping()[level.upper()]
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso"),
    ]
    if not terminal:
        transformer = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
        shared.append(structlog.processors.ExceptionRenderer(transformer))
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    handler = logging.StreamHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                renderer,
            ],
        )
    )
    logging.basicConfig(level=max(number, logging.INFO), handlers=[handler], force=True)
    for talkative in ("alembic", "httpx", "mcp", "procrastinate"):
        logging.getLogger(talkative).setLevel(logging.WARNING)
