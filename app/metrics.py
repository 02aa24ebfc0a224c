"""What is counted, for Prometheus: how turns end, what their answers rest on, how long a reader waits, what is in use.

One `Metrics` per application, with a registry of its own; names and labels stand here and nowhere else. Nothing is
counted per token. Labels are bounded: outcomes, verdicts, models and bases, never a person or a conversation.
"""

from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300)


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """A turn that was stored. `outcome` is done, stopped or an error code; times are seconds from its admission.

    `first_text_s` is None where no text was published, `retries` counts requests that were made again, `turned_back`
    replies that were sent back to the model, `fell_back` says that the loop was given up for one retrieval.
    """

    outcome: str
    evidence: str
    base: str
    model: str
    seconds: float
    first_text_s: float | None
    prompt_tokens: int
    completion_tokens: int
    requests: int
    retries: int
    turned_back: int
    fell_back: bool

    @property
    def verdict(self) -> str:
        """The evidence of a whole answer; of one that was cut short, how."""
        if self.outcome == "done":
            return self.evidence
        return "stopped" if self.outcome == "stopped" else "failed"


class Metrics:
    """The collectors. `watch` adds what is read when it is asked for."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        of_answer = ("model", "base")
        self._turns = self._counter("turns", "Turns that ended, by outcome", "outcome", "model")
        self._evidence = self._counter("evidence", "Answers by what they rest on", "verdict", *of_answer)
        self._requests = self._counter("model_requests", "Requests answered by the model", "model")
        self._retries = self._counter("model_retries", "Model requests that failed and were made again", "model")
        self._turned_back = self._counter("turned_back", "Replies sent back to the model", "model")
        self._fallbacks = self._counter("fallbacks", "Turns whose loop was given up for one retrieval", "model")
        self._tokens = self._counter("tokens", "Tokens as the provider counted them", "kind", "model")
        self._taken_over = self._counter("takeovers", "Turns taken over from a process that is gone", "goes_on")
        self._first_text = self._histogram("first_text_seconds", "From admission to the first text of the answer")
        self._duration = self._histogram("turn_seconds", "From admission to the stored answer")

    def _counter(self, name: str, words: str, *labels: str) -> Counter:
        return Counter(f"turnstream_{name}", words, labels, registry=self._registry)

    def _histogram(self, name: str, words: str) -> Histogram:
        return Histogram(f"turnstream_{name}", words, ("model",), buckets=_SECONDS, registry=self._registry)

    def watch(self, name: str, words: str, read: Callable[[], float]) -> None:
        """A gauge turnstream_<name> that is read at each scrape."""
        Gauge(f"turnstream_{name}", words, registry=self._registry).set_function(read)

    def turn_ended(self, end: TurnEnd) -> None:
        """Count a turn; once, by the process that stored it."""
        model = end.model
        self._turns.labels(end.outcome, model).inc()
        self._evidence.labels(end.verdict, model, end.base).inc()
        self._duration.labels(model).observe(end.seconds)
        if end.first_text_s is not None:
            self._first_text.labels(model).observe(end.first_text_s)
        self._tokens.labels("prompt", model).inc(end.prompt_tokens)
        self._tokens.labels("completion", model).inc(end.completion_tokens)
        self._requests.labels(model).inc(end.requests)
        self._retries.labels(model).inc(end.retries)
        self._turned_back.labels(model).inc(end.turned_back)
        self._fallbacks.labels(model).inc(end.fell_back)

    def taken_over(self, *, goes_on: bool) -> None:
        """Count a turn whose owner was gone: it goes on, or it was ended."""
        self._taken_over.labels("yes" if goes_on else "no").inc()

    def exposition(self) -> bytes:
        """All of it in Prometheus' text format, for CONTENT_TYPE."""
        return generate_latest(self._registry)
