"""Our response class against sse-starlette's own, over the same live log: CPU of the serving process per frame.

Each serves the same turn of FRAMES frames to READERS readers, once published one by one (every frame is a
write) and once in bursts of 20 (what waits may be joined). The raw row sends the same bytes with bare ASGI.
"""

import asyncio
import multiprocessing
import resource
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from multiprocessing.connection import Connection

import uvicorn
from sse_starlette import EventSourceResponse
from starlette.types import Receive, Scope, Send

from app.api.sse import FrameStream
from app.live.frames import Delta, Done, TurnUsage
from app.live.log import Position, Reader
from app.live.memory import MemoryLog
from app.live.memory_turn import MemoryTurn
from bench.rows import Row, main, median

READERS = 8  # of one turn; more would be woken together, and a frame would be no write
FRAMES = 400
App = Callable[[Scope, Receive, Send], Awaitable[None]]


async def _bytes_of(reader: Reader) -> AsyncIterator[bytes]:
    while (data := await reader.read(15.0)) is not None:
        yield data


async def _raw(reader: Reader, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    while (data := await reader.read(15.0)) is not None:
        await send({"type": "http.response.body", "body": data, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def _application(kind: str, burst: int) -> App:
    log = MemoryLog()
    turn = log.open("t")
    attached: list[Reader] = []

    async def publish(turn: MemoryTurn) -> None:
        at = 0
        for n in range(FRAMES):
            turn.append(Delta(at, "token "))
            at += 6
            if n % burst == burst - 1:
                await asyncio.sleep(0.002)
        turn.append(Done("m", stopped=False, evidence="none", cited=(), usage=TurnUsage()))

    publishing: list[asyncio.Task[None]] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        reader = await log.attach("t", Position("t", 0), running=True)
        if reader is None:
            raise RuntimeError("the log has no such turn")
        attached.append(reader)
        if len(attached) == READERS:
            publishing.append(asyncio.create_task(publish(turn), name="publish"))
        if kind == "raw":
            await _raw(reader, send)
        elif kind == "ours":
            await FrameStream(reader, heartbeat_s=15)(scope, receive, send)
        else:
            await EventSourceResponse(_bytes_of(reader), ping=15)(scope, receive, send)

    return app


def _serve(kind: str, burst: int, channel: Connection) -> None:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(_application(kind, burst), log_config=None, access_log=False, lifespan="off")
    server = uvicorn.Server(config)
    channel.send(listener.getsockname()[1])
    began = 0.0

    async def run() -> None:
        nonlocal began
        serving = asyncio.create_task(server.serve(sockets=[listener]), name="serve")
        while not server.started:
            await asyncio.sleep(0.01)
        began = _cpu()
        await asyncio.to_thread(channel.recv)
        channel.send(_cpu() - began)
        server.should_exit = True
        await serving

    asyncio.run(run())


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def _read(port: int) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    total = 0
    while piece := await reader.read(65536):
        total += len(piece)
        if piece.endswith(b"0\r\n\r\n"):
            break
    writer.close()
    return total


def us_per_frame(kind: str, burst: int) -> float:
    """CPU microseconds of the server per frame and reader."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.Process(target=_serve, args=(kind, burst, there))
    process.start()
    port = here.recv()

    async def readers() -> None:
        await asyncio.sleep(0.3)
        await asyncio.gather(*(_read(port) for _ in range(READERS)))

    asyncio.run(readers())
    here.send("done")
    seconds: float = here.recv()
    process.join()
    return seconds / (READERS * FRAMES) * 1e6


def measure(*, quick: bool) -> Iterator[Row]:
    """Ours as a ratio to raw, frame by frame and in bursts."""
    for burst, name in ((1, "one frame per write"), (20, "bursts of 20")):
        us = {
            kind: median(us_per_frame(kind, burst) for _ in range(1 if quick else 3))
            for kind in ("raw", "ours", "sse-starlette")
        }
        ratios = {kind: round(spent / us["raw"], 2) for kind, spent in us.items()}
        yield Row(f"SSE response class, {name}", ratios["ours"], "x bare ASGI", detail={"us": us, "ratios": ratios})


if __name__ == "__main__":
    main(measure, __doc__)
