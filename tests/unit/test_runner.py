"""The loop under our policy: what a scripted model is asked, what runs, and what a reader would be shown."""

from contextlib import aclosing
from dataclasses import dataclass, field, replace

import pytest

from app.errors import TurnErrorCode
from app.llm.model import (
    AssistantMessage,
    Finish,
    Message,
    ModelRequest,
    Reasoning,
    ReasoningDelta,
    SystemMessage,
    TextDelta,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from app.turn import prompts
from app.turn.context import Prompt
from app.turn.hooks import Accept, Fail
from app.turn.policy import Limits, Policy
from app.turn.runner import Called, CallEnded, Ended, ModelAnswered, RoundEnded, RunEvent, Text, TextBegan, run
from tests.unit.scripted import (
    SPECS,
    USAGE,
    Reply,
    ScriptedModel,
    Shelf,
    failed,
    found,
    refusal,
    says,
    search,
    turn,
)

QUESTION = "Who sat on the board?"
BASE = Prompt(QUESTION).messages()
ANSWERED = ModelAnswered(USAGE)
DONE = Ended(Accept(truncated=False))
EMPTY = Ended(Fail(TurnErrorCode.ANSWER_EMPTY, "The model returned no answer, also when asked again."))
MARKUP = Ended(Fail(TurnErrorCode.ANSWER_TOOL_TEXT, "The model wrote a tool call as text instead of an answer, twice."))
DSML = '<｜DSML｜tool_calls><｜DSML｜invoke name="find_entities">'


@dataclass
class Played:
    """A run that was played to its end."""

    model: ScriptedModel
    shelf: Shelf
    events: list[RunEvent] = field(default_factory=list[RunEvent])

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, Text))

    def exchange(self, request: int) -> tuple[Message, ...]:
        """What this turn had added to the conversation when the request was sent."""
        return self.model.requests[request].messages[len(BASE) :]


async def play(*replies: Reply, shelf: Shelf | None = None, limits: Limits | None = None) -> Played:
    """Run a turn on these replies; times are set to 0, and every reply must have been asked for and closed."""
    played = Played(ScriptedModel(list(replies)), shelf or Shelf())
    policy = Policy(Prompt(QUESTION), played.shelf, limits or Limits(), jitter=lambda: 0.5)
    async with aclosing(run(played.model, played.shelf, policy)) as events:
        async for event in events:
            played.events.append(replace(event, ms=0) if isinstance(event, CallEnded) else event)
    assert len(played.model.requests) == len(replies)
    assert played.model.opened == played.model.closed == len(replies)
    return played


def round_of(*calls: ToolCall, text: str | None = None) -> list[RunEvent]:
    """The events of a round whose calls all ran and found something."""
    ended = [
        CallEnded(call.id, call.name, found(call.name), 0, ToolMessage(call.id, "OK: [1] board.md")) for call in calls
    ]
    return [ANSWERED, Called(AssistantMessage(text, calls)), *ended, RoundEnded()]


async def test_a_turn_calls_a_tool_and_then_streams_its_answer() -> None:
    """The whole of an ordinary turn: the events in order, and both requests."""
    call = search()
    played = await play(says(calls=[call]), says("Two ", "people [1]."))
    assert played.events == [*round_of(call), TextBegan(), Text("Two "), Text("people [1]."), ANSWERED, DONE]
    assert played.shelf.ran == [("search_chunks", {"query": "board"})]
    assert played.model.requests == [
        ModelRequest(BASE, SPECS, "required"),
        ModelRequest((*BASE, AssistantMessage(None, (call,)), ToolMessage("c1", "OK: [1] board.md")), SPECS),
    ]


async def test_parallel_calls_run_in_order_and_each_gets_its_result() -> None:
    """Case A08: one result per call, directly after, also where one failed; text before calls is kept."""
    calls = (search("a", "c1"), ToolCall("c2", "find-entities", '{"name":"b"}'))
    shelf = Shelf(results={"search_chunks": failed("search_chunks")})
    played = await play(says("Let me look.", calls=calls), says("Done."), shelf=shelf)
    message = AssistantMessage("Let me look.", (calls[0], ToolCall("c2", "find_entities", '{"name": "b"}')))
    results = (ToolMessage("c1", "ERROR: not available"), ToolMessage("c2", "OK: [1] board.md"))
    assert played.events == [
        ANSWERED,
        TextBegan(),
        Text("Let me look."),
        Called(message),
        CallEnded("c1", "search_chunks", failed("search_chunks"), 0, results[0]),
        CallEnded("c2", "find_entities", found("find_entities"), 0, results[1]),
        RoundEnded(),
        TextBegan(),
        Text("Done."),
        ANSWERED,
        DONE,
    ]
    assert played.exchange(1) == (message, *results)


async def test_a_promise_is_sent_back_once_and_never_shown() -> None:
    """Case A01 A: judged by structure; the answer follows."""
    call = search()
    played = await play(says("One moment, ", "I will look."), says(calls=[call]), says("Two people."))
    assert played.events == [ANSWERED, *round_of(call), TextBegan(), Text("Two people."), ANSWERED, DONE]
    assert played.exchange(1) == (
        AssistantMessage("One moment, I will look."),
        UserMessage(prompts.LATEST.gate_feedback),
    )


async def test_a_second_promise_makes_the_turn_gather_for_itself() -> None:
    """Case A01 B: one extra request, then one-shot retrieval, and the answer is asked for from what it found."""
    played = await play(says("I will look."), says("One moment."), says("Two ", "people [1]."))
    gathered = CallEnded("gathered_0", "search_chunks", found("search_chunks"), 0, None)
    assert played.events == [
        ANSWERED,
        ANSWERED,
        gathered,
        TextBegan(),
        Text("Two "),
        Text("people [1]."),
        ANSWERED,
        DONE,
    ]
    assert played.shelf.ran == [("search_chunks", {"query": QUESTION})]
    last = played.model.requests[2]
    assert (last.tools, last.tool_choice) == ((), None)
    assert [type(m) for m in last.messages] == [SystemMessage, UserMessage]


async def test_a_greeting_ends_through_the_terminal() -> None:
    """Case A01 C: no_evidence_needed, then the text."""
    call = ToolCall("c1", "no_evidence_needed", '{"reason": "greeting"}')
    played = await play(says(calls=[call]), says("Hello!"))
    assert (played.text, played.events[-1]) == ("Hello!", DONE)


@pytest.mark.parametrize("blank", [[turn("")], says("  ", "\n"), [ReasoningDelta("hm"), turn("")]])
async def test_an_empty_reply_after_the_tools_is_asked_for_once_more(blank: Reply) -> None:
    """Case A02 A: '', blanks or reasoning only; no empty message goes into the history."""
    played = await play(says(calls=[search()]), blank, says("Answer"))
    assert (played.text, played.events[-1]) == ("Answer", DONE)
    assert played.exchange(2) == (*played.exchange(1), UserMessage(prompts.LATEST.empty_feedback))


async def test_a_second_empty_reply_ends_the_turn() -> None:
    """Case A02 B: exactly one extra request, then the error."""
    played = await play(says(calls=[search()]), says(""), says(""))
    assert played.events[len(round_of(search())) :] == [ANSWERED, ANSWERED, EMPTY]


async def test_markup_is_held_back_and_sent_back_once() -> None:
    """Case P10: 'Checking.' stays visible, the markup is in no event and no request."""
    played = await play(says(calls=[search()]), says("Checking. <｜DS", "ML｜tool_calls>…"), says("Two people."))
    assert played.events[len(round_of(search())) :] == [
        TextBegan(),
        Text("Checking. "),
        ANSWERED,
        TextBegan(),
        Text("Two people."),
        ANSWERED,
        DONE,
    ]
    assert played.exchange(2)[2:] == (AssistantMessage("Checking. "), UserMessage(prompts.LATEST.markup_feedback))


async def test_markup_twice_is_never_an_answer() -> None:
    """Case P10: the turn ends as answer_tool_text, and nothing of it was shown while the gate was shut."""
    played = await play(says(f"Checking. {DSML}"), says(f"Again. {DSML}"))
    assert played.events == [ANSWERED, ANSWERED, MARKUP]


async def test_code_that_quotes_markup_is_an_answer() -> None:
    """Case P10 D: inside a fence it stays readable."""
    text = f"Like this:\n```\n{DSML}\n```\n"
    played = await play(says(calls=[search()]), says(*text))
    assert (played.text, played.events[-1]) == (text, DONE)


async def test_the_spent_budget_orders_a_fresh_answer_that_is_shown_whole() -> None:
    """Case A05: none of tools, tool_choice and tool messages; held until judged."""
    played = await play(says(calls=[search()]), says("Two ", "people."), limits=Limits(max_rounds=1))
    assert played.events == [*round_of(search()), ANSWERED, TextBegan(), Text("Two people."), DONE]
    request = played.model.requests[1]
    assert (request.tools, request.tool_choice) == ((), None)
    assert [type(m) for m in request.messages] == [SystemMessage, UserMessage]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (says(""), "empty"),
        (says(calls=[search()], finish=Finish.TOOL_CALLS), "calls"),
        (says(f"x {DSML}"), "markup"),
        (says("Two peo", finish=Finish.LENGTH), "length"),
    ],
)
async def test_an_ordered_answer_that_can_not_stand_is_repaired_once(bad: Reply, reason: str) -> None:
    """Case A05 B and DESIGN 6: nothing of the bad one is shown, stored or run."""
    played = await play(says(calls=[search()]), bad, says("Two people."), limits=Limits(max_rounds=1))
    shown: list[RunEvent] = [ANSWERED, ANSWERED, TextBegan(), Text("Two people."), DONE]
    assert played.events == [*round_of(search()), *shown]
    assert played.model.requests[2] == ModelRequest(
        (
            SystemMessage(f"{prompts.LATEST.answer}\n\n{prompts.LATEST.repair[reason]}"),
            played.model.requests[1].messages[1],
        )
    )
    assert len(played.shelf.ran) == 1


async def test_a_call_beside_an_ordered_answer_is_neither_run_nor_stored() -> None:
    """Case A05 B: an endpoint returns calls though none were offered; its text is used."""
    played = await play(says(calls=[search()]), says("Two people.", calls=[search("b")]), limits=Limits(max_rounds=1))
    assert played.events == [*round_of(search()), ANSWERED, TextBegan(), Text("Two people."), DONE]
    assert len(played.shelf.ran) == 1


@pytest.mark.parametrize("finish", [Finish.LENGTH, Finish.TOOL_CALLS])
async def test_a_cut_off_call_never_runs_and_is_stored_as_valid_json(finish: Finish) -> None:
    """Case A07: whatever finish_reason says; the next request is one that an endpoint takes."""
    cut = ToolCall("c1", "search_chunks", '{"query":"caf\\u00')
    played = await play(says(calls=[cut], finish=finish), says(calls=[search()]), says("Two people."))
    stored, result = played.exchange(1)
    assert stored == AssistantMessage(None, (ToolCall("c1", "search_chunks", "{}"),))
    assert isinstance(result, ToolMessage)
    told = "cut off by the token limit" if finish is Finish.LENGTH else "not one complete JSON object"
    assert told in result.content
    assert played.shelf.ran == [("search_chunks", {"query": "board"})]
    assert played.model.requests[1].tool_choice == "required"


async def test_an_answer_cut_by_the_token_limit_is_marked_truncated() -> None:
    """DESIGN 5: usage says so."""
    played = await play(says(calls=[search()]), says("Two peo", finish=Finish.LENGTH))
    assert (played.text, played.events[-1]) == ("Two peo", Ended(Accept(truncated=True)))


async def test_an_unknown_tool_is_answered_with_the_tools_there_are() -> None:
    """Case A06: the pair is kept, the nearest name is suggested, nothing runs."""
    call = ToolCall("c1", "list_entities", '{"q":"x"}')
    reason = (
        "There is no tool list_entities, so nothing was run. Tools: find_entities, no_evidence_needed, "
        "search_chunks. Nearest: find_entities."
    )
    played = await play(says(calls=[call]), says(calls=[search()]), says("Two people."))
    stored, result = ToolCall("c1", "list_entities", "{}"), ToolMessage("c1", f"ERROR: {reason}")
    outcome = refusal("list_entities", reason, "unknown tool")
    assert played.events[:4] == [
        ANSWERED,
        Called(AssistantMessage(None, (stored,))),
        CallEnded("c1", "list_entities", outcome, 0, result),
        RoundEnded(),
    ]
    assert played.exchange(1) == (AssistantMessage(None, (stored,)), result)
    assert played.shelf.ran == [("search_chunks", {"query": "board"})]


async def test_calls_that_never_run_spend_the_budget_and_the_turn_gathers_for_itself() -> None:
    """Case A06: they count; an answer can't rest on nothing but refusals, so the turn searches before it asks."""
    unknown = says(calls=[ToolCall("c1", "list_entities", "{}")])
    played = await play(unknown, unknown, says("I found nothing."), limits=Limits(max_rounds=2))
    assert [len(request.tools) for request in played.model.requests] == [3, 3, 0]
    assert [name for name, _ in played.shelf.ran] == ["search_chunks"]
    assert (played.text, played.events[-1]) == ("I found nothing.", DONE)


async def test_the_same_failing_call_runs_once_and_then_the_answer_is_ordered() -> None:
    """Case A03: refused when it comes again, with other spacing too; the next time tools are withdrawn."""
    shelf = Shelf(results={"search_chunks": failed("search_chunks")})
    spaced = ToolCall("c2", "search_chunks", '{ "query":"board" }')
    played = await play(says(calls=[search()]), says(calls=[spaced]), says(calls=[search()]), says("No."), shelf=shelf)
    assert len(played.shelf.ran) == 1
    assert [len(request.tools) for request in played.model.requests] == [3, 3, 3, 0]
    assert (played.text, played.events[-1]) == ("No.", DONE)


async def test_the_same_empty_call_runs_twice_and_then_the_answer_is_ordered() -> None:
    """Case A03: EMPTY each time; the third equal call is not run."""
    empty = replace(found("search_chunks"), status="empty", observation="EMPTY: nothing was found.")
    shelf = Shelf(results={"search_chunks": empty})
    played = await play(*[says(calls=[search()])] * 4, says("Nothing."), shelf=shelf)
    assert len(played.shelf.ran) == 2
    assert [len(request.tools) for request in played.model.requests] == [3, 3, 3, 3, 0]


async def test_reasoning_is_not_shown_and_stays_with_its_call() -> None:
    """Cases A11 and A13: echoed verbatim on the assistant message, with what hangs on the call."""
    reasoning = Reasoning("reasoning_content", "R1", "scripted://model")
    call = ToolCall("g1", "search_chunks", '{"query": "x"}', {"extra_content": {"s": "c2ln"}}, "scripted://model")
    first: Reply = [ReasoningDelta("R1"), turn("", call, reasoning=reasoning)]
    played = await play(first, [ReasoningDelta("R2"), TextDelta("Answer"), turn("Answer")])
    assert played.exchange(1)[0] == AssistantMessage(None, (call,), reasoning)
    assert played.text == "Answer"


async def test_a_stream_without_an_end_is_a_fault_of_the_wire() -> None:
    """The port promises exactly one ModelTurn; without it nothing can be judged."""
    with pytest.raises(RuntimeError, match="without a model turn"):
        await play([TextDelta("Two ")])
