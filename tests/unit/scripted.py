"""A model that plays a script and a shelf of tools with scripted results: the two ends of the runner in unit tests.

Both implement the ports of the product (llm.model.Model, turn.hooks.Tools, turn.policy.Evidence); nothing of the
product is replaced.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field

from app.llm.failures import ModelFailure
from app.llm.model import (
    Feature,
    Finish,
    ModelEvent,
    ModelRequest,
    ModelTurn,
    Reasoning,
    TextDelta,
    ToolCall,
    ToolSpec,
    Usage,
)
from app.tools.tool import Entity, NumberedSource
from app.turn.hooks import CallOutcome

SEARCH = ToolSpec("search_chunks", "Search.", {"type": "object", "required": ["query"]})
FIND = ToolSpec("find_entities", "Find.", {"type": "object", "required": ["name"]})
SKIP = ToolSpec("no_evidence_needed", "Skip.", {"type": "object", "required": ["reason"]})
SPECS = (FIND, SKIP, SEARCH)
USAGE = Usage(10, 2)


class Pause:
    """A place in a reply where the model waits: `reached` is set, and it goes on after `go`."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.go = asyncio.Event()


Reply = Sequence[ModelEvent | ModelFailure | Pause]


def turn(
    text: str = "", *calls: ToolCall, finish: Finish | None = Finish.STOP, reasoning: Reasoning | None = None
) -> ModelTurn:
    return ModelTurn(text, calls, finish, USAGE, reasoning)


def says(*pieces: str, calls: Sequence[ToolCall] = (), finish: Finish | None = Finish.STOP) -> Reply:
    """A reply of these text deltas and these calls."""
    return [*(TextDelta(piece) for piece in pieces), turn("".join(pieces), *calls, finish=finish)]


def search(query: str = "board", call_id: str = "c1") -> ToolCall:
    return ToolCall(call_id, "search_chunks", f'{{"query": "{query}"}}')


@dataclass
class ScriptedModel:
    """Plays one reply per request and remembers what it was sent. Implements Model."""

    replies: list[Reply]
    requests: list[ModelRequest] = field(default_factory=list[ModelRequest])
    learnt: list[Feature] = field(default_factory=list[Feature])
    opened: int = 0
    closed: int = 0

    name = "scripted"
    origin = "scripted://model"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self.requests.append(request)
        reply = self.replies[len(self.requests) - 1]
        self.opened += 1
        try:
            for item in reply:
                if isinstance(item, ModelFailure):
                    raise item
                if isinstance(item, Pause):
                    item.reached.set()
                    await item.go.wait()
                else:
                    yield item
        finally:
            self.closed += 1

    def learn(self, feature: Feature) -> None:
        self.learnt.append(feature)

    async def aclose(self) -> None:
        """Nothing is held open."""


@dataclass
class Shelf:
    """Three tools whose results are scripted: what a call returns is looked up by its name, then its first argument.

    Implements turn.hooks.Tools and turn.policy.Evidence. A Pause instead of a result waits for ever.
    """

    results: dict[str, CallOutcome | Pause] = field(default_factory=dict[str, CallOutcome | Pause])
    sources: tuple[NumberedSource, ...] = ()
    resolved: tuple[Entity, ...] = ()
    ran: list[tuple[str, dict[str, object]]] = field(default_factory=list[tuple[str, dict[str, object]]])

    def specs(self) -> tuple[ToolSpec, ...]:
        return SPECS

    def names(self) -> Sequence[str]:
        return [spec.name for spec in SPECS]

    def required(self, name: str) -> Sequence[str]:
        return {"search_chunks": ["query"], "find_entities": ["name"], "no_evidence_needed": ["reason"]}[name]

    def written(self, name: str, arguments: dict[str, object]) -> Sequence[str] | None:
        """None of them writes."""

    def fault(self, name: str, arguments: dict[str, object]) -> str | None:
        extra = sorted(set(arguments) - set(self.required(name)))
        return f"`{extra[0]}` is unknown." if extra else None

    def is_terminal(self, name: str) -> bool:
        return name == "no_evidence_needed"

    async def run(self, name: str, arguments: dict[str, object]) -> CallOutcome:
        self.ran.append((name, arguments))
        result = self.results.get(name, found(name))
        if isinstance(result, Pause):
            result.reached.set()
            await result.go.wait()
            return found(name)
        return result

    def refused(self, name: str, reason: str, detail: str) -> CallOutcome:
        return refusal(name, reason, detail)


def found(name: str, text: str = "OK: [1] board.md") -> CallOutcome:
    return CallOutcome("ok", text, "search", name, "1 passage")


def failed(name: str, text: str = "ERROR: not available") -> CallOutcome:
    return CallOutcome("error", text, "search", name, "failed")


def refusal(name: str, reason: str, detail: str) -> CallOutcome:
    return CallOutcome("error", f"ERROR: {reason}", "refused", name, detail)
