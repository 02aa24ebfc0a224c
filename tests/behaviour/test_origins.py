"""No foreign page uses the server through a visitor's browser. Source: issue 9 item 1 (CSRF), decision 0013."""

from collections.abc import AsyncGenerator

import pytest
from sqlalchemy import URL

from tests.harness.app import App, running_app

FOREIGN = "https://evil.example"


@pytest.fixture
async def reachable(database_url: URL) -> AsyncGenerator[App, None]:
    """A server that others can reach, under whatever name they know."""
    async with running_app(database_url, host="0.0.0.0", open_network=True) as app:
        yield app


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("POST", "/api/settings/doctor", {"Origin": FOREIGN}),
        ("POST", "/api/bases/default/documents", {"Origin": FOREIGN}),
        ("POST", "/api/bases/default/documents", {"Origin": "null"}),
        ("DELETE", "/api/bases/default", {"Origin": FOREIGN}),
        ("GET", "/api/conversations", {"Origin": FOREIGN}),
        ("GET", "/api/conversations", {"Host": "rebound.example:8000"}),
        ("GET", "/", {"Host": "rebound.example:8000"}),
        ("POST", "/v1/chat/completions", {"Host": "rebound.example:8000", "Origin": "http://rebound.example:8000"}),
    ],
)
async def test_on_loopback_a_foreign_page_is_refused_by_its_origin_and_by_its_name(
    app: App, method: str, path: str, headers: dict[str, str]
) -> None:
    """Also where its name was made to resolve to this machine."""
    refused = await app.http.request(method, path, headers=headers)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")


@pytest.mark.parametrize("name", ["127.0.0.1:8000", "localhost:8000", "[::1]:8000", "127.0.0.1"])
async def test_pages_of_this_machine_and_programs_without_an_origin_are_served(app: App, name: str) -> None:
    """The page itself, a development server beside it, curl."""
    for headers in (
        {"Host": name},
        {"Host": name, "Origin": f"http://{name}"},
        {"Host": name, "Origin": "http://localhost:5173"},
    ):
        assert (await app.http.get("/api/conversations", headers=headers)).status_code == 200


async def test_where_others_can_reach_it_only_a_page_of_the_same_origin_may_change_something(reachable: App) -> None:
    """Reading across origins is the browser's to forbid; names are whatever people use."""
    ours = {"Host": "chat.lan:8000", "Origin": "http://chat.lan:8000"}
    asked = {"message": "你好"}
    assert (await reachable.http.post("/api/chat", json=asked, headers=ours)).status_code == 200
    assert (await reachable.http.post("/api/chat", json=asked, headers={"Host": "chat.lan:8000"})).status_code == 200
    foreign = await reachable.http.post("/api/chat", json=asked, headers=ours | {"Origin": FOREIGN})
    assert (foreign.status_code, foreign.json()["error"]["code"]) == (403, "forbidden")
    assert (await reachable.http.get("/api/conversations", headers=ours | {"Origin": FOREIGN})).status_code == 200


async def test_monitors_ask_by_any_name(app: App) -> None:
    """They hold no secret."""
    for path in ("/healthz", "/readyz", "/metrics"):
        assert (await app.http.get(path, headers={"Host": "10.1.2.3:8000"})).status_code == 200


async def test_metrics_count_turns_by_outcome_and_answers_by_evidence(reachable: App) -> None:
    """In Prometheus' text format, without text of anybody."""
    await reachable.ask("你好")
    scraped = (await reachable.http.get("/metrics")).text
    for line in (
        'turnstream_turns_total{model="extractive-offline",outcome="done"} 1.0',
        'turnstream_evidence_total{base="default",model="extractive-offline",verdict="skipped"} 1.0',
        'turnstream_first_text_seconds_count{model="extractive-offline"} 1.0',
        "turnstream_running_turns 0.0",
        "turnstream_pool_connections 10.0",
    ):
        assert line in scraped, scraped
    assert "你好" not in scraped
