"""Conversations are listed, searched, paged, renamed and deleted. Source: DESIGN section 4, ORIGIN section 1."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from uuid import uuid4

from sqlalchemy import URL

from tests.harness.app import App, running_app
from tests.harness.scripted_endpoint import ScriptedEndpoint, call, text

SKIP = call(("no_evidence_needed", {"reason": "test"}))


async def test_the_list_is_latest_first_paged_and_searched_in_titles_and_messages(
    new_database: Callable[[], AbstractAsyncContextManager[URL]], endpoint: ScriptedEndpoint
) -> None:
    """`total` counts what matches, whatever the page."""
    async with new_database() as url, running_app(url, llm=endpoint.base_url) as app:
        for n in range(3):
            await app.ask(f"question {n} {endpoint.script(SKIP, text(f'answer 100%_{n}'))}")
        listed = (await app.http.get("/api/conversations", params={"limit": 2})).json()
        assert [c["title"][:10] for c in listed["conversations"]] == ["question 2", "question 1"]
        assert listed["total"] == 3
        assert listed["conversations"][0]["message_count"] == 2
        last = (await app.http.get("/api/conversations", params={"limit": 2, "offset": 2})).json()
        assert [c["title"][:10] for c in last["conversations"]] == ["question 0"]
        found = (await app.http.get("/api/conversations", params={"q": "100%_1"})).json()
        assert [c["title"][:10] for c in found["conversations"]] == ["question 1"]
        past_the_end = (await app.http.get("/api/conversations", params={"offset": 9})).json()
        assert past_the_end == {"conversations": [], "total": 3}


async def test_a_conversation_is_titled_from_its_first_question(app: App, endpoint: ScriptedEndpoint) -> None:
    """One line, at most 80 characters, never cut inside a character that readers see as one (case T06)."""
    turn = await app.ask(f"{'🧭' * 100}\nsecond line {endpoint.script(SKIP, text('Hi.'))}")
    assert turn.start["title"] == "🧭" * 79 + "…"


async def test_a_title_can_be_changed_and_keeps_its_place(app: App, endpoint: ScriptedEndpoint) -> None:
    """A title has 1 to 120 characters on one line."""
    turn = await app.ask(f"Hi {endpoint.script(SKIP, text('Hi.'))}")
    address = f"/api/conversations/{turn.conversation_id}"
    before = (await app.http.get(address)).json()["updated_at"]
    renamed = await app.http.patch(address, json={"title": "  A  better\nname "})
    assert renamed.json()["title"] == "A better name"
    after = (await app.http.get(address)).json()
    assert (after["title"], after["updated_at"]) == ("A better name", before)
    for bad in ("", "x" * 121):
        refused = await app.http.patch(address, json={"title": bad})
        assert (refused.status_code, refused.json()["error"]["code"]) == (422, "invalid")


async def test_deleted_means_gone(app: App, endpoint: ScriptedEndpoint) -> None:
    """Messages and turns go with it; afterwards every route says 404."""
    turn = await app.ask(f"Hi {endpoint.script(SKIP, text('Hi.'))}")
    address = f"/api/conversations/{turn.conversation_id}"
    assert (await app.http.delete(address)).status_code == 204
    for response in (
        await app.http.get(address),
        await app.http.patch(address, json={"title": "x"}),
        await app.http.delete(address),
        await app.http.get(f"{address}/live"),
    ):
        assert response.status_code == 404
    left = await app.rows("SELECT count(*) AS n FROM turns WHERE id = CAST(:t AS uuid)", t=turn.turn_id)
    assert left[0].n == 0


async def test_somebody_elses_conversation_is_not_there(app: App, endpoint: ScriptedEndpoint) -> None:
    """What belongs to another owner is 404 everywhere, and can't be continued or stopped."""
    turn = await app.ask(f"Hi {endpoint.script(SKIP, text('Hi.'))}")
    await app.execute(
        "UPDATE conversations SET owner = 'somebody else' WHERE id = CAST(:c AS uuid)", c=turn.conversation_id
    )
    address = f"/api/conversations/{turn.conversation_id}"
    assert (await app.http.get(address)).status_code == 404
    asked = await app.http.post("/api/chat", json={"message": "x", "conversation_id": turn.conversation_id})
    assert asked.status_code == 404
    stopped = await app.http.post(f"{address}/stop", json={"turn_id": str(uuid4())})
    assert stopped.status_code == 404
