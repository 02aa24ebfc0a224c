"""What one principal may do: turns at once, requests and tokens a minute. Source: issue 9 item 2, decision 0020."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from openai import AsyncOpenAI, RateLimitError
from sqlalchemy import URL

from app.auth.secret import digest, fresh
from app.store import leases, tokens, turns
from app.store.ids import new_id
from app.store.tokens import NewToken
from tests.harness.app import App, new_turn, running_app
from tests.harness.clock import Clock
from tests.harness.scripted_endpoint import Script, ScriptedEndpoint, call, event, finish, stream, text

SEARCH = call(("search_chunks", {"query": "board"}))
MCP = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    made.put_in_place(monkeypatch)
    return made


@asynccontextmanager
async def serving(url: URL, endpoint: ScriptedEndpoint, **settings: object) -> AsyncGenerator[App, None]:
    """A server that asks who it is, with these limits; its client is somebody new."""
    async with running_app(url, llm=endpoint.base_url, auth="token", heartbeat_s=0.2, **settings) as app:
        app.http.headers["Authorization"] = await bearer(app)
        yield app


async def bearer(app: App) -> str:
    """The credential of somebody new, who may do everything."""
    secret = fresh("ts")
    token = NewToken(new_id(), new_id(), f"owner-{new_id()}", "admin", digest(secret), None, None)
    assert await tokens.add(app.parts.database, token)
    return f"Bearer {secret}"


def refusal(answer: httpx.Response) -> tuple[int, str, int]:
    """Status, code, and when to ask again."""
    return answer.status_code, answer.json()["error"]["code"], int(answer.headers["retry-after"])


async def started(app: App, script: Script, **body: object) -> asyncio.Task[object]:
    """A question whose turn waits for the model; the task reads it to its end."""
    task: asyncio.Task[object] = asyncio.create_task(app.ask(f"Wait {script}", **body))
    await script.request(0)
    return task


async def test_requests_are_counted_for_who_makes_them(
    database_url: URL, endpoint: ScriptedEndpoint, clock: Clock
) -> None:
    """Whatever they ask for, also where they are refused; each door says it in its own shape."""
    async with serving(database_url, endpoint, max_requests_per_minute=4) as app:
        paths = ("/api/bases", "/api/bases/none-of-this-name", "/v1/models", "/api/conversations")
        for path, status in zip(paths, (200, 404, 200, 200), strict=True):
            assert (await app.http.get(path)).status_code == status
        refused = await app.http.get("/api/bases")
        assert refusal(refused) == (429, "too_many_requests", 45)
        assert refused.json()["error"]["message"] == (
            "Requests are limited to 4 a minute, and as many were made; ask again in 45 s."
        )
        assert refusal(await app.http.post("/api/chat", json={"message": "Who?"}))[:2] == (429, "too_many_requests")
        listing: dict[str, object] = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        by_mcp = await app.http.post("/mcp", json=listing, headers=MCP)
        assert (by_mcp.status_code, by_mcp.json()["id"], by_mcp.headers["retry-after"]) == (429, None, "45")
        other = {"Authorization": await bearer(app)}
        assert (await app.http.get("/api/bases", headers=other)).status_code == 200
        clock.now += 45
        assert (await app.http.get("/api/bases")).status_code == 200


@pytest.mark.usefixtures("clock")
async def test_a_tab_comes_back_and_stops_its_turn_though_its_owner_asked_too_much(
    database_url: URL, endpoint: ScriptedEndpoint
) -> None:
    """What an open tab needs is counted apart; health, metrics and the page's files aren't counted at all."""
    never = asyncio.Event()
    script = endpoint.script(stream(event({"content": "x"}), never, finish()))
    async with serving(database_url, endpoint, max_requests_per_minute=3) as app:
        asking = await started(app, script)
        (turn,) = (await app.http.get("/api/conversations")).json()["conversations"]
        assert (await app.http.get("/api/bases")).status_code == 200
        assert (await app.http.get("/api/bases")).status_code == 429
        for _ in range(10):
            for path in ("/healthz", "/readyz", "/metrics", "/openapi.json"):
                assert (await app.http.get(path)).status_code == 200
        of_it = f"/api/conversations/{turn['id']}"
        shown = await app.http.get(of_it)
        assert shown.status_code == 200
        async with app.http.stream("GET", f"{of_it}/live") as live:
            assert live.status_code == 200
            stopped = await app.http.post(f"{of_it}/stop", json={"turn_id": shown.json()["running_turn_id"]})
            assert stopped.status_code == 202
        await asking
        assert refusal(await app.http.get(of_it))[:2] == (429, "too_many_requests")  # not without end either


async def test_no_more_turns_run_at_once_than_may(database_url: URL, endpoint: ScriptedEndpoint) -> None:
    """The next one is refused before anything of it is stored; who isn't limited by it is somebody else, and a tab
    that sends its question again. One that ends makes room.
    """
    never = asyncio.Event()
    waiting = [endpoint.script(stream(never, finish())) for _ in range(3)]
    async with serving(database_url, endpoint, max_running_turns=2) as app:
        request_id = new_id()
        asking = [await started(app, waiting[0], request_id=request_id), await started(app, waiting[1])]
        refused = await app.http.post("/api/chat", json={"message": "And this?"})
        assert refusal(refused) == (429, "too_many_turns", 5)
        assert "no more than 2 may be at once" in refused.json()["error"]["message"]
        listed = (await app.http.get("/api/conversations")).json()["conversations"]
        assert len(listed) == 2
        other = {"Authorization": await bearer(app)}
        answered = await app.http.post(
            "/api/chat", json={"message": f"Who? {endpoint.script(SEARCH, text('Ann [1].'))}"}, headers=other
        )
        assert answered.status_code == 200
        asking.append(asyncio.create_task(app.ask(f"Wait {waiting[0]}", request_id=request_id)))
        of_it = f"/api/conversations/{listed[0]['id']}"
        running = (await app.http.get(of_it)).json()["running_turn_id"]
        assert (await app.http.post(f"{of_it}/stop", json={"turn_id": running})).status_code == 202
        await asking[1]
        asking[1] = await started(app, waiting[2])
        never.set()
        await asyncio.gather(*asking)


async def test_a_killed_process_turn_counts_until_another_has_ended_it(
    database_url: URL, endpoint: ScriptedEndpoint
) -> None:
    """Kill -9 leaves no count behind that somebody would have to correct."""
    settings = {"auth": "none", "max_running_turns": 1, "heartbeat_s": 0.2}
    async with running_app(database_url, llm=endpoint.base_url, **settings) as app:
        dead = await turns.admit(app.parts.database, new_turn(f"{endpoint.script(text('Hi.'))}", replica="killed"))
        assert refusal(await app.http.post("/api/chat", json={"message": "Who?"})) == (429, "too_many_turns", 5)
        await leases.release(app.parts.database, "killed", [dead.turn_id])
        await app.parts.supervisor.keep_house()
        await app.parts.supervisor.wait_for(dead.turn_id)
        assert (await app.ask(f"Who? {endpoint.script(SEARCH, text('Ann [1].'))}")).done


async def test_tokens_are_charged_when_a_turn_ends_however_it_ends(
    database_url: URL, endpoint: ScriptedEndpoint, clock: Clock
) -> None:
    """As the provider counted them: 18 a request here. A turn that has begun isn't cut; the next one waits."""
    async with serving(database_url, endpoint, max_tokens_per_minute=50) as app:
        await app.ask(f"Who? {endpoint.script(SEARCH, text('Ann [1].'))}")
        failing = await app.ask(f"Who? {endpoint.script(SEARCH, text(''), text(''))}")
        assert failing.error["code"] == "answer_empty"
        refused = await app.http.post("/api/chat", json={"message": "And this?"})
        assert refusal(refused) == (429, "too_many_tokens", 58)
        assert refused.json()["error"]["message"].startswith(
            "The model's tokens are limited to 50 a minute, and 90 were used;"
        )
        limits = (await app.http.get("/api/settings")).json()["limits"]
        told = [limits[f"max_{name}"] for name in ("running_turns", "requests_per_minute", "tokens_per_minute")]
        assert told == [20, 600, 50]  # the first two unasked, where it is known who asks
        clock.now += 58
        assert (await app.ask(f"Who? {endpoint.script(SEARCH, text('Ann [1].'))}")).done


@pytest.mark.usefixtures("clock")
async def test_openai_s_client_is_told_in_its_own_words(database_url: URL, endpoint: ScriptedEndpoint) -> None:
    """Headers with every answer, streamed and not; a refusal that it knows as one of rates."""
    limits = {"max_requests_per_minute": 4, "max_tokens_per_minute": 60, "max_running_turns": 1}
    async with serving(database_url, endpoint, **limits) as app:
        key = app.http.headers["Authorization"].removeprefix("Bearer ")
        async with AsyncOpenAI(base_url=f"{app.url}/v1", api_key=key, max_retries=0) as client:
            asked: Any = client.chat.completions.with_raw_response
            messages = [{"role": "user", "content": f"Who? {endpoint.script(SEARCH, text('Ann [1].'))}"}]
            first = await asked.create(model="scripted", messages=messages)
            told = {name: value for name, value in first.headers.items() if name.startswith("x-ratelimit")}
            assert told == {
                "x-ratelimit-limit-requests": "4",
                "x-ratelimit-remaining-requests": "3",
                "x-ratelimit-reset-requests": "90s",
                "x-ratelimit-limit-tokens": "60",
                "x-ratelimit-remaining-tokens": "60",
                "x-ratelimit-reset-tokens": "0s",
            }
            never = asyncio.Event()
            messages = [{"role": "user", "content": f"Who? {endpoint.script(SEARCH, stream(never, finish()))}"}]
            streamed = await asked.create(model="scripted", messages=messages, stream=True)
            assert streamed.headers["x-ratelimit-remaining-tokens"] == "24"
            with pytest.raises(RateLimitError) as busy:
                await client.chat.completions.create(model="scripted", messages=[{"role": "user", "content": "And?"}])
            assert (busy.value.code, busy.value.type) == ("rate_limit_exceeded", "rate_limit_error")
            assert "may be at once" in busy.value.message
            assert busy.value.response.headers["x-ratelimit-remaining-requests"] == "1"
            assert busy.value.response.headers["retry-after"] == "5"
            await client.models.list()
            with pytest.raises(RateLimitError) as limited:
                await client.models.list()
            assert limited.value.code == "rate_limit_exceeded"
            assert limited.value.response.headers["x-ratelimit-remaining-requests"] == "0"
            never.set()
            await streamed.http_response.aclose()
