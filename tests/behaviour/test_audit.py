"""Every write and every nod leaves a line with who did it, by whichever door. Source: issue 9 item 6."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from app.auth.secret import digest, fresh
from app.store import tokens
from app.store.ids import new_id
from app.store.tokens import NewToken
from tests.harness.app import App, running_app
from tests.harness.postgres import PostgresServer
from tests.harness.scripted_endpoint import ScriptedEndpoint, call, text

MARKER = "heliotrope"


@pytest.fixture(scope="module")
async def audited(postgres: PostgresServer, endpoint: ScriptedEndpoint) -> AsyncGenerator[App]:
    """A server of its own, asked with ann's token, who may everything."""
    secret = fresh("ts")
    async with postgres.new_database() as url, running_app(url, llm=endpoint.base_url, auth="token") as app:
        assert await tokens.add(
            app.parts.database, NewToken(new_id(), "ann's", "ann", "admin", digest(secret), None, None)
        )
        app.http.headers["Authorization"] = f"Bearer {secret}"
        yield app


async def lines(app: App, **wanted: str | int) -> list[dict[str, Any]]:
    """Oldest first."""
    answer = await app.http.get("/api/audit", params={"limit": 1_000} | wanted)
    assert answer.status_code == 200, answer.text
    return answer.json()["lines"][::-1]


async def ok(app: App, method: str, path: str, **more: Any) -> Any:
    answer = await app.http.request(method, f"/api/bases{path}", **more)
    assert answer.is_success, answer.text
    return answer.json() if answer.content else None


async def test_each_change_leaves_its_line(audited: App, endpoint: ScriptedEndpoint) -> None:
    """In the order in which they were made, by their owner, without a word of what they were about."""
    app = audited
    await ok(app, "POST", "", json={"name": "alpha", "description": MARKER})
    await ok(app, "PATCH", "/alpha", json={"name": "beta"})
    document = await app.upload(f"{MARKER}.md", f"# A\n\nThe {MARKER} blooms.\n".encode(), base="beta")
    rows = [{"subject": name, "predicate": "is", "value": MARKER} for name in ("Ada", "Bea")]
    await ok(app, "POST", "/beta/facts", json={"rows": rows})
    facts = (await ok(app, "GET", "/beta/facts"))["facts"]
    first, second = (fact["id"] for fact in facts)
    ada, bea = (fact["subject"]["id"] for fact in facts)
    became = await ok(app, "POST", f"/beta/facts/{first}/correct", json=rows[0] | {"value": "a rose"})
    await ok(app, "POST", f"/beta/facts/{second}/reject")
    await ok(app, "POST", f"/beta/entities/{ada}/merge", json={"into": bea})
    remembered = [{"subject": "Cy", "predicate": "has", "value": value} for value in (MARKER, "none")]
    remember = call(("remember", {"text": f"Cy has {MARKER}, or none.", "facts": remembered}))
    turn = await app.ask(
        f"Remember that Cy has {MARKER}, or none. {endpoint.script(remember, text('It waits.'))}", base="beta"
    )
    yes, no = (p["id"] for p in (await ok(app, "GET", "/beta/proposals"))["proposals"])
    nodded = await ok(app, "POST", f"/beta/proposals/{yes}/accept")
    await ok(app, "POST", f"/beta/proposals/{no}/refuse")
    await ok(app, "DELETE", f"/beta/documents/{document}")
    assert (await app.http.delete(f"/api/conversations/{turn.conversation_id}")).status_code == 204
    await ok(app, "DELETE", "/beta")

    found = await lines(app, who="ann")
    moved = found[9]["object_id"]
    told = [(line["action"], line["base"], line["object_id"]) for line in found]
    assert told == [
        ("base.created", "alpha", None),
        ("base.changed", "beta", None),
        ("document.uploaded", "beta", document),
        ("fact.recorded", "beta", told[3][2]),
        ("fact.recorded", "beta", told[4][2]),
        ("fact.recorded", "beta", became["id"]),
        ("fact.corrected", "beta", first),
        ("fact.rejected", "beta", second),
        ("fact.recorded", "beta", told[8][2]),
        ("entity.merged", "beta", moved),
        ("proposal.remembered", "beta", told[10][2]),
        ("proposal.remembered", "beta", told[11][2]),
        ("fact.recorded", "beta", nodded["fact_id"]),
        ("proposal.accepted", "beta", yes),
        ("proposal.refused", "beta", no),
        ("document.deleted", "beta", document),
        ("conversation.deleted", "beta", turn.conversation_id),
        ("base.deleted", "beta", None),
    ]
    assert {told[3][2], told[4][2]} == {first, second}
    assert {told[10][2], told[11][2]} == {yes, no}
    assert moved == ada
    assert [found[n]["detail"] for n in (1, 6, 9, 13)] == [
        {"name": "alpha"},
        {"became": became["id"]},
        {"into": bea},
        {"fact": nodded["fact_id"]},
    ]
    assert MARKER not in str(await lines(app))


async def test_it_is_asked_for_by_who_what_and_page(audited: App) -> None:
    """The token that was made here beforehand is local's."""
    [made] = await lines(audited, action="token.created")
    assert (made["who"], made["detail"]["name"], made["detail"]["scope"]) == ("local", "ann's", "admin")
    newest = (await audited.http.get("/api/audit", params={"limit": 1})).json()["lines"]
    assert all(line["id"] < newest[0]["id"] for line in await lines(audited, before=newest[0]["id"]))
    assert (await audited.http.get("/api/audit", params={"action": "x"})).status_code == 422


async def test_no_route_changes_it(audited: App) -> None:
    """There is one way to ask for it and none to write."""
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert (await audited.http.request(method, "/api/audit")).status_code == 405
