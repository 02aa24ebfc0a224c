"""A TCP proxy of our own, to stand between a process and Redis or Postgres: it can cut, pause and delay what passes."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

CHUNK = 1 << 16
Target = tuple[str, int] | str


class TcpProxy:
    """Listens on `port` of 127.0.0.1 and passes on to the target: (host, port), or the path of a unix socket."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._server: asyncio.Server | None = None
        self._passing: set[asyncio.Task[None]] = set()
        self._open = asyncio.Event()
        self._open.set()
        self._is_cut = False
        self.delay_s = 0.0
        self.port = 0
        self.connections = 0

    def pause(self) -> None:
        """Hold all bytes back in both directions; connections stay, and new ones are taken but hear nothing."""
        self._open.clear()

    def resume(self) -> None:
        """Let bytes pass again, those held back first."""
        self._open.set()

    def cut(self) -> None:
        """Break every connection, and each new one at once, until `mend`."""
        self._is_cut = True
        for task in self._passing:
            task.cancel()

    def mend(self) -> None:
        """As new: nothing cut, paused or delayed."""
        self._is_cut = False
        self.delay_s = 0.0
        self._open.set()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        """Listen for the block."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, backlog=1024)
        self.port = self._server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            self._server.close()
            self.cut()
            await asyncio.gather(*self._passing, return_exceptions=True)
            await self._server.wait_closed()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if self._is_cut:
            writer.transport.abort()
            return
        task = asyncio.create_task(self._pass(reader, writer), name="proxied connection")
        self._passing.add(task)
        task.add_done_callback(self._passing.discard)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Both directions of one connection, until either side ends; ends the other too."""
        far: asyncio.StreamWriter | None = None
        try:
            far_reader, far = await self._connect()
            async with asyncio.TaskGroup() as both:
                there = both.create_task(self._copy(reader, far))
                back = both.create_task(self._copy(far_reader, writer))
                await asyncio.wait({there, back}, return_when=asyncio.FIRST_COMPLETED)
                there.cancel()
                back.cancel()
        except OSError:
            pass  # the far side isn't there: the near one sees its connection break
        finally:
            writer.transport.abort()
            if far is not None:
                far.transport.abort()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self._target, str):
            return await asyncio.open_unix_connection(self._target)
        return await asyncio.open_connection(*self._target)

    async def _copy(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(CHUNK):
                await self._open.wait()
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                sink.write(data)
                await sink.drain()
        except ConnectionError:
            pass  # either side broke it; `_pass` ends the other


@asynccontextmanager
async def tcp_proxy(target: Target) -> AsyncGenerator[TcpProxy, None]:
    """A proxy before the target, for the block."""
    proxy = TcpProxy(target)
    async with proxy.running():
        yield proxy
