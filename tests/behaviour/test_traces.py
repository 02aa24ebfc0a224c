"""Turns as OpenTelemetry spans: their names, how they hang together, and that nothing anybody wrote is on them.

Source: issue 9 item 4; the semantic conventions for generative AI.
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from app.main import create_app
from app.turn.otel import Endpoint
from tests.harness.app import App, Turn, running_app, settings_for
from tests.harness.postgres import PostgresServer
from tests.harness.scripted_endpoint import (
    DONE,
    ScriptedEndpoint,
    call,
    event,
    finish,
    http,
    stream,
    text,
    usage,
)
from tests.harness.sse_reader import frames_of

MARK = "pelican-7731"
SECRET = "sk-verysecret-7731"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SEARCH = call(("search_chunks", {"query": MARK}))


class Collector:
    """Takes OTLP over HTTP."""

    def __init__(self) -> None:
        self.requests: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        [length] = [int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
        self.requests.append(head + await reader.readexactly(length))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()


class Traced:
    """The application and what it has traced."""

    def __init__(self, app: App) -> None:
        self.app = app
        self._spans = InMemorySpanExporter()
        assert app.parts.tracing is not None
        app.parts.tracing.provider.add_span_processor(SimpleSpanProcessor(self._spans))

    def forget(self) -> None:
        """What was traced so far."""
        self._spans.clear()

    def spans(self) -> list[ReadableSpan]:
        """Those that have ended, in the order in which they began."""
        return sorted(self._spans.get_finished_spans(), key=lambda span: span.start_time or 0)

    def names(self) -> list[str]:
        return [span.name for span in self.spans()]

    def one(self, name: str) -> ReadableSpan:
        [found] = [span for span in self.spans() if span.name == name]
        return found


@pytest.fixture(scope="module")
async def tracing(postgres: PostgresServer, endpoint: ScriptedEndpoint) -> AsyncGenerator[Traced]:
    """An application that traces to a collector; what the collector got in the end is looked through."""
    collector = Collector()
    async with await asyncio.start_server(collector.serve, "127.0.0.1", 0) as server, postgres.new_database() as url:
        with pytest.MonkeyPatch.context() as environment:
            address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
            environment.setenv("OTEL_BSP_SCHEDULE_DELAY", "600000")  # nothing is sent before the end
            given = {"traces": "otlp", "llm_api_key": SECRET, "llm_retries": 1}
            async with running_app(url, llm=endpoint.base_url, **given) as app:
                yield Traced(app)
    [sent] = collector.requests  # what waited was sent on the way down
    assert sent.startswith(b"POST /v1/traces ")
    assert b"invoke_agent turnstream" in sent
    assert MARK.encode() not in sent
    assert SECRET.encode() not in sent


@pytest.fixture
def traced(tracing: Traced) -> Traced:
    tracing.forget()
    return tracing


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


async def test_a_turn_is_a_tree_of_spans_that_continues_the_callers_trace(
    traced: Traced, endpoint: ScriptedEndpoint
) -> None:
    """The turn, its requests, its calls; with the names that the conventions give."""
    await traced.app.upload(f"{MARK}.md", f"# {MARK}\n\nThe {MARK} eats fish.".encode())
    counted = usage(11, 7, prompt_tokens_details={"cached_tokens": 5})
    answer = stream(event({"content": f"{MARK} [1]."}), event({}, "stop"), counted, DONE)
    script = endpoint.script(SEARCH, answer)
    sent = {"message": f"What does {MARK} eat? {script}"}
    async with traced.app.http.stream("POST", "/api/chat", json=sent, headers={"traceparent": PARENT}) as response:
        turn = Turn([frame async for frame in frames_of(response)])
    assert traced.names() == ["invoke_agent turnstream", "chat scripted", "execute_tool search_chunks", "chat scripted"]
    root, first, tool, second = traced.spans()
    assert root.parent is not None
    assert f"00-{root.parent.trace_id:032x}-{root.parent.span_id:016x}-01" == PARENT
    assert [span.parent for span in (first, tool, second)] == [root.context] * 3
    kinds = [span.kind for span in traced.spans()]
    assert kinds == [SpanKind.INTERNAL, SpanKind.CLIENT, SpanKind.INTERNAL, SpanKind.CLIENT]
    common = {
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "scripted",
        "gen_ai.conversation.id": turn.conversation_id,
    }
    assert attributes(root) == common | {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "turnstream",
        "gen_ai.usage.input_tokens": 22,
        "gen_ai.usage.output_tokens": 14,
        "turnstream.turn.id": turn.turn_id,
        "turnstream.turn.attempt": 0,
        "turnstream.evidence": "cited",
        "turnstream.outcome": "done",
    }
    assert attributes(second) == common | {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.stream": True,
        "gen_ai.response.model": "scripted",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 11,
        "gen_ai.usage.output_tokens": 7,
        "gen_ai.usage.cache_read.input_tokens": 5,
        "server.address": "127.0.0.1",
        "server.port": endpoint.port,
    }
    assert attributes(tool) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "search_chunks",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "call_search_chunks_0",
        "gen_ai.conversation.id": turn.conversation_id,
        "turnstream.tool.status": "ok",
    }
    assert {span.status.status_code for span in traced.spans()} == {StatusCode.UNSET}


async def test_what_fails_is_an_error_with_a_code_and_without_words(traced: Traced, endpoint: ScriptedEndpoint) -> None:
    """A request that is made again is a span of its own; the turn says how it ended."""
    refusal = http(401, {"error": {"message": f"Bad key {SECRET} for {MARK}"}})
    busy = http(503, {"error": {"message": MARK}})
    await traced.app.ask(f"{MARK}? {endpoint.script(busy, refusal)}")
    root, away, refused = traced.spans()
    codes = [attributes(span).get("error.type") for span in (root, away, refused)]
    assert codes == ["model_rejected", "model_unavailable", "model_rejected"]
    assert attributes(root)["turnstream.outcome"] == "model_rejected"
    assert attributes(refused)["http.response.status_code"] == 401
    assert root.parent is None
    for span in traced.spans():
        assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, None)
        assert not span.events


async def test_a_tool_that_fails_a_refused_call_and_a_gathered_search(
    traced: Traced, endpoint: ScriptedEndpoint
) -> None:
    """A call that isn't run is no span; a search of the turn's own has no call id."""
    await traced.app.execute("ALTER TABLE entities RENAME TO gone")
    calls = call((MARK, {}), ("find_entities", {"name": MARK}))
    await traced.app.ask(f"{MARK}? {endpoint.script(calls, text('Gone.'))}")
    assert traced.names().count("execute_tool find_entities") == len([n for n in traced.names() if "tool" in n]) == 1
    failed = attributes(traced.one("execute_tool find_entities"))
    assert (failed["error.type"], failed["turnstream.tool.status"]) == ("tool_error", "error")
    assert failed["gen_ai.tool.call.id"] == "call_find_entities_1"
    await traced.app.execute("ALTER TABLE gone RENAME TO entities")
    promise = text("I shall look.")
    await traced.app.ask(f"{MARK}? {endpoint.script(promise, promise, text('Nothing.'))}")
    assert "gen_ai.tool.call.id" not in attributes(traced.one("execute_tool search_chunks"))


async def test_a_turn_that_is_stopped_ends_its_spans(traced: Traced, endpoint: ScriptedEndpoint) -> None:
    """The request that it waited for was cancelled; the turn itself is no error."""
    skip = call(("no_evidence_needed", {"reason": "t"}))
    script = endpoint.script(skip, stream(event({"content": "Half"}), asyncio.Event(), finish()))
    async with traced.app.stream(f"{MARK} {script}") as response:
        turn = Turn()
        async for frame in frames_of(response):
            turn.frames.append(frame)
            if frame.event == "delta":
                stop = f"/api/conversations/{turn.conversation_id}/stop"
                assert (await traced.app.http.post(stop, json={"turn_id": turn.turn_id})).status_code == 202
    root, *_, cut = traced.spans()
    assert (cut.name, attributes(cut)["error.type"]) == ("chat scripted", "cancelled")
    assert (attributes(root)["turnstream.outcome"], root.status.status_code) == ("stopped", StatusCode.UNSET)


async def test_nothing_is_traced_by_default(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for a variable either that somebody set for every process of a machine; what is imported: test_logs.py."""
    assert app.parts.tracing is None
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    assert create_app(settings_for(app.parts.database.engine.url, None), app.parts.database.engine.url).tracing is None


@pytest.mark.parametrize(
    ("base_url", "provider", "port"),
    [
        ("https://api.deepseek.com", "deepseek", 443),
        ("https://me.openai.azure.com/openai/v1", "azure.ai.openai", 443),
        ("http://127.0.0.1:8080/v1", "openai", 8080),
        ("http://gpu/v1", "openai", 80),
        (None, "turnstream", None),
    ],
)
def test_a_provider_is_called_as_the_conventions_call_it(base_url: str | None, provider: str, port: int | None) -> None:
    where = Endpoint.at(base_url, "m")
    assert (where.provider, where.port) == (provider, port)
