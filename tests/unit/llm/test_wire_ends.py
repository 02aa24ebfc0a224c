"""How a reply may end. Family "ends" of issue 3, cases P05, P06, P08, P14."""

import json

import pytest

from app.llm.capabilities import Capabilities
from app.llm.failures import (
    ContentFiltered,
    ContextTooLong,
    Interrupted,
    OutOfCredit,
    RateLimited,
    Rejected,
    Unavailable,
)
from app.llm.model import Finish, Usage
from app.llm.openai_chat import EndpointConfig, OpenAIChat
from tests.harness.scripted_endpoint import DONE, Reply, ScriptedEndpoint, call, event, http, stream, text, usage
from tests.unit.llm.reading import Case, Outcome, ask, broken, cut_at, read

SAID = event({"content": "Part one of the ans"})
HALF_CALL = event(
    {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "timeline", "arguments": '{"name":"Ac'}}]}
)
WHOLE_CALL = event({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "timeline", "arguments": '{"id":7}'}}]})
CALLED = (("timeline", '{"id":7}'),)


def error(code: object, message: str, **more: object) -> bytes:
    """An error object inside a stream that began with 200."""
    return b"data: " + json.dumps({"error": {"code": code, "message": message, **more}}).encode() + b"\n\n"


CASES = [
    Case("neither-finish-nor-done-P06A", SAID, broken("Part one of the ans", Interrupted)),
    Case("a-call-cut-off-P06B", HALF_CALL, broken("", Interrupted)),
    Case("finish-without-done-P06C", SAID + event({}, "stop"), Outcome("Part one of the ans")),
    Case("only-comments-P06D", b": ping\n\n: ping\n\n", broken("", Interrupted)),
    Case("nothing-at-all-P06D", b"", broken("", Interrupted)),
    Case("done-without-finish", SAID + DONE, Outcome("Part one of the ans", finish=None)),
    Case("done-alone", DONE, Outcome(finish=None)),
    Case("length", SAID + event({}, "length") + DONE, Outcome("Part one of the ans", finish=Finish.LENGTH)),
    Case("model-length", SAID + event({}, "model_length") + DONE, Outcome("Part one of the ans", finish=Finish.LENGTH)),
    Case("unknown-finish", SAID + event({}, "tired") + DONE, Outcome("Part one of the ans", finish=Finish.OTHER)),
    Case("blank-finish-is-none", SAID + event({}, "") + DONE, Outcome("Part one of the ans", finish=None)),
    Case("stop-beside-calls-P05A", WHOLE_CALL + event({}, "stop") + DONE, Outcome(calls=CALLED)),
    Case("calls-without-finish-P05B", WHOLE_CALL + DONE, Outcome(calls=CALLED, finish=None)),
    Case(
        "tool-calls-without-a-call-P05C",
        event({"content": ""}) + event({}, "tool_calls") + DONE,
        Outcome(finish=Finish.TOOL_CALLS),
    ),
    Case("finish-beside-text", event({"content": "Hi"}, "stop") + DONE, Outcome("Hi")),
    Case("text-after-finish", event({"content": "H"}, "stop") + event({"content": "i"}) + DONE, Outcome("Hi")),
    Case("nothing-counts-after-done", event({"content": "Hi"}, "stop") + DONE + SAID, Outcome("Hi")),
    Case(
        "content-filter-P08B",
        event({"content": "The report says"}) + event({}, "content_filter") + DONE,
        broken("The report says", ContentFiltered),
    ),
    Case(
        "filter-by-another-name", SAID + event({}, "sensitive") + DONE, broken("Part one of the ans", ContentFiltered)
    ),
    Case("finish-error", SAID + event({}, "error") + DONE, broken("Part one of the ans", Interrupted)),
    Case(
        "no-resources-left",
        SAID + event({}, "insufficient_system_resource") + DONE,
        broken("Part one of the ans", Interrupted),
    ),
    Case(
        "error-as-first-event-P14A",
        b'data: {"choices":[],"error":{"code":502,"message":"worker full"}}\n\n' + DONE,
        broken("", Unavailable),
    ),
    Case(
        "error-after-text-P14B",
        b"".join(event({"content": f"{n} "}) for n in range(20)) + error(502, "worker full") + DONE,
        broken("".join(f"{n} " for n in range(20)), Unavailable),
    ),
    Case("error-code-as-text", SAID + error("503", "busy"), broken("Part one of the ans", Unavailable)),
    Case("error-429", error(429, "slow down"), broken("", RateLimited)),
    Case("error-by-name", error("rate_limit_exceeded", "slow down"), broken("", RateLimited)),
    Case("error-by-type", error(None, "we are full", type="overloaded_error"), broken("", Unavailable)),
    Case("error-quota", error("insufficient_quota", "check your plan"), broken("", OutOfCredit)),
    Case("error-key", error("invalid_api_key", "no such key"), broken("", Rejected)),
    Case("error-context", error("context_length_exceeded", "too long"), broken("", ContextTooLong)),
    Case("error-filter", error("content_filter", "filtered"), broken("", ContentFiltered)),
    Case("error-without-code", SAID + error(None, "it broke"), broken("Part one of the ans", Interrupted)),
    Case("error-as-text", b'data: {"error": "it broke"}\n\n', broken("", Interrupted)),
    Case(
        "error-of-vllm",
        b'data: {"object":"error","message":"max context","type":"BadRequestError","code":400}\n\n' + DONE,
        broken("", Rejected),
    ),
    Case("error-without-an-object", b'data: {"code":"InternalError","message":"oops"}\n\n', broken("", Unavailable)),
    Case(
        "error-in-the-choice",
        b'data: {"choices":[{"index":0,"delta":{"content":"Hi"},"error":{"code":504,"message":"late"}}]}\n\n',
        broken("Hi", Unavailable),
    ),
    Case("error-null-is-none", event({"content": "Hi"}, "stop", error=None) + DONE, Outcome("Hi")),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_every_end_is_told_for_what_it_is(case: Case, endpoint: ScriptedEndpoint, model: OpenAIChat) -> None:
    """Over a real connection that ends cleanly after the bytes (P05, P06, P08, P14)."""
    answer = await ask(model, endpoint.script(stream(case.data)))
    assert answer.outcome == case.expected


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_every_end_is_the_same_however_its_bytes_arrive(case: Case) -> None:
    """Each single cut of the bytes (P05, P06, P08, P14)."""
    for place in range(len(case.data) + 1):
        assert read(cut_at(case.data, [place])) == case.expected, place


@pytest.mark.parametrize("status", [500, 502, 503, 504])
async def test_an_error_inside_a_stream_is_typed_like_the_status_it_names(
    status: int, endpoint: ScriptedEndpoint, model: OpenAIChat
) -> None:
    """The same code has the same meaning in a body and as a status (P14)."""
    body = {"error": {"code": status, "message": "worker full"}}
    inside = await ask(model, endpoint.script(stream(b"data: " + json.dumps(body).encode() + b"\n\n")))
    as_status = await ask(model, endpoint.script(http(status, body)))
    assert inside.failure is not None
    assert as_status.failure is not None
    assert type(inside.failure) is type(as_status.failure) is Unavailable
    assert inside.failure.transient == as_status.failure.transient == (status != 500)
    assert inside.failure.message == as_status.failure.message == "worker full"


async def test_a_connection_that_breaks_mid_reply_keeps_the_text_so_far(
    endpoint: ScriptedEndpoint, model: OpenAIChat
) -> None:
    """The deltas come first, then the interruption (P06)."""
    answer = await ask(model, endpoint.script(stream(SAID, close="cut")))
    assert answer.outcome == broken("Part one of the ans", Interrupted)
    assert answer.failure is not None
    assert answer.failure.transient


async def test_a_connection_that_breaks_after_the_finish_reason_is_a_normal_end(
    endpoint: ScriptedEndpoint, model: OpenAIChat
) -> None:
    """Only usage and [DONE] can be missing then (P06)."""
    answer = await ask(model, endpoint.script(stream(SAID, event({}, "stop"), close="cut")))
    assert answer.outcome == Outcome("Part one of the ans")


async def test_what_could_have_become_a_tag_is_released_when_the_reply_breaks(
    endpoint: ScriptedEndpoint, model: OpenAIChat
) -> None:
    """Text held back by the filter isn't lost with the connection (P06, P09)."""
    answer = await ask(model, endpoint.script(stream(event({"content": " <thi"}), close="cut")))
    assert answer.outcome == broken(" <thi", Interrupted)


WHOLE = {
    "id": "c",
    "object": "chat.completion",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "<think>hm</think>Two calls.",
                "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "timeline", "arguments": '{"id":7}'}},
                    {"id": "a", "type": "function", "function": {"name": "timeline", "arguments": '{"id":7}'}},
                ],
            },
            "finish_reason": "tool_calls",
        }
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 4},
}


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream", "text/plain"])
async def test_a_json_body_with_200_is_one_whole_reply(
    kind: str, endpoint: ScriptedEndpoint, model: OpenAIChat
) -> None:
    """Whatever it calls itself; every entry of its calls is a call."""
    answer = await ask(model, endpoint.script(http(200, json.dumps(WHOLE, indent=1), content_type=kind)))
    calls = (("timeline", '{"id":7}'), ("timeline", '{"id":7}'))
    assert answer.outcome == Outcome("Two calls.", "hm", calls, Finish.TOOL_CALLS, Usage(3, 4))


async def test_a_whole_reply_may_come_after_blank_lines_and_in_pieces(
    endpoint: ScriptedEndpoint, model: OpenAIChat
) -> None:
    """Some servers keep a connection alive with blank lines until the JSON is there."""
    raw = json.dumps(WHOLE).encode()
    reply = Reply([b"\n", b"\n\n", raw[:30], raw[30:]], headers={"content-type": "application/json"})
    assert (await ask(model, endpoint.script(reply))).outcome.text == "Two calls."


@pytest.mark.parametrize(
    ("body", "code", "transient"),
    [
        ({"error": {"code": 503, "message": "busy"}}, "model_unavailable", True),
        ({"error": "no money: insufficient balance"}, "model_out_of_credit", False),
        ({"models": []}, "model_unreachable", False),
        ("{ not json", "model_unreachable", False),
    ],
)
async def test_json_with_200_that_is_no_reply_is_a_typed_failure(
    body: object, code: str, transient: bool, endpoint: ScriptedEndpoint, model: OpenAIChat
) -> None:
    """An error object counts as what it says, anything else as no answer at all (P14)."""
    answer = await ask(model, endpoint.script(http(200, body, content_type="application/json")))
    assert answer.failure is not None
    assert (answer.failure.code, answer.failure.transient) == (code, transient)


async def test_json_that_breaks_off_is_an_interruption(endpoint: ScriptedEndpoint, model: OpenAIChat) -> None:
    """Half a whole reply is not a reply (P06)."""
    reply = Reply([b'{"choices": [{"mess'], headers={"content-type": "application/json"}, close="cut")
    assert (await ask(model, endpoint.script(reply))).outcome == broken("", Interrupted)


async def test_an_html_page_with_200_is_unreachable_and_its_type_is_named(
    endpoint: ScriptedEndpoint, model: OpenAIChat
) -> None:
    """A wrong base URL shows itself, and asking again wouldn't help."""
    page = "<!doctype html><title>Welcome</title>"
    for kind in ("text/html; charset=utf-8", "text/plain"):
        answer = await ask(model, endpoint.script(http(200, page, content_type=kind)))
        assert answer.failure is not None
        assert (answer.failure.code, answer.failure.transient) == ("model_unreachable", False)
        assert kind.partition(";")[0] in answer.failure.message


async def test_an_empty_body_with_200_is_unreachable(endpoint: ScriptedEndpoint, model: OpenAIChat) -> None:
    """No stream was announced and none came."""
    answer = await ask(model, endpoint.script(http(200, b"", content_type="application/json")))
    assert answer.failure is not None
    assert answer.failure.code == "model_unreachable"


async def test_two_replies_share_one_connection(no_proxy: None) -> None:
    """A finished reply gives its connection back; calls and text alike."""
    async with ScriptedEndpoint() as endpoint:
        own = OpenAIChat(EndpointConfig(base_url=endpoint.base_url, model="m"), Capabilities())
        script = endpoint.script(call(("timeline", "{}")), text("Done."), stream(usage(), DONE))
        for _ in range(3):
            await ask(own, script)
        assert endpoint.connections == 1
        await own.aclose()
