"""turnstream mcp: the tools over stdin and stdout, for a program that starts us. Logs go to stderr only.

Uses the same database as the server: the configured one, or the embedded one, shared with a server that runs.
"""

import asyncio
import os
import signal
import threading
from contextlib import suppress
from types import FrameType
from typing import Self, cast

import anyio
import structlog
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from sqlalchemy import URL

from app.api.mcp import Access, build_server
from app.auth.principal import LOCAL
from app.cli.report import report
from app.errors import StartError
from app.logs import configure_logging
from app.process import database_address
from app.settings import Settings, read
from app.signals import exit_orderly, on_signals
from app.store import bases
from app.store.engine import Database
from app.tools import registry

_log = structlog.get_logger(__name__)

_STDIN = 0
_BLOCK = 64 * 1024


def run(base: str) -> None:
    """Serve the base's tools until stdin ends or a signal comes.

    An embedded server is then stopped too, unless another process uses it.
    """
    with report():
        settings = read()
        configure_logging(settings.log_level)
        on_signals(exit_orderly)
        wire = _take_stdin()
        with database_address(settings) as url:
            try:
                asyncio.run(_serve(settings, url, base, wire))
            finally:
                on_signals(signal.SIG_IGN)  # what is left is quick and must not be cut


async def _serve(settings: Settings, url: URL, base: str, wire: int) -> None:
    tools = registry.load(settings.tools)
    database = Database(url, pooler=settings.database_pooler)
    try:
        if await bases.find_id(database, base) is None:
            raise StartError(f"There is no base named {base!r}.")
        # the caller is whoever started the process, with the rights that the server gives on this machine
        access = Access(base, LOCAL)
        server: Server[object] = build_server(tools, database, lambda _: access)
        lines = Lines(wire)
        on_signals(lines.interrupt)
        lines.start()
        # the SDK only iterates over it
        async with stdio_server(stdin=cast("anyio.AsyncFile[str]", lines)) as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
    except* BrokenPipeError:
        _log.info("mcp_client_gone")  # it went away without waiting for what it had asked
    finally:
        await database.aclose()


class Lines:
    """The lines of a descriptor, read by a thread of its own; iteration ends at the end of input or by `end`.

    The SDK reads stdin in a thread that can't be called off, so that a signal would have to wait for the next line.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._thread = threading.Thread(target=self._read, name="stdin", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """End the iteration after the lines that were read already."""
        self._lines.put_nowait(None)

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """`end`, as the handler of a signal."""
        del number, frame
        self._loop.call_soon_threadsafe(self.end)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        line = await self._lines.get()
        if line is None:
            raise StopAsyncIteration
        return line

    def _read(self) -> None:
        with suppress(RuntimeError):  # the loop is closed: the process is ending
            try:
                self._read_to_end()
            except OSError as error:
                _log.warning("mcp_input_broke", reason=str(error))
            self._loop.call_soon_threadsafe(self.end)

    def _read_to_end(self) -> None:
        rest = b""
        while block := os.read(self._descriptor, _BLOCK):
            *whole, rest = (rest + block).split(b"\n")
            for line in whole:
                self._put(line)
        if rest:
            self._put(rest)

    def _put(self, line: bytes) -> None:
        self._loop.call_soon_threadsafe(self._lines.put_nowait, line.decode(errors="replace"))


def _take_stdin() -> int:
    """The descriptor of the wire; stdin itself then holds nothing, so that nobody else can read from the wire."""
    try:
        wire = os.dup(_STDIN)
    except OSError as error:
        raise StartError("stdin is closed; an MCP client starts this command with a pipe there.") from error
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, _STDIN)
    os.close(nothing)
    return wire
