"""Connections straight to an endpoint: what is kept, what is refused, and what is left behind. Issue 3; RFC 9112."""

import asyncio
import zlib

import httpx
import pytest

from app.llm import direct as direct_module
from app.llm.http1 import MAX_BARREN_BYTES
from tests.unit.llm.raw_server import CHUNKED, OK, RawServer, answered, direct, kept, on_both_loops, until


async def failed(server: RawServer, client: httpx.AsyncClient, *pieces: bytes) -> httpx.TransportError:
    """What is raised when a server says this and ends."""
    asking = asyncio.create_task(client.post(server.url, content=b"{}"))
    peer = await server.accept()
    await peer.request()
    peer.say(*pieces)
    peer.end()
    with pytest.raises(httpx.TransportError) as raised:
        await asking
    return raised.value


@on_both_loops
async def test_a_connection_is_used_again_after_a_whole_reply() -> None:
    """And the request that goes over it is the same as the first."""
    async with RawServer() as server, direct() as (transport, client):
        asking = asyncio.create_task(client.post(server.url, content=b"{}", headers={"X-Own": "1"}))
        peer = await server.accept()
        request = await peer.request()
        peer.say(OK)
        assert (await asking).content == b"ok"
        assert request.startswith(b"POST /v1?q=1 HTTP/1.1\r\nHost: 127.0.0.1:")
        assert request.endswith(b"X-Own: 1\r\nContent-Length: 2\r\n\r\n{}")
        assert (await answered(server, client, peer, OK)).content == b"ok"
        assert (transport.open, transport.idle, len(server.peers)) == (1, 1, 1)


@on_both_loops
async def test_the_connection_used_last_is_used_first() -> None:
    """So that the others grow old and are closed."""
    async with RawServer() as server, direct() as (_, client):
        asking = [asyncio.create_task(client.post(server.url, content=b"{}")) for _ in range(3)]
        peers = [await server.accept() for _ in asking]
        for peer in peers:
            await peer.request()
        for peer in (peers[2], peers[0], peers[1]):
            peer.say(OK)
            await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
            asking = [task for task in asking if not task.done()]
        assert (await answered(server, client, peers[1], OK)).status_code == 200


@on_both_loops
async def test_an_idle_connection_that_ends_is_forgotten() -> None:
    """Closed by its other side while nobody asked."""
    async with RawServer() as server, direct() as (transport, client):
        first = await kept(server, client)
        first.end()
        await until(lambda: transport.open == 0)
        assert (await answered(server, client, None, OK)).content == b"ok"
        assert len(server.peers) == 2


@on_both_loops
async def test_bytes_on_an_idle_connection_end_it() -> None:
    """Nobody asked for them; they must not be the beginning of the next reply."""
    async with RawServer() as server, direct() as (transport, client):
        first = await kept(server, client)
        first.say(OK)
        await until(lambda: transport.open == 0)
        assert transport.idle == 0


@on_both_loops
async def test_an_idle_connection_is_closed_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other side sees it."""
    monkeypatch.setattr(direct_module, "KEPT_FOR_S", 0.02)
    async with RawServer() as server, direct() as (transport, client):
        first = await kept(server, client)
        assert await first.gone() == b""
        await until(lambda: transport.open == 0)


@on_both_loops
async def test_no_more_connections_are_kept_than_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest is closed when its reply has come."""
    monkeypatch.setattr(direct_module, "KEPT", 2)
    async with RawServer() as server, direct() as (transport, client):
        asking = [asyncio.create_task(client.post(server.url, content=b"{}")) for _ in range(5)]
        for _ in asking:
            peer = await server.accept()
            await peer.request()
            peer.say(OK)
        await asyncio.gather(*asking)
        await until(lambda: transport.open == 2)
        assert transport.idle == 2


@pytest.mark.parametrize("how", ["end", "reset"])
@on_both_loops
async def test_a_request_on_a_kept_connection_that_was_just_closed_is_sent_again(how: str) -> None:
    """Once, over a new connection: the other side closed while the request was on its way (RFC 9112 9.3.1)."""
    async with RawServer() as server, direct() as (_, client):
        first = await kept(server, client)
        asking = asyncio.create_task(client.post(server.url, content=b"{}"))
        await first.request()
        getattr(first, how)()
        second = await server.accept()
        await second.request()
        second.say(OK)
        assert (await asking).content == b"ok"


@on_both_loops
async def test_a_request_is_not_sent_a_third_time() -> None:
    """What breaks on a new connection is told."""
    async with RawServer() as server, direct() as (transport, client):
        first = await kept(server, client)
        asking = asyncio.create_task(client.post(server.url, content=b"{}"))
        await first.request()
        first.end()
        second = await server.accept()
        await second.request()
        second.end()
        with pytest.raises(httpx.RemoteProtocolError, match="Server disconnected without sending a response"):
            await asking
        assert (transport.open, len(server.peers)) == (0, 2)


@on_both_loops
async def test_a_request_is_not_sent_again_after_a_byte_of_its_reply() -> None:
    """The model has begun to answer it."""
    async with RawServer() as server, direct() as (_, client):
        first = await kept(server, client)
        asking = asyncio.create_task(client.post(server.url, content=b"{}"))
        await first.request()
        first.say(b"H")
        first.end()
        with pytest.raises(httpx.RemoteProtocolError):
            await asking
        assert len(server.peers) == 1


@on_both_loops
async def test_silence_on_a_kept_connection_is_not_retried() -> None:
    """The other side may be at work on it."""
    async with RawServer() as server, direct(read=0.1) as (_, client):
        first = await kept(server, client)
        with pytest.raises(httpx.ReadTimeout):
            await client.post(server.url, content=b"{}")
        assert await first.gone() != b""
        assert len(server.peers) == 1


INFORMED = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nTransfer-Encoding: chunked\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"


@pytest.mark.parametrize(
    ("said", "status", "headers", "body", "idle"),
    [
        (INFORMED + OK, 200, [("content-length", "2")], b"ok", 1),
        (CHUNKED.replace(b"chunked", b"Chunked ") + b"2\r\nok\r\n0\r\n\r\n", 200, [("transfer-encoding", "Chunked")], b"ok", 1),
        (CHUNKED + b"2;x=y\r\nok\r\n0\r\nX-Trailer: t\r\n\r\n", 200, [("transfer-encoding", "chunked")], b"ok", 1),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, [], b"", 1),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 304, [("content-length", "5")], b"", 1),
        (b"HTTP/1.1 200\r\nA:\r\nB: \xe9 \r\nContent-Length: 0\r\n\r\n", 200, [("a", ""), ("b", "é"), ("content-length", "0")], b"", 1),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, [("content-length", "2")], b"ok", 0),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n", 200, [("connection", "keep-alive"), ("content-length", "0")], b"", 1),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", 200, [("connection", "close"), ("content-length", "2")], b"ok", 0),
        (OK + b"more", 200, [("content-length", "2")], b"ok", 0),
        (OK + OK, 200, [("content-length", "2")], b"ok", 0),
        (OK + b"HTTP/1.1 500 Split\r\nContent-Length: 3\r\n\r\nbad", 200, [("content-length", "2")], b"ok", 0),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 200, [("content-length", "9"), ("transfer-encoding", "chunked")], b"ok", 0),
    ],
    ids=["informed", "capital", "trailers", "204", "304", "odd-headers", "1.0", "1.0-kept", "close", "more", "another", "split", "both-framings"],
)  # fmt: skip
@pytest.mark.parametrize("whole", [True, False], ids=["at-once", "byte-by-byte"])
@on_both_loops
async def test_a_reply_is_read_as_the_rfc_says(
    said: bytes, status: int, headers: list[tuple[str, str]], body: bytes, idle: int, whole: bool
) -> None:
    """And the connection is kept only where nothing of another reply can be on it."""
    async with RawServer() as server, direct() as (transport, client):
        asking = asyncio.create_task(client.post(server.url, content=b"{}"))
        peer = await server.accept()
        await peer.request()
        for piece in [said] if whole else [said[n : n + 1] for n in range(len(said))]:
            peer.say(piece)
            await asyncio.sleep(0)
        response = await asking
        assert (response.status_code, response.headers.multi_items(), response.content) == (status, headers, body)
        await until(lambda: transport.open == transport.idle)
        if whole or idle:
            assert transport.idle == idle


@on_both_loops
async def test_a_body_without_a_length_ends_with_its_connection() -> None:
    """RFC 9112 6.3, the last rule."""
    async with RawServer() as server, direct() as (transport, client):
        asking = asyncio.create_task(client.post(server.url, content=b"{}"))
        peer = await server.accept()
        await peer.request()
        peer.say(b"HTTP/1.1 200 OK\r\n\r\nto the", b" end")
        peer.end()
        assert (await asking).content == b"to the end"
        await until(lambda: transport.open == 0)


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"HTTP/1.1 20",
        b"<html>Not HTTP</html>",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
        b"HTTP/1.1 200 OK\r\nX : a\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nX: a\x00b\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\t\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        CHUNKED + b"2\r\nok\r\n",
        CHUNKED + b"2\r\nok\r\n0\r\n",
        CHUNKED + b"z\r\nok\r\n0\r\n\r\n",
        CHUNKED + b"2\r\nokay\r\n0\r\n\r\n",
        CHUNKED + b"fffffffffffffffff\r\nok",
    ],
)
@on_both_loops
async def test_what_is_not_http_is_refused(said: bytes) -> None:
    """So is what ends too early; nothing is left open. A folded or bare-LF head is refused too (decision 0017)."""
    async with RawServer() as server, direct() as (transport, client):
        assert type(await failed(server, client, said)) is httpx.RemoteProtocolError
        assert transport.open == 0


@pytest.mark.parametrize(
    ("begun", "more"),
    [
        (b"HTTP/1.1 200 OK\r\nX: ", b"x"),
        (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (CHUNKED + b"0\r\nX: ", b"x"),
        (CHUNKED + b"1;", b"x"),
    ],
    ids=["value", "headers", "informational", "trailer", "chunk-extension"],
)
@on_both_loops
async def test_a_flood_without_a_body_is_refused(begun: bytes, more: bytes) -> None:
    """It would fill the memory before anybody could read."""
    async with RawServer() as server, direct() as (transport, client):
        asking = asyncio.create_task(client.post(server.url, content=b"{}"))
        peer = await server.accept()
        await peer.request()
        peer.say(begun, more * (2 * MAX_BARREN_BYTES // len(more)))
        with pytest.raises(
            httpx.RemoteProtocolError, match=f"more than {MAX_BARREN_BYTES} bytes without any of a body"
        ):
            await asking
        await peer.gone()
        assert transport.open == 0


@pytest.mark.parametrize("wbits", [31, 15], ids=["gzip", "deflate"])
@on_both_loops
async def test_a_compressed_body_is_decoded_step_by_step(wbits: int) -> None:
    """Each piece as it comes, not at the end (S02)."""
    packer = zlib.compressobj(wbits=wbits)
    coding = b"gzip" if wbits == 31 else b"deflate"
    async with RawServer() as server, direct() as (_, client):
        asking = asyncio.create_task(client.send(client.build_request("POST", server.url, content=b"{}"), stream=True))
        peer = await server.accept()
        await peer.request()
        peer.say(CHUNKED.replace(b"\r\n", b"\r\nContent-Encoding: %b\r\n" % coding, 1))
        response = await asking
        pieces = response.aiter_bytes()
        for word in (b"one", b"two"):
            data = packer.compress(word) + packer.flush(zlib.Z_SYNC_FLUSH)
            peer.say(b"%x\r\n%b\r\n" % (len(data), data))
            assert await anext(pieces) == word
        await response.aclose()
