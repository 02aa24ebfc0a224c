"""Every route, asked by nobody, by strangers, by those who may look, and by those who may. Source: issue 9 item 1.

What a route needs is written down here a second time, so that a change of the table is seen; and each route that the
application serves must be called here, so that none can be forgotten.
"""

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from sqlalchemy import URL

from app.api import access
from app.auth.secret import digest, fresh
from app.store import bases, proposals, tokens
from app.store.engine import Database
from app.store.ids import new_id
from app.store.proposals import NewProposal
from app.store.tokens import NewToken
from tests.harness.app import App, running_app

SECRET = "zanzibar-protocol"
MCP = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}


@dataclass(frozen=True, slots=True)
class Call:
    """One route as it is called. `least` is the scope it needs, "" for none, and `right` what it answers to who may."""

    method: str
    template: str
    least: str
    right: tuple[int, ...] = (200,)
    body: dict[str, Any] | None = None
    more: dict[str, Any] = field(default_factory=dict[str, Any])
    everywhere: bool = False


BASE = "/api/bases/{base}"
OF = "/api/conversations/{conversation_id}"
FACT: dict[str, object] = {"subject": "Ann", "predicate": "knows", "object": "Bob"}
ASKED = {"message": "Who?", "base": "alpha"}

CALLS = [
    *(
        Call(method, path, "", (200, 404, 503))
        for path in (
            "/",
            "/c/{id}",
            "/bases",
            "/bases/{rest:path}",
            "/settings",
            "/settings/{rest:path}",
            "/assets/{name}",
        )
        for method in ("GET", "HEAD")
    ),
    Call("GET", "/openapi.json", ""),
    Call("HEAD", "/openapi.json", ""),
    Call("GET", "/healthz", ""),
    Call("GET", "/readyz", ""),
    Call("POST", "/api/session", "", (403,), body={"token": "x"}),
    Call("DELETE", "/api/session", "", (403,)),
    Call("GET", "/api/session", "read"),
    Call("GET", "/metrics", "read", everywhere=True),
    Call(
        "*",
        "/mcp",
        "read",
        body={"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}},
        more={"headers": MCP},
    ),
    Call("GET", "/api/settings", "read"),
    Call("POST", "/api/settings/doctor", "admin", everywhere=True),
    Call("GET", "/api/audit", "admin", everywhere=True),
    Call("GET", "/v1/models", "read"),
    Call("GET", "/v1/models/{model:path}", "read"),
    Call("GET", "/api/conversations", "read"),
    Call("GET", OF, "read"),
    Call("GET", f"{OF}/live", "read"),
    Call("POST", f"{OF}/stop", "read", (409,), body={"turn_id": new_id()}),
    Call("PATCH", OF, "read", body={"title": "Another title"}),
    Call("POST", "/api/chat", "read", body=ASKED),
    Call("POST", "/v1/chat/completions", "read", body={"messages": [{"role": "user", "content": "Who?"}]}),
    Call("GET", "/api/bases", "read"),
    Call("GET", BASE, "read"),
    Call("GET", f"{BASE}/documents", "read"),
    Call("GET", f"{BASE}/documents/{{document_id}}", "read"),
    Call("GET", f"{BASE}/documents/{{document_id}}/chunks", "read"),
    Call("GET", f"{BASE}/chunks/{{chunk_id}}", "read"),
    Call("GET", f"{BASE}/overview", "read"),
    Call("GET", f"{BASE}/entities", "read"),
    Call("GET", f"{BASE}/entities/{{entity_id}}", "read"),
    Call("GET", f"{BASE}/facts", "read"),
    Call("GET", f"{BASE}/proposals", "read"),
    Call("GET", f"{BASE}/embeddings", "read"),
    Call("GET", f"{BASE}/verdicts", "read"),
    Call("GET", f"{BASE}/extraction", "read"),
    Call("POST", f"{BASE}/documents", "write", (202,), more={"files": {"file": ("b.md", b"More words.")}}),
    Call("POST", f"{BASE}/facts", "write", body=FACT),
    Call("POST", f"{BASE}/facts/{{fact_id}}/correct", "write", body=FACT | {"object": "Cid"}),
    Call("POST", f"{BASE}/facts/{{other_fact_id}}/reject", "write"),
    Call("POST", f"{BASE}/entities/{{entity_id}}/merge", "write", body={"into": "{other_entity_id}"}),
    Call("POST", f"{BASE}/proposals/{{proposal_id}}/accept", "write"),
    Call("POST", f"{BASE}/proposals/{{other_proposal_id}}/refuse", "write"),
    Call("POST", f"{BASE}/extraction", "admin", (422,)),  # the offline model can't; that is said to who may only
    Call("POST", f"{BASE}/extraction/stop", "admin", (202,)),
    Call("GET", f"{BASE}/members", "admin"),
    Call("PUT", f"{BASE}/members", "admin", (409,), body={"owner": "x@y", "role": "read"}),
    Call("DELETE", f"{BASE}/members", "admin", (409,), more={"params": {"owner": "x@y"}}),
    Call("POST", "/api/bases", "admin", (201,), body={"name": "gamma"}, everywhere=True),
    Call("PATCH", BASE, "admin", body={"description": "Changed."}),
    Call("DELETE", OF, "read", (204,)),
    Call("DELETE", f"{BASE}/documents/{{document_id}}", "write", (204,)),
    Call("DELETE", BASE, "admin", (204,)),
]
"""All routes; those that take something away last."""

ORDER = {"": 0, "read": 1, "write": 2, "admin": 3}


@dataclass(slots=True)
class House:
    """A server with two bases; `ids` are of what alpha holds, `owner` is whose the conversation there is."""

    app: App
    database: Database
    ids: dict[str, str]

    async def token(self, scope: str, *, owner: str = "ann", only: str | None = None, days: int | None = None) -> str:
        secret = fresh("ts")
        limits = None
        if only is not None:
            base_id = await bases.find_id(self.database, only)
            assert base_id is not None
            limits = (base_id,)
        made = await tokens.add(self.database, NewToken(new_id(), new_id(), owner, scope, digest(secret), limits, days))
        assert made
        return secret

    async def call(self, call: Call, headers: dict[str, str], *, base: str = "alpha") -> httpx.Response:
        values = self.ids | {
            "base": base,
            "rest:path": "x",
            "id": "x",
            "name": "none.js",
            "model:path": self.ids["model"],
        }
        path = call.template
        for name, value in values.items():
            path = path.replace(f"{{{name}}}", value)
        given = dict(call.more)
        if call.body is not None:
            text = json.dumps(call.body)
            for name in ("other_entity_id",):
                text = text.replace(f"{{{name}}}", self.ids[name])
            given["json"] = json.loads(text)
            if call.template == "/v1/chat/completions":
                given["json"] |= {"model": self.ids["model"]}
            if "base" in given["json"]:
                given["json"]["base"] = base
        params = {"base": base} if call.template == "/mcp" else given.pop("params", {})
        given["headers"] = dict(given.get("headers", {})) | headers
        method = "POST" if call.method == "*" else call.method
        return await self.app.http.request(method, path, params=params, **given)

    async def everything(self) -> dict[str, str]:
        """What is stored, as one hash a table; when a token was last used aside."""
        names = [
            row.tablename
            for row in await self.app.rows(
                "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'tokens'"
            )
        ]
        kept: dict[str, str] = {}
        for name in sorted(names):
            [row] = await self.app.rows(
                f"SELECT md5(coalesce(string_agg(t::text, ',' ORDER BY t::text), '')) AS h FROM {name} t"
            )
            kept[name] = row.h
        return kept


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture(scope="module")
async def house(new_database_module: URL) -> AsyncGenerator[House, None]:
    """Alpha has a document, facts, proposals and a conversation of ann's; beta has nothing."""
    async with running_app(new_database_module, auth="token") as app:
        yield await furnished(app)


@pytest.fixture(scope="module")
async def new_database_module(postgres: Any) -> AsyncGenerator[URL, None]:
    async with postgres.new_database() as url:
        yield url


async def furnished(app: App) -> House:
    house = House(app, app.parts.database, {"model": f"{app.parts.model.name}@alpha"})
    for name in ("alpha", "beta"):
        assert await bases.create(house.database, name) is not None
    app.http.headers.update(bearer(await house.token("admin")))
    document_id = await app.upload("a.md", f"# Notes\n\nThe {SECRET} was signed by Ann.\n".encode(), base="alpha")
    rows = [
        {"subject": "Ann", "predicate": "signed", "value": SECRET},
        {"subject": "Cy", "predicate": "saw", "object": "Di"},
    ]
    added = await app.http.post("/api/bases/alpha/facts", json={"rows": rows})
    assert added.json()["added"] == 2, added.text
    facts = (await app.http.get("/api/bases/alpha/facts")).json()["facts"]
    base_id = await bases.find_id(house.database, "alpha")
    assert base_id is not None
    new = [NewProposal(FACT | {"object": who}, SECRET, "remember", "ann", new_id()) for who in ("Eve", "Fay")]
    proposed = await proposals.propose(house.database, base_id, new)
    chunk = (await app.http.get(f"/api/bases/alpha/documents/{document_id}/chunks")).json()["passages"][0]
    turn = await app.ask(f"Who signed the {SECRET}?", base="alpha")
    by_subject = {fact["subject"]["name"]: fact for fact in facts}
    house.ids |= {
        "document_id": document_id,
        "chunk_id": chunk["id"],
        "fact_id": by_subject["Ann"]["id"],
        "other_fact_id": by_subject["Cy"]["id"],
        "entity_id": by_subject["Cy"]["subject"]["id"],
        "other_entity_id": by_subject["Cy"]["object"]["id"],
        "proposal_id": proposed[0].id,
        "other_proposal_id": proposed[1].id,
        "conversation_id": turn.conversation_id,
    }
    del app.http.headers["Authorization"]
    return house


def test_every_route_that_is_served_is_called_here_and_stands_in_the_table(house: House) -> None:
    """A route that is added without a decision on who may use it fails here, and keeps the server from starting."""
    called = {
        (
            call.template.replace("{other_fact_id}", "{fact_id}").replace("{other_proposal_id}", "{proposal_id}"),
            call.method,
        )
        for call in CALLS
    }
    served = set(access.served(house.app.parts.routes))
    assert called == served
    listed = {(path, method) for path, needs in access.TABLE.items() for method in needs}
    assert listed == served


def test_a_route_that_is_not_in_the_table_keeps_the_server_from_starting(
    monkeypatch: pytest.MonkeyPatch, house: House
) -> None:
    """And so does a row of the table that no route has."""
    changed = dict(access.TABLE)
    changed["/api/forgotten"] = changed.pop("/api/chat")
    monkeypatch.setattr(access, "TABLE", changed)
    with pytest.raises(LookupError, match=r"not in the table: \[\('/api/chat', 'POST'\)\]; only there: .*forgotten"):
        access.check(house.app.parts.routes)


@pytest.fixture(scope="module")
async def ended(house: House) -> dict[str, str]:
    """Credentials that don't count: none, made up, malformed, revoked, expired, and somebody's cookie under /v1."""
    revoked, expired = await house.token("admin"), await house.token("admin", days=1)
    await house.app.execute("UPDATE tokens SET revoked_at = now() WHERE secret_hash = :h", h=digest(revoked))
    await house.app.execute("UPDATE tokens SET expires_at = now() WHERE secret_hash = :h", h=digest(expired))
    return {
        "none": "",
        "made up": f"Bearer {fresh('ts')}",
        "malformed": "Bearer not.a.token",
        "another scheme": "Basic YTpi",
        "empty": "Bearer",
        "revoked": f"Bearer {revoked}",
        "expired": f"Bearer {expired}",
    }


@pytest.mark.parametrize("kind", ["none", "made up", "malformed", "another scheme", "empty", "revoked", "expired"])
async def test_who_isn_t_known_gets_401_from_every_route_and_changes_nothing(
    house: House, ended: dict[str, str], kind: str
) -> None:
    """In the shape that the route's callers read; the page's files and the health checks are open."""
    headers = {"Authorization": ended[kind]} if ended[kind] else {}
    before = await house.everything()
    for call in CALLS:
        response = await house.call(call, headers)
        told = (call.method, call.template, response.status_code, response.text[:300])
        assert SECRET not in response.text, told
        if not call.least:
            assert response.status_code in call.right, told
            continue
        assert response.status_code == 401, told
        assert response.headers["www-authenticate"] == 'Bearer realm="turnstream"', told
        error = response.json()["error"]
        if call.template == "/mcp":
            assert error["code"] == -32600, told
        else:
            assert error["code"] == "unauthenticated", told
            assert ("type" in error) == call.template.startswith("/v1"), told
    assert await house.everything() == before


async def test_what_is_somebody_else_s_is_not_there(house: House) -> None:
    """A base that a token isn't for answers as one that doesn't exist, and so do others' conversations."""
    headers = bearer(await house.token("admin", owner="mallory", only="beta"))
    before = await house.everything()
    for call in CALLS:
        response = await house.call(call, headers)
        told = (call.method, call.template, response.status_code, response.text[:300])
        assert SECRET not in response.text, told
        if "{base}" in call.template or "{conversation_id}" in call.template or call.body == ASKED:
            assert response.status_code == 404, told
            unknown = await house.call(call, headers, base="omega")
            assert response.text.replace("alpha", "omega") == unknown.text, told
        elif call.everywhere:
            assert (response.status_code, response.json()["error"]["code"]) == (403, "forbidden"), told
        elif call.template.startswith("/v1/") and call.template != "/v1/models":
            assert response.status_code == 404, told
        elif call.template == "/mcp":
            assert "There is no base 'alpha'" in response.text, told
        else:
            assert response.status_code in call.right, told
            assert "alpha" not in response.text, told
    assert await house.everything() == before


@pytest.mark.parametrize(("scope", "only"), [("read", None), ("read", "alpha"), ("write", None), ("write", "alpha")])
async def test_who_may_look_but_not_do_gets_403_and_changes_nothing(house: House, scope: str, only: str | None) -> None:
    """The scope that is missing is named, and the base isn't hidden from who sees it."""
    headers = bearer(await house.token(scope, only=only))
    before = await house.everything()
    for call in CALLS:
        missing = ORDER[call.least] > ORDER[scope] or (call.everywhere and only is not None)
        if missing:
            response = await house.call(call, headers)
            told = (call.method, call.template, response.status_code, response.text[:300])
            assert (response.status_code, response.json()["error"]["code"]) == (403, "forbidden"), told
    assert await house.everything() == before


async def test_who_may_is_served_by_every_route(house: House) -> None:
    """With exactly the scope that a route needs, limited to the base where that is enough."""
    for call in CALLS:
        limits = "alpha" if call.least and not call.everywhere else None
        token = await house.token(call.least or "read", only=limits)
        response = await house.call(call, bearer(token) if call.least else {})
        told = (call.method, call.template, response.status_code, response.text[:300])
        assert response.status_code in call.right, told
        if call.template == "/mcp":
            names = [tool["name"] for tool in response.json()["result"]["tools"]]
            assert ("search_chunks" in names, "remember" in names) == (True, False), told


async def test_without_authentication_every_route_is_for_whoever_reaches_it(
    new_database: Callable[[], AbstractAsyncContextManager[URL]],
) -> None:
    """AUTH=none: what the walk above needs tokens for needs none, and one that is sent along doesn't matter."""
    async with new_database() as url, running_app(url) as app:
        for headers in ({}, bearer("sk-whatever"), {"Authorization": "Basic YTpi"}):
            assert (await app.http.get("/api/bases", headers=headers)).status_code == 200
            told = (await app.http.get("/api/session", headers=headers)).json()
            assert told == {"auth": "none", "owner": "local", "scope": "admin"}
        login = await app.http.post("/api/session", json={"token": "x"}, headers={"X-Turnstream": "page"})
        assert (login.status_code, login.json()["error"]["code"]) == (409, "conflict")
