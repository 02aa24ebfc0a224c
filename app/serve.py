"""The server process: a database to use, the application, uvicorn, and the order in which they end.

uvicorn waits for open responses before it runs the lifespan's shutdown, and an event stream never ends by
itself; so the server tells the application that it is going down before it waits (case S07).
"""

import asyncio
import gc
import signal
import socket
import sys
from pathlib import Path
from types import FrameType

import uvicorn

from app.errors import StartError
from app.live.log import LogUnavailable
from app.logs import configure_logging
from app.main import Application, create_app
from app.parts import build_live_log
from app.process import database_address
from app.settings import Settings
from app.signals import exit_orderly, on_signals

COLLECT_AFTER = (10_000, 20, 20)
"""Garbage is looked for after so many new objects, and among older ones after so many of those looks."""

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
        """From the first signal on nothing is admitted; a second ends the drain: what runs is handed over at once."""
        self._app.supervisor.draining = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._app.supervisor.hurry)  # this is a signal handler
        super().handle_exit(sig, frame)


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
        gc.freeze()  # no later collection walks the program itself
        gc.set_threshold(*COLLECT_AFTER)
        gc.enable()
        try:
            server.run()
        finally:
            on_signals(signal.SIG_IGN)  # what is left is quick and must not be cut
        if not server.started:
            sys.exit(1)
