"""The way to an endpoint: clocks, TLS, addresses, and what a cancellation leaves behind. Issue 3, cases P06, S04."""

import asyncio
import random
import socket
import ssl

import httpx
import pytest
import trustme

from app.llm.http1 import HIGH_BYTES
from tests.unit.llm.raw_server import CHUNKED, OK, RawServer, answered, direct, kept, on_both_loops, until


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def server_tls(authority: trustme.CA, name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)  # pyright: ignore[reportUnknownMemberType]  # pyOpenSSL's
    return context


def client_tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(context)  # pyright: ignore[reportUnknownMemberType]  # pyOpenSSL's
    return context


@on_both_loops
async def test_silence_before_a_head_is_a_read_timeout() -> None:
    """And the connection is closed."""
    async with RawServer() as server, direct(read=0.05) as (transport, client):
        with pytest.raises(httpx.ReadTimeout):
            await client.post(server.url, content=b"{}")
        await (await server.accept()).gone()
        await until(lambda: transport.open == 0)


@on_both_loops
async def test_silence_in_a_body_is_a_read_timeout_after_what_came() -> None:
    """What had arrived is read first."""
    async with RawServer() as server, direct(read=0.05) as (_, client):
        asking = asyncio.create_task(client.send(client.build_request("POST", server.url, content=b"{}"), stream=True))
        peer = await server.accept()
        await peer.request()
        peer.say(CHUNKED, b"2\r\nok\r\n")
        response = await asking
        pieces = response.aiter_raw()
        assert await anext(pieces) == b"ok"
        with pytest.raises(httpx.ReadTimeout):
            await anext(pieces)
        await response.aclose()
        await peer.gone()


@pytest.mark.parametrize(("said", "body"), [((), []), ((CHUNKED, b"2\r\nok\r\n"), [b"ok"])], ids=["head", "body"])
@on_both_loops
async def test_a_connection_that_breaks_is_a_read_error(said: tuple[bytes, ...], body: list[bytes]) -> None:
    """Before the head, or behind what came (P06)."""
    async with RawServer() as server, direct() as (transport, client):
        pieces: list[bytes] = []

        async def read() -> None:
            async with client.stream("POST", server.url, content=b"{}") as response:
                async for piece in response.aiter_raw():
                    pieces.append(piece)  # noqa: PERF401  # seen from outside while it goes on

        reading = asyncio.create_task(read())
        peer = await server.accept()
        await peer.request()
        peer.say(*said)
        await until(lambda: pieces == body)
        peer.reset()
        with pytest.raises(httpx.ReadError):
            await reading
        await until(lambda: transport.open == 0)


@on_both_loops
async def test_reading_may_take_longer_than_the_read_timeout_while_bytes_come() -> None:
    """The clock measures silence; a timer that rings meanwhile harms nobody."""
    async with RawServer() as server, direct(read=0.2) as (_, client):
        asking = asyncio.create_task(client.post(server.url, content=b"{}"))
        peer = await server.accept()
        await peer.request()
        peer.say(CHUNKED)
        for _ in range(10):
            await asyncio.sleep(0.04)
            peer.say(b"1\r\nx\r\n")
        peer.say(b"0\r\n\r\n")
        assert (await asking).content == b"x" * 10


@on_both_loops
async def test_a_request_that_is_not_taken_is_a_write_timeout() -> None:
    """The other side reads nothing, and says nothing."""
    async with RawServer() as server, direct(write=0.1) as (transport, client):
        with pytest.raises(httpx.WriteTimeout):
            await client.post(server.url, content=bytes(32 * 1024 * 1024))
        await until(lambda: transport.open == 0)


@on_both_loops
async def test_a_reply_that_comes_before_the_request_was_taken_is_read() -> None:
    """A refusal for being too large; the connection isn't used again."""
    async with RawServer() as server, direct() as (transport, client):
        asking = asyncio.create_task(client.post(server.url, content=bytes(32 * 1024 * 1024)))
        peer = await server.accept()
        await peer.reader.readuntil(b"\r\n\r\n")
        peer.say(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
        response = await asking
        assert (response.status_code, response.content) == (413, b"big")
        await until(lambda: transport.open == 0)


@on_both_loops
async def test_a_slow_reader_pauses_the_socket_and_loses_nothing() -> None:
    """So much waits and no more; the other side can't write on, until it is read."""
    body = random.Random(1).randbytes(32 * HIGH_BYTES)
    async with RawServer() as server, direct() as (_, client):
        asking = asyncio.create_task(client.send(client.build_request("POST", server.url, content=b"{}"), stream=True))
        peer = await server.accept()
        await peer.request()
        peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body), body)
        response = await asking
        taken: list[int] = []
        await until(lambda: taken.append(peer.writer.transport.get_write_buffer_size()) or len(taken) > 50)
        assert taken[-1] == taken[-20] > 16 * HIGH_BYTES
        pieces = [piece async for piece in response.aiter_raw()]
        assert max(map(len, pieces)) < 3 * HIGH_BYTES
        assert b"".join(pieces) == body
        assert (await answered(server, client, peer, OK)).content == b"ok"


@on_both_loops
async def test_a_port_without_a_listener_is_a_connect_error() -> None:
    """It says why."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        async with direct() as (transport, client):
            with pytest.raises(httpx.ConnectError, match=r"(?i)connection refused|connect call failed"):
                await client.get(f"http://127.0.0.1:{probe.getsockname()[1]}/")
            assert transport.open == 0


@pytest.mark.parametrize("host", ["nowhere.invalid", "a" * 64 + ".invalid"])
@on_both_loops
async def test_a_host_that_does_not_resolve_is_a_connect_error(host: str) -> None:
    """RFC 6761; a label that is too long is no name at all."""
    async with direct() as (_, client):
        with pytest.raises(httpx.ConnectError):
            await client.get(f"http://{host}/")


@on_both_loops
async def test_a_connection_that_does_not_come_about_is_a_connect_timeout() -> None:
    """The listener's queue is full, so that nobody answers."""
    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for filler in (first, second):
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        async with direct(connect=0.1) as (transport, client):
            with pytest.raises(httpx.ConnectTimeout):
                await client.get(f"http://127.0.0.1:{full.getsockname()[1]}/")
            assert transport.open == 0


@on_both_loops
async def test_a_handshake_that_does_not_come_about_is_a_connect_timeout() -> None:
    """The other side accepts, and says nothing."""
    async with RawServer() as server, direct(connect=0.1) as (transport, client):
        with pytest.raises(httpx.ConnectTimeout):
            await client.get(server.url.replace("http:", "https:"))
        await (await server.accept()).gone()
        assert transport.open == 0


async def test_an_address_that_is_dead_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host has two, and the first never answers: the second is tried long before the connect timeout (RFC 8305)."""
    async with RawServer() as server, direct() as (_, client):
        with socket.socket() as full, socket.socket() as first, socket.socket() as second:
            full.bind(("127.0.0.2", 0))
            full.listen(0)
            for filler in (first, second):
                filler.setblocking(False)
                filler.connect_ex(full.getsockname())

            async def addresses(*_: object, **__: object) -> list[object]:
                places = (full.getsockname(), ("127.0.0.1", server.port))
                return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", place) for place in places]

            monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", addresses)
            await kept(server, client)


@on_both_loops
async def test_an_ipv6_literal_is_a_host() -> None:
    """In brackets in the URL and in Host, without them for the resolver."""
    async with RawServer(host="::1") as server, direct() as (_, client):
        asking = asyncio.create_task(client.post(server.url, content=b"{}"))
        peer = await server.accept()
        assert b"\r\nHost: [::1]:%d\r\n" % server.port in await peer.request()
        peer.say(OK)
        assert (await asking).content == b"ok"


@on_both_loops
async def test_tls_is_spoken_and_kept(authority: trustme.CA) -> None:
    """HTTP/1.1 is offered by ALPN; a body may end with the connection."""
    tls = server_tls(authority, "127.0.0.1")
    tls.set_alpn_protocols(["h2", "http/1.1"])
    async with RawServer(tls) as server, direct(client_tls(authority)) as (transport, client):
        peer = await kept(server, client)
        assert peer.writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
        asking = asyncio.create_task(client.post(server.url, content=b"{}"))
        await peer.request()
        peer.say(b"HTTP/1.1 200 OK\r\n\r\nto the end")
        peer.end()
        assert (await asking).content == b"to the end"
        await until(lambda: transport.open == 0)


@on_both_loops
async def test_a_tls_connection_that_breaks_is_told(authority: trustme.CA) -> None:
    """In the middle of a body."""
    async with (
        RawServer(server_tls(authority, "127.0.0.1")) as server,
        direct(client_tls(authority)) as (transport, client),
    ):
        asking = asyncio.create_task(client.post(server.url, content=b"{}"))
        peer = await server.accept()
        await peer.request()
        peer.say(CHUNKED, b"2\r\nok\r\n")
        peer.end()
        with pytest.raises(httpx.RemoteProtocolError):
            await asking
        await until(lambda: transport.open == 0)


@on_both_loops
async def test_a_certificate_for_another_name_is_refused(authority: trustme.CA) -> None:
    """Nothing is sent."""
    async with (
        RawServer(server_tls(authority, "elsewhere.test")) as server,
        direct(client_tls(authority)) as (transport, client),
    ):
        with pytest.raises(httpx.ConnectError, match="certificate"):
            await client.post(server.url, content=b"{}")
        assert transport.open == 0


@on_both_loops
async def test_a_certificate_of_an_unknown_authority_is_refused(authority: trustme.CA) -> None:
    """Nothing is sent."""
    async with RawServer(server_tls(authority, "127.0.0.1")) as server, direct() as (transport, client):
        with pytest.raises(httpx.ConnectError, match="certificate"):
            await client.post(server.url, content=b"{}")
        assert transport.open == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"method": "HEAD"},
        {"method": "GET X"},
        {"method": "POST", "headers": {"X": "a\r\nContent-Length: 0"}},
        {"method": "POST", "headers": {"X": "a\0"}},
        {"method": "POST", "headers": {"Transfer-Encoding": "chunked"}},
    ],
)
@on_both_loops
async def test_a_request_that_would_be_read_otherwise_is_not_sent(wrong: dict[str, object]) -> None:
    """The client would let these pass; a line break in a header would begin another one."""
    async with RawServer() as server, direct() as (transport, client):
        with pytest.raises(httpx.LocalProtocolError):
            await client.request(url=server.url, **wrong)  # pyright: ignore[reportArgumentType]
        assert (transport.open, server.peers) == (0, [])


@pytest.mark.parametrize("secure", [False, True], ids=["http", "https"])
@on_both_loops
async def test_a_request_cancelled_at_any_moment_leaves_no_connection(secure: bool, authority: trustme.CA) -> None:
    """200 of them, after any number of steps; the transport works on (S04)."""
    steps = random.Random(7)
    tls = server_tls(authority, "127.0.0.1") if secure else None
    async with RawServer(tls) as server, direct(client_tls(authority)) as (transport, client):

        async def answer() -> None:
            while True:
                peer = await server.accepted.get()
                peer.say(OK[:-1])
                await asyncio.sleep(0)
                peer.say(OK[-1:])

        answering = asyncio.create_task(answer())
        for _ in range(200):
            asking = asyncio.create_task(client.post(server.url, content=b"{}"))
            for _ in range(steps.randrange(60 if secure else 30)):
                await asyncio.sleep(0)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            await until(lambda: transport.open == transport.idle)
        await transport.aclose()
        for peer in server.peers:
            await peer.gone()
        answering.cancel()
        await asyncio.gather(answering, return_exceptions=True)


@on_both_loops
async def test_closing_ends_open_streams_and_idle_connections() -> None:
    """A read that waits fails; nothing is open afterwards, and nothing is kept any more."""
    async with RawServer() as server, direct() as (transport, client):
        idle = await kept(server, client)
        asking = [asyncio.create_task(client.post(server.url, content=b"{}")) for _ in range(3)]
        peers = [idle, await server.accept(), await server.accept()]
        peers[1].say(CHUNKED)
        for peer in peers:
            await peer.request()
        await transport.aclose()
        assert (transport.open, transport.idle) == (0, 0)
        assert [type(end) for end in await asyncio.gather(*asking, return_exceptions=True)] == [httpx.ReadError] * 3
        for peer in peers:
            await peer.gone()


@on_both_loops
async def test_a_reply_closed_before_its_end_closes_the_connection() -> None:
    """It can't be used again; a reply that has come whole can, though nobody read it."""
    async with RawServer() as server, direct() as (transport, client):
        for said, idle in ((OK, 1), (CHUNKED, 0)):
            asking = asyncio.create_task(
                client.send(client.build_request("POST", server.url, content=b"{}"), stream=True)
            )
            peer = server.peers[0] if server.peers else await server.accept()
            await peer.request()
            peer.say(said)
            await (await asking).aclose()
            assert transport.idle == idle
        await server.peers[0].gone()
        await until(lambda: transport.open == 0)
