"""The server process: a database to use, the application, uvicorn, and the order in which they end.

uvicorn waits for open responses before it runs the lifespan's shutdown, and an event stream never ends by
itself; so the server tells the application that it is going down before it waits (case S07).
"""

import logging
import signal
import socket
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

import structlog
import uvicorn
from sqlalchemy import URL, make_url

from app.main import Application, create_app
from app.settings import Settings
from app.store import migrate

REQUESTS_END_S = 5
"""How long requests that aren't streams may still take at shutdown."""


class Server(uvicorn.Server):
    """uvicorn, told to end the streams first."""

    def __init__(self, config: uvicorn.Config, app: Application) -> None:
        super().__init__(config)
        self._app = app

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.begin_shutdown()
        await super().shutdown(sockets)


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


def run(settings: Settings, *, load: tuple[Path, ...] = ()) -> None:
    """Serve until a signal ends it; the embedded server is then stopped too, unless another process uses it.

    uvicorn raises the signal once more when it is done, which would end the process by its default action
    before anything below it is cleaned up; so signals are an orderly exit here.
    """
    configure_logging(settings.log_level)
    on_signals(exit_orderly)
    with database_address(settings) as url:
        app = create_app(settings, url, load=load)
        config = uvicorn.Config(
            app,
            host=settings.host,
            port=settings.port,
            log_config=None,
            access_log=False,
            lifespan="on",
            ws="none",
            timeout_graceful_shutdown=REQUESTS_END_S,
        )
        server = Server(config, app)
        try:
            server.run()
        finally:
            on_signals(signal.SIG_IGN)  # what is left is quick and must not be cut
        if not server.started:
            sys.exit(1)


def on_signals(handler: Callable[[int, FrameType | None], object] | signal.Handlers) -> None:
    """Have this handler called for SIGTERM and SIGINT."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handler)


def exit_orderly(number: int, frame: FrameType | None) -> NoReturn:
    """A handler that ends the process with status 0, through every `finally` on the way."""
    del number, frame
    sys.exit(0)


def configure_logging(level: str) -> None:
    """One event per line on stderr, ours and the libraries': JSON, or for a person at a terminal plain text.

    Never message text, never secrets.
    """
    terminal = sys.stderr.isatty()
    renderer = structlog.dev.ConsoleRenderer() if terminal else structlog.processors.JSONRenderer()
    number = logging.getLevelNamesMapping()[level.upper()]
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso"),
    ]
    if not terminal:
        shared.append(structlog.processors.dict_tracebacks)
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
