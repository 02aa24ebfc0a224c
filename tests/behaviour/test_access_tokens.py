"""Tokens made by the command line, the page's login with one, and what a turn may do. Source: issue 9 item 1."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import URL

from app.auth import gate
from app.auth.secret import digest, fresh
from app.store import bases, tokens
from app.store.engine import Database
from app.store.ids import new_id
from app.store.tokens import NewToken
from tests.harness.app import App, Turn, running_app
from tests.harness.postgres import PostgresServer
from tests.harness.replica import run
from tests.harness.scripted_endpoint import Script, ScriptedEndpoint, call, event, stream, text
from tests.harness.sse_reader import frames_of

NewDatabase = Callable[[], AbstractAsyncContextManager[URL]]

PAGE = {"X-Turnstream": "page"}


async def command(url: URL, *words: str) -> tuple[int, str]:
    return await run("token", *words, database_url=url.render_as_string(hide_password=False))


async def made(url: URL, name: str, scope: str, *, owner: str | None = None, only: str | None = None) -> dict[str, str]:
    """The header with a new token, made as the command makes it."""
    secret, database = fresh("ts"), Database(url)
    try:
        limits = None if only is None else (str(await bases.find_id(database, only)),)
        new = NewToken(new_id(), name, owner or name, scope, digest(secret), limits, None)
        assert await tokens.add(database, new)
    finally:
        await database.aclose()
    return {"Authorization": f"Bearer {secret}"}


async def login(app: App, token: dict[str, str], **headers: str) -> httpx.Response:
    given = token["Authorization"].removeprefix("Bearer ")
    response = await app.http.post("/api/session", json={"token": given}, headers=PAGE | headers)
    app.http.cookies.clear()  # each test sends the cookie itself
    return response


def cookie_of(response: httpx.Response) -> dict[str, str]:
    """The header that a browser sends from then on."""
    response.raise_for_status()
    return {"Cookie": response.headers["set-cookie"].split(";")[0]}


@pytest.fixture(scope="module")
async def own_url(postgres: PostgresServer) -> AsyncGenerator[URL, None]:
    async with postgres.new_database() as url:
        yield url


@pytest.fixture(scope="module")
async def admin(own_url: URL) -> dict[str, str]:
    return await made(own_url, "admin", "admin")


@pytest.fixture(scope="module")
async def guarded(own_url: URL, endpoint: ScriptedEndpoint, admin: dict[str, str]) -> AsyncGenerator[App, None]:
    """A server that asks for tokens, on a loopback address."""
    async with running_app(own_url, llm=endpoint.base_url, auth="token") as app:
        yield app


async def test_a_token_is_shown_once_and_listed_without_its_secret(own_url: URL, guarded: App) -> None:
    """What is kept is a hash of 32 bytes."""
    words = ("create", "--name", "laptop", "--scope", "write", "--base", "default", "--owner", "ann")
    status, said = await command(own_url, *words)
    [secret] = [word for word in said.split() if word.startswith("ts_")]
    assert status == 0
    told = await guarded.http.get("/api/session", headers={"Authorization": f"Bearer {secret}"})
    assert told.json() == {"auth": "token", "owner": "ann", "scope": "write"}
    rows = await guarded.rows("SELECT secret_hash FROM tokens WHERE name = 'laptop'")
    assert [row.secret_hash for row in rows] == [digest(secret)]
    status, said = await command(own_url, "list")
    [line] = [line for line in said.splitlines() if "laptop" in line]
    assert (status, secret in said) == (0, False)
    assert [word in line for word in ("ann", "write", "default", "counts")] == [True] * 4


async def test_a_token_is_revoked_by_its_name(own_url: URL, guarded: App) -> None:
    """One that isn't there is said to be none."""
    token = await made(own_url, "desktop", "read")
    status, said = await command(own_url, "revoke", "desktop")
    assert (status, "refuses it within 5 seconds" in said) == (0, True)
    assert (await guarded.http.get("/api/bases", headers=token)).status_code == 401
    status, said = await command(own_url, "revoke", "desktop")
    assert (status, "there is no token named 'desktop'" in said) == (2, True)


async def test_when_a_token_was_used_is_written_down_beside_the_requests(own_url: URL) -> None:
    """At the latest when the server ends."""
    token = await made(own_url, "used", "read")
    await made(own_url, "unused", "read")
    async with running_app(own_url, auth="token") as app:
        cookie = cookie_of(await login(app, token))
        assert (await app.http.get("/api/bases", headers=cookie)).status_code == 200
        written = "SELECT name, last_used_at FROM tokens WHERE name IN ('used', 'unused')"
        assert {row.name: row.last_used_at for row in await app.rows(written)} == {"used": None, "unused": None}
    async with running_app(own_url, auth="token") as app:
        assert {row.name: row.last_used_at is not None for row in await app.rows(written)} == {
            "used": True,
            "unused": False,
        }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--name", "x", "--scope", "all"), "'all' is not one of 'read', 'write', 'admin'"),
        (("--name", "x", "--scope", "read", "--base", "nowhere"), "there is no base named 'nowhere'"),
        (("--name", " ", "--scope", "read"), "1 to 200 printable characters"),
    ],
)
async def test_a_token_that_can_t_be_made_is_refused_in_a_sentence(
    own_url: URL, words: Sequence[str], said: str
) -> None:
    """And no secret is shown."""
    status, told = await command(own_url, "create", *words)
    assert (status, said in " ".join(told.split()), "ts_" in told) == (2, True, False), told


async def test_a_revoked_token_is_refused_within_the_time_that_it_is_remembered(
    guarded: App, own_url: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decision 0019: known tokens are remembered for five seconds; here for none."""
    assert gate.REMEMBERED_S == 5.0
    monkeypatch.setattr(gate, "REMEMBERED_S", 0.0)
    token = await made(own_url, "short", "read")
    cookie = cookie_of(await login(guarded, token))
    for headers in (token, cookie):
        assert (await guarded.http.get("/api/bases", headers=headers)).status_code == 200
    assert await tokens.revoke(guarded.parts.database, "short") == "short"
    for headers in (token, cookie):
        assert (await guarded.http.get("/api/bases", headers=headers)).status_code == 401
    assert (await login(guarded, token)).status_code == 401


async def test_a_login_is_a_cookie_that_no_script_can_read(guarded: App, admin: dict[str, str]) -> None:
    """HttpOnly, SameSite=Strict, for a week; Secure where the page came by https, as a trusted proxy says."""
    response = await login(guarded, admin)
    assert response.json() == {"auth": "token", "owner": "admin", "scope": "admin"}
    name, *attributes = response.headers["set-cookie"].split("; ")
    assert name.startswith("turnstream_session=tsc_")
    assert sorted(attributes) == ["HttpOnly", "Max-Age=604800", "Path=/", "SameSite=strict"]
    assert admin["Authorization"].removeprefix("Bearer ") not in response.headers["set-cookie"]
    secure = await login(guarded, admin, **{"X-Forwarded-Proto": "https"})
    assert "Secure" in secure.headers["set-cookie"].split("; ")


async def test_a_proxy_that_isn_t_trusted_says_nothing(own_url: URL, admin: dict[str, str]) -> None:
    """Its X-Forwarded-Proto could be anybody's."""
    async with running_app(own_url, auth="token", trusted_proxies=("10.9.8.7",)) as app:
        response = await login(app, admin, **{"X-Forwarded-Proto": "https"})
    assert "Secure" not in response.headers["set-cookie"]


async def test_a_wrong_token_logs_nobody_in(guarded: App) -> None:
    """401, with the scheme that it must name (RFC 9110 section 11.6.1), and no cookie."""
    refused = await login(guarded, {"Authorization": "Bearer nonsense"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "unauthenticated")
    assert refused.headers["www-authenticate"] == 'Bearer realm="turnstream"'
    assert "set-cookie" not in refused.headers


async def test_the_page_s_cookie_is_good_for_the_page_s_api_only(guarded: App, admin: dict[str, str]) -> None:
    """Programs' doors take tokens; so no foreign page gains by a browser's cookie there."""
    cookie = cookie_of(await login(guarded, admin))
    assert (await guarded.http.get("/api/bases", headers=cookie)).status_code == 200
    for path in ("/v1/models", "/metrics"):
        assert (await guarded.http.get(path, headers=cookie | PAGE)).status_code == 401
    assert (await guarded.http.post("/mcp", json={}, headers=cookie | PAGE)).status_code == 401


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
async def test_with_the_cookie_only_the_page_itself_changes_something(
    own_url: URL, admin: dict[str, str], host: str
) -> None:
    """Neither a foreign page nor a form: the header is missing or the origin is another one, however it is bound."""
    async with running_app(own_url, auth="token", host=host) as app:
        cookie = cookie_of(await login(app, admin))
        ours = {"Origin": app.url}
        foreign = {"Origin": "https://evil.example"}
        changes = [("POST", "/api/bases"), ("PATCH", "/api/bases/default"), ("DELETE", "/api/session")]
        for method, path in changes:
            for headers in (
                cookie,
                cookie | ours,
                cookie | foreign,
                cookie | foreign | PAGE,
                cookie | {"X-Turnstream": "x"},
            ):
                refused = await app.http.request(method, path, json={"name": "forged"}, headers=headers)
                assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden"), (path, headers)
        foreign_login = await login(app, admin, **foreign)
        assert foreign_login.status_code == 403
        changed = await app.http.patch("/api/bases/default", json={"description": "d"}, headers=cookie | ours | PAGE)
        assert changed.status_code == 200


async def test_logging_out_ends_the_session_and_not_only_the_cookie(guarded: App, admin: dict[str, str]) -> None:
    """A copy of the cookie is worth nothing from then on."""
    cookie = cookie_of(await login(guarded, admin))
    assert (await guarded.http.get("/api/bases", headers=cookie)).status_code == 200
    out = await guarded.http.delete("/api/session", headers=cookie | PAGE)
    assert (out.status_code, "Max-Age=0" in out.headers["set-cookie"]) == (204, True)
    refused = await guarded.http.get("/api/bases", headers=cookie)
    assert (refused.status_code, refused.json()["error"]["message"]) == (401, "The login has ended; log in again.")


async def test_conversations_belong_to_the_owner_whichever_token_is_used(
    guarded: App, own_url: URL, endpoint: ScriptedEndpoint, admin: dict[str, str]
) -> None:
    """Two tokens of one owner see the same ones; a token limited to another base doesn't, though the owner is the same."""
    await guarded.http.post("/api/bases", json={"name": "elsewhere"}, headers=admin)
    one = await made(own_url, "one", "read", owner="ann")
    two = await made(own_url, "two", "write", owner="ann")
    limited = await made(own_url, "limited", "write", owner="ann", only="elsewhere")
    script = endpoint.script(call(("no_evidence_needed", {"reason": "greeting"})), text("Hello."))
    guarded.http.headers.update(one)
    request_id = str(uuid4())
    turn = await guarded.ask(f"Hi {script}", request_id=request_id)
    del guarded.http.headers["Authorization"]
    path = f"/api/conversations/{turn.conversation_id}"
    seen = {
        name: ((await guarded.http.get(path, headers=token)).status_code, await count(guarded, token))
        for name, token in (("one", one), ("two", two), ("limited", limited), ("admin", admin))
    }
    assert seen == {"one": (200, 1), "two": (200, 1), "limited": (404, 0), "admin": (404, 0)}
    body = {"message": "And?", "conversation_id": turn.conversation_id}
    again = {"message": "Hi", "base": "elsewhere", "request_id": request_id}
    repeated = await guarded.http.post("/api/chat", json=again, headers=limited)
    assert (repeated.status_code, repeated.json()["error"]["code"]) == (409, "conflict")
    for token in (limited, admin):
        refused = await guarded.http.post("/api/chat", json=body, headers=token)
        assert (refused.status_code, refused.json()["error"]["message"]) == (404, "There is no such conversation.")


async def count(app: App, token: dict[str, str]) -> int:
    return (await app.http.get("/api/conversations", headers=token)).json()["total"]


def offered(script: Script) -> list[bool]:
    """Of each request that offered tools, whether `remember` was among them."""
    lists: list[Any] = [body["tools"] for body in script.bodies if "tools" in body]
    return ["remember" in [tool["function"]["name"] for tool in tools] for tools in lists]


@pytest.mark.parametrize(("scope", "writes"), [("read", False), ("write", True)])
async def test_a_turn_writes_only_for_who_may_write_also_after_a_take_over(
    new_database: NewDatabase, endpoint: ScriptedEndpoint, scope: str, writes: bool
) -> None:
    """The tool isn't offered, and calling it all the same is refused; the next owner of the turn knows that too."""
    keep = call(("remember", {"text": "Ada Lin works at Acme.", "facts": []}))
    half = stream(event({"content": "Half an ans"}), close="hang")
    script = endpoint.script(call(("search_chunks", {"query": "Acme"})), keep, half, keep, text("Noted."))
    async with new_database() as url:
        token = await made(url, "t", scope)
        turn = Turn()
        async with running_app(url, llm=endpoint.base_url, auth="token", drain_s=0) as app:
            app.http.headers.update(token)
            async with app.stream(f"Remember that Ada Lin works at Acme. {script}") as response:
                async for frame in frames_of(response):
                    turn.frames.append(frame)
                    if frame.event == "delta":
                        app.server.should_exit = True
        async with running_app(url, llm=endpoint.base_url, auth="token") as app:
            app.http.headers.update(token)
            after = await app.attach(turn.conversation_id, turn.frames[-1].id)
            assert after.events[-1] == "done"
            steps = (await app.messages(turn.conversation_id))[-1]["steps"]
            [row] = await app.rows("SELECT may_write, attempt, (SELECT count(*) FROM proposals) AS n FROM turns")
    assert offered(script) == [writes] * 5
    assert (row.may_write, row.attempt, row.n > 0) == (writes, 1, writes)
    assert [step["status"] for step in steps] == ["empty"] + ["ok" if writes else "error"] * 2
