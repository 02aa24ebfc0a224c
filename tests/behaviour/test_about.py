"""GET /api/settings and its doctor: what is shown, what is looked at, and that no secret is. Source: issue 6 item 3."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import httpx
import pytest
from sqlalchemy import URL
from sqlalchemy import text as sql

from app.api.doctor import ModelCheck, database_findings, model_findings
from app.llm.capabilities import Capabilities
from app.llm.openai_chat import EndpointConfig, OpenAIChat
from app.llm.probe import Finding
from app.store import migrate
from app.store.engine import Database
from app.tools import registry
from tests.harness.app import App, running_app
from tests.harness.replica import free_port
from tests.harness.scripted_endpoint import MUTE, ScriptedEndpoint, call, event, finish, stream, text

CALLED = call(("report_word", {"word": "pelican"}))
SECRETS = ("sk-secret-of-about", "hunter2", "sig-in-the-query")


async def told(app: App, method: str, path: str) -> Any:
    """The answer's JSON, which holds no secret."""
    answer = await app.http.request(method, path)
    assert answer.status_code == 200, answer.text
    assert not [secret for secret in SECRETS if secret in answer.text]
    return answer.json()


async def test_the_settings_say_what_is_configured_and_no_secret(database_url: URL) -> None:
    """Of the endpoint's address only the host is told."""
    address = "https://user:hunter2@models.test/v1?sig=sig-in-the-query"
    async with running_app(database_url, llm=address, llm_api_key="sk-secret-of-about", max_rounds=4) as app:
        shown = await told(app, "GET", "/api/settings")
    tools = shown.pop("tools")
    version = shown.pop("version")
    assert shown == {
        "prompt_version": shown["prompt_version"],
        "model": {
            "name": "scripted",
            "description": "scripted at an OpenAI-compatible endpoint.",
            "endpoint": "models.test",
            "keyed": True,
            "extracts": True,
        },
        "search": {"kind": "full_text", "model": None},
        "database": "configured",
        "live_log": "memory",
        "auth": "none",
        "limits": {
            "max_rounds": 4,
            "message_max_chars": 32_000,
            "answer_max_chars": 400_000,
            "max_upload_bytes": 50 * 1024 * 1024,
            "max_running_turns": None,
            "max_requests_per_minute": None,
            "max_tokens_per_minute": None,
        },
    }
    assert version
    assert [tool["name"] for tool in tools] == list(registry.load().names())
    assert [tool["name"] for tool in tools if tool["writes"]] == ["remember"]
    assert all(1 <= len(tool["headline"]) <= 120 for tool in tools)


async def test_without_an_endpoint_the_offline_model_is_shown_and_is_well(database_url: URL) -> None:
    """It has no host, no key, and can't extract facts; the doctor has nothing to ask."""
    async with running_app(database_url) as app:
        model = (await told(app, "GET", "/api/settings"))["model"]
        examined = await told(app, "POST", "/api/settings/doctor")
    assert (model["endpoint"], model["keyed"], model["extracts"]) == (None, False, False)
    assert "offline" in model["description"]
    assert examined["ok"]
    assert [finding["subject"] for finding in examined["findings"]] == [
        "database",
        "migrations",
        "live log",
        "tools",
        "model",
    ]


async def test_the_doctor_asks_the_endpoint_and_says_what_it_can_do(database_url: URL) -> None:
    """The findings are those of `turnstream doctor`; the key stands as ***."""
    async with ScriptedEndpoint() as endpoint:
        endpoint.default.steps = (CALLED,)
        async with running_app(database_url, llm=endpoint.base_url, llm_api_key="sk-secret-of-about") as app:
            examined = await told(app, "POST", "/api/settings/doctor")
    seen = [(finding["subject"], finding["verdict"]) for finding in examined["findings"]]
    subjects = (
        "database",
        "migrations",
        "live log",
        "tools",
        "model",
        "endpoint",
        "tool calling",
        "tool_choice required",
    )
    assert seen == [(subject, "ok") for subject in (*subjects, "stream usage")]
    assert examined["ok"]
    assert "***" in examined["findings"][4]["note"]


async def test_what_the_endpoint_lacks_comes_with_a_hint(database_url: URL) -> None:
    """A model that answers with text instead of the call that was asked for."""
    async with ScriptedEndpoint() as endpoint:
        endpoint.default.steps = (text("pelican"),)
        async with running_app(database_url, llm=endpoint.base_url) as app:
            examined = await told(app, "POST", "/api/settings/doctor")
    calling = next(finding for finding in examined["findings"] if finding["subject"] == "tool calling")
    assert not examined["ok"]
    assert calling["verdict"] == "missing"
    assert calling["hint"]


async def test_only_one_examination_runs_at_a_time(database_url: URL) -> None:
    """The second is refused with a time to come back; when the first has ended, another may begin."""
    gate = asyncio.Event()
    async with ScriptedEndpoint() as endpoint:
        endpoint.default.steps = (stream(event({"content": "pel"}), gate, event({"content": "ican"}), finish()), CALLED)
        async with running_app(database_url, llm=endpoint.base_url) as app:
            first = asyncio.create_task(app.http.post("/api/settings/doctor"))
            await endpoint.default.request(0)
            second = await app.http.post("/api/settings/doctor")
            gate.set()
            ended = await first
            third = await app.http.post("/api/settings/doctor")
    assert (second.status_code, second.json()["error"]["code"]) == (409, "conflict")
    assert second.headers["Retry-After"] == "5"
    assert (ended.status_code, third.status_code) == (200, 200)
    assert len(endpoint.default.requests) == 2


async def test_an_endpoint_that_keeps_silent_is_given_up() -> None:
    """The time is bounded, whatever the endpoint's own timeouts are, and its connection is closed."""
    async with ScriptedEndpoint() as endpoint:
        endpoint.default.steps = (MUTE,)
        config = EndpointConfig(endpoint.base_url, "scripted")
        check = ModelCheck(lambda: OpenAIChat(config, Capabilities()), "", timeout_s=0.1)
        configured, asked = await model_findings(check)
        await (await endpoint.default.request(0)).closed.wait()
    assert configured.verdict == "ok"
    assert (asked.subject, asked.verdict, asked.note) == ("endpoint", "failed", "no answer within 0.1 s")


async def test_a_model_that_is_not_named_is_a_failure_with_a_hint(database_url: URL) -> None:
    """The address of an endpoint alone can't be asked."""
    async with running_app(database_url, llm="http://127.0.0.1:9/v1", llm_model=None) as app:
        examined = await told(app, "POST", "/api/settings/doctor")
        extracts = (await told(app, "GET", "/api/settings"))["model"]["extracts"]
    model = examined["findings"][4]
    assert (model["verdict"], model["hint"], extracts) == ("failed", "Set TURNSTREAM_LLM_MODEL.", False)


async def test_a_database_that_is_gone_is_a_finding_and_not_an_error() -> None:
    """The address with its password isn't told."""
    gone = Database(f"postgresql://u:hunter2@127.0.0.1:{free_port()}/x")
    try:
        findings = await database_findings(gone)
    finally:
        await gone.aclose()
    assert [(finding.subject, finding.verdict) for finding in findings] == [("database", "failed")]
    assert "hunter2" not in findings[0].note


async def test_a_schema_of_another_version_is_told_with_both_revisions(
    new_database: Callable[[], AbstractAsyncContextManager[URL]],
) -> None:
    """What a newer server of the same database leaves behind; the same version is well."""
    newest = migrate.head()
    async with new_database() as url:
        database = Database(url)
        try:
            well = await database_findings(database)
            async with database.begin() as connection:
                await connection.execute(sql("UPDATE alembic_version SET version_num = '9999'"))
            newer = await database_findings(database)
        finally:
            await database.aclose()
    answers = Finding("database", "ok", "answers")
    assert well == [answers, Finding("migrations", "ok", f"at revision {newest}")]
    assert newer[0] == answers
    assert (newer[1].verdict, newer[1].note) == ("failed", f"at revision 9999, and this version knows {newest}")
    assert newer[1].hint


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_looking_is_not_examining(database_url: URL, method: str) -> None:
    """Nothing but a POST has the model asked."""
    async with ScriptedEndpoint() as endpoint, running_app(database_url, llm=endpoint.base_url) as app:
        answer: httpx.Response = await app.http.request(method, "/api/settings/doctor")
        assert (answer.status_code, len(endpoint.default.requests)) == (405, 0)
