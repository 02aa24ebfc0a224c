"""The OpenAPI document says what the server does: its schemas are those of the frames, its answers fit it.

Source: issue 9, item 5; DESIGN sections 4 and 5.
"""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import jsonschema_rs
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from hypothesis.strategies import SearchStrategy
from schemathesis import GenerationMode
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import (
    positive_data_acceptance,  # pyright: ignore[reportUnknownVariableType]
)
from sqlalchemy import URL, make_url

from app.api.openapi_document import FRAMES_EXAMPLE
from app.main import create_app
from tests.harness.app import App, running_app, settings_for
from tests.harness.scripted_endpoint import ScriptedEndpoint, call, http, text
from tests.harness.sse_reader import StreamReader

SEARCH = call(("search_chunks", {"query": "board"}))
EXAMPLES = 3
"""How many requests of each kind a route is sent."""

STREAMS = {("post", "/api/chat"), ("get", "/api/conversations/{conversation_id}/live")}
OPERATION_IDS = {
    ("post", "/api/chat"): "chat_chat",
    ("get", "/api/conversations/{conversation_id}/live"): "conversations_attach",
    ("post", "/api/conversations/{conversation_id}/stop"): "conversations_stop",
    ("get", "/api/conversations/{conversation_id}"): "conversations_detail",
    ("post", "/api/bases/{base}/documents"): "documents_upload",
    ("get", "/api/bases/{base}/documents/{document_id}/chunks"): "documents_chunks",
    ("get", "/api/bases/{base}/facts"): "facts_find",
    ("get", "/api/bases/{base}/overview"): "facts_overview",
    ("post", "/api/bases/{base}/extraction"): "facts_start_extraction",
    ("post", "/v1/chat/completions"): "openai_complete",
    ("get", "/v1/models"): "openai_models",
    ("get", "/healthz"): "operations_healthz",
}
"""Generated clients name their functions by these: they don't change."""


@pytest.fixture
async def document(app: App) -> dict[str, Any]:
    found: dict[str, Any] = (await app.http.get("/openapi.json")).json()
    return found


def operations(document: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(method, path): o for path, methods in document["paths"].items() for method, o in methods.items()}


def valid(document: dict[str, Any], schema: str) -> jsonschema_rs.Validator:
    """A validator of one of the document's components."""
    return jsonschema_rs.validator_for({"$ref": f"#/components/schemas/{schema}", "components": document["components"]})


async def test_operation_ids_are_unique_and_stay(document: dict[str, Any]) -> None:
    """Each is `tag_function`."""
    ids = {where: operation["operationId"] for where, operation in operations(document).items()}
    assert [name for name, count in Counter(ids.values()).items() if count > 1] == []
    assert {where: ids[where] for where in OPERATION_IDS} == OPERATION_IDS


def test_credentials_are_described_where_they_are_asked_for() -> None:
    """With AUTH=token each route that isn't open to anybody names the ways to say who asks; without, none does."""
    url = make_url("postgresql://nobody@127.0.0.1/nothing")
    asked = operations(create_app(settings_for(url, None, auth="token"), url).openapi())
    free = {where for where, operation in asked.items() if operation["security"] == []}
    assert free == {("get", "/healthz"), ("get", "/readyz"), ("post", "/api/session"), ("delete", "/api/session")}
    assert asked["post", "/api/chat"]["security"] == [{"bearer": []}, {"session": []}]
    assert asked["get", "/v1/models/{model}"]["security"] == [{"bearer": []}]
    open_to_all = operations(create_app(settings_for(url, None), url).openapi())
    assert not any("security" in operation for operation in open_to_all.values())


async def test_every_refusal_has_the_schema_of_its_address(document: dict[str, Any]) -> None:
    """Ours everywhere, OpenAI's under /v1; the framework's own shape nowhere."""
    for (method, path), operation in operations(document).items():
        expected = "OpenAIError" if path.startswith("/v1/") else "Refusal"
        for status, response in operation["responses"].items():
            if status >= "400" and path != "/readyz":
                schema = response["content"]["application/json"]["schema"]
                assert schema == {"$ref": f"#/components/schemas/{expected}"}, (method, path, status)
    assert "HTTPValidationError" not in document["components"]["schemas"]


async def test_every_frame_that_is_sent_fits_its_schema(
    app: App, endpoint: ScriptedEndpoint, document: dict[str, Any]
) -> None:
    """Those of an answer, of a failure, of a late reader and of an idle conversation; and the document's example."""
    event = valid(document, "TurnEvent")
    answered = await app.ask(f"How many? {endpoint.script(SEARCH, text('Four [1].'))}")
    failed = await app.ask(f"How many? {endpoint.script(http(402, 'pay'))}")
    late = await app.attach(answered.conversation_id)
    idle = await app.attach(answered.conversation_id, f"{answered.turn_id}:{len(answered.frames)}")
    example = StreamReader().feed(FRAMES_EXAMPLE.encode())
    frames = [*answered.frames, *failed.frames, *late.frames, *idle.frames, *example]
    events = {"conversation", "step", "sources", "delta", "done", "error", "snapshot", "idle"}
    assert {frame.event for frame in frames} == events
    for frame in frames:
        given = {"event": frame.event, "data": frame.data} | ({"id": frame.id} if frame.id else {})
        assert [str(fault) for fault in event.iter_errors(given)] == []
    assert event.is_valid({"event": "delta", "id": answered.frames[0].id, "data": {"at": "0", "text": ""}}) is False


async def test_a_stream_is_described_with_its_events_and_how_to_go_on(document: dict[str, Any]) -> None:
    """Media type, the event's schema, an example; Last-Event-ID where it is read."""
    for where in STREAMS:
        (stream,) = operations(document)[where]["responses"]["200"]["content"].items()
        assert stream[0] == "text/event-stream"
        assert stream[1]["x-itemSchema"] == {"$ref": "#/components/schemas/TurnEvent"}
        assert stream[1]["example"] == FRAMES_EXAMPLE
    attach = operations(document)["get", "/api/conversations/{conversation_id}/live"]
    assert {p["name"] for p in attach["parameters"] if p["in"] == "header"} == {"last-event-id"}
    complete = operations(document)["post", "/v1/chat/completions"]["responses"]["200"]
    assert complete["content"].keys() == {"application/json", "text/event-stream"}
    assert complete["headers"].keys() == {"X-Conversation-Id", "X-Turn-Id"}


@pytest.fixture
async def filled(
    new_database: Callable[[], AbstractAsyncContextManager[URL]], endpoint: ScriptedEndpoint
) -> AsyncGenerator[tuple[App, dict[str, str]], None]:
    """An application of the test's own, and the ids of what it holds by the names that addresses give them."""
    async with new_database() as url, running_app(url, llm=endpoint.base_url) as running:
        document_id = await running.upload("board.md", b"# The board\n\nFour members remained.\n")
        turn = await running.ask(f"How many? {endpoint.script(SEARCH, text('Four [1].'))}")
        row = {"subject": "Ilya", "predicate": "member of", "object": "board"}
        added = await running.http.post("/api/bases/default/facts", json=row)
        assert added.json()["added"] == 1, added.text
        (fact,) = (await running.http.get("/api/bases/default/facts")).json()["facts"]
        yield (
            running,
            {
                "base": "default",
                "conversation_id": turn.conversation_id,
                "document_id": document_id,
                "chunk_id": turn.sources[0]["id"],
                "entity_id": fact["subject"]["id"],
                "fact_id": fact["id"],
                "model": "scripted",
            },
        )


@pytest.mark.timeout(180)
async def test_generated_requests_are_answered_as_documented(filled: tuple[App, dict[str, str]]) -> None:
    """Every JSON route, with requests that fit its schema, about what is there and what isn't, and with ones that
    don't fit: no 5xx, only documented statuses and media types, and bodies that fit their schemas.
    """
    app, ids = filled
    faults = await asyncio.to_thread(send_generated, f"{app.url}/openapi.json", ids)
    assert not faults, "\n\n".join(faults)


def send_generated(url: str, ids: dict[str, str]) -> list[str]:
    """What was wrong with any answer, in words."""
    schema: Any = schemathesis.openapi.from_url(url)
    faults: list[str] = []
    with requests.Session() as session:
        session.trust_env = False
        for found in schema.get_all_operations():
            operation: Any = found.ok()
            if (operation.method, operation.path) in STREAMS:
                continue
            for strategy in requests_to(operation, ids):
                try:
                    send(strategy, session)
                except Unsatisfiable:
                    continue  # any request fits
                except FailureGroup as group:
                    faults += [f"{operation.label}: {fault}" for fault in group.exceptions]
    return faults


def requests_to(operation: Any, ids: dict[str, str]) -> Iterator[SearchStrategy[Any]]:
    """Requests that fit the route's schema, those about what is there, and those that don't fit."""
    yield operation.as_strategy()
    known = {name: ids[name] for name in re.findall(r"{([a-z_]+)}", operation.path) if name in ids}
    if known:
        yield operation.as_strategy(path_parameters=known)
    if operation.body or operation.query:
        yield operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)


def send(strategy: SearchStrategy[Any], session: requests.Session) -> None:
    """A few requests; raises what schemathesis finds in an answer."""

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(case=strategy)
    def one(case: Any) -> None:
        # a schema can't say all: that a title isn't blank, that a date is in the calendar, that a range isn't backwards
        case.validate_response(case.call(session=session), excluded_checks=[positive_data_acceptance])

    one()
