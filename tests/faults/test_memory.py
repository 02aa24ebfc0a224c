"""What stays in memory: nothing of turns that are over, a bounded part of one that runs, little of readers that don't
read. Issue 5 item 6, cases S06 and S13.

Finished turns are kept for a minute; these tests shorten that in the running log, which is the one thing they turn.
"""
# pyright: reportPrivateUsage=false

import asyncio
import json
import socket
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from redis.asyncio import Redis
from sqlalchemy import URL

from app.live.log import LAG_BYTES
from app.live.memory import MemoryLog
from app.live.memory_turn import LOG_BYTES
from app.live.redis_keys import turn_key
from app.live.redis_streams import RedisLog
from tests.harness.alive import allocated, keep_briefly, ours_alive, tasks_alive, until
from tests.harness.app import App, Turn, running_app
from tests.harness.redis import redis_server
from tests.harness.scripted_endpoint import Reply, Script, ScriptedEndpoint, call, event, finish, stream, text
from tests.harness.sse_reader import Frame, StreamReader, frames_of

MB = 1024 * 1024
AT_ONCE = 50
SKIP = call(("no_evidence_needed", {"reason": "a greeting"}))


def greet(body: dict[str, object]) -> Reply:
    """A call, and once it has its result, an answer."""
    messages = body["messages"]
    assert isinstance(messages, list)
    return text("Hello to you.") if messages[-1]["role"] == "tool" else SKIP


async def ask_once(app: App, question: str) -> bytes:
    """The whole stream of a turn, read from a bare connection, which costs less than a client's."""
    address = app.http.base_url
    reader, writer = await asyncio.open_connection(address.host, address.port)
    body = json.dumps({"message": question}).encode()
    head = f"POST /api/chat HTTP/1.1\r\nHost: {address.host}\r\nConnection: close\r\nContent-Type: application/json\r\n"
    writer.write(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    received = await reader.read()
    writer.close()
    await writer.wait_closed()
    return received


async def ask_many(app: App, script: Script, count: int) -> None:
    """So many turns, AT_ONCE at a time; each is read to its end."""
    for _ in range(count // AT_ONCE):
        for received in await asyncio.gather(*(ask_once(app, f"Hello {script}") for _ in range(AT_ONCE))):
            assert received.count(b"event: done\n") == 1
        script.requests.clear()  # the endpoint's own memory


async def streams_at(url: str) -> int:
    """How many turns' streams the server holds."""
    async with Redis.from_url(url) as client:  # pyright: ignore[reportUnknownMemberType]
        return len(await client.keys(f"{turn_key('')}*"))  # pyright: ignore[reportUnknownMemberType]


@pytest.mark.timeout(180)
async def test_after_a_thousand_turns_nothing_of_them_is_left(
    new_database: Callable[[], AbstractAsyncContextManager[URL]],
) -> None:
    """No task, reader, log or entry of the supervisor, and no more memory than before (cases S06 and S13)."""
    async with new_database() as url, ScriptedEndpoint() as endpoint, running_app(url, llm=endpoint.base_url) as app:
        log = keep_briefly(app)
        script = endpoint.script(greet)
        await ask_many(app, script, 300)
        await until(lambda: not log._turns)
        alive, tasks, (blocks, size) = ours_alive(), tasks_alive(), allocated()
        await ask_many(app, script, 1_000)
        await until(lambda: not log._turns and not tasks_alive() - tasks)
        assert ours_alive() - alive == Counter()
        assert (log.attached_readers, log.live_turns, app.parts.supervisor._owned) == (0, 0, {})
        blocks_now, size_now = allocated()
        assert blocks_now - blocks < 5_000
        assert size_now - size < 16 * MB


async def test_after_their_time_redis_holds_nothing_of_turns_nor_do_the_replicas_that_wrote_and_read_them(
    new_database: Callable[[], AbstractAsyncContextManager[URL]], tmp_path: Path
) -> None:
    """Streams expire, and with them go lanes, mirrors and logs."""
    async with (
        new_database() as url,
        redis_server(tmp_path) as redis,
        ScriptedEndpoint() as endpoint,
        running_app(url, llm=endpoint.base_url, redis_url=redis.url) as writes,
        running_app(url, llm=endpoint.base_url, redis_url=redis.url) as reads,
    ):
        logs = [keep_briefly(writes), keep_briefly(reads)]
        gate = asyncio.Event()
        slow = stream(event({"content": "Hello"}), gate, finish())
        script = endpoint.script(lambda body: slow if greet(body) is not SKIP else SKIP)
        asked = [asyncio.create_task(writes.ask(f"Hello {script}")) for _ in range(AT_ONCE)]
        await until(lambda: logs[0].live_turns == AT_ONCE)
        rows = await writes.rows("SELECT CAST(conversation_id AS text) FROM turns")
        tabs = [asyncio.create_task(reads.attach(row[0])) for row in rows]
        await until(lambda: logs[1].attached_readers == AT_ONCE)
        assert await streams_at(redis.url) == AT_ONCE
        gate.set()
        for turn in await asyncio.gather(*asked, *tabs):
            assert turn.events[-1] == "done"
        async with asyncio.timeout(10):
            while await streams_at(redis.url):
                await asyncio.sleep(0.02)
        for app, log in zip((writes, reads), logs, strict=True):
            await until(lambda log=log: not log._turns)
            carrier = app.parts.live
            assert isinstance(carrier, RedisLog)
            assert (carrier._pump._lanes, carrier._pump._dirty, carrier._follower._mirrors) == ({}, {}, {})


@asynccontextmanager
async def deaf_readers(app: App, conversation_id: str, count: int) -> AsyncGenerator[list[socket.socket]]:
    """Connections that ask for the conversation's stream and read nothing, with as little room as a kernel gives."""
    address = app.http.base_url
    request = f"GET /api/conversations/{conversation_id}/live HTTP/1.0\r\nHost: {address.host}\r\n\r\n".encode()
    deaf: list[socket.socket] = []
    try:
        for _ in range(count):
            connection = socket.socket()
            deaf.append(connection)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            connection.setblocking(False)
            await asyncio.get_running_loop().sock_connect(connection, (address.host, address.port))
            await asyncio.get_running_loop().sock_sendall(connection, request)
        yield deaf
    finally:
        for connection in deaf:
            connection.close()


def transports_of(app: App, clients: list[socket.socket]) -> list[asyncio.Transport]:
    """The server's ends of these connections."""
    ports = {client.getsockname()[1] for client in clients}
    ends = [connection.transport for connection in app.server.server_state.connections]
    return [end for end in ends if end.get_extra_info("peername")[1] in ports]


async def read_to_the_end(connection: socket.socket) -> list[Frame]:
    """All frames of a response that ends with its connection."""
    received = b""
    while piece := await asyncio.get_running_loop().sock_recv(connection, 1 << 20):
        received += piece
    return StreamReader().feed(received.partition(b"\r\n\r\n")[2])


async def test_a_long_turn_and_readers_that_do_not_read_take_a_bounded_amount_of_memory(
    new_database: Callable[[], AbstractAsyncContextManager[URL]],
) -> None:
    """5 MB pass twenty deaf readers: each holds less than 256 KiB and a write's worth; later it has it all (case S13)."""
    piece = "x" * 10_000
    gate = asyncio.Event()
    pieces = [event({"content": piece}) for _ in range(500)]
    async with ScriptedEndpoint() as endpoint, new_database() as url:
        script = endpoint.script(SKIP, stream(event({"content": "Now: "}), gate, *pieces, finish()))
        async with running_app(url, llm=endpoint.base_url, answer_max_chars=6_000_000) as app:
            log, turn = app.parts.live, Turn()
            assert isinstance(log, MemoryLog)
            async with AsyncExitStack() as stack:
                response = await stack.enter_async_context(app.stream(f"Go on {script}"))
                deaf: list[socket.socket] = []
                ends: list[asyncio.Transport] = []
                async for frame in frames_of(response):
                    turn.frames.append(frame)
                    if frame.event == "delta" and not gate.is_set():
                        deaf += await stack.enter_async_context(deaf_readers(app, turn.conversation_id, 20))
                        await until(lambda: log.attached_readers == 21)
                        ends += transports_of(app, deaf)
                        for end in ends:
                            end.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
                        gate.set()
                assert turn.events[-1] == "done"
                kept = log.find(turn.turn_id)
                assert kept is not None
                assert LOG_BYTES < sum(len(data) for data in kept._frames) < 2 * LOG_BYTES + 2 * len(piece)
                held = [end.get_write_buffer_size() for end in ends]
                assert len(held) == 20
                assert max(held) < LAG_BYTES + 64 * 1024
                frames = await read_to_the_end(deaf[0])
                events = [frame.event for frame in frames]
                assert (events[0], events[-2:], events.count("snapshot")) == ("snapshot", ["snapshot", "done"], 2)
                assert frames[-2].data["content"] == "Now: " + 500 * piece
