"""The log tells what happened, to which turn and request, and not a word of anybody's. Issue 9 item 4.

Every text that goes in holds MARK, every secret SECRET; what is broken on purpose quotes them, as databases and
providers do.
"""

import io
import json
import logging
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from typing import Any

import pytest
import structlog
from sqlalchemy import URL

from app.logs import configure_logging
from tests.harness.app import App, running_app
from tests.harness.scripted_endpoint import ScriptedEndpoint, call, http, text

MARK = "pelican-7731"
SECRET = "sk-verysecret-7731"
SEARCH = call(("search_chunks", {"query": MARK}))
QUOTING = """
CREATE FUNCTION quote() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'not this: %', NEW.content; END $$"""


class Terminal(io.StringIO):
    """What a person looks at."""

    def isatty(self) -> bool:
        return True


@contextmanager
def logging_to(out: io.StringIO, level: str = "info") -> Generator[io.StringIO]:
    """The product's logging into a buffer, and afterwards as it was."""
    root, before, stderr = logging.getLogger(), structlog.get_config(), sys.stderr
    handlers, root_level = list(root.handlers), root.level
    sys.stderr = out
    try:
        configure_logging(level)
        yield out
    finally:
        sys.stderr = stderr
        structlog.configure(**before)
        root.handlers[:] = handlers
        root.setLevel(root_level)


@pytest.fixture
def log() -> Generator[io.StringIO]:
    with logging_to(io.StringIO()) as out:
        yield out


@pytest.fixture
async def own_app(
    log: io.StringIO,
    new_database: Callable[[], AbstractAsyncContextManager[URL]],
    endpoint: ScriptedEndpoint,
) -> AsyncGenerator[App]:
    """An application that logs, and may be broken."""
    given = {"llm_api_key": SECRET, "llm_retries": 0, "save_timeout_s": 0.1, "log_level": "info"}
    async with new_database() as url, running_app(url, llm=endpoint.base_url, **given) as running:
        running.http.headers.update({"Authorization": f"Bearer {SECRET}", "Cookie": f"turnstream_session={SECRET}"})
        yield running


def lines(log: io.StringIO) -> list[dict[str, Any]]:
    """Every line is one JSON object with an event, a level and a time."""
    found = [json.loads(line) for line in log.getvalue().splitlines()]
    assert all({"event", "level", "timestamp"} <= set(line) for line in found)
    return found


def of(log: io.StringIO, event: str) -> list[dict[str, Any]]:
    return [line for line in lines(log) if line["event"] == event]


async def failed_upload(app: App, name: str, data: bytes) -> None:
    sent = await app.http.post("/api/bases/default/documents", files={"file": (name, data)})
    await app.parts.ingest.drain()
    found = await app.http.get(f"/api/bases/default/documents/{sent.json()['id']}")
    assert found.json()["status"] == "failed"


async def test_nothing_that_anybody_wrote_and_no_key_is_logged(
    own_app: App, endpoint: ScriptedEndpoint, log: io.StringIO
) -> None:
    """Turns that end well, a model that quotes key and question in its refusal, a database that quotes the answer."""
    await own_app.upload(f"{MARK}.md", f"# {MARK}\n\nThe {MARK} eats fish.".encode())
    await failed_upload(own_app, f"{MARK}.pdf", f"%PDF-1.7 {MARK}".encode())
    turn = await own_app.ask(f"What does {MARK} eat? {endpoint.script(SEARCH, text(f'{MARK} eats fish [1].'))}")
    assert turn.done["evidence"] == "cited"
    await own_app.http.patch(f"/api/conversations/{turn.conversation_id}", json={"title": MARK})
    for path in (
        f"/api/conversations?q={MARK}",
        f"/api/bases/default/entities/{MARK}",
        f"/api/bases/{MARK}",
        f"/{MARK}",
    ):
        await own_app.http.get(path, headers={"X-Request-Id": f"{MARK} {SECRET}"})
    for status in (400, 401, 500):
        quoting = http(status, {"error": {"message": f"Bad key {SECRET} for {MARK!r}", "type": MARK}})
        failed = await own_app.ask(f"And {MARK}? {endpoint.script(quoting)}")
        assert failed.error["code"].startswith("model_")
    await own_app.execute(QUOTING)
    await own_app.execute("CREATE TRIGGER quote BEFORE INSERT ON messages FOR EACH ROW EXECUTE FUNCTION quote()")
    refused = await own_app.http.post("/api/chat", json={"message": f"{MARK}?"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "database_unavailable")
    await own_app.execute("DROP TRIGGER quote ON messages")
    await own_app.execute("ALTER TABLE chunks RENAME TO gone")
    broken = await own_app.ask(f"Where is {MARK}? {endpoint.script(SEARCH, text(f'{MARK} is gone.'))}")
    assert broken.of("step")[0]["status"] == "error"
    written = log.getvalue()
    assert MARK not in written
    assert "pelican" not in written
    assert SECRET not in written
    assert {line["event"] for line in lines(log)} >= {
        "request", "turn_ended", "document_ready", "document_failed", "refused", "tool_failed",
    }  # fmt: skip
    [error] = of(log, "refused")
    assert [one["exc_type"] for one in error["exception"]][-1] == "RaiseError"
    assert error["route"] == "/api/chat"
    assert all(one["frames"] for one in error["exception"])


async def test_a_request_has_one_name_in_its_answer_on_its_lines_and_on_its_turns(
    own_app: App, endpoint: ScriptedEndpoint, log: io.StringIO
) -> None:
    """Its own where it brings a well-formed one; a turn's lines have the turn's id too."""
    script = endpoint.script(call(("no_evidence_needed", {"reason": "t"})), text("Hi."))
    body = {"message": f"Hello {script}"}
    answer = await own_app.http.post("/api/chat", json=body, headers={"X-Request-Id": "edge-01.a:b"})
    assert answer.headers["x-request-id"] == "edge-01.a:b"
    (ended,), (request,) = of(log, "turn_ended"), of(log, "request")
    assert ended["request_id"] == request["request_id"] == "edge-01.a:b"
    assert ended["turn_id"] in answer.text
    assert "turn_id" not in request
    assert (request["method"], request["route"], request["status"]) == ("POST", "/api/chat", 200)
    made = [(await own_app.http.get("/healthz")).headers["x-request-id"] for _ in range(2)]
    assert made[0] != made[1]
    assert len(of(log, "request")) == 1  # monitors ask often


@pytest.mark.parametrize("given", ["", "a b", "x" * 129, "a\u00e9", "-leading", '"quoted"'])
async def test_a_name_that_is_none_is_replaced(app: App, given: str) -> None:
    answer = await app.http.get("/healthz", headers={b"X-Request-Id": given.encode()})
    assert len(answer.headers["x-request-id"]) == 32


async def test_refusals_and_faults_of_ours_are_named_too(own_app: App, log: io.StringIO) -> None:
    """404 for what isn't served, 403 for a stranger, 500 for what nobody foresaw."""
    for path, headers, status in (("/none", {}, 404), ("/api/bases", {"Host": "evil.example"}, 403)):
        answer = await own_app.http.get(path, headers={"X-Request-Id": "n1", **headers})
        assert (answer.status_code, answer.headers["x-request-id"]) == (status, "n1")
    own_app.parts.metrics.watch("broken", "Raises when it is read", lambda: int(MARK))
    answer = await own_app.http.get("/metrics", headers={"X-Request-Id": "n2"})
    assert (answer.status_code, answer.headers["x-request-id"]) == (500, "n2")
    [fault] = of(log, "request_failed")
    assert (fault["request_id"], fault["route"]) == ("n2", "/metrics")


def fail(error: Exception, cause: Exception | None = None) -> None:
    raise error from cause


def broken() -> Exception:
    """An error that was caused by a group of others, all of which quote."""
    group, error = ExceptionGroup(MARK, [ValueError(MARK), KeyError(MARK)]), RuntimeError(MARK)
    group.add_note(MARK)
    with suppress(ExceptionGroup):
        fail(group)
    with suppress(RuntimeError):
        fail(error, group)
    return error


@pytest.mark.parametrize("out", [io.StringIO, Terminal])
def test_what_exceptions_say_is_told_at_level_debug_alone(out: type[io.StringIO]) -> None:
    """Ours and the libraries', to a file and to a person; types and places are told at any level."""
    for level in ("info", "debug"):
        with logging_to(out(), level) as written:
            structlog.get_logger().error("turn_failed", exc_info=broken())
            logging.getLogger("uvicorn.error").error("Exception in ASGI application", exc_info=broken())
            logging.getLogger("asyncio").error("Task exception was never retrieved\nfuture: ValueError(%r)", MARK)
        told = written.getvalue()
        assert (MARK in told) == (level == "debug")
        assert told.count("RuntimeError") == told.count("ExceptionGroup") == 2
        assert "test_logs.py" in told
        assert "Task exception was never retrieved" in told


def test_a_person_at_a_terminal_gets_plain_text() -> None:
    with logging_to(Terminal()) as written:
        structlog.get_logger().info("starting", replica="a")
    assert "starting" in written.getvalue()
    assert not written.getvalue().startswith("{")
