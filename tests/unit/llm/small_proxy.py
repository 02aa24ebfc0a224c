"""A small forward proxy on a real port: absolute targets and CONNECT, without authentication."""

import asyncio
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit


class SmallProxy:
    """Use as an async context manager. `requests` holds the first line of each connection.

    A connection is a tunnel to the host of its first request.
    """

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.url = ""
        self._tunnels: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for tunnel in self._tunnels:
            tunnel.cancel()
        await asyncio.gather(*self._tunnels, return_exceptions=True)
        await self._server.wait_closed()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._tunnel(reader, writer), name="small proxy")
        self._tunnels.add(task)
        task.add_done_callback(self._tunnels.discard)

    async def _tunnel(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Connect to where the first request points, then carry bytes both ways until one side ends."""
        writers = [writer]
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            line = head.partition(b"\r\n")[0].decode()
            self.requests.append(line)
            method, target, _ = line.split(" ")
            connecting = method == "CONNECT"
            place = urlsplit(f"//{target}" if connecting else target)
            far_reader, far_writer = await asyncio.open_connection(place.hostname, place.port)
            writers.append(far_writer)
            if connecting:
                writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
            else:
                far_writer.write(head)
            ways = [asyncio.create_task(_carry(reader, far_writer)), asyncio.create_task(_carry(far_reader, writer))]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # a client that was cancelled
        finally:
            for each in writers:
                each.transport.abort()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
