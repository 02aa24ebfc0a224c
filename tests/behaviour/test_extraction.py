"""Facts extracted from passages: jobs on Postgres, from the upload to the proposals. Source: issue 4 item 2.

A document's text carries the marker of the script that answers for it, so each passage has replies of its own.
"""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL

from app.knowledge import corrections
from app.store import bases
from app.store.jobs import SCHEMA
from tests.harness.app import App, running_app
from tests.harness.postgres import run_sql
from tests.harness.replica import environment, replica
from tests.harness.scripted_endpoint import (
    MUTE,
    Reply,
    Script,
    ScriptedEndpoint,
    event,
    finish,
    http,
    stream,
    text,
    unless,
)

DEADLINE_S = 20.0

QUOTE = "Ada Park founded Nordlys Labs in 2019."
ROW = {
    "subject": "Ada Park",
    "subject_type": "person",
    "predicate": "founded",
    "object": "Nordlys Labs",
    "object_type": "organization",
    "from": "2019",
    "to": "2019",
    "quote": QUOTE,
}


def facts(*rows: object) -> Reply:
    """A reply with these facts."""
    return text(json.dumps({"facts": rows}, ensure_ascii=False), size=40)


def passage(script: Script, words: str = QUOTE) -> bytes:
    """A document of one passage, for that script."""
    return f"# Nordlys\n\n{words}\n\n{script}\n".encode()


@pytest.fixture
async def own_app(
    new_database: Callable[[], AbstractAsyncContextManager[URL]], endpoint: ScriptedEndpoint
) -> AsyncGenerator[App, None]:
    """The application on a database of the test's own."""
    async with new_database() as url, running_app(url, llm=endpoint.base_url) as running:
        yield running


async def start(app: App) -> dict[str, Any]:
    response = await app.http.post("/api/bases/default/extraction")
    assert response.status_code == 202, response.text
    return response.json()


async def progress(app: App) -> dict[str, Any]:
    response = await app.http.get("/api/bases/default/extraction")
    assert response.status_code == 200, response.text
    return response.json()


async def ended(app: App) -> dict[str, Any]:
    """How far it is once nothing waits or works."""
    async with asyncio.timeout(DEADLINE_S):
        while (now := await progress(app))["running"]:
            await asyncio.sleep(0.02)
    return now


async def read(app: App) -> dict[str, Any]:
    """Start it and wait for its end."""
    await start(app)
    return await ended(app)


def counts(**given: object) -> dict[str, object]:
    """A progress at its end."""
    end: dict[str, object] = {"total": 0, "done": 0, "proposed": 0, "dropped": 0, "failed": 0}
    end |= {"running": False, "failures": list[object]()}
    return end | given


async def test_what_a_model_reads_waits_as_proposals_with_the_passage_as_evidence(
    own_app: App, endpoint: ScriptedEndpoint
) -> None:
    """Rows that are no facts and quotes that don't stand in the passage are dropped and counted; no fact is made."""
    script = endpoint.script(
        facts(
            ROW,
            {**ROW, "quote": "Ada Park  founded\nNordlys Labs in 2019."},  # the same once more
            {**ROW, "predicate": "owns", "quote": "Ada Park owns Nordlys Labs."},
            {**ROW, "predicate": "leads", "quote": None},
            {**ROW, "predicate": "left", "from": "2019-99"},
            {"subject": "Ada Park", "predicate": "born", "quote": QUOTE},
            "Ada Park founded it",
        )
    )
    await own_app.upload("nordlys.md", passage(script))
    assert await read(own_app) == counts(total=1, done=1, proposed=1, dropped=5)

    [chunk] = await own_app.rows("SELECT id::text FROM chunks")
    stored = await own_app.rows(
        "SELECT fact, sentence, chunk_id::text, origin, proposed_by, turn_id, status FROM proposals"
    )
    assert [tuple(row) for row in stored] == [
        ({**ROW, "evidence": chunk.id}, QUOTE, chunk.id, "extraction", "scripted", None, "pending")
    ]
    assert await own_app.rows("SELECT 1 FROM facts") == []

    [body] = script.bodies
    assert "tools" not in body
    messages = script.messages(0)
    assert [message["role"] for message in messages] == ["system", "user"]
    shown = json.loads(messages[1]["content"])
    assert (shown["title"], QUOTE in shown["passage"], sorted(shown)) == (
        "Nordlys",
        True,
        ["heading", "passage", "title"],
    )


async def test_a_proposal_of_extraction_becomes_a_fact_with_its_source_by_a_nod(
    own_app: App, endpoint: ScriptedEndpoint
) -> None:
    """The stored row is one that the way in of facts takes."""
    await own_app.upload("nordlys.md", passage(endpoint.script(facts(ROW))))
    await read(own_app)
    [proposal] = await own_app.rows("SELECT id::text FROM proposals")
    base_id = await bases.find_id(own_app.parts.database, "default")
    assert base_id is not None
    await corrections.accept(own_app.parts.database, base_id, proposal.id, decided_by="local")
    [fact] = await own_app.rows(
        "SELECT s.name AS subject, f.predicate, o.name AS object, f.quote, f.origin, f.chunk_id IS NOT NULL AS sourced "
        "FROM facts f JOIN entities s ON s.id = f.subject_id JOIN entities o ON o.id = f.object_id"
    )
    assert tuple(fact) == ("Ada Park", "founded", "Nordlys Labs", QUOTE, "extraction", True)


async def test_a_second_run_reads_only_what_is_new(own_app: App, endpoint: ScriptedEndpoint) -> None:
    """A passage that was read is not paid for again, also one without facts."""
    first, second = endpoint.script(facts()), endpoint.script(facts(ROW))
    await own_app.upload("first.md", passage(first))
    assert await read(own_app) == counts(total=1, done=1)
    await own_app.upload("second.md", passage(second))
    assert await progress(own_app) == counts(total=2, done=1)
    assert await read(own_app) == counts(total=2, done=2, proposed=1)
    assert await read(own_app) == counts(total=2, done=2, proposed=1)
    assert (len(first.requests), len(second.requests)) == (1, 1)


async def test_superseded_documents_are_not_read(own_app: App, endpoint: ScriptedEndpoint) -> None:
    """Only the newest version of a file counts, and counts go by it."""
    old, new = endpoint.script(facts(ROW)), endpoint.script(facts(ROW))
    await own_app.upload("nordlys.md", passage(old))
    await own_app.upload("nordlys.md", passage(new))
    assert await read(own_app) == counts(total=1, done=1, proposed=1)
    assert (len(old.requests), len(new.requests)) == (0, 1)


async def test_a_failure_that_passes_is_tried_again_by_the_job(own_app: App, endpoint: ScriptedEndpoint) -> None:
    """Busy, then broken off, then read: one outcome."""
    script = endpoint.script(http(503, {"error": {"message": "busy"}}), Reply(close="reset"), facts(ROW))
    await own_app.upload("nordlys.md", passage(script))
    assert await read(own_app) == counts(total=1, done=1, proposed=1)
    assert len(script.requests) == 3


async def test_a_refusal_fails_its_passage_with_its_code_and_the_run_goes_on(
    own_app: App, endpoint: ScriptedEndpoint
) -> None:
    """Starting again tries what was given up once more, and nothing else."""
    refused = endpoint.script(http(402, {"error": {"message": "Payment required"}}), facts(ROW))
    fine = endpoint.script(facts(ROW))
    await own_app.upload("refused.md", passage(refused))
    await own_app.upload("fine.md", passage(fine))
    failures = [{"code": "model_out_of_credit", "chunks": 1, "message": "Payment required"}]
    assert await read(own_app) == counts(total=2, done=1, proposed=1, failed=1, failures=failures)
    assert await read(own_app) == counts(total=2, done=2, proposed=2)
    assert (len(refused.requests), len(fine.requests)) == (2, 1)


async def test_a_reply_that_is_no_json_is_asked_for_once_more(own_app: App, endpoint: ScriptedEndpoint) -> None:
    """The second one counts; where it is none either, the passage has failed."""
    mended = endpoint.script(text("Ada founded it."), text(f"```json\n{json.dumps([ROW])}\n```"))
    hopeless = endpoint.script(text("I can't."))
    await own_app.upload("mended.md", passage(mended))
    await own_app.upload("hopeless.md", passage(hopeless))
    failures = [
        {"code": "reply_unreadable", "chunks": 1, "message": "The model's reply was not the JSON asked for, twice."}
    ]
    assert await read(own_app) == counts(total=2, done=1, proposed=1, failed=1, failures=failures)
    assert (len(mended.requests), len(hopeless.requests)) == (2, 2)
    assert [message["role"] for message in mended.messages(1)] == ["system", "user", "assistant", "user"]


@pytest.mark.parametrize("words", ["Unsupported field: stream_options", "Bad request"])
async def test_a_field_that_the_endpoint_refuses_is_left_out_from_then_on(
    own_app: App, endpoint: ScriptedEndpoint, words: str
) -> None:
    """Whether the refusal names it or not."""
    script = endpoint.script(unless("stream_options", http(400, {"error": {"message": words}}), facts(ROW)))
    await own_app.upload("first.md", passage(script))
    assert await read(own_app) == counts(total=1, done=1, proposed=1)
    await own_app.upload("second.md", passage(script, f"{QUOTE} So it was."))
    assert await read(own_app) == counts(total=2, done=2, proposed=2)
    assert ["stream_options" in body for body in script.bodies] == [True, False, False]


async def test_stopping_cuts_short_what_works_and_starting_goes_on(own_app: App, endpoint: ScriptedEndpoint) -> None:
    """The connection to the model is closed, nothing waits any more, and no passage is lost."""
    scripts = [endpoint.script(MUTE, facts(ROW)) for _ in range(4)]
    for number, script in enumerate(scripts):
        await own_app.upload(f"{number}.md", passage(script))
    await start(own_app)
    seen = [await script.request(0) for script in scripts[:2]]  # two at a time, in order
    assert (await progress(own_app))["running"]
    response = await own_app.http.post("/api/bases/default/extraction/stop")
    assert response.status_code == 202, response.text
    assert await ended(own_app) == counts(total=4)
    for request in seen:
        async with asyncio.timeout(DEADLINE_S):
            await request.closed.wait()
    assert [len(script.requests) for script in scripts] == [1, 1, 0, 0]
    scripts[2].steps = scripts[3].steps = (facts(ROW),)
    assert await read(own_app) == counts(total=4, done=4, proposed=4)


async def test_two_replicas_read_each_passage_once(
    new_database: Callable[[], AbstractAsyncContextManager[URL]], endpoint: ScriptedEndpoint
) -> None:
    """Both work on one queue."""
    gate = asyncio.Event()
    scripts = [endpoint.script(_after(gate)) for _ in range(8)]
    async with (
        new_database() as url,
        running_app(url, llm=endpoint.base_url) as one,
        running_app(url, llm=endpoint.base_url) as other,
    ):
        for number, script in enumerate(scripts):
            await one.upload(f"{number}.md", passage(script))
        await start(one)
        async with asyncio.timeout(DEADLINE_S):
            while sum(len(script.requests) for script in scripts) < 4:  # two in each process
                await asyncio.sleep(0.02)
        gate.set()
        assert await ended(other) == counts(total=8, done=8, proposed=8)
        assert [len(script.requests) for script in scripts] == [1] * 8


async def test_an_orderly_end_leaves_what_it_was_reading_to_the_next(
    new_database: Callable[[], AbstractAsyncContextManager[URL]], endpoint: ScriptedEndpoint
) -> None:
    """No minute of silence is waited for: the job is given back."""
    script = endpoint.script(MUTE, facts(ROW))
    async with new_database() as url:
        async with running_app(url, llm=endpoint.base_url) as first:
            await first.upload("nordlys.md", passage(script))
            await start(first)
            await script.request(0)
        async with running_app(url, llm=endpoint.base_url) as second:
            assert await ended(second) == counts(total=1, done=1, proposed=1)
    assert len(script.requests) == 2


async def test_a_killed_process_loses_no_passage_and_none_is_read_twice(
    new_database: Callable[[], AbstractAsyncContextManager[URL]], endpoint: ScriptedEndpoint, tmp_path: Path
) -> None:
    """What it was reading waits again once its worker has been silent; what it had read stays read."""
    done = endpoint.script(facts(ROW))
    cut = [endpoint.script(MUTE, facts(ROW)) for _ in range(2)]
    waiting = endpoint.script(facts(ROW))
    async with new_database() as url:
        given = {
            "database_url": url.render_as_string(hide_password=False),
            "llm_base_url": endpoint.base_url,
            "llm_model": "scripted",
        }
        async with replica(tmp_path, **given) as killed:
            for number, script in enumerate([done, *cut, waiting]):
                files = {"file": (f"{number}.md", passage(script))}
                (await killed.http.post("/api/bases/default/documents", files=files)).raise_for_status()
            await _until(url, "SELECT count(*) = 4 FROM documents WHERE status = 'ready'")
            (await killed.http.post("/api/bases/default/extraction")).raise_for_status()
            for script in cut:
                await script.request(0)
            await killed.kill()
        await run_sql(url, f"UPDATE {SCHEMA}.procrastinate_workers SET last_heartbeat = now() - interval '1 minute'")
        async with running_app(url, llm=endpoint.base_url) as app:
            assert await ended(app) == counts(total=4, done=4, proposed=4)
    assert [len(script.requests) for script in (done, *cut, waiting)] == [1, 2, 2, 1]


async def until_only_the_reading_runs(app: App) -> None:
    """Wait until the job that planned the run has its end written, and one job is left."""
    async with asyncio.timeout(DEADLINE_S):
        while (await app.rows("SELECT count(*) AS n FROM procrastinate.procrastinate_jobs"))[0].n != 1:
            await asyncio.sleep(0.02)


async def test_a_database_that_drops_every_connection_costs_nothing(own_app: App, endpoint: ScriptedEndpoint) -> None:
    """What was being read is read once and stored, and the worker goes on."""
    gate = asyncio.Event()
    first, second = endpoint.script(_after(gate)), endpoint.script(facts(ROW))
    await own_app.upload("first.md", passage(first))
    await start(own_app)
    await first.request(0)
    await until_only_the_reading_runs(own_app)
    dropped = await own_app.rows(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND application_name = 'turnstream jobs'"
    )
    assert len(dropped) >= 2  # one that listens, and the pool's
    gate.set()
    assert await ended(own_app) == counts(total=1, done=1, proposed=1)
    await own_app.upload("second.md", passage(second))
    assert await read(own_app) == counts(total=2, done=2, proposed=2)
    assert (len(first.requests), len(second.requests)) == (1, 1)
    assert (await own_app.http.get("/readyz")).status_code == 200


async def test_without_a_chat_model_it_is_refused_in_words(database_url: URL) -> None:
    """The offline model quotes; it can't read facts."""
    async with running_app(database_url) as app:
        response = await app.http.post("/api/bases/default/extraction")
        assert (response.status_code, response.json()) == (
            422,
            {
                "error": {
                    "code": "no_chat_model",
                    "message": "The offline model can't extract facts; "
                    "set TURNSTREAM_LLM_BASE_URL and TURNSTREAM_LLM_MODEL.",
                }
            },
        )
        assert (await progress(app))["running"] is False


async def test_an_unknown_base_is_not_found(app: App) -> None:
    """On every route."""
    for method, path in (("POST", ""), ("GET", ""), ("POST", "/stop")):
        response = await app.http.request(method, f"/api/bases/nowhere/extraction{path}")
        assert (response.status_code, response.json()["error"]["code"]) == (404, "not_found")


async def test_the_command_reads_a_base_and_says_what_it_found(own_app: App, endpoint: ScriptedEndpoint) -> None:
    """Exit status 1 where a passage was given up, with the reason; 2 for a base that isn't there."""
    fine, refused = endpoint.script(facts(ROW)), endpoint.script(http(401, {"error": {"message": "Bad key"}}))
    await own_app.upload("fine.md", passage(fine))
    await own_app.upload("refused.md", passage(refused))
    url, model = own_app.parts.settings.database_url, own_app.parts.settings.llm_base_url
    assert url is not None
    assert model is not None
    given = {"database_url": url.get_secret_value(), "llm_base_url": model, "llm_model": "scripted"}
    status, said = await command("default", **given)
    assert "1 passages given up (model_rejected): Bad key" in said
    assert "1 of 2 passages read: 1 facts proposed, 0 rows dropped." in said
    assert status == 1
    assert await command("nowhere", **given) == (2, "There is no base named 'nowhere'.\n")


async def command(base: str, **given: str) -> tuple[int, str]:
    """The extraction of a base by a process of its own; its exit status and what it said."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", "import sys; from app.cli.facts_extract import run; sys.exit(run(sys.argv[1]))", base),
        env=environment(**given),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    return process.returncode or 0, said.decode()


def _after(gate: asyncio.Event) -> Reply:
    """The one fact, once the gate is open."""
    return stream(gate, event({"content": json.dumps({"facts": [ROW]})}), finish())


async def _until(url: URL, condition: str) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not await run_sql(url, condition):
            await asyncio.sleep(0.02)
