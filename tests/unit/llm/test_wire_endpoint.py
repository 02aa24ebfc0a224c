"""Where an endpoint is and what it was seen to refuse. Issue 3: base URLs, capabilities. Case P16."""

import json
from typing import cast

import pytest
from structlog.testing import capture_logs

from app.llm.capabilities import Capabilities, IdFormat
from app.llm.model import AssistantMessage, Feature, ModelRequest, SystemMessage, ToolMessage, UserMessage
from app.llm.openai_chat import EndpointConfig, OpenAIChat
from app.llm.shape import from_stored, to_stored
from tests.harness.scripted_endpoint import Body, Reply, ScriptedEndpoint, event, finish, http, stream, text, unless
from tests.unit.llm.reading import TOOLS, ask

URLS = [
    ("http://h", "http://h/v1/chat/completions"),
    ("http://h/", "http://h/v1/chat/completions"),
    ("http://h:8080/v1", "http://h:8080/v1/chat/completions"),
    ("http://h/v1/", "http://h/v1/chat/completions"),
    ("http://[::1]:8080/v1", "http://[::1]:8080/v1/chat/completions"),
    ("https://h/compatible-mode/v1//", "https://h/compatible-mode/v1/chat/completions"),
    ("https://h/api/paas/v4", "https://h/api/paas/v4/chat/completions"),
    ("https://h/v1/chat/completions", "https://h/v1/chat/completions"),
    ("https://h/chat/completions", "https://h/chat/completions"),
    (" https://h/v1 ", "https://h/v1/chat/completions"),
    ("https://h/v1#part", "https://h/v1/chat/completions"),
    ("https://user:pa%40ss@h/v1", "https://h/v1/chat/completions"),
    (
        "https://a.openai.azure.com/openai/deployments/d?api-version=2024-10-21",
        "https://a.openai.azure.com/openai/deployments/d/chat/completions?api-version=2024-10-21",
    ),
    (
        "https://a.openai.azure.com/?api-version=2024-10-21",
        "https://a.openai.azure.com/openai/deployments/m/chat/completions?api-version=2024-10-21",
    ),
    ("https://a.openai.azure.com", "https://a.openai.azure.com/openai/v1/chat/completions"),
]


@pytest.mark.parametrize(("base_url", "chat_url"), URLS)
def test_a_base_url_is_taken_as_people_write_it(base_url: str, chat_url: str) -> None:
    """With and without /v1, with a slash, with Azure's query, with what should not stand in it."""
    assert EndpointConfig(base_url=base_url, model="m").chat_url == chat_url


@pytest.mark.parametrize("base_url", ["", "h/v1", "ftp://h", "http://", "http://h:port/v1", "http://[::1/v1"])
def test_a_base_url_that_is_none_is_refused_with_what_is_allowed(base_url: str) -> None:
    """Before anything is sent."""
    with pytest.raises(ValueError, match="base_url must be http"):
        EndpointConfig(base_url=base_url, model="m")


def test_a_refused_base_url_does_not_show_its_password() -> None:
    """The message goes to a terminal or a log."""
    with pytest.raises(ValueError, match="base_url") as refused:
        EndpointConfig(base_url="ftp://user:secret@h/v1?key=hidden", model="m")
    assert "secret" not in str(refused.value)
    assert "hidden" not in str(refused.value)


def test_a_key_that_is_no_header_is_refused() -> None:
    """A line break from a copied file, for example; the key isn't shown."""
    with pytest.raises(ValueError, match="api_key may hold only visible ASCII") as refused:
        EndpointConfig(base_url="http://h", model="m", api_key="abc\ndef")
    assert "abc" not in str(refused.value)


def test_a_time_of_nothing_is_refused() -> None:
    """Zero and less would fail every request."""
    with pytest.raises(ValueError, match="read_timeout_s must be greater than 0"):
        EndpointConfig(base_url="http://h", model="m", read_timeout_s=0)


def test_the_origin_is_endpoint_and_model_without_secrets() -> None:
    """It is stored beside reasoning and shown by doctor."""
    config = EndpointConfig(
        base_url="https://user:secret@h:8/v1/?api-version=1&sig=hidden", model="m", api_key="key-0123"
    )
    assert config.origin == "https://h:8/v1 m"
    assert config.secrets == ("key-0123", "secret", "secret", "hidden")
    assert config.auth == ("user", "secret")
    assert "key-0123" not in repr(config)


def test_the_key_is_sent_as_each_kind_of_endpoint_wants_it() -> None:
    """As a bearer token; under Azure's own name where its version is named; not at all without one."""
    plain = EndpointConfig(base_url="https://h", model="m", api_key="k").headers
    azure = EndpointConfig(base_url="https://h/d?api-version=1", model="m", api_key="k").headers
    none = EndpointConfig(base_url="https://h", model="m").headers
    assert plain["Authorization"] == "Bearer k"
    assert azure["api-key"] == "k"
    assert "Authorization" not in azure
    assert "Authorization" not in none


def test_what_is_known_of_a_host_is_known_from_the_start() -> None:
    """Mistral's ids; a setting has the last word (A14)."""
    assert EndpointConfig(base_url="https://api.mistral.ai/v1", model="m").ids is IdFormat.NINE
    assert EndpointConfig(base_url="https://h", model="m").ids is IdFormat.ANY
    assert EndpointConfig(base_url="https://h", model="m", id_format=IdFormat.NINE).ids is IdFormat.NINE


def test_a_record_is_kept_per_endpoint_and_model() -> None:
    """What one refuses says nothing about another (P16)."""
    registry = Capabilities()
    assert registry.of("a").learn(Feature.TOOL_CHOICE)
    assert not registry.of("a").learn(Feature.TOOL_CHOICE)
    assert registry.of("a").refused == {Feature.TOOL_CHOICE}
    assert registry.of("b").refused == frozenset()
    assert [record.origin for record in registry.all()] == ["a", "b"]
    assert registry.of("a").id_format is IdFormat.ANY
    registry.of("a").learn(Feature.CALL_IDS)
    assert registry.of("a").id_format is IdFormat.NINE


async def test_what_was_learnt_is_left_out_for_the_life_of_the_process_and_logged_once(
    no_proxy: None, endpoint: ScriptedEndpoint
) -> None:
    """By every client of the same endpoint and model, and by no other model's (P16)."""
    registry = Capabilities()
    first = OpenAIChat(EndpointConfig(base_url=endpoint.base_url, model="one"), registry)
    again = OpenAIChat(EndpointConfig(base_url=endpoint.base_url, model="one"), registry)
    other = OpenAIChat(EndpointConfig(base_url=endpoint.base_url, model="two"), registry)
    with capture_logs() as logs:
        first.learn(Feature.STREAM_OPTIONS)
        again.learn(Feature.STREAM_OPTIONS)
    script = endpoint.script(text("Hi"))
    for model in (first, again, other):
        await ask(model, script)
        await model.aclose()
    assert ["stream_options" in body for body in script.bodies] == [False, False, True]
    assert [(entry["origin"], entry["feature"]) for entry in logs] == [(first.origin, "stream_options")]


async def test_three_fields_refused_one_after_the_other_are_each_named(
    no_proxy: None, endpoint: ScriptedEndpoint
) -> None:
    """What is dropped stays dropped, what isn't refused stays, tools too (P16)."""
    config = EndpointConfig(base_url=endpoint.base_url, model="m", parallel_tool_calls=True)
    model = OpenAIChat(config, Capabilities())

    def refused(field: str) -> object:
        return {"detail": [{"type": "extra_forbidden", "loc": ["body", field]}]}

    strict = unless(
        "tool_choice",
        http(400, {"error": {"message": "this tool_choice cannot be used while thinking"}}),
        unless(
            "parallel_tool_calls",
            http(422, refused("parallel_tool_calls")),
            unless("stream_options", http(422, refused("stream_options")), text("Hi")),
        ),
    )
    script = endpoint.script(strict)
    avoid: frozenset[Feature] = frozenset()
    for expected in (Feature.TOOL_CHOICE, Feature.PARALLEL_TOOL_CALLS, Feature.STREAM_OPTIONS):
        request = ModelRequest((UserMessage(f"q {script}"),), tools=TOOLS, tool_choice="required", avoid=avoid)
        failure = (await ask(model, request=request)).failure
        assert failure is not None
        assert getattr(failure, "refused", None) == {expected}
        avoid |= {expected}
    request = ModelRequest((UserMessage(f"q {script}"),), tools=TOOLS, tool_choice="required", avoid=avoid)
    assert (await ask(model, request=request)).outcome.text == "Hi"
    assert all("tools" in body for body in script.bodies)
    await model.aclose()


async def test_a_strict_template_is_understood_and_satisfied(endpoint: ScriptedEndpoint, model: OpenAIChat) -> None:
    """A 500 with a template's error names the late system message; without it the request passes (A15)."""

    def template(body: Body) -> Reply:
        messages = cast("list[Body]", body["messages"])
        error = {"error": {"code": 500, "message": "Jinja Exception: System message must be at the beginning."}}
        return http(500, error) if any(m["role"] == "system" for m in messages[1:]) else text("Hi")

    script = endpoint.script(template)
    messages = (SystemMessage("s"), SystemMessage("entities"), UserMessage(f"q {script}"))
    failure = (await ask(model, request=ModelRequest(messages))).failure
    assert getattr(failure, "refused", None) == {Feature.LATE_SYSTEM}
    assert failure is not None
    assert not failure.transient
    again = ModelRequest(messages, avoid=frozenset({Feature.LATE_SYSTEM}))
    assert (await ask(model, request=again)).outcome.text == "Hi"


async def test_a_request_is_sent_where_and_how_it_should_be(endpoint: ScriptedEndpoint, model: OpenAIChat) -> None:
    """Path, headers and the streaming flag as seen by the other side."""
    script = endpoint.script(text("Hi"))
    await ask(model, script)
    seen = script.requests[0]
    assert seen.target == "/v1/chat/completions"
    assert (seen.body["model"], seen.body["stream"]) == ("scripted", True)
    assert {name: seen.headers[name] for name in ("accept", "accept-encoding", "content-type", "user-agent")} == {
        "accept": "text/event-stream, application/json",
        "accept-encoding": "identity",
        "content-type": "application/json",
        "user-agent": "turnstream",
    }


async def test_a_reply_is_taken_back_by_the_endpoint_that_wants_its_own_words(
    endpoint: ScriptedEndpoint, model: OpenAIChat
) -> None:
    """Reasoning and a call's signature, also after they were stored and read again (A11, A13)."""
    signature = {"extra_content": {"google": {"thought_signature": "c2ln"}}}
    function = {"name": "timeline", "arguments": '{"entity_id":7}'}
    thinking = event({"reasoning_content": "R1"})
    calling = event({"tool_calls": [{"index": 0, "id": "g1", "type": "function", "function": function} | signature]})

    def strict(body: Body) -> Reply:
        messages = cast("list[Body]", body["messages"])
        echoed = {"id": "g1", "type": "function", "function": function} | signature
        wanted = {"role": "assistant", "content": "", "reasoning_content": "R1", "tool_calls": [echoed]}
        return text("Hi") if messages[1] == wanted else http(400, {"error": {"message": "signature missing"}})

    script = endpoint.script(stream(thinking, calling, finish("tool_calls")), strict)
    question = UserMessage(f"q {script}")
    turn = (await ask(model, request=ModelRequest((question,), tools=TOOLS))).turn
    assert turn is not None
    said = AssistantMessage(None, turn.tool_calls, turn.reasoning)
    stored = from_stored(json.loads(json.dumps(to_stored(said))))
    again = ModelRequest((question, stored, ToolMessage("g1", "OK: x")), tools=TOOLS)
    assert (await ask(model, request=again)).outcome.text == "Hi"
