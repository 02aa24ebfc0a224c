"""The loop: ask the model, run its calls, again, until a hook says that it is over.

A generic async generator of run events. It does what the hooks' actions say and nothing else: no policy, no
product knowledge, no SSE, no database. It closes the model's stream on every way out, so that cancelling or
closing the generator closes the provider's connection at once (case S04). Source: decision 0001.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import assert_never

from app.llm.failures import ModelFailure
from app.llm.model import (
    AssistantMessage,
    Finish,
    Message,
    Model,
    ModelTurn,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from app.turn.hooks import (
    Accept,
    AskAgain,
    CallOutcome,
    CallView,
    Fail,
    FailureView,
    Gather,
    Hooks,
    ModelTurnFinished,
    OutcomeView,
    Refuse,
    RequestFailed,
    Run,
    RunCalls,
    RunView,
    Send,
    Tools,
    TryAgain,
    TurnView,
)


@dataclass(frozen=True, slots=True)
class TextBegan:
    """A model turn's text begins: what follows is a new paragraph of the answer."""


@dataclass(frozen=True, slots=True)
class Text:
    """Answer text to publish."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoned:
    """The model thought for so long, and this is what it wrote meanwhile; never part of the answer."""

    text: str
    ms: int


@dataclass(frozen=True, slots=True)
class ModelAnswered:
    """A request was answered in full."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class Called:
    """The exchange grew by an assistant message with calls; a CallEnded follows for each of them."""

    message: AssistantMessage


@dataclass(frozen=True, slots=True)
class CallEnded:
    """A call ended. `result` is the tool message of the exchange, None for a call the turn made itself."""

    call_id: str
    tool: str
    outcome: CallOutcome
    ms: int
    result: ToolMessage | None


@dataclass(frozen=True, slots=True)
class RoundEnded:
    """All calls of a model turn have ended: a good moment for a checkpoint."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The last event of every run that wasn't cancelled."""

    ending: Accept | Fail


RunEvent = TextBegan | Text | Reasoned | ModelAnswered | Called | CallEnded | RoundEnded | Ended


Action = ModelTurnFinished | RequestFailed


@dataclass(slots=True)
class _Reply:
    """One request's reply while it is read, and what the hooks made of it. `held` is text that no reader has seen."""

    turn: ModelTurn | None = None
    shown: bool = False
    visible: list[str] = field(default_factory=list[str])
    held: list[str] = field(default_factory=list[str])
    thoughts: list[str] = field(default_factory=list[str])
    began: float = field(default_factory=time.perf_counter)
    action: Action | None = None


async def run(
    model: Model, tools: Tools, hooks: Hooks, gathered: Sequence[Message] = ()
) -> AsyncGenerator[RunEvent, None]:
    """Run one turn to its end; the last event is Ended. The caller closes the generator (aclosing).

    `gathered` is the exchange of a run that was cut off, which this one goes on from: whole calls with their results.
    """
    exchange: list[Message] = list(gathered)
    while True:
        decided = hooks.before_request(RunView(tuple(exchange)))
        if isinstance(decided, Gather):
            yield await _gather(tools, hooks, decided)
            continue
        reply = _Reply()
        async with aclosing(_ask(model, hooks, decided, reply)) as events:
            async for event in events:
                yield event
        async with aclosing(_act(tools, hooks, exchange, reply)) as events:
            async for event in events:
                yield event
                if isinstance(event, Ended):
                    return


async def _ask(
    model: Model, hooks: Hooks, send: Send, reply: _Reply
) -> AsyncGenerator[TextBegan | Text | Reasoned | ModelAnswered, None]:
    """Send one request and read its reply, showing what may be shown now; leaves the hooks' action in `reply`."""
    text_filter = send.text_filter
    try:
        async with aclosing(model.stream(send.request)) as events:
            async for event in events:
                match event:
                    case ReasoningDelta():
                        reply.thoughts.append(event.text)
                        continue
                    case TextDelta():
                        visible = text_filter.feed(event.text)
                    case ModelTurn():
                        reply.turn = event
                        visible = text_filter.finish()
                if reply.thoughts:
                    yield _reasoned(reply)
                if visible:
                    for shown in _show(reply, visible, hold=send.hold):
                        yield shown
    except ModelFailure as failure:
        reply.action = hooks.request_failed(FailureView(failure, send.request, reply.shown))
        if isinstance(reply.action, Fail) and reply.shown and (tail := text_filter.finish()):
            yield Text(tail)
        return
    if reply.turn is None:
        raise RuntimeError("a model's stream ended without a model turn")
    for feature in send.request.avoid:
        model.learn(feature)
    yield ModelAnswered(reply.turn.usage)
    view = TurnView(reply.turn, "".join(reply.visible), text_filter.found_markup)
    reply.action = hooks.model_turn_finished(view)


async def _act(tools: Tools, hooks: Hooks, exchange: list[Message], reply: _Reply) -> AsyncGenerator[RunEvent, None]:
    """Do what the hooks said about a reply. Ended is the last event when that was the end of the run."""
    match reply.action:
        case TryAgain(delay_s=delay_s):
            await asyncio.sleep(delay_s)
        case AskAgain() as action:
            _add_feedback(exchange, reply, action)
        case Gather() as action:
            yield await _gather(tools, hooks, action)
        case RunCalls() as action:
            for event in _let_out(reply):
                yield event
            async with aclosing(_run_calls(tools, hooks, exchange, reply, action)) as events:
                async for event in events:
                    yield event
        case Accept() as action:
            for event in _let_out(reply):
                yield event
            yield Ended(action)
        case Fail() as action:
            yield Ended(action)
        case None:
            raise RuntimeError("a reply that nobody judged")


def _reasoned(reply: _Reply) -> Reasoned:
    text = "".join(reply.thoughts)
    reply.thoughts.clear()
    return Reasoned(text, _ms_since(reply.began))


def _show(reply: _Reply, visible: str, *, hold: bool) -> tuple[TextBegan | Text, ...]:
    """The events that publish visible text now: none while it is held."""
    reply.visible.append(visible)
    if hold:
        reply.held.append(visible)
        return ()
    if reply.shown:
        return (Text(visible),)
    reply.shown = True
    return TextBegan(), Text(visible)


def _let_out(reply: _Reply) -> tuple[TextBegan | Text, ...]:
    """The events that publish what was held back."""
    return (TextBegan(), Text("".join(reply.held))) if reply.held else ()


def _add_feedback(exchange: list[Message], reply: _Reply, action: AskAgain) -> None:
    text = "".join(reply.visible)
    if action.keep_text and text.strip():
        exchange.append(AssistantMessage(text))
    if action.feedback is not None:
        exchange.append(UserMessage(action.feedback))


async def _run_calls(
    tools: Tools, hooks: Hooks, exchange: list[Message], reply: _Reply, action: RunCalls
) -> AsyncGenerator[RunEvent, None]:
    """Judge every call first, so that the exchange holds them as they will be replayed; then run them in order.

    One at a time: tools number their sources, and numbers must not depend on which one was faster.
    """
    turn = reply.turn
    if turn is None:
        raise RuntimeError("calls without a model turn")
    cut_off = turn.finish is Finish.LENGTH
    judged: list[tuple[ToolCall, Run | Refuse]] = []
    for call in action.calls:
        decision = hooks.before_call(CallView(call, cut_off))
        judged.append((decision.call if isinstance(decision, Run) else decision.stored, decision))
    message = AssistantMessage("".join(reply.visible) or None, tuple(call for call, _ in judged), turn.reasoning)
    exchange.append(message)
    yield Called(message)
    for call, decision in judged:
        began = time.perf_counter()
        match decision:
            case Run():
                name, arguments = decision.name, decision.arguments
                outcome = await tools.run(name, arguments)
            case Refuse():
                name, arguments = call.name, {}
                outcome = tools.refused(name, decision.reason, decision.detail)
            case _:
                assert_never(decision)
        ms = _ms_since(began)
        ran = isinstance(decision, Run)
        observed = hooks.call_finished(OutcomeView(name, arguments, outcome, ran))
        result = ToolMessage(call.id, observed.text)
        exchange.append(result)
        yield CallEnded(call.id, name, outcome, ms, result)
    yield RoundEnded()


async def _gather(tools: Tools, hooks: Hooks, action: Gather) -> CallEnded:
    """Run a tool that the policy asked for; the model sees what came of it in a later request."""
    began = time.perf_counter()
    outcome = await tools.run(action.name, action.arguments)
    hooks.call_finished(OutcomeView(action.name, action.arguments, outcome, ran=True))
    return CallEnded(action.call_id, action.name, outcome, _ms_since(began), None)


def _ms_since(began: float) -> int:
    return round((time.perf_counter() - began) * 1000)
