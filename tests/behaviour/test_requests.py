"""Refusals come before any SSE byte, with a code and a sentence. Source: DESIGN section 4."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import URL

from tests.harness.app import App, running_app
from tests.harness.scripted_endpoint import ScriptedEndpoint, call, text

SEARCH = call(("search_chunks", {"query": "board"}))


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 422, "invalid"),
        ({"message": "   "}, 422, "invalid"),
        ({"message": "\x00"}, 422, "invalid"),
        ({"message": 7}, 422, "invalid"),
        ({"message": "x", "conversation_id": "nonsense"}, 422, "invalid"),
        ({"message": "x", "conversation_id": str(uuid4())}, 404, "not_found"),
        ({"message": "x", "base": "no-such-base"}, 404, "not_found"),
        ({"message": "x", "base": "\x00"}, 422, "invalid"),
        ({"message": "x", "colour": "red"}, 422, "invalid"),
        ({"message": "x", "request_id": "7"}, 422, "invalid"),
        ({"message": "x", "as_of": "last week"}, 422, "invalid"),
        ({"message": "x" * 32_001}, 413, "too_large"),
    ],
)
async def test_a_bad_question_is_refused_before_the_stream(
    app: App, body: dict[str, Any], status: int, code: str
) -> None:
    """Nothing is stored for it."""
    before = await app.rows("SELECT count(*) AS n FROM messages")
    response = await app.http.post("/api/chat", json=body)
    assert response.headers["content-type"] == "application/json"
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert response.json()["error"]["message"]
    assert (await app.rows("SELECT count(*) AS n FROM messages"))[0].n == before[0].n


async def test_a_body_that_is_no_json_is_400(app: App) -> None:
    """Malformed JSON has a code of its own."""
    response = await app.http.post("/api/chat", content=b"{", headers={"content-type": "application/json"})
    assert (response.status_code, response.json()["error"]["code"]) == (400, "bad_request")


async def test_unknown_addresses_and_methods_have_the_same_shape(app: App) -> None:
    """404 and 405 are refusals like the others."""
    assert (await app.http.get("/api/nothing")).json()["error"]["code"] == "not_found"
    assert (await app.http.put("/api/chat")).json()["error"]["code"] == "method_not_allowed"


async def test_a_conversation_stays_in_its_base(app: App, endpoint: ScriptedEndpoint) -> None:
    """Naming another base for an existing conversation is refused, and the question isn't stored."""
    turn = await app.ask(f"How many? {endpoint.script(SEARCH, text('Four [1].'))}")
    body = {"message": "x", "conversation_id": turn.conversation_id, "base": "other"}
    response = await app.http.post("/api/chat", json=body)
    assert (response.status_code, response.json()["error"]["code"]) == (422, "invalid")
    assert len(await app.messages(turn.conversation_id)) == 2


async def test_without_a_model_to_name_questions_are_refused_with_the_reason(
    new_database: Callable[[], AbstractAsyncContextManager[URL]], endpoint: ScriptedEndpoint
) -> None:
    """An endpoint without a model's name is no_chat_model; reading goes on."""
    async with new_database() as url, running_app(url, llm=endpoint.base_url, llm_model=None) as app:
        response = await app.http.post("/api/chat", json={"message": "hello"})
        assert (response.status_code, response.json()["error"]["code"]) == (422, "no_chat_model")
        assert "TURNSTREAM_LLM_MODEL" in response.json()["error"]["message"]
        assert (await app.http.get("/api/conversations")).json() == {"conversations": [], "total": 0}


async def test_the_offline_model_says_what_it_is(
    new_database: Callable[[], AbstractAsyncContextManager[URL]],
) -> None:
    """In the list of models and in the answer's first line."""
    async with new_database() as url, running_app(url) as app:
        await app.upload("board.md", b"# Board\n\nFour members remained on the board of OpenAI in November 2023.\n")
        (card,) = (await app.http.get("/v1/models")).json()["data"]
        assert card["id"] == "extractive-offline"
        assert "TURNSTREAM_LLM_BASE_URL" in card["description"]
        turn = await app.ask("How many members remained on the board?")
        assert "TURNSTREAM_LLM_BASE_URL" in turn.answer.split("\n")[0]
        assert turn.done["evidence"] == "cited"
        assert "Four members remained" in turn.answer
        greeting = await app.ask("你好")
        assert greeting.done["evidence"] == "skipped"


async def test_the_openapi_document_names_every_route(app: App) -> None:
    """The schema is served and complete for the routes of this version."""
    paths = (await app.http.get("/openapi.json")).json()["paths"]
    assert {
        "/api/chat",
        "/api/conversations",
        "/api/conversations/{conversation_id}",
        "/api/conversations/{conversation_id}/live",
        "/api/conversations/{conversation_id}/stop",
        "/api/bases",
        "/api/bases/{base}",
        "/api/bases/{base}/documents",
        "/healthz",
        "/readyz",
        "/v1/models",
    } <= paths.keys()
    assert "text/event-stream" in paths["/api/chat"]["post"]["responses"]["200"]["content"]
