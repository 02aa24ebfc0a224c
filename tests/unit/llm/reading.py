"""What every family's table needs: a case, the two ways to read it, and the outcome to compare.

`read` runs the parser and the reply without I/O, in any cut of the bytes; `ask` runs the whole client over a real
connection. Both give an Outcome, so one expectation serves both.
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import CoroutineType
from typing import Any

from app.llm.event_stream import EventStream
from app.llm.failures import ModelFailure, classify
from app.llm.model import (
    Finish,
    Model,
    ModelRequest,
    ModelTurn,
    Reasoning,
    ReasoningDelta,
    TextDelta,
    ToolSpec,
    Usage,
    UserMessage,
)
from app.llm.reply import Reply

ORIGIN = "http://here/v1 scripted"
TOOL_NAMES = ("find_entities", "get_document", "neighbors", "search_chunks", "timeline")
TOOLS = tuple(ToolSpec(name, "A tool.", {"type": "object", "properties": {}}) for name in TOOL_NAMES)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a reader of the reply was given: joined deltas, then the turn's parts or the failure's kind.

    `calls` are (name, arguments) in order; ids are checked for being unique and not blank where they are read.
    """

    text: str = ""
    thought: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    finish: Finish | None = Finish.STOP
    usage: Usage = field(default_factory=Usage)
    failure: type[ModelFailure] | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """A byte stream of an endpoint and what is right to make of it. `id` names the shape and the reported case."""

    id: str
    data: bytes
    expected: Outcome


def broken(text: str, failure: type[ModelFailure], *, thought: str = "") -> Outcome:
    """The outcome of a reply that failed after this text."""
    return Outcome(text=text, thought=thought, finish=None, failure=failure)


def cut_at(data: bytes, places: Iterable[int]) -> list[bytes]:
    """The data in pieces that end at these places."""
    edges = [0, *sorted({place for place in places if 0 < place < len(data)}), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


def read(pieces: Sequence[bytes], tools: Sequence[str] = TOOL_NAMES) -> Outcome:
    """Read a stream that arrives in these pieces."""
    return read_turn(pieces, tools)[0]


def read_turn(pieces: Sequence[bytes], tools: Sequence[str] = TOOL_NAMES) -> tuple[Outcome, ModelTurn | None]:
    """`read`, and the model turn where there was one."""
    events = EventStream()
    reply = Reply(tools=tools, origin=ORIGIN, failure_of=lambda payload: classify(None, {}, payload))
    deltas: list[TextDelta | ReasoningDelta] = []
    for piece in pieces:
        deltas += reply.feed(events.feed(piece))
        if reply.ended:
            break
    else:
        deltas += reply.feed(events.flush())
    deltas += reply.flush()
    try:
        turn = reply.turn()
    except ModelFailure as failure:
        return _outcome(deltas, None, failure), None
    return _outcome(deltas, turn, None), turn


@dataclass(frozen=True, slots=True)
class Answer:
    """What one request over the wire came to."""

    outcome: Outcome
    turn: ModelTurn | None
    failure: ModelFailure | None
    deltas: tuple[TextDelta | ReasoningDelta, ...]


async def ask(model: Model, marker: object = "", *, request: ModelRequest | None = None) -> Answer:
    """Send one request and read its reply to the end; the marker picks the script."""
    if request is None:
        request = ModelRequest((UserMessage(f"A question {marker}"),), tools=TOOLS)
    deltas: list[TextDelta | ReasoningDelta] = []
    turn: ModelTurn | None = None
    try:
        async with aclosing(model.stream(request)) as events:
            async for event in events:
                assert turn is None, "nothing follows the turn"
                if isinstance(event, ModelTurn):
                    turn = event
                else:
                    deltas.append(event)
    except ModelFailure as failure:
        return Answer(_outcome(deltas, None, failure), None, failure, tuple(deltas))
    assert turn is not None
    return Answer(_outcome(deltas, turn, None), turn, None, tuple(deltas))


def _outcome(
    deltas: Sequence[TextDelta | ReasoningDelta], turn: ModelTurn | None, failure: ModelFailure | None
) -> Outcome:
    assert all(delta.text for delta in deltas), "no delta is empty"
    text = "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))
    thought = "".join(delta.text for delta in deltas if isinstance(delta, ReasoningDelta))
    if turn is None:
        assert failure is not None
        return Outcome(text, thought, finish=None, failure=type(failure))
    assert turn.text == text
    ids = [call.id for call in turn.tool_calls]
    assert all(ids), "every call has an id"
    assert len(set(ids)) == len(ids), "of its own"
    calls = tuple((call.name, call.arguments) for call in turn.tool_calls)
    return Outcome(text, thought, calls, turn.finish, turn.usage)


def without_origin(reasoning: Reasoning | None) -> Reasoning | None:
    """Reasoning with the origin of these tests, to compare what was read here and over the wire."""
    return None if reasoning is None else replace(reasoning, origin=ORIGIN)


def wire_tasks() -> set[asyncio.Task[Any]]:
    """The tasks of the wire and of scripted endpoints; the session's applications share the loop with their own."""
    ours = ("/app/llm/", "/tests/harness/scripted_endpoint")
    return {
        task
        for task in asyncio.all_tasks()
        if isinstance(coroutine := task.get_coro(), CoroutineType)
        and any(part in coroutine.cr_code.co_filename for part in ours)
    }
