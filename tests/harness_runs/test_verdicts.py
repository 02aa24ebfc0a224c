"""GET /api/bases/{base}/verdicts: what answers rested on, over time and by model. Source: issue 8 item 4."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import datetime
from typing import Any

import pytest
from sqlalchemy import URL

from app.store.harness_runs import OWNER
from app.store.ids import new_id
from tests.harness.app import App, running_app
from tests.harness.scripted_endpoint import ScriptedEndpoint, call, event, finish, stream, text

SEARCH = call(("search_chunks", {"query": "board Toner"}))
SKIP = call(("no_evidence_needed", {"reason": "general knowledge"}))
NOTHING = {"cited": 0, "uncited": 0, "skipped": 0, "none": 0, "failed": 0, "stopped": 0}


@pytest.fixture
async def app(database_url: URL, endpoint: ScriptedEndpoint) -> AsyncGenerator[App, None]:
    """An application with a base of the test's own."""
    async with running_app(database_url, llm=endpoint.base_url) as running:
        yield running


async def new_base(app: App) -> str:
    name = f"verdicts-{new_id()[-12:]}"
    response = await app.http.post("/api/bases", json={"name": name})
    assert response.status_code == 201, response.text
    return name


async def counted(app: App, base: str, **query: str) -> list[dict[str, Any]]:
    response = await app.http.get(f"/api/bases/{base}/verdicts", params=query)
    assert response.status_code == 200, response.text
    return response.json()["verdicts"]


async def store(app: App, base: str, at: str, *, owner: str = "local", model: str = "m", **answer: object) -> None:
    """An answer as it would stand in the database had it been given then."""
    values: dict[str, object] = {"evidence": "cited", "error_code": None, "stopped": False} | answer
    await app.execute(
        """
        WITH c AS (
            INSERT INTO conversations (id, owner, base_id, title)
            SELECT CAST(:conversation AS uuid), CAST(:owner AS text), id, 't' FROM bases WHERE name = :base RETURNING id
        )
        INSERT INTO messages (id, conversation_id, position, role, content, model, created_at, evidence, error_code, stopped)
        SELECT CAST(:id AS uuid), c.id, 1, 'assistant', 'x', CAST(:model AS text), :at, CAST(:evidence AS text),
               CAST(:error_code AS text), CAST(:stopped AS boolean)
        FROM c
        """,
        conversation=new_id(), id=new_id(), owner=owner, base=base, model=model, at=datetime.fromisoformat(at), **values,
    )  # fmt: skip


async def test_every_answer_is_counted_once_by_what_it_rests_on(app: App, endpoint: ScriptedEndpoint) -> None:
    """Turns as they are asked: cited, sources without a citation, skipped, nothing found, failed, stopped."""
    base = await new_base(app)
    await app.upload("board.md", b"# The board\n\nHelen Toner sat on the board.\n", base=base)
    for steps in (
        (SEARCH, text("Toner [1].")),
        (SEARCH, text("Toner.")),
        (SKIP, text("Some board.")),
        (call(("search_chunks", {"query": "zeppelin"})), text("Nothing was found.")),
        (SEARCH, stream(finish()), stream(finish())),
    ):
        await app.ask(f"Who sat on the board? {endpoint.script(*steps)}", base=base)
    gate = asyncio.Event()
    asked = endpoint.script(SEARCH, stream(event({"content": "Half"}), gate, finish()))
    turn = asyncio.create_task(app.ask(f"Who sat on the board? {asked}", base=base))
    await asked.request(1)
    (running,) = await app.rows("SELECT id, conversation_id FROM turns WHERE status = 'running'")
    body = {"turn_id": str(running.id)}
    assert (await app.http.post(f"/api/conversations/{running.conversation_id}/stop", json=body)).status_code == 202
    await turn
    (row,) = await counted(app, base)
    del row["start"]
    assert row == {"model": "scripted", "cited": 1, "uncited": 1, "skipped": 1, "none": 1, "failed": 1, "stopped": 1}


async def test_answers_are_counted_by_day_or_hour_and_by_model(app: App) -> None:
    """In UTC; `since` is within, `until` without; the harness's own and other bases' answers are left out."""
    base, other = await new_base(app), await new_base(app)
    await store(app, base, "2026-03-01T23:59:59+00:00")
    await store(app, base, "2026-03-02T00:00:00+00:00")
    await store(app, base, "2026-03-02T08:30:00+08:00", evidence="skipped")
    await store(app, base, "2026-03-02T01:10:00+00:00", model="n", evidence="none", error_code="answer_empty")
    await store(app, base, "2026-03-03T00:00:00+00:00")
    await store(app, base, "2026-03-02T05:00:00+00:00", owner=OWNER)
    await store(app, other, "2026-03-02T05:00:00+00:00")
    assert await counted(app, base, since="2026-03-01", until="2026-03-02") == [
        {"start": "2026-03-01T00:00:00Z", "model": "m", **NOTHING, "cited": 1},
        {"start": "2026-03-02T00:00:00Z", "model": "m", **NOTHING, "cited": 1, "skipped": 1},
        {"start": "2026-03-02T00:00:00Z", "model": "n", **NOTHING, "failed": 1},
    ]
    day = {"since": "2026-03-02", "until": "2026-03-02", "bucket": "hour"}
    assert await counted(app, base, **day) == [
        {"start": "2026-03-02T00:00:00Z", "model": "m", **NOTHING, "cited": 1, "skipped": 1},
        {"start": "2026-03-02T01:00:00Z", "model": "n", **NOTHING, "failed": 1},
    ]
    assert await counted(app, base, **day, model="n") == [
        {"start": "2026-03-02T01:00:00Z", "model": "n", **NOTHING, "failed": 1},
    ]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"since": "yesterday"}, "`since` is 'yesterday'"),
        ({"until": "2026-02-30"}, "`until` is '2026-02-30'"),
        ({"since": "2026-03-03", "until": "2026-03-01"}, "isn't before until"),
        ({"since": "2020", "until": "2026"}, "by the day at most 731 days are counted"),
        ({"since": "2026-01", "until": "2026-02", "bucket": "hour"}, "by the hour at most 31 days are counted; 59 are"),
        ({"until": "0001-01-01"}, ""),
        ({"bucket": "week"}, "bucket"),
    ],
)
async def test_a_stretch_that_cannot_be_counted_is_refused(app: App, query: dict[str, str], said: str) -> None:
    """422 with what was wrong, in a sentence."""
    response = await app.http.get("/api/bases/default/verdicts", params=query)
    assert (response.status_code, response.json()["error"]["code"]) == (422, "invalid"), response.text
    assert said in response.json()["error"]["message"]


async def test_an_unknown_base_is_not_found(app: App) -> None:
    """404, as for every route of a base."""
    response = await app.http.get("/api/bases/nowhere/verdicts")
    assert (response.status_code, response.json()["error"]["code"]) == (404, "not_found")
