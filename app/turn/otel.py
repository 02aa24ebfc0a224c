"""Turns as OpenTelemetry spans: `invoke_agent`, in it a `chat` for each model request and an `execute_tool` per call.

Names and attributes are the semantic conventions for generative AI (in development there; version 1.41). Nothing that
anybody wrote is on a span: no message, no arguments, no result, no title, no words of an error; ids, names of tools and
models, counts and codes are. Needs the extra `otel`, and is imported only where tracing is asked for. Source: issue 9
item 4, decision 0022.
"""

import os
from collections import deque
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from opentelemetry import context as contexts
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context, use_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from app.errors import TurnErrorCode
from app.live.frames import Done, Failed, TurnUsage
from app.llm.model import ModelTurn
from app.store.turns import AdmittedTurn
from app.turn.hooks import (
    BeforeCall,
    BeforeRequest,
    CallOutcome,
    CallView,
    FailureView,
    Hooks,
    ModelTurnFinished,
    Observe,
    OutcomeView,
    RequestFailed,
    Run,
    RunView,
    Send,
    Tools,
    TurnView,
)

AGENT = "turnstream"
EXPORT_S = 3.0
"""How long one batch of spans is tried to be sent, where OTEL_EXPORTER_OTLP_TIMEOUT doesn't say; so a collector that is
away holds up a shutdown no longer."""

_PROVIDERS = (
    ("api.anthropic.com", "anthropic"),
    (".openai.azure.com", "azure.ai.openai"),
    ("api.deepseek.com", "deepseek"),
    ("generativelanguage.googleapis.com", "gcp.gemini"),
    ("aiplatform.googleapis.com", "gcp.vertex_ai"),
    ("api.groq.com", "groq"),
    ("api.mistral.ai", "mistral_ai"),
    ("api.moonshot.cn", "moonshot_ai"),
    ("api.moonshot.ai", "moonshot_ai"),
    ("api.perplexity.ai", "perplexity"),
    ("api.x.ai", "x_ai"),
)
"""What the conventions call a provider, by the end of its host's name. Any other speaks OpenAI's protocol: `openai`."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the model is asked; `host` None: in this process."""

    model: str
    host: str | None = None
    port: int | None = None

    @classmethod
    def at(cls, base_url: str | None, model: str) -> "Endpoint":
        """The one of an address that was checked; None for the offline model."""
        if base_url is None:
            return cls(model)
        parts = urlsplit(base_url)
        return cls(model, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80))

    @property
    def provider(self) -> str:
        """As the conventions call it."""
        if self.host is None:
            return AGENT
        host = self.host
        return next((name for end, name in _PROVIDERS if host == end or host.endswith(end)), "openai")


class Otel:
    """Traces of this process. Implements turn.trace.Tracing; closed by main.py.

    Spans go where the standard OTEL_EXPORTER_OTLP_* variables say, by OTLP over HTTP, in a thread of the SDK's. The
    process's global provider is left alone, so that no library traces because we do.
    """

    def __init__(self, endpoint: Endpoint, *, version: str, replica: str) -> None:
        ours = Resource({"service.name": AGENT, "service.version": version, "service.instance.id": replica})
        resource = ours.merge(OTELResourceDetector().detect())  # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win
        self.provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        said = {"OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT"} & os.environ.keys()
        exporter = OTLPSpanExporter(timeout=None if said else EXPORT_S)
        self.provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self.provider.get_tracer(AGENT, version)
        self._endpoint = endpoint
        self._header = TraceContextTextMapPropagator()

    def begin(self, turn: AdmittedTurn) -> "OtelTurn":
        return OtelTurn(self._tracer, self._endpoint, turn)

    @contextmanager
    def continuing(self, headers: Mapping[str, str]) -> Generator[None]:
        """For the block, what begins belongs to the trace that a request's `traceparent` names, if it names one."""
        token = contexts.attach(self._header.extract(headers))
        try:
            yield
        finally:
            contexts.detach(token)

    def close(self) -> None:
        """Send what waits, as long as a batch may take. Blocks."""
        self.provider.shutdown()


class OtelTurn:
    """One turn's spans. Implements turn.trace.TurnTrace."""

    def __init__(self, tracer: Tracer, endpoint: Endpoint, turn: AdmittedTurn) -> None:
        self._tracer = tracer
        self._endpoint = endpoint
        self._common: dict[str, AttributeValue] = {
            "gen_ai.provider.name": endpoint.provider,
            "gen_ai.request.model": endpoint.model,
            "gen_ai.conversation.id": turn.conversation_id,
        }
        self._span = tracer.start_span(
            f"invoke_agent {AGENT}",
            kind=SpanKind.INTERNAL,
            attributes={
                **self._common,
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": AGENT,
                "turnstream.turn.id": turn.turn_id,
                "turnstream.turn.attempt": turn.attempt,
            },
        )
        self._within = set_span_in_context(self._span)
        self._asking: Span | None = None
        self._call_ids: deque[str] = deque()

    @property
    def trace_id(self) -> str:
        return f"{self._span.get_span_context().trace_id:032x}"

    def around(self, hooks: Hooks, tools: Tools) -> tuple[Hooks, Tools]:
        return _SeenHooks(self, hooks), _SeenTools(self, tools)

    def end(self, frame: Done | Failed | None, usage: TurnUsage) -> None:
        if self._asking is not None:  # stopped, handed over, or broken by a fault of ours while the model spoke
            _fail(self._asking, "cancelled")
            self._asking.end()
        self._span.set_attributes(_tokens(usage.prompt_tokens, usage.completion_tokens))
        match frame:
            case Done():
                outcome = "stopped" if frame.stopped else "done"
                self._span.set_attribute("turnstream.evidence", frame.evidence)
            case Failed():
                outcome = frame.code
                _fail(self._span, frame.code)
            case None:
                outcome = "given_up"
        self._span.set_attribute("turnstream.outcome", outcome)
        self._span.end()

    def asks(self) -> None:
        """A request is about to be sent."""
        endpoint = self._endpoint
        where: dict[str, AttributeValue] = {}
        if endpoint.host is not None and endpoint.port is not None:
            where = {"server.address": endpoint.host, "server.port": endpoint.port}
        self._asking = self._tracer.start_span(
            f"chat {endpoint.model}",
            context=self._within,
            kind=SpanKind.INTERNAL if endpoint.host is None else SpanKind.CLIENT,
            attributes={**self._common, **where, "gen_ai.operation.name": "chat", "gen_ai.request.stream": True},
        )

    def answered(self, turn: ModelTurn) -> None:
        """The request was answered in full."""
        if (span := self._take_asking()) is None:
            return
        usage = turn.usage
        span.set_attributes(_tokens(usage.prompt_tokens, usage.completion_tokens))
        more = {
            "gen_ai.response.model": turn.model,
            "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
            "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
        }
        span.set_attributes({name: value for name, value in more.items() if value is not None})
        if turn.finish is not None:
            span.set_attribute("gen_ai.response.finish_reasons", [turn.finish.value])
        span.end()

    def refused(self, code: TurnErrorCode, status: int | None) -> None:
        """The request failed."""
        if (span := self._take_asking()) is None:
            return
        _fail(span, code)
        if status is not None:
            span.set_attribute("http.response.status_code", status)
        span.end()

    def will_run(self, call_id: str) -> None:
        """This call is the next in line of those to be run."""
        self._call_ids.append(call_id)

    @contextmanager
    def running(self, name: str) -> Generator[Span]:
        """A tool runs for the block; `name` is one of the registry's."""
        span = self._tracer.start_span(
            f"execute_tool {name}",
            context=self._within,
            kind=SpanKind.INTERNAL,
            attributes={
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": name,
                "gen_ai.tool.type": "function",
                "gen_ai.conversation.id": self._common["gen_ai.conversation.id"],
            },
        )
        if self._call_ids:  # none for a search that the turn makes for itself
            span.set_attribute("gen_ai.tool.call.id", self._call_ids.popleft())
        try:
            with use_span(span, record_exception=False, set_status_on_exception=False):
                yield span
        except BaseException:
            _fail(span, "cancelled")
            raise
        finally:
            span.end()

    def _take_asking(self) -> Span | None:
        span, self._asking = self._asking, None
        return span


class _SeenHooks:
    """Implements turn.hooks.Hooks: the decisions are the policy's."""

    def __init__(self, turn: OtelTurn, hooks: Hooks) -> None:
        self._turn = turn
        self._hooks = hooks

    def before_request(self, view: RunView) -> BeforeRequest:
        decided = self._hooks.before_request(view)
        if isinstance(decided, Send):
            self._turn.asks()
        return decided

    def model_turn_finished(self, view: TurnView) -> ModelTurnFinished:
        self._turn.answered(view.turn)
        return self._hooks.model_turn_finished(view)

    def before_call(self, view: CallView) -> BeforeCall:
        decided = self._hooks.before_call(view)
        if isinstance(decided, Run):
            self._turn.will_run(view.call.id)
        return decided

    def call_finished(self, view: OutcomeView) -> Observe:
        return self._hooks.call_finished(view)

    def request_failed(self, view: FailureView) -> RequestFailed:
        self._turn.refused(view.failure.code, view.failure.status)
        return self._hooks.request_failed(view)


class _SeenTools:
    """Implements turn.hooks.Tools."""

    def __init__(self, turn: OtelTurn, tools: Tools) -> None:
        self._turn = turn
        self._tools = tools

    async def run(self, name: str, arguments: dict[str, object]) -> CallOutcome:
        with self._turn.running(name) as span:
            outcome = await self._tools.run(name, arguments)
            span.set_attribute("turnstream.tool.status", outcome.status)
            if outcome.status == "error":
                _fail(span, "tool_error")
        return outcome

    def refused(self, name: str, reason: str, detail: str) -> CallOutcome:
        return self._tools.refused(name, reason, detail)


def _fail(span: Span, code: str) -> None:
    """Without a description: that would be somebody's words."""
    span.set_attribute("error.type", code)
    span.set_status(Status(StatusCode.ERROR))


def _tokens(prompt: int | None, completion: int | None) -> dict[str, AttributeValue]:
    counts = {"gen_ai.usage.input_tokens": prompt, "gen_ai.usage.output_tokens": completion}
    return {name: count for name, count in counts.items() if count is not None}
