"""The loop when a request fails or the turn is cancelled: what is asked again, and that every stream is closed."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from app.errors import TurnErrorCode
from app.llm.failures import ContextTooLong, Interrupted, ModelFailure, RateLimited, Rejected, Unreachable
from app.llm.model import Feature, ModelRequest, TextDelta
from app.turn.context import PastTurn, Prompt
from app.turn.hooks import Accept, Fail
from app.turn.policy import Limits, Policy
from app.turn.runner import CallEnded, Ended, ModelAnswered, RunEvent, Text, TextBegan, run
from tests.unit.scripted import SPECS, USAGE, Pause, Reply, ScriptedModel, Shelf, found, says, search

QUESTION = "Who sat on the board?"
PAST = tuple(PastTurn(f"question {n}", (), "answer " * 20) for n in range(4))
AT_ONCE = Limits(retry_base_s=0)
DONE = Ended(Accept(truncated=False))
RESET = Interrupted("The connection broke off.")


def start(
    model: ScriptedModel, *, shelf: Shelf | None = None, past: tuple[PastTurn, ...] = (), limits: Limits = AT_ONCE
) -> AsyncGenerator[RunEvent, None]:
    tools = shelf or Shelf()
    return run(model, tools, Policy(Prompt(QUESTION, past), tools, limits, jitter=lambda: 0.5))


async def play(
    *replies: Reply, past: tuple[PastTurn, ...] = (), shelf: Shelf | None = None
) -> tuple[list[RunEvent], ScriptedModel]:
    model = ScriptedModel(list(replies))
    async with aclosing(start(model, shelf=shelf, past=past)) as events:
        played = [event async for event in events]
    assert len(model.requests) == model.opened == model.closed == len(replies)
    return played, model


def text_of(events: list[RunEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, Text))


def broke(failure: ModelFailure) -> Ended:
    return Ended(Fail(failure.code, failure.message))


def refused(*features: Feature) -> Rejected:
    failure = Rejected("not taken", status=400)
    failure.refused = frozenset(features)
    return failure


async def test_a_transient_failure_is_tried_again_with_the_same_request() -> None:
    """DESIGN 6: nothing was published, so the reader sees nothing of it."""
    down = Unreachable("down")
    events, model = await play([down], [RateLimited("slow", retry_after_s=0)], says(calls=[search()]), says("Two."))
    assert (text_of(events), events[-1]) == ("Two.", DONE)
    assert model.requests[:3] == [model.requests[0]] * 3


async def test_retries_end() -> None:
    """Three in a row are enough."""
    down = Unreachable("down")
    events, _ = await play(*[[down]] * 4)
    assert events == [broke(down)]


async def test_a_reset_before_text_was_shown_is_tried_again() -> None:
    """Case P06: held text was seen by nobody, and is dropped."""
    events, model = await play([TextDelta("I will"), RESET], says(calls=[search()]), says("Two."))
    assert (text_of(events), events[-1]) == ("Two.", DONE)
    assert model.requests[1] == model.requests[0]


async def test_a_reset_after_text_was_shown_ends_the_turn_and_keeps_the_text() -> None:
    """Case P06: never a second attempt over text that a reader has; what only waited to be judged is let out."""
    events, _ = await play(says(calls=[search()]), [TextDelta("Two peo"), TextDelta("ple <"), RESET])
    assert events[-5:] == [TextBegan(), Text("Two peo"), Text("ple "), Text("<"), broke(RESET)]


async def test_a_reset_after_text_of_an_earlier_request_is_tried_again() -> None:
    """What counts is whether text of this very request was shown."""
    events, _ = await play(says("Let me look.", calls=[search()]), [RESET], says("Two."))
    assert (text_of(events), events[-1]) == ("Let me look.Two.", DONE)


async def test_a_second_reset_in_a_row_ends_the_turn() -> None:
    """A stream that breaks off twice is not tried a third time."""
    events, _ = await play([RESET], [RESET])
    assert events == [broke(RESET)]


@pytest.mark.parametrize("feature", [Feature.TOOL_CHOICE, Feature.STREAM_OPTIONS, Feature.LATE_SYSTEM])
async def test_a_refused_field_is_left_out_and_remembered_once_that_worked(feature: Feature) -> None:
    """DESIGN 6 and case P16: resent once without it, with the tools; the endpoint's refusal is learnt."""
    events, model = await play([refused(feature)], says(calls=[search()]), says("Two."))
    assert events[-1] == DONE
    without = ModelRequest(Prompt(QUESTION).messages(), SPECS, "required", frozenset({feature}))
    assert model.requests[1] == without
    assert model.learnt == [feature, feature]


async def test_a_refusal_that_names_nothing_goes_down_the_ladder_to_one_shot_retrieval() -> None:
    """Case P16: without tool_choice, without stream_options, without tools; nothing wrong is learnt on the way."""
    shelf = Shelf()
    events, model = await play([refused()], [refused()], [refused()], says("Two ", "people."), shelf=shelf)
    assert [sorted(request.avoid) for request in model.requests] == [
        [],
        ["tool_choice"],
        ["stream_options", "tool_choice"],
        [],
    ]
    assert [len(request.tools) for request in model.requests] == [3, 3, 3, 0]
    gathered = events[0]
    assert isinstance(gathered, CallEnded)
    assert (gathered.call_id, gathered.outcome, gathered.result) == ("gathered_0", found("search_chunks"), None)
    assert events[1:] == [TextBegan(), Text("Two "), Text("people."), ModelAnswered(USAGE), DONE]
    assert (shelf.ran, model.learnt) == ([("search_chunks", {"query": QUESTION})], [])


async def test_an_endpoint_without_tools_is_answered_by_one_shot_retrieval() -> None:
    """DESIGN 6: when the refusal names the tools, at once."""
    events, model = await play([refused(Feature.TOOLS)], says("Two."))
    assert (text_of(events), events[-1], model.requests[1].tools) == ("Two.", DONE, ())


@pytest.mark.parametrize(
    "failure",
    [Rejected("bad key", status=401), Rejected("no such model", status=404), ContextTooLong("too long", status=400)],
)
async def test_a_refusal_that_nothing_can_mend_ends_the_turn(failure: ModelFailure) -> None:
    """Case A14: a refused request is never sent again as it was."""
    events, _ = await play([failure])
    assert events == [broke(failure)]


async def test_a_full_context_halves_the_history_once() -> None:
    """Case A16: shrink once and retry once, then context_too_long."""
    full = ContextTooLong("too long", status=400)
    events, model = await play([full], says(calls=[search()]), says("Two."), past=PAST)
    assert (events[-1], model.requests[1].messages) == (DONE, Prompt(QUESTION, PAST[2:]).messages())
    events, model = await play([full], [full], past=PAST)
    assert events == [Ended(Fail(TurnErrorCode.CONTEXT_TOO_LONG, "too long"))]


async def test_cancelling_closes_the_model_s_stream_at_once() -> None:
    """Case S04: Stop closes the provider's connection."""
    pause = Pause()
    model = ScriptedModel([says(calls=[search()]), [TextDelta("Two "), pause, *says("people.")]])
    seen: list[RunEvent] = []

    async def consume() -> None:
        async with aclosing(start(model)) as events:
            async for event in events:
                seen.append(event)  # noqa: PERF401 - what was seen before the cancellation counts

    task = asyncio.create_task(consume())
    async with asyncio.timeout(5):
        await pause.reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (text_of(seen), model.opened, model.closed) == ("Two ", 2, 2)


async def test_closing_the_run_midway_closes_the_model_s_stream() -> None:
    """A consumer that leaves, such as one whose answer grew too long, leaves nothing open."""
    model = ScriptedModel([says(calls=[search()]), says("Two ", "people.")])
    async with aclosing(start(model)) as events:
        async for event in events:
            if isinstance(event, Text):
                break
    assert (model.opened, model.closed) == (2, 2)


async def test_cancelling_while_a_tool_runs_ends_the_tool() -> None:
    """Case A08: the call stays without a result; the stored exchange leaves it out (test_context)."""
    pause = Pause()
    model = ScriptedModel([says(calls=[search()])])
    shelf = Shelf(results={"search_chunks": pause})
    events = start(model, shelf=shelf)
    task = asyncio.ensure_future(collect(events))
    async with asyncio.timeout(5):
        await pause.reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (model.opened, model.closed) == (1, 1)


async def collect(events: AsyncGenerator[RunEvent, None]) -> list[RunEvent]:
    async with aclosing(events):
        return [event async for event in events]
