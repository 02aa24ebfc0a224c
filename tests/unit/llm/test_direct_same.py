"""The same reply read by httpx's own transport and by ours: the two agree. Decision 0017 lists what is intended."""

import asyncio
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import httpx
import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from app.llm.direct import DirectTransport
from tests.unit.llm.raw_server import RawServer
from tests.unit.llm.reading import cut_at

TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
NAMES = st.sampled_from([b"Content-Type", b"x-request-id", b"Retry-After", b"Set-Cookie", b"X_Odd!", b"Server"])
VALUES = st.sampled_from(
    [b"", b"a", b"text/event-stream; charset=utf-8", b"  spaced  ", b"\tTab\t", b"\xe4\xbd\xa0", b'a:b, c="d"']
)
STATUSES = st.sampled_from(
    [b"200 OK", b"200", b"201 ", b"204 No Content", b"304 Not Modified", b"404 Nicht da \xe4", b"429 Too", b"503 Busy"]
)
BEFORE = st.sampled_from(
    [b"", b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 2]
)
BODIES = st.binary(max_size=60) | st.sampled_from([b"x" * 5000, b"data: {}\n\n" * 40])
PLACES = st.lists(st.integers(0, 6000), max_size=6)


@dataclass(frozen=True, slots=True)
class Read:
    """What a transport made of it. `body` is what was read before an error, too."""

    status: int | None = None
    headers: Sequence[tuple[bytes, bytes]] = ()
    body: bytes = b""
    error: type[Exception] | None = None


@st.composite
def replies(draw: st.DrawFn) -> bytes:
    """A plausible reply, framed in one of the ways there are."""
    version = draw(st.sampled_from([b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0"]))
    fields = draw(st.lists(st.tuples(NAMES, VALUES), max_size=4))
    body = draw(BODIES)
    framing = draw(st.sampled_from(["length", "chunked", "both", "close"]))
    coding = draw(st.sampled_from([b"chunked", b" chunked ", b"\tchunked"]))
    if framing in ("length", "both"):
        fields.append((b"Content-Length", b"%d" % len(body)))
    if framing in ("chunked", "both"):
        fields.append((draw(st.sampled_from([b"Transfer-Encoding", b"transfer-encoding"])), coding))
        extension = draw(st.sampled_from([b"", b"", b";a=b", b";c"]))
        chunks = [b"%x%b\r\n%b\r\n" % (len(piece), extension, piece) for piece in cut_at(body, draw(PLACES)) if piece]
        body = b"".join([*chunks, b"0\r\n", draw(st.sampled_from([b"", b"X-Trailer: t\r\n"])), b"\r\n"])
    fields = draw(st.permutations(fields))
    lines = [version + b" " + draw(STATUSES), *(b"%b:%b" % field for field in fields), b"", b""]
    return draw(BEFORE) + b"\r\n".join(lines) + body


@st.composite
def cut_short(draw: st.DrawFn) -> bytes:
    """A plausible reply that ends too early, or too late."""
    said = draw(replies())
    if draw(st.booleans()):
        return said + draw(st.sampled_from([b"\r\n", b"more", said]))
    return said[: draw(st.integers(0, len(said)))]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A plausible reply with some bytes exchanged, or others put between."""
    said = draw(replies())
    for _ in range(draw(st.integers(1, 2))):
        place = draw(st.integers(1, min(len(said), 150)))
        kept = place + draw(st.integers(0, 2))
        said = (
            said[:place]
            + draw(st.sampled_from([b"\r", b"\n", b" ", b"\t", b":", b"0", b"9", b"a", b"\xff", b"\r\n ", b";"]))
            + said[kept:]
        )
    return said


async def read(transport: httpx.AsyncBaseTransport, server: RawServer, pieces: Sequence[bytes]) -> Read:
    """What a client over this transport is given when a server says these pieces, then closes."""
    async with httpx.AsyncClient(transport=transport, timeout=5) as client:

        async def serve() -> None:
            peer = await server.accept()
            await peer.request()
            for piece in pieces:
                peer.say(piece)
                await asyncio.sleep(0)
            peer.end()

        serving = asyncio.create_task(serve())
        seen = Read()
        try:
            async with client.stream("POST", server.url, content=b"{}") as response:
                seen = Read(response.status_code, response.headers.raw)
                async for piece in response.aiter_raw():
                    seen = replace(seen, body=seen.body + piece)
        except httpx.TransportError as error:
            seen = replace(seen, error=type(error))
        await serving
        return seen


async def both(said: bytes, places: Sequence[int]) -> tuple[Read, Read]:
    """Httpx's reading, and ours."""
    pieces = cut_at(said, places)
    async with RawServer() as server:
        return (
            await read(httpx.AsyncHTTPTransport(verify=TLS), server, pieces),
            await read(DirectTransport(TLS), server, pieces),
        )


Runners = dict[str, Callable[[], asyncio.AbstractEventLoop]]
LOOPS: Runners = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.mark.parametrize("loop", LOOPS)
def test_plausible_replies_are_read_alike(loop: str) -> None:
    """Status, headers with their case and order, body."""
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:

        @settings(max_examples=80)
        @given(said=replies(), places=PLACES)
        def alike(said: bytes, places: list[int]) -> None:
            theirs, ours = runner.run(both(said, places))
            assert ours == theirs

        alike()


@pytest.mark.parametrize("loop", LOOPS)
def test_replies_that_end_at_the_wrong_place_are_read_alike(loop: str) -> None:
    """What came before the end is the same, and so is the class of the error."""
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:

        @settings(max_examples=80)
        @given(said=cut_short(), places=PLACES)
        def alike(said: bytes, places: list[int]) -> None:
            theirs, ours = runner.run(both(said, places))
            assert ours == theirs

        alike()


@pytest.mark.parametrize("loop", LOOPS)
def test_damaged_replies_are_never_read_more_kindly(loop: str) -> None:
    """Ours may refuse what httpx takes; what it takes, it reads alike (but NUL in a reason phrase, which nobody reads)."""
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:

        @settings(max_examples=120)
        @given(said=damaged(), places=PLACES)
        def stricter(said: bytes, places: list[int]) -> None:
            theirs, ours = runner.run(both(said, places))
            assert ours == theirs or ours.error is httpx.RemoteProtocolError

        stricter()
