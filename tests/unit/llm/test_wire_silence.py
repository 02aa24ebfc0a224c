"""An endpoint that can't be reached, says nothing, or stops. Family "silence" of issue 3, cases P06, P15, S04."""

import asyncio
import inspect
import random
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import httpx
import pytest

from app.llm.capabilities import Capabilities
from app.llm.direct import BODY, DirectTransport
from app.llm.failures import Interrupted, ModelFailure, Unreachable
from app.llm.model import ModelRequest, TextDelta, UserMessage
from app.llm.openai_chat import EndpointConfig, OpenAIChat
from app.llm.provider_error import Redactor
from app.llm.read_ahead import ReadAhead, Stalled
from app.llm.straight import Straight
from app.llm.transport import LASTING, WORDS, from_transport
from tests.harness.scripted_endpoint import MUTE, RESET, Reply, ScriptedEndpoint, event, finish, stream, text
from tests.unit.llm.raw_server import RawServer, direct, on_both_loops
from tests.unit.llm.reading import ask, broken
from tests.unit.llm.small_proxy import SmallProxy

SAID = event({"content": "Half"})
REQUEST = ModelRequest((UserMessage("q"),))


@asynccontextmanager
async def client(base_url: str, **times: Any) -> AsyncGenerator[OpenAIChat]:
    """A model with times of its own."""
    model = OpenAIChat(
        EndpointConfig(base_url=base_url, model="m", api_key="sk-test-abcdef123", **times), Capabilities()
    )
    try:
        yield model
    finally:
        await model.aclose()


def inside(value: object, *names: str) -> Any:
    """What stands behind these attributes, also private ones: only the pool itself can tell what it holds."""
    for name in names:
        value = getattr(value, name)
    return value


def closed_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


async def test_a_refused_connection_is_unreachable(no_proxy: None) -> None:
    """And may be tried again; the message names the host and why."""
    async with client(f"http://127.0.0.1:{closed_port()}/v1") as model:
        answer = await ask(model)
    assert answer.failure is not None
    assert (type(answer.failure), answer.failure.transient, answer.failure.status) == (Unreachable, True, None)
    assert answer.failure.message.startswith("127.0.0.1 can't be reached: could not connect")


async def test_an_unknown_host_is_unreachable(no_proxy: None) -> None:
    """A name that no resolver knows. Source: RFC 6761, `.invalid`."""
    async with client("http://nowhere.invalid/v1") as model:
        answer = await ask(model)
    assert type(answer.failure) is Unreachable


async def test_a_failed_tls_handshake_is_unreachable(no_proxy: None, endpoint: ScriptedEndpoint) -> None:
    """The other side speaks no TLS."""
    async with client(f"https://127.0.0.1:{endpoint.port}/v1", connect_timeout_s=0.3, read_timeout_s=0.3) as model:
        answer = await ask(model)
    assert type(answer.failure) is Unreachable


async def test_a_reset_before_headers_is_unreachable(endpoint: ScriptedEndpoint, model: OpenAIChat) -> None:
    """No byte of a response came (P06)."""
    answer = await ask(model, endpoint.script(RESET))
    assert answer.failure is not None
    assert (type(answer.failure), answer.failure.transient) == (Unreachable, True)


async def test_silence_before_headers_is_unreachable(no_proxy: None, endpoint: ScriptedEndpoint) -> None:
    """The read timeout measures silence from the request on, and the connection is closed."""
    script = endpoint.script(MUTE)
    async with client(endpoint.base_url, read_timeout_s=0.1) as model:
        answer = await ask(model, script)
        assert answer.failure is not None
        assert (type(answer.failure), answer.failure.transient) == (Unreachable, True)
        assert "silent for longer than the read timeout" in answer.failure.message
        await script.requests[0].closed.wait()


async def test_silence_after_headers_is_an_interruption(no_proxy: None, endpoint: ScriptedEndpoint) -> None:
    """No byte of the body at all (P15)."""
    script = endpoint.script(stream(close="hang"))
    async with client(endpoint.base_url, read_timeout_s=0.1) as model:
        answer = await ask(model, script)
    assert answer.outcome == broken("", Interrupted)
    assert answer.failure is not None
    assert answer.failure.transient


async def _unanswered(gate: asyncio.Event) -> AsyncGenerator[bytes, None]:
    await gate.wait()
    yield b""


async def test_silence_after_text_is_an_interruption_and_keeps_the_text(
    no_proxy: None, endpoint: ScriptedEndpoint
) -> None:
    """The delta is out before the silence is noticed; the connection is closed (P15)."""
    script = endpoint.script(stream(SAID, close="hang"))
    async with client(endpoint.base_url, read_timeout_s=0.1) as model:
        answer = await ask(model, script)
        assert answer.outcome == broken("Half", Interrupted)
        await script.requests[0].closed.wait()


async def _comments() -> AsyncGenerator[bytes, None]:
    yield SAID
    while True:
        await asyncio.sleep(0.01)
        yield b": keep-alive\n\n"


async def _empty_chunks() -> AsyncGenerator[bytes, None]:
    yield SAID
    while True:
        await asyncio.sleep(0.01)
        yield event(None)


@pytest.mark.parametrize("pieces", [_comments, _empty_chunks])
async def test_bytes_without_progress_do_not_hide_a_stall(
    pieces: Callable[[], AsyncGenerator[bytes, None]], no_proxy: None, endpoint: ScriptedEndpoint
) -> None:
    """Two clocks: comments and chunks without a choice reset only the one for bytes (P15)."""
    script = endpoint.script(lambda _: Reply(pieces(), headers={"content-type": "text/event-stream"}))
    async with client(endpoint.base_url, read_timeout_s=5.0, progress_timeout_s=0.15) as model:
        answer = await ask(model, script)
    assert answer.outcome == broken("Half", Interrupted)
    assert answer.failure is not None
    assert "no progress" in answer.failure.message
    await script.requests[0].closed.wait()


async def test_progress_may_be_slow_for_as_long_as_it_goes_on(no_proxy: None, endpoint: ScriptedEndpoint) -> None:
    """There is no total timeout: a reply may take many times the progress timeout."""
    pieces = [event({"content": f"{n} "}) for n in range(10)]
    script = endpoint.script(Reply([*pieces, finish()], headers={"content-type": "text/event-stream"}, pace_s=0.05))
    async with client(endpoint.base_url, read_timeout_s=0.4, progress_timeout_s=0.4) as model:
        answer = await ask(model, script)
    assert answer.outcome.text == "0 1 2 3 4 5 6 7 8 9 "
    assert answer.failure is None


async def test_a_stream_that_stays_open_after_its_finish_reason_is_not_waited_for(
    no_proxy: None, endpoint: ScriptedEndpoint
) -> None:
    """Only usage could still come; a short patience is enough."""
    script = endpoint.script(stream(SAID, event({}, "stop"), close="hang"))
    async with client(endpoint.base_url, settle_timeout_s=0.1) as model:
        answer = await ask(model, script)
    assert answer.failure is None
    assert answer.outcome.text == "Half"


async def test_a_stream_that_stays_open_after_done_is_closed_at_once(
    endpoint: ScriptedEndpoint, model: OpenAIChat
) -> None:
    """[DONE] is the end, whatever the server does next."""
    script = endpoint.script(stream(SAID, finish(), close="hang"))
    answer = await ask(model, script)
    assert answer.failure is None
    await script.requests[0].closed.wait()


async def test_closing_the_generator_closes_the_connection_at_once(
    endpoint: ScriptedEndpoint, model: OpenAIChat
) -> None:
    """Stop reaches the provider, which would go on and bill (S04)."""
    script = endpoint.script(stream(SAID, close="hang"))
    request = ModelRequest((UserMessage(f"q {script}"),))
    async with aclosing(model.stream(request)) as events:
        assert await anext(events) == TextDelta("Half")
        assert not script.requests[0].closed.is_set()
    async with asyncio.timeout(1):
        await script.requests[0].closed.wait()


async def test_cancelling_a_reader_closes_the_connection_and_leaves_no_task(
    endpoint: ScriptedEndpoint, model: OpenAIChat
) -> None:
    """A cancelled turn cleans up behind itself, at whatever point it was (S04)."""
    gate = asyncio.Event()
    script = endpoint.script(stream(SAID, gate, close="hang"))
    reading = asyncio.create_task(ask(model, script))
    seen = await script.request(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    async with asyncio.timeout(1):
        await seen.closed.wait()
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "model reply reader"]


async def test_cancelling_before_headers_closes_the_connection(endpoint: ScriptedEndpoint, model: OpenAIChat) -> None:
    """Also while nothing has come yet (S04)."""
    script = endpoint.script(MUTE)
    reading = asyncio.create_task(ask(model, script))
    seen = await script.request(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await seen.closed.wait()


@pytest.mark.parametrize("by_proxy", [False, True], ids=["direct", "proxy"])
async def test_a_slow_reader_loses_nothing(
    by_proxy: bool, endpoint: ScriptedEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits for it is bounded: reading stops there and goes on when there is room."""
    monkeypatch.setattr("app.llm.read_ahead.MAX_AHEAD_BYTES", 1000)
    monkeypatch.setattr("app.llm.http1.HIGH_BYTES", 1000)
    monkeypatch.setattr("app.llm.http1.MAX_BARREN_BYTES", 1000)
    words = "x" * 20_000
    script = endpoint.script(text(words, size=40))
    received = ""
    async with SmallProxy() as proxy:
        if by_proxy:
            monkeypatch.setenv("HTTP_PROXY", proxy.url)
            monkeypatch.setenv("NO_PROXY", "")
        async with (
            client(endpoint.base_url) as model,
            aclosing(model.stream(ModelRequest((UserMessage(f"q {script}"),)))) as events,
        ):
            async for part in events:
                if isinstance(part, TextDelta):
                    received += part.text
                    for _ in range(3):
                        await asyncio.sleep(0)
    assert received == words
    assert bool(proxy.requests) == by_proxy


async def _source(*chunks: bytes, error: Exception | None = None) -> AsyncGenerator[bytes, None]:
    for chunk in chunks:
        yield chunk
    if error is not None:
        raise error


async def nothing() -> None:
    """A source that needs no closing."""


async def test_what_arrived_is_taken_before_the_error_behind_it() -> None:
    """The reader's exception comes after every byte."""
    async with ReadAhead(_source(b"a", b"", b"b", error=httpx.ReadError("gone")), nothing) as reader:
        assert await reader.take() == b"ab"
        with pytest.raises(httpx.ReadError):
            await reader.take()
    async with ReadAhead(_source(), nothing) as reader:
        assert await reader.take() == b""


async def test_a_deadline_that_passed_while_the_owner_worked_still_counts() -> None:
    """The timer rang when nobody waited; the next wait notices."""
    gate = asyncio.Event()

    async def close() -> None:
        gate.set()

    async with ReadAhead(_unanswered(gate), close) as reader:
        reader.expect_within(0.01)
        await asyncio.sleep(0.03)
        with pytest.raises(Stalled):
            await reader.take()


@on_both_loops
async def test_on_a_connection_of_ours_what_came_before_the_deadline_is_taken_after_it() -> None:
    """The deadline passed while the owner worked: what had come by then is given, and only the next wait is Stalled."""
    async with RawServer() as server, direct() as (_, http):
        asking = asyncio.create_task(http.send(http.build_request("POST", server.url, content=b"{}"), stream=True))
        peer = await server.accept()
        await peer.request()
        peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", b"a")
        response = await asking
        reader = Straight(response.extensions[BODY])
        reader.expect_within(0.01)
        await asyncio.sleep(0.03)
        assert await reader.take() == b"a"
        with pytest.raises(Stalled):
            await reader.take()
        await response.aclose()


async def test_closing_waits_for_the_source_though_cancelled_twice() -> None:
    """Nothing is left half closed; the cancellation is raised afterwards."""
    gate, allowed, entered = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def close() -> None:
        entered.set()
        await allowed.wait()
        gate.set()

    async def own() -> None:
        async with ReadAhead(_unanswered(gate), close) as reader:
            await reader.take()

    owner = asyncio.create_task(own())
    await asyncio.sleep(0)
    owner.cancel()
    await entered.wait()
    owner.cancel()
    await asyncio.sleep(0)
    assert not owner.done()
    allowed.set()
    with pytest.raises(asyncio.CancelledError):
        await owner
    assert gate.is_set()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("by_proxy", [False, True], ids=["direct", "proxy"])
async def test_replies_cancelled_at_any_moment_leave_no_place_taken(
    seed: int, by_proxy: bool, no_proxy: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """120 replies a seed, cancelled after any number of steps, some twice: only idle connections are left (S04)."""
    rng = random.Random(seed)
    async with ScriptedEndpoint() as server, SmallProxy() as proxy:
        if by_proxy:
            monkeypatch.setenv("HTTP_PROXY", proxy.url)
            monkeypatch.setenv("NO_PROXY", "")
        script = server.script(text("words " * 40, size=3))
        async with client(server.base_url) as model:

            async def cancelled() -> None:
                asking = asyncio.create_task(ask(model, script))
                for _ in range(rng.choice([1, 2])):
                    for _ in range(rng.randrange(120)):
                        await asyncio.sleep(0)
                    asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)

            for _ in range(6):
                await asyncio.gather(*(cancelled() for _ in range(20)))
            assert inside(model, "_connections", "open_streams") == 0
            async with asyncio.timeout(5):
                while any(map(busy, inside(model, "_connections", "_clients"))):
                    await asyncio.sleep(0.001)
            assert (await ask(model, script)).outcome.text == "words " * 40
        assert bool(proxy.requests) == by_proxy
        await server.settled()


def busy(kept: httpx.AsyncClient) -> bool:
    """Whether a client has a connection that isn't idle."""
    transport = inside(kept, "_transport")
    if isinstance(transport, DirectTransport):
        return transport.open != transport.idle
    proxies = [mounted for mounted in inside(kept, "_mounts").values() if mounted is not None]
    return any(inside(each, "_pool", "_requests") for each in (transport, *proxies))


def test_every_exception_of_httpx_has_words() -> None:
    """The one table is complete; what isn't in it is a bug of ours, not the other side's."""
    ours = {
        httpx.StreamError: "reading a response in a wrong order is a bug",
        httpx.HTTPStatusError: "raise_for_status is never called",
        httpx.CookieConflict: "cookies are never looked up",
    }
    classes = [value for value in vars(httpx).values() if inspect.isclass(value) and issubclass(value, Exception)]
    assert len(classes) > 20
    for kind in classes:
        assert kind in WORDS or issubclass(kind, tuple(ours)), kind


@pytest.mark.parametrize("kind", list(WORDS))
def test_a_transport_error_is_unreachable_before_a_reply_and_an_interruption_within(kind: type[Exception]) -> None:
    """Except those that say that our request or setting is wrong: they stay and aren't tried again."""
    error = kind("with sk-secret-key-12345 inside")
    lasting = issubclass(kind, LASTING)
    redact = Redactor(())
    before = from_transport(error, began=False, host="h", redact=redact)
    within = from_transport(error, began=True, host="h", redact=redact)
    assert (type(before), before.transient) == (Unreachable, not lasting)
    assert (type(within), within.transient) == ((Unreachable, False) if lasting else (Interrupted, True))
    assert all("secret-key" not in failure.message for failure in (before, within))


async def test_five_hundred_streams_run_at_once(no_proxy: None, endpoint: ScriptedEndpoint) -> None:
    """None waits for a connection: all are open before any may end."""
    gate = asyncio.Event()
    script = endpoint.script(stream(SAID, gate, finish()))
    async with client(endpoint.base_url) as model:
        asking = [asyncio.create_task(ask(model, script)) for _ in range(500)]
        await script.request(499)
        gate.set()
        answers = await asyncio.gather(*asking)
    assert [answer.outcome.text for answer in answers] == ["Half"] * 500


def test_a_failure_says_what_it_is_to_a_log() -> None:
    """str() of a failure is its message."""
    failure: ModelFailure = Unreachable("words")
    assert str(failure) == "words"
