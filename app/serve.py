"""The server process: a database to use, the application, uvicorn, and the order in which they end.

uvicorn waits for open responses before it runs the lifespan's shutdown, and an event stream never ends by
itself; so the server tells the application that it is going down before it waits (case S07).
"""

import asyncio
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

from app.errors import StartError
from app.live.log import LogUnavailable
from app.main import Application, build_live_log, create_app
from app.settings import Settings
from app.store import migrate

REQUESTS_END_S = 5
"""How long requests that aren't streams may still take at shutdown."""

LOOK_AWAY_S = 1.0
"""Where there are other replicas, how long at least a load balancer is told that this one goes down."""


class Server(uvicorn.Server):
    """uvicorn, told to end the streams first and to let turns finish while it still says that it is going down."""

    def __init__(self, config: uvicorn.Config, app: Application) -> None:
        super().__init__(config)
        self._app = app
        self._loop: asyncio.AbstractEventLoop | None = None

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """The listener stays open while turns finish: a load balancer sees readyz and the refusals, and looks away."""
        self._loop = asyncio.get_running_loop()
        self._app.begin_shutdown()
        looked_away = asyncio.sleep(LOOK_AWAY_S if self._app.settings.redis_url is not None else 0)
        await asyncio.gather(self._app.supervisor.drain(self._app.settings.drain_s), looked_away)
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A second signal ends the drain: what runs is handed over at once."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._app.supervisor.hurry)  # this is a signal handler
        super().handle_exit(sig, frame)


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


async def check_live_log(settings: Settings) -> None:
    """Have a configured live log answer once, before anything is started.

    Raises:
        StartError: it doesn't.
    """
    live = build_live_log(settings, "start")
    try:
        async with live.running():
            pass
    except LogUnavailable as error:
        raise StartError(error.message) from error


def run(settings: Settings, *, load: tuple[Path, ...] = ()) -> None:
    """Serve until a signal ends it; the embedded server is then stopped too, unless another process uses it.

    uvicorn raises the signal once more when it is done, which would end the process by its default action
    before anything below it is cleaned up; so signals are an orderly exit here.
    """
    configure_logging(settings.log_level)
    on_signals(exit_orderly)
    asyncio.run(check_live_log(settings))
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
            forwarded_allow_ips=list(settings.trusted_proxies),
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
