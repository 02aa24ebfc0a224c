"""turnstream ask: one question, answered in the terminal. By a running server where there is one, else in process.

The exit status: 0 answered, 1 the turn failed or its end was never seen, 2 it could not begin, 130 stopped. The first
Ctrl-C asks for the turn to be stopped and waits for its end; the second one leaves at once.
"""

import asyncio
import os
import signal
import sys
from contextlib import aclosing
from dataclasses import dataclass, field
from types import FrameType

import click

from app.cli.ask_frames import Conduit, Lost, Question
from app.cli.ask_show import FAILED, STOPPED, JsonLines, Show, Text
from app.cli.report import report
from app.settings import Settings, read
from app.signals import on_signals


def run(question: Question, *, url: str | None, as_json: bool) -> int:
    """Ask, show, and give the exit status."""
    on_signals(_leave)
    show: Show = JsonLines(sys.stdout) if as_json else Text.of_process()
    try:
        with report():
            settings = read()
            if (found := url or settings.url or asyncio.run(_server(settings))) is not None:
                return asyncio.run(_over_http(found, settings, question, show))
            from app.cli.ask_here import Here
            from app.logs import configure_logging
            from app.process import database_address

            configure_logging("error")
            with database_address(settings) as database:
                return asyncio.run(_ask(Here(settings, database, question), show))
    except BrokenPipeError:  # whoever read the answer has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED


async def _server(settings: Settings) -> str | None:
    """The address of a server of ours that answers at HOST:PORT."""
    from app.cli.ask_http import answers

    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    url = f"http://{host}:{settings.port}"
    return url if settings.port and await answers(url) else None


async def _over_http(url: str, settings: Settings, question: Question, show: Show) -> int:
    from app.cli.ask_http import Remote

    token = None if settings.token is None else settings.token.get_secret_value()
    return await _ask(Remote(url, question, token=token), show)


@dataclass(slots=True)
class _Interrupts:
    """What signals ask for: first a stop, then to leave."""

    asking: asyncio.Task[object] | None = field(default_factory=asyncio.current_task)
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    def hear(self, number: int, frame: FrameType | None) -> None:
        """The handler of a signal."""
        del number, frame
        self.loop.call_soon_threadsafe(self._heard)

    def _heard(self) -> None:
        if self.stop.is_set() and self.asking is not None:
            self.asking.cancel()
        self.stop.set()


async def _ask(conduit: Conduit, show: Show) -> int:
    interrupts = _Interrupts()
    on_signals(interrupts.hear)
    stopping = asyncio.create_task(_stop_when_asked(conduit, interrupts), name="stop the turn")
    try:
        async with aclosing(conduit.frames()) as frames:
            async for frame in frames:
                show.take(frame)
    except Lost as lost:
        click.echo(f"turnstream: {lost}", err=True)
        return FAILED
    except asyncio.CancelledError:
        if not interrupts.stop.is_set():
            raise
        return STOPPED
    finally:
        on_signals(signal.SIG_IGN)  # what is left is quick and must not be cut
        stopping.cancel()
        await asyncio.gather(stopping, return_exceptions=True)
    return show.status


async def _stop_when_asked(conduit: Conduit, interrupts: _Interrupts) -> None:
    await interrupts.stop.wait()
    click.echo("stopping; again to leave at once", err=True)
    try:
        await conduit.stop()
    except Lost as lost:
        click.echo(f"turnstream: {lost}", err=True)


def _leave(number: int, frame: FrameType | None) -> None:
    del number, frame
    sys.exit(STOPPED)
