"""MCP over HTTP, asked by the SDK's own client: the chat's tools, texts and refusals. Source: DESIGN section 4, TOOLS M1-M12."""

import asyncio
import json
import re
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from mcp import Client, types
from mcp.shared.exceptions import MCPError
from sqlalchemy import URL

from tests.harness.app import App, running_app
from tests.harness.scripted_endpoint import ScriptedEndpoint, call, text

CHAT_ONLY = {"no_evidence_needed"}
ERAS = ["auto", "legacy"]
"""The protocol of 2026-07-28, stateless, and the ones before it, with their handshake."""


@asynccontextmanager
async def client(app: App, *, era: str = "auto", query: str = "") -> AsyncGenerator[Client, None]:
    async with Client(f"{app.url}/mcp{query}", mode=era) as connected:
        yield connected


def text_of(result: types.CallToolResult) -> str:
    [block] = result.content
    assert isinstance(block, types.TextContent)
    return block.text


def envelope(method: str = "tools/list") -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}


async def raw_call(app: App, version: str, arguments: str) -> tuple[int, dict[str, Any]]:
    """A call of search_chunks with arguments that the SDK's client wouldn't send."""
    key = "io.modelcontextprotocol/"
    meta = {
        f"{key}protocolVersion": version,
        f"{key}clientInfo": {"name": "t", "version": "1"},
        f"{key}clientCapabilities": {},
    }
    params = {"name": "search_chunks", "arguments": "@", "_meta": meta}
    body = json.dumps(envelope("tools/call") | {"params": params}).replace('"@"', arguments)
    headers = {"mcp-protocol-version": version, "mcp-method": "tools/call", "mcp-name": "search_chunks"}
    response = await app.http.post("/mcp", content=body, headers=HEADERS | JSON | headers)
    return response.status_code, response.json()


HEADERS = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
async def configured(database_url: URL) -> AsyncGenerator[App, None]:
    """A server that was given a name of its own."""
    async with running_app(database_url, host="kb.example", open_network=True) as running:
        yield running


@pytest.mark.parametrize("era", ERAS)
async def test_the_list_is_the_one_that_a_chat_model_is_offered(app: App, endpoint: ScriptedEndpoint, era: str) -> None:
    """Name, description and input schema, tool for tool; only what steers a chat's turn is left out (M1, M2)."""
    script = endpoint.script(call(("search_chunks", {"query": "board"})), text("Four [1]."))
    await app.ask(f"How many? {script}")
    tools: Any = script.bodies[0]["tools"]
    offered: list[dict[str, Any]] = [tool["function"] for tool in tools]
    async with client(app, era=era) as mcp:
        listed = (await mcp.list_tools()).tools
    assert [
        {"name": tool.name, "description": tool.description, "parameters": tool.input_schema} for tool in listed
    ] == [tool for tool in offered if tool["name"] not in CHAT_ONLY]
    assert {tool["name"] for tool in offered} - {tool.name for tool in listed} == CHAT_ONLY


async def test_every_tool_says_in_booleans_what_it_does_to_the_world(app: App) -> None:
    """A hint that is left out means the worst to a client: read tools say that they only read (M7)."""
    async with client(app) as mcp:
        listed = (await mcp.list_tools()).tools
    read_only = {tool.name: tool.annotations.read_only_hint for tool in listed if tool.annotations is not None}
    registered = {tool.name: tool.read_only for tool in app.parts.registry if tool.name not in CHAT_ONLY}
    assert read_only == registered
    assert read_only["search_chunks"] is True
    for tool in listed:
        assert tool.annotations is not None
        assert tool.annotations.destructive_hint is False
        assert tool.annotations.open_world_hint is False
        assert tool.annotations.idempotent_hint is tool.annotations.read_only_hint


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_gives_the_text_of_the_chat_and_the_sources_of_its_numbers(
    app: App, endpoint: ScriptedEndpoint, era: str
) -> None:
    """The text is what the chat model reads, with its prefix; [n] in it are the n of the sources beside it (M3, M6)."""
    script = endpoint.script(call(("search_chunks", {"query": "board"})), text("Four [1]."))
    turn = await app.ask(f"How many? {script}")
    [told] = [m["content"] for m in script.messages(1) if m["role"] == "tool"]
    async with client(app, era=era) as mcp:
        result = await mcp.call_tool("search_chunks", {"query": "board"})
    assert text_of(result) == told
    assert told.startswith("OK: ")
    assert result.is_error is False
    assert result.structured_content == {"status": "ok", "data": {}, "sources": turn.sources, "resolved": []}
    assert re.findall(r"^\[(\d+)\]", told, re.MULTILINE) == [str(s["n"]) for s in turn.sources]


async def test_nothing_found_is_no_error(app: App) -> None:
    """EMPTY is an answer: the tool ran (M3)."""
    async with client(app) as mcp:
        result = await mcp.call_tool("search_chunks", {"query": "zzqqxx"})
    assert text_of(result).startswith("EMPTY: ")
    assert result.is_error is False
    assert result.structured_content == {"status": "empty", "data": {}, "sources": [], "resolved": []}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (None, "`query` is missing or empty"),
        ({"query": " \n"}, "`query` is missing or empty"),
        ({"query": "board", "speed": 9}, "`speed`"),
        ({"query": ["board"]}, "`query`"),
        ({"query": "board", "limit": 99}, "`limit`"),
    ],
    ids=["none", "blank", "unknown-key", "wrong-type", "out-of-range"],
)
async def test_arguments_that_do_not_fit_are_told_to_the_model(
    app: App, era: str, arguments: dict[str, Any] | None, why: str
) -> None:
    """A result with isError, which a model can read and mend, in the words of the chat (M4)."""
    async with client(app, era=era) as mcp:
        result = await mcp.call_tool("search_chunks", arguments)
    assert result.is_error is True
    assert text_of(result).startswith("ERROR: ")
    assert why in text_of(result)
    assert result.structured_content == {"status": "error", "data": {}, "sources": [], "resolved": []}


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_arguments_that_nest_without_end_are_refused(app: App, version: str) -> None:
    """By the parser or by the check, never by breaking: whatever the depth, there is an answer."""
    for depth in [*range(100, 1_000, 100), 50_000]:
        status, answer = await raw_call(app, version, '{"query": "board", "deep": %s}' % ("[" * depth + "]" * depth))
        if status == 200:
            assert answer["result"]["isError"] is True
        else:
            assert (status, answer["error"]["code"]) == (400, types.PARSE_ERROR)


async def test_text_that_can_not_be_stored_is_cleaned_at_the_door(app: App) -> None:
    """NUL and lone surrogates in arguments reach no tool and break no answer (case D01)."""
    status, answer = await raw_call(app, "2026-07-28", r'{"query": "bo\u0000ard \ud800"}')
    assert status == 200
    assert answer["result"]["content"][0]["text"].startswith("OK: ")


async def test_a_number_that_json_does_not_have_is_refused(app: App) -> None:
    """NaN is taken by Python's parser and by nobody else's."""
    _, answer = await raw_call(app, "2026-07-28", '{"query": "board", "limit": NaN}')
    assert answer["result"]["isError"] is True


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", ["look_everywhere", "no_evidence_needed", "x" * 300, ""])
async def test_an_unknown_tool_is_a_protocol_error(app: App, era: str, name: str) -> None:
    """-32602, with the names there are; what steers a chat's turn isn't one of them (M2, M4)."""
    async with client(app, era=era) as mcp:
        with pytest.raises(MCPError, match=r"Unknown tool: .*search_chunks") as caught:
            await mcp.call_tool(name, {"query": "x", "reason": "x"})
    assert caught.value.code == types.INVALID_PARAMS
    assert len(caught.value.message) < 400


@pytest.mark.parametrize("name", ["search-chunks", "Search_Chunks", "searchChunks"])
async def test_a_name_is_folded_as_in_a_chat(app: App, name: str) -> None:
    """Case and hyphens are folded, nothing is guessed (M4)."""
    async with client(app) as mcp:
        assert text_of(await mcp.call_tool(name, {"query": "board"})).startswith("OK: ")


async def test_the_address_chooses_the_base(app: App) -> None:
    """`?base=` names it; without it, the default one is searched."""
    base = f"mcp-{uuid.uuid4().hex[:8]}"
    assert (await app.http.post("/api/bases", json={"name": base})).status_code == 201
    await app.upload("orchard.md", b"# Orchard\n\nThe quinces of Ilmenau ripen late.", base=base)
    async with client(app, query=f"?base={base}") as mcp:
        assert "quinces" in text_of(await mcp.call_tool("search_chunks", {"query": "Ilmenau"}))
    async with client(app) as mcp:
        assert text_of(await mcp.call_tool("search_chunks", {"query": "Ilmenau"})).startswith("EMPTY: ")


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("base", ["nowhere", "", "No%00where", "x" * 500])
async def test_a_base_that_is_not_there_is_named(app: App, era: str, base: str) -> None:
    """The list says so already, since that is when a client is configured; and every call does."""
    async with client(app, era=era, query=f"?base={base}") as mcp:
        for ask in (mcp.list_tools, lambda: mcp.call_tool("search_chunks", {"query": "board"})):
            with pytest.raises(MCPError, match="There is no base '") as caught:
                await ask()
            assert caught.value.code == types.INVALID_PARAMS


@pytest.mark.parametrize("as_of", ["last week", "2023-13", 2023, ["2023"]])
async def test_a_record_time_that_is_none_is_refused(app: App, as_of: object) -> None:
    """In `_meta`, under `turnstream/as_of`; the message names the forms that are taken (M9)."""
    async with client(app) as mcp:
        with pytest.raises(MCPError, match="turnstream/as_of") as caught:
            await mcp.call_tool("search_chunks", {"query": "board"}, meta={"turnstream/as_of": as_of})
    assert caught.value.code == types.INVALID_PARAMS


async def test_a_page_beyond_the_only_one_is_refused(app: App) -> None:
    """The list isn't paged, so no cursor is valid."""
    async with client(app) as mcp:
        with pytest.raises(MCPError, match="no such cursor"):
            await mcp.list_tools(cursor="2")


async def test_calls_at_the_same_time_number_their_own_sources(app: App) -> None:
    """Each call's numbers begin with 1, whatever runs beside it."""
    async with client(app) as mcp:
        results = await asyncio.gather(*(mcp.call_tool("search_chunks", {"query": "board"}) for _ in range(12)))
    assert {text_of(result) for result in results} == {text_of(results[0])}
    assert {json.dumps(result.structured_content) for result in results} == {json.dumps(results[0].structured_content)}


@pytest.mark.parametrize(
    "stranger",
    [
        {"host": "evil.example"},
        {"host": "evil.example:8000"},
        {"host": "localhost.evil.example"},
        {"host": "127.0.0.1.evil.example"},
        {"host": "localhost:evil"},
        {"host": "user@localhost"},
        {"host": ""},
        {"origin": "https://evil.example"},
        {"origin": "http://localhost.evil.example"},
        {"origin": "http://localhost:1@evil.example"},
        {"origin": "null"},
        {"origin": "file://localhost"},
        {"origin": "http://localhost:99999999"},
        {"origin": "http://[::1"},
    ],
    ids=lambda given: "=".join(next(iter(given.items()))),
)
async def test_a_foreign_host_or_origin_is_refused(app: App, stranger: dict[str, str]) -> None:
    """403 before anything is read, so that a page whose name resolves to this machine learns nothing."""
    for method in ("POST", "GET", "OPTIONS"):
        response = await app.http.request(method, "/mcp", json=envelope(), headers=HEADERS | stranger)
        assert (response.status_code, response.headers["content-type"]) == (403, "application/json")
        assert response.json()["error"]["code"] == types.INVALID_REQUEST
        assert "access-control-allow-origin" not in response.headers


@pytest.mark.parametrize(
    "known",
    [
        {"host": "localhost"},
        {"host": "LOCALHOST:1234"},
        {"host": "[::1]:8000"},
        {"host": "127.8.8.8"},
        {"host": "kb.example"},
        {"host": "kb.example:444"},
        {"origin": "http://localhost:6274"},
        {"origin": "https://KB.example"},
    ],
    ids=lambda given: "=".join(next(iter(given.items()))),
)
async def test_the_names_of_this_server_are_let_in(configured: App, known: dict[str, str]) -> None:
    """Loopback by any of its names and ports, and the configured host."""
    response = await configured.http.post("/mcp", json=envelope(), headers=HEADERS | known)
    assert response.status_code == 200, response.text


@pytest.mark.parametrize("method", ["GET", "DELETE", "OPTIONS", "PUT"])
async def test_there_is_no_stream_to_open_and_no_session_to_end(app: App, method: str) -> None:
    """Stateless: anything but POST is refused with what is allowed, so no stream keeps the server from ending."""
    response = await app.http.request(method, "/mcp", headers=HEADERS)
    assert (response.status_code, response.headers["allow"]) == (405, "POST")


async def test_a_body_that_is_too_large_or_no_json_is_refused(app: App) -> None:
    """By its length before it is read, and as a protocol error."""
    large = await app.http.post("/mcp", content=b" " * (1024 * 1024 + 1), headers=HEADERS | JSON)
    assert large.status_code == 413
    assert (await app.http.post("/mcp", content=b"{", headers=HEADERS | JSON)).status_code == 400
    assert (
        await app.http.post("/mcp", content=b"{}", headers=HEADERS | {"content-type": "text/plain"})
    ).status_code == 400


async def test_a_server_that_goes_down_takes_no_more_calls(
    new_database: Callable[[], AbstractAsyncContextManager[URL]],
) -> None:
    """503 with when to come back, as for a question."""
    async with new_database() as url, running_app(url) as ending:
        assert (await ending.http.post("/mcp", json=envelope(), headers=HEADERS)).status_code == 200
        ending.parts.begin_shutdown()
        response = await ending.http.post("/mcp", json=envelope(), headers=HEADERS)
        assert (response.status_code, response.headers["retry-after"]) == (503, "2")
