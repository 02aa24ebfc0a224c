"""What is counted, with values, and that the dashboard asks for nothing else. Issue 9 item 4."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import cast

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import URL

from app.store.turns import admit
from tests.harness.app import App, new_turn, running_app
from tests.harness.scripted_endpoint import RESET, ScriptedEndpoint, call, event, finish, http, stream, text

DASHBOARD = Path(__file__).parents[2] / "deploy" / "grafana" / "turnstream.json"
SEARCH = call(("search_chunks", {"query": "pelican"}))
PROMISE = text("I shall look it up.")


@pytest.fixture
async def own_app(
    new_database: Callable[[], AbstractAsyncContextManager[URL]], endpoint: ScriptedEndpoint
) -> AsyncGenerator[App]:
    """An application that has counted nothing yet."""
    async with new_database() as url, running_app(url, llm=endpoint.base_url, llm_retries=1) as running:
        yield running


async def scraped(app: App) -> dict[str, float]:
    """Every sample by its name and the values of its labels: `turns_total done scripted`."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families((await app.http.get("/metrics")).text):
        for sample in family.samples:
            labels = [value for _, value in sorted(sample.labels.items())]
            found[" ".join([sample.name.removeprefix("turnstream_"), *labels])] = sample.value
    return found


async def test_turns_are_counted_by_how_they_ended_and_what_it_took(own_app: App, endpoint: ScriptedEndpoint) -> None:
    """A cited answer after a lost connection, a turn that fell back to one retrieval, one that was refused."""
    await own_app.upload("pelican.md", b"# Pelican\n\nThe pelican eats fish.")
    await own_app.ask(f"What? {endpoint.script(RESET, SEARCH, text('Fish [1].'))}")
    await own_app.ask(f"The pelican? {endpoint.script(PROMISE, PROMISE, text('It eats fish.'))}")
    await own_app.ask(f"What? {endpoint.script(http(402, {'error': {'message': 'no balance'}}))}")
    counted = await scraped(own_app)
    expected = {
        "turns_total scripted done": 2,
        "turns_total scripted model_out_of_credit": 1,
        "evidence_total default scripted cited": 1,
        "evidence_total default scripted uncited": 1,
        "evidence_total default scripted failed": 1,
        "model_requests_total scripted": 5,
        "model_retries_total scripted": 1,
        "turned_back_total scripted": 1,
        "fallbacks_total scripted": 1,
        "tokens_total prompt scripted": 55,
        "tokens_total completion scripted": 35,
        "first_text_seconds_count scripted": 2,
        "turn_seconds_count scripted": 3,
        "running_turns": 0,
        "attached_readers": 0,
        "pool_connections": 10,
    }
    assert {name: counted.get(name) for name in expected} == expected
    assert 0 < counted["first_text_seconds_sum scripted"] <= counted["turn_seconds_sum scripted"]


async def test_gauges_tell_what_is_in_use_now(own_app: App, endpoint: ScriptedEndpoint) -> None:
    """A running turn, its tabs, a database connection that is out."""
    gate = asyncio.Event()
    skip = call(("no_evidence_needed", {"reason": "t"}))
    script = endpoint.script(skip, stream(event({"content": "Half"}), gate, finish()))
    asked = asyncio.create_task(own_app.ask(f"Hello {script}"))
    await script.request(1)
    [row] = await own_app.rows("SELECT conversation_id FROM turns")
    tab = asyncio.create_task(own_app.attach(str(row.conversation_id)))
    async with asyncio.timeout(5), own_app.parts.database.read():
        while (counted := await scraped(own_app))["attached_readers"] < 2:
            await asyncio.sleep(0.01)
    assert (counted["running_turns"], counted["attached_readers"]) == (1, 2)
    assert counted["pool_connections_used"] >= 1
    gate.set()
    await asyncio.gather(asked, tab)
    after = await scraped(own_app)
    assert (after["running_turns"], after["attached_readers"], after["turns_total scripted done"]) == (0, 0, 1)


async def test_take_overs_are_counted_by_whether_the_turn_goes_on(own_app: App, endpoint: ScriptedEndpoint) -> None:
    """Two turns of a process that is gone, one of them for good: its owners died three times."""
    script = endpoint.script(call(("no_evidence_needed", {"reason": "t"})), text("Hi."))
    for deaths in (0, 2):
        turn = await admit(own_app.parts.database, new_turn(f"Hello {script}", replica="gone"))
        await own_app.execute(
            "UPDATE turns SET lease_until = now() - interval '1 s', deaths = :d WHERE id = CAST(:t AS uuid)",
            d=deaths,
            t=turn.turn_id,
        )
    await own_app.parts.supervisor.keep_house()
    counted = await scraped(own_app)
    assert (counted["takeovers_total yes"], counted["takeovers_total no"]) == (1, 1)


def expressions(node: object) -> list[str]:
    """Every query in the dashboard, those of its variables too."""
    if isinstance(node, list):
        return [found for one in cast("list[object]", node) for found in expressions(one)]
    if not isinstance(node, dict):
        return []
    fields = cast("dict[str, object]", node)
    own = [value for key, value in fields.items() if key in ("expr", "query") and isinstance(value, str)]
    return own + [found for value in fields.values() for found in expressions(value)]


async def test_the_dashboard_asks_for_metrics_and_labels_that_there_are(app: App) -> None:
    """And for all there are, whatever a histogram is asked by. After a turn and a take-over, so that all have samples."""
    await app.ask("你好")
    app.parts.metrics.taken_over(goes_on=True)
    exposed: dict[str, set[str]] = {}
    for family in text_string_to_metric_families((await app.http.get("/metrics")).text):
        for sample in family.samples:
            exposed.setdefault(sample.name, set()).update(sample.labels)
    queries = expressions(json.loads(DASHBOARD.read_text(encoding="utf-8")))
    asked: set[str] = set()
    for query in queries:
        names = set(re.findall(r"\bturnstream_\w+", query))
        asked |= names
        assert names <= exposed.keys(), query
        labels = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", query))
        labels |= {label for group in re.findall(r"by \(([^)]*)\)", query) for label in re.split(r",\s*", group)}
        assert labels - {"instance"} <= set().union(*(exposed[name] for name in names)), query
    ours = {
        name for name in exposed if name.startswith("turnstream_") and not name.endswith(("_created", "_sum", "_count"))
    }
    assert asked == ours
