"""The OpenAI-compatible door, driven by the official client. Source: DESIGN section 4, decision 0018."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest
from openai import APIError, APIStatusError, AsyncOpenAI, AsyncStream, NotFoundError
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from app.errors import TurnErrorCode
from tests.harness.app import App
from tests.harness.scripted_endpoint import ScriptedEndpoint, call, event, finish, http, stream, text

SEARCH = call(("search_chunks", {"query": "board"}))
ANSWER = "Four members remained [1]."


def user(content: str) -> Any:
    return {"role": "user", "content": content}


def assistant(content: str) -> Any:
    return {"role": "assistant", "content": content}


async def complete(client: AsyncOpenAI, *messages: Any, **given: Any) -> ChatCompletion:
    create: Any = client.chat.completions.create
    return await create(model=given.pop("model", "scripted"), messages=messages, **given)


async def chunks(client: AsyncOpenAI, *messages: Any, **given: Any) -> list[ChatCompletionChunk]:
    answer = await client.chat.completions.create(model="scripted", messages=messages, stream=True, **given)
    return [chunk async for chunk in answer]


def told(said: Any) -> dict[str, Any]:
    """The extra field, where the object has it."""
    extra: dict[str, Any] = said.model_extra or {}
    return extra.get("x_turnstream", {})


def content(said: list[ChatCompletionChunk]) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in said if chunk.choices)


async def read_into(said: list[ChatCompletionChunk], answer: AsyncStream[ChatCompletionChunk]) -> None:
    """Keeps what came, whatever ends it."""
    async for chunk in answer:
        said.append(chunk)  # noqa: PERF401 - a comprehension would lose what came before an error


async def test_a_completion_is_the_stored_answer_of_a_turn(
    app: App, endpoint: ScriptedEndpoint, client: AsyncOpenAI
) -> None:
    """Text, steps, sources, verdict and usage are those of the turn, and its ids come back with it."""
    completion = await complete(client, user(f"How many remained? {endpoint.script(SEARCH, text(ANSWER))}"))
    (choice,) = completion.choices
    assert (choice.message.role, choice.message.content, choice.finish_reason) == ("assistant", ANSWER, "stop")
    assert (completion.object, completion.model) == ("chat.completion", "scripted")
    extra = told(completion)
    question, answer = await app.messages(extra["conversation_id"])
    assert completion.id == f"chatcmpl-{extra['turn_id']}" == f"chatcmpl-{answer['turn_id']}"
    assert (extra["question_id"], extra["answer_id"]) == (question["id"], answer["id"])
    assert (extra["steps"], extra["sources"]) == (answer["steps"], answer["sources"])
    assert (extra["evidence"], extra["cited"], extra["stopped"], extra["ignored"]) == ("cited", [1], False, [])
    assert completion.usage is not None
    assert completion.usage.prompt_tokens == answer["usage"]["prompt_tokens"] == 22
    assert completion.usage.total_tokens == 22 + answer["usage"]["completion_tokens"]


async def test_a_stream_gives_role_steps_sources_text_and_an_end(
    endpoint: ScriptedEndpoint, client: AsyncOpenAI
) -> None:
    """The first chunk has the role and the ids, the last a finish reason and the verdict; usage comes when asked for."""
    script = endpoint.script(SEARCH, text(ANSWER))
    said = await chunks(client, user(f"How many? {script}"), stream_options={"include_usage": True})
    assert said[0].choices[0].delta.role == "assistant"
    assert told(said[0]).keys() == {"conversation_id", "turn_id", "question_id", "ignored"}
    assert {chunk.id for chunk in said} == {f"chatcmpl-{told(said[0])['turn_id']}"}
    assert [told(chunk)["step"]["tool"] for chunk in said if "step" in told(chunk)] == ["search_chunks"]
    (sources,) = [told(chunk)["sources"] for chunk in said if "sources" in told(chunk)]
    assert "November 2023" in sources[0]["excerpt"]
    assert content(said) == ANSWER
    *before, end, counted = said
    assert {chunk.choices[0].finish_reason for chunk in before} == {None}
    assert end.choices[0].finish_reason == "stop"
    assert (told(end)["evidence"], told(end)["cited"]) == ("cited", [1])
    assert [chunk.usage for chunk in before] == [None] * len(before)
    assert counted.choices == []
    assert counted.usage is not None
    assert counted.usage.prompt_tokens == 22


async def test_the_stream_on_the_wire_is_openais(app: App, endpoint: ScriptedEndpoint) -> None:
    """Unnamed events of one JSON line each, `[DONE]` at the end, comments while the model is silent (case S01)."""
    gate = asyncio.Event()
    script = endpoint.script(SEARCH, stream(event({"content": "Four "}), gate, event({"content": "[1]."}), finish()))
    body = {"model": "scripted", "messages": [user(f"How many? {script}")], "stream": True}
    wire = b""
    async with app.http.stream("POST", "/v1/chat/completions", json=body) as response:
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert response.headers["cache-control"] == "no-cache, no-transform"
        turn_id = response.headers["x-turn-id"]
        async for piece in response.aiter_raw():
            wire += piece
            if b": keep-alive\n\n" in wire:
                gate.set()
    *events, end, rest = wire.split(b"\n\n")
    assert (end, rest) == (b"data: [DONE]", b"")
    assert all(e == b": keep-alive" or e.startswith(b'data: {"id":"chatcmpl-' + turn_id.encode()) for e in events)


async def test_a_cut_answer_has_finish_reason_length(endpoint: ScriptedEndpoint, client: AsyncOpenAI) -> None:
    """The provider's token limit is told as OpenAI tells it."""
    script = endpoint.script(SEARCH, text("Four", reason="length"))
    assert (await complete(client, user(f"How many? {script}"))).choices[0].finish_reason == "length"


async def test_a_conversation_goes_on_by_metadata_and_by_header(
    app: App, endpoint: ScriptedEndpoint, client: AsyncOpenAI
) -> None:
    """The server's own history is used, with its tool exchange; messages before the question are named as unread."""
    first = await client.chat.completions.with_raw_response.create(
        model="scripted", messages=[user(f"How many? {endpoint.script(SEARCH, text(ANSWER))}")]
    )
    conversation = first.headers["x-conversation-id"]
    again = endpoint.script(SEARCH, text("Ilya [1]."))
    second = await complete(
        client, user("other"), assistant("words"), user(f"Who? {again}"), metadata={"conversation_id": conversation}
    )
    assert (told(second)["conversation_id"], told(second)["ignored"]) == (
        conversation,
        ["messages before the question"],
    )
    assert [m["role"] for m in again.messages(0)] == ["system", "user", "assistant", "tool", "assistant", "user"]
    third = await complete(
        client,
        user(f"Then? {endpoint.script(SEARCH, text('No [1].'))}"),
        extra_headers={"X-Conversation-Id": conversation},
    )
    assert told(third)["conversation_id"] == conversation
    assert len(await app.messages(conversation)) == 6


async def test_a_client_that_resends_its_messages_stays_in_one_conversation(
    app: App, endpoint: ScriptedEndpoint, client: AsyncOpenAI
) -> None:
    """Without an id the conversation that holds exactly these messages goes on, blanks around them aside."""
    question = f"How many? {endpoint.script(SEARCH, text(ANSWER))}"
    first = await complete(client, user(question))
    then = endpoint.script(SEARCH, text("Ilya [1]."))
    second = await complete(client, user(question), assistant(f"{ANSWER}\n"), user(f"Who? {then}"))
    assert told(second)["conversation_id"] == told(first)["conversation_id"]
    assert "tool" in [m["role"] for m in then.messages(0)]
    assert len(await app.messages(told(first)["conversation_id"])) == 4


async def test_messages_from_elsewhere_begin_a_conversation_that_holds_them(
    app: App, endpoint: ScriptedEndpoint, client: AsyncOpenAI
) -> None:
    """An edited or foreign history is stored and shown to the model; messages of one role in a row are one."""
    script = endpoint.script(SEARCH, text(ANSWER))
    marker = uuid4().hex
    asked = [user(f"Who led it? {marker}"), assistant("Sam Altman."), user("And after?"), user(f"How many? {script}")]
    completion = await complete(client, *asked)
    stored = await app.messages(told(completion)["conversation_id"])
    question = f"And after?\n\nHow many? {script}"
    assert [(m["role"], m["content"]) for m in stored] == [
        ("user", f"Who led it? {marker}"),
        ("assistant", "Sam Altman."),
        ("user", question),
        ("assistant", ANSWER),
    ]
    assert [m["content"] for m in script.messages(0)[1:]] == [f"Who led it? {marker}", "Sam Altman.", question]
    found = await app.http.get(f"/api/conversations/{told(completion)['conversation_id']}")
    assert found.json()["title"] == f"Who led it? {marker}"
    again = endpoint.script(SEARCH, text("Ilya [1]."))
    followed = await complete(client, *asked, assistant(ANSWER), user(f"Who? {again}"))
    assert told(followed)["conversation_id"] == told(completion)["conversation_id"]


async def test_a_history_whose_conversation_is_answering_begins_another(
    app: App, endpoint: ScriptedEndpoint, client: AsyncOpenAI
) -> None:
    """Two questions on one history at once are both answered."""
    question = f"How many? {endpoint.script(SEARCH, text(ANSWER))}"
    first = told(await complete(client, user(question)))["conversation_id"]
    gate = asyncio.Event()
    held = endpoint.script(SEARCH, stream(gate, event({"content": "Ilya [1]."}), finish()))
    async with asyncio.TaskGroup() as group:
        slow = group.create_task(complete(client, user(question), assistant(ANSWER), user(f"Who? {held}")))
        await held.request(1)
        free = endpoint.script(SEARCH, text("Helen [1]."))
        quick = await complete(client, user(question), assistant(ANSWER), user(f"Who else? {free}"))
        gate.set()
    assert told(slow.result())["conversation_id"] == first
    assert told(quick)["conversation_id"] != first
    assert [m["content"] for m in await app.messages(told(quick)["conversation_id"])][:2] == [question, ANSWER]


async def test_a_repeated_idempotency_key_gives_the_same_turn(
    app: App, endpoint: ScriptedEndpoint, client: AsyncOpenAI
) -> None:
    """A client that tries again after a lost response never asks twice, whether its turn runs or is over (case S09)."""
    script = endpoint.script(SEARCH, text(ANSWER))
    headers = {"Idempotency-Key": f"try-{uuid4().hex}"}
    first = await complete(client, user(f"How many? {script}"), extra_headers=headers)
    again = await complete(client, user(f"How many? {script}"), extra_headers=headers)
    assert again.choices[0].message.content == ANSWER
    assert told(again)["turn_id"] == told(first)["turn_id"]
    assert content(await chunks(client, user(f"How many? {script}"), extra_headers=headers)) == ANSWER
    assert len(script.requests) == 2


async def test_the_model_list_offers_each_base(app: App, endpoint: ScriptedEndpoint, client: AsyncOpenAI) -> None:
    """`model@base` asks that base, as does `metadata.base`; the plain name asks the default one."""
    name = f"law-{uuid4().hex[:8]}"
    assert (await app.http.post("/api/bases", json={"name": name})).status_code == 201
    listed = [model.id async for model in client.models.list()]
    assert listed[0] == "scripted"
    assert f"scripted@{name}" in listed
    assert (await client.models.retrieve(f"scripted@{name}")).owned_by == "turnstream"
    by_name = await complete(client, user(f"Hi {endpoint.script(SEARCH, text('No.'))}"), model=f"scripted@{name}")
    by_field = await complete(client, user(f"Hi {endpoint.script(SEARCH, text('No.'))}"), metadata={"base": name})
    for completion in (by_name, by_field):
        found = await app.http.get(f"/api/conversations/{told(completion)['conversation_id']}")
        assert found.json()["base"] == name
    assert by_name.model == f"scripted@{name}"
    assert (await app.http.delete(f"/api/bases/{name}")).status_code == 204


async def test_what_has_no_effect_is_said(endpoint: ScriptedEndpoint, client: AsyncOpenAI) -> None:
    """Sampling settings, system messages and unknown fields don't stop a request, and are named in the answer."""
    completion = await complete(
        client,
        {"role": "system", "content": "Be brief."},
        user(f"How many? {endpoint.script(SEARCH, text(ANSWER))}"),
        temperature=0.2,
        max_tokens=5,
        n=1,
        extra_body={"chat_id": "7"},
        metadata={"chat": "7", "on_disconnect": "stop"},
    )
    said = {
        "max_tokens",
        "temperature",
        "chat_id",
        "metadata.chat",
        "metadata.on_disconnect",
        "messages of role system",
    }
    assert set(told(completion)["ignored"]) == said
    assert completion.choices[0].message.content == ANSWER


@pytest.mark.parametrize(
    ("given", "status", "code", "param"),
    [
        ({"n": 2}, 400, "unsupported_parameter", "n"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, 400, "unsupported_parameter", "tools"),
        ({"logprobs": True}, 400, "unsupported_parameter", "logprobs"),
        ({"response_format": {"type": "json_object"}}, 400, "unsupported_parameter", "response_format"),
        ({"stop": ["\n"]}, 400, "unsupported_parameter", "stop"),
        ({"model": "gpt-4o"}, 404, "model_not_found", "model"),
        ({"model": "scripted@nowhere"}, 404, "not_found", None),
        ({"model": "scripted@\x00"}, 400, "invalid", "metadata.base"),
        ({"metadata": {"base": "\x00"}}, 400, "invalid", "metadata.base"),
        ({"model": "scripted@law", "metadata": {"base": "tax"}}, 400, "invalid", "metadata.base"),
        ({"metadata": {"conversation_id": str(uuid4())}}, 404, "not_found", None),
        ({"metadata": {"conversation_id": "7"}}, 400, "invalid", "metadata.conversation_id"),
        ({"metadata": {"as_of": "last week"}}, 400, "invalid", "metadata.as_of"),
        ({"messages": []}, 400, "invalid", "messages"),
        ({"messages": [{"role": "user", "content": "  "}]}, 400, "invalid", "messages"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, 400, "invalid", "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, 400, "invalid", "messages[0].role"),
        ({"messages": [{"role": "tool", "content": "x", "tool_call_id": "1"}]}, 400, "unsupported_parameter", "messages[0]"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}]}, 400, "invalid", "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": "x" * 32_001}]}, 413, "too_large", None),
    ],
)  # fmt: skip
async def test_a_request_that_cant_be_served_is_refused_in_openais_shape(
    app: App, client: AsyncOpenAI, given: dict[str, Any], status: int, code: str, param: str | None
) -> None:
    """The official client raises it with code and field, and nothing is stored."""
    before = await app.rows("SELECT count(*) AS n FROM messages")
    request: dict[str, Any] = {"model": "scripted", "messages": [user("x")], **given}
    with pytest.raises(APIStatusError) as refused:
        await client.chat.completions.create(**request)
    assert (refused.value.status_code, refused.value.code, refused.value.param) == (status, code, param)
    assert refused.value.type == "invalid_request_error"
    assert (await app.rows("SELECT count(*) AS n FROM messages"))[0].n == before[0].n


async def test_every_refusal_under_v1_has_openais_shape(app: App, client: AsyncOpenAI) -> None:
    """Also what the framework and the guards before it refuse: addresses, methods, bodies, foreign pages; and 503."""
    with pytest.raises(NotFoundError) as missing:
        await client.models.retrieve("gpt-4o")
    assert missing.value.code == "model_not_found"
    nothing = await app.http.get("/v1/nothing")
    assert (nothing.status_code, nothing.json()["error"]) == (
        404,
        {"message": "There is no /v1/nothing.", "type": "invalid_request_error", "code": "not_found", "param": None},
    )
    assert (await app.http.delete("/v1/models")).json()["error"]["code"] == "method_not_allowed"
    broken = await app.http.post("/v1/chat/completions", content=b"{", headers={"content-type": "application/json"})
    assert (broken.status_code, broken.json()["error"]["type"]) == (400, "invalid_request_error")
    foreign = await app.http.get("/v1/models", headers={"Origin": "https://evil.example"})
    refusal = {"type": "permission_error", "code": "forbidden", "param": None}
    assert (foreign.status_code, foreign.json()["error"] | refusal) == (403, foreign.json()["error"])
    app.parts.supervisor.draining = True
    try:
        with pytest.raises(APIStatusError) as draining:
            await complete(client, user("x"))
    finally:
        app.parts.supervisor.draining = False
    assert (draining.value.status_code, draining.value.code, draining.value.type) == (503, "draining", "server_error")
    assert draining.value.response.headers["retry-after"] == "2"


async def test_a_turn_that_fails_is_an_error_with_a_status(endpoint: ScriptedEndpoint, client: AsyncOpenAI) -> None:
    """Not streamed: a status, and word to the client that trying again is no use."""
    refused = endpoint.script(http(402, {"error": {"message": "pay first"}}))
    with pytest.raises(APIStatusError) as failed:
        await complete(client, user(f"How many? {refused}"))
    assert (failed.value.status_code, failed.value.code) == (402, "model_out_of_credit")
    assert failed.value.type == "insufficient_quota"
    assert failed.value.response.headers["x-should-retry"] == "false"
    assert failed.value.response.headers["x-conversation-id"]


async def test_a_stream_whose_turn_fails_ends_with_an_error_and_no_finish(
    endpoint: ScriptedEndpoint, client: AsyncOpenAI
) -> None:
    """The client raises what is sent instead of an end; the text before it had come."""
    script = endpoint.script(SEARCH, stream(event({"content": "Four "}), close="cut"))
    said: list[ChatCompletionChunk] = []
    answer = await client.chat.completions.create(model="scripted", messages=[user(f"How many? {script}")], stream=True)
    with pytest.raises(APIError) as failed:
        await read_into(said, answer)
    assert failed.value.code == "model_interrupted"
    assert content(said) == "Four "
    assert {chunk.choices[0].finish_reason for chunk in said} == {None}


async def test_a_stream_that_the_server_ends_raises_at_the_client(
    app: App, endpoint: ScriptedEndpoint, client: AsyncOpenAI
) -> None:
    """A shutdown is never a finish; not streamed it is a 503 whose retry finds the turn (case S07)."""
    gate = asyncio.Event()
    script = endpoint.script(SEARCH, stream(event({"content": "Four "}), gate, event({"content": "[1]."}), finish()))
    key = {"Idempotency-Key": uuid4().hex}
    waiting = asyncio.create_task(complete(client, user(f"How many? {script}"), extra_headers=key))
    await script.request(1)
    answer = await client.chat.completions.create(
        model="scripted", messages=[user(f"How many? {script}")], stream=True, extra_headers=key
    )
    said: list[ChatCompletionChunk] = []
    reading = asyncio.create_task(read_into(said, answer))
    async with asyncio.timeout(10):
        while not content(said):
            await asyncio.sleep(0.01)
    app.parts.live.close_readers()
    with pytest.raises(APIError) as ended:
        await reading
    assert ended.value.code == "draining"
    with pytest.raises(APIStatusError) as away:
        await waiting
    assert (away.value.status_code, away.value.code) == (503, "draining")
    gate.set()
    again = await complete(client, user(f"How many? {script}"), extra_headers=key)
    assert again.choices[0].message.content == "Four [1]."
    assert len(script.requests) == 2


async def test_no_connection_of_the_database_is_held_while_it_streams(
    app: App, endpoint: ScriptedEndpoint, client: AsyncOpenAI
) -> None:
    """Streams and waiting requests leave the pool alone (case D03)."""
    gate = asyncio.Event()
    scripts = [endpoint.script(SEARCH, stream(event({"content": "Four "}), gate, finish())) for _ in range(4)]
    async with asyncio.TaskGroup() as group:
        for number, script in enumerate(scripts):
            group.create_task((chunks if number % 2 else complete)(client, user(f"How many? {script}")))
        for script in scripts:
            await script.request(1)
        async with asyncio.timeout(5):
            while app.parts.database.connections_used:
                await asyncio.sleep(0.01)
        gate.set()


def test_every_way_a_turn_can_fail_has_a_status() -> None:
    """A new code needs one."""
    from app.api.openai_errors import ENDED_STATUS  # noqa: PLC0415

    assert ENDED_STATUS.keys() == set(TurnErrorCode)
