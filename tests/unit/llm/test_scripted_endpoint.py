"""The harness itself: a test that trusts it must be able to."""

import asyncio
import json

import httpx
import pytest

from tests.harness.scripted_endpoint import (
    DONE,
    MUTE,
    RESET,
    Reply,
    ScriptedEndpoint,
    call,
    event,
    finish,
    http,
    stream,
    text,
    unless,
    usage,
)
from tests.unit.llm.reading import wire_tasks


async def post(endpoint: ScriptedEndpoint, question: object, **fields: object) -> httpx.Response:
    body = {"messages": [{"role": "user", "content": str(question)}], **fields}
    async with httpx.AsyncClient(trust_env=False, timeout=5) as client:
        return await client.post(f"{endpoint.base_url}/chat/completions", json=body)


async def test_the_marker_in_the_last_question_picks_the_script(endpoint: ScriptedEndpoint) -> None:
    """Replies come in order, the last again and again; bodies are remembered per script."""
    script = endpoint.script(text("one"), text("two"))
    other = endpoint.script(http(418, "other"))
    answers = [await post(endpoint, f"{other} then {script}", number=n) for n in range(3)]
    assert [(b"one" in answer.content, b"two" in answer.content) for answer in answers] == [
        (True, False),
        (False, True),
        (False, True),
    ]
    assert [body["number"] for body in script.bodies] == [0, 1, 2]
    assert other.bodies == []
    assert (await post(endpoint, "no marker")).content == b"".join(
        [event({"content": part}) for part in ("No s", "crip", "t wa", "s na", "med.")] + [finish()]
    )


async def test_a_step_may_look_at_the_request(endpoint: ScriptedEndpoint) -> None:
    """`unless` refuses a request that carries a field."""
    script = endpoint.script(unless("tools", http(400, {"error": "no tools"}, retry_after="3"), text("fine")))
    refused = await post(endpoint, script, tools=[])
    assert (refused.status_code, refused.json(), refused.headers["retry-after"]) == (400, {"error": "no tools"}, "3")
    assert (await post(endpoint, script)).status_code == 200


def test_calls_are_written_in_pieces_that_join_to_the_arguments() -> None:
    """Text first, then each call with its index, id and name, then the finish reason, usage and [DONE]."""
    reply = call(("timeline", {"id": 7}), ("neighbors", "{cut"), say="hm")
    assert isinstance(reply.pieces, tuple)
    pieces = [piece for piece in reply.pieces if isinstance(piece, bytes)]
    assert pieces[0] == event({"content": "hm"})
    assert pieces[-1] == event({}, "tool_calls") + usage() + DONE
    chunks = [json.loads(piece.removeprefix(b"data: ")) for piece in pieces[1:-1]]
    written = ["", ""]
    for chunk in chunks:
        entry = chunk["choices"][0]["delta"]["tool_calls"][0]
        written[entry["index"]] += entry["function"]["arguments"]
    assert written == ['{"id": 7}', "{cut"]


async def test_a_gate_holds_the_rest_back_until_the_test_opens_it(endpoint: ScriptedEndpoint) -> None:
    """And the request can be waited for."""
    gate = asyncio.Event()
    script = endpoint.script(stream(event({"content": "a"}), gate, DONE))
    asking = asyncio.create_task(post(endpoint, script))
    seen = await script.request(0)
    assert not seen.over.is_set()
    gate.set()
    assert (await asking).content.endswith(DONE)
    await seen.over.wait()
    assert not seen.closed.is_set()


@pytest.mark.parametrize("reply", [MUTE, stream(event({"content": "a"}), close="hang")])
async def test_a_client_that_goes_away_is_noticed(reply: Reply, endpoint: ScriptedEndpoint) -> None:
    """Whether anything was written or not."""
    script = endpoint.script(reply)
    asking = asyncio.create_task(post(endpoint, script))
    seen = await script.request(0)
    assert not seen.closed.is_set()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    async with asyncio.timeout(5):
        await seen.closed.wait()


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (RESET, (httpx.ReadError, httpx.RemoteProtocolError)),
        (stream(b"x", close="cut"), httpx.RemoteProtocolError),
        (Reply([b"x"], framing="length", headers={"content-length": "9"}, close="cut"), httpx.RemoteProtocolError),
    ],
)
async def test_connections_break_as_the_script_says(
    reply: Reply, error: type[Exception] | tuple[type[Exception], ...], endpoint: ScriptedEndpoint
) -> None:
    """Before the response, within a chunked body, within a body of known length."""
    with pytest.raises(error):
        await post(endpoint, endpoint.script(reply))


async def test_leaving_the_endpoint_ends_every_connection_and_task() -> None:
    """Also those that hang."""
    before = wire_tasks()
    async with ScriptedEndpoint() as endpoint:
        script = endpoint.script(MUTE)
        asking = asyncio.create_task(post(endpoint, script))
        await script.request(0)
        assert endpoint.connections == 1
    with pytest.raises(httpx.HTTPError):
        await asking
    assert not wire_tasks() - before
