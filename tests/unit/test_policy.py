"""The policy, row by row of DESIGN section 6: a state in, an action out. Failed requests: test_policy_failures."""

import json
from collections.abc import Callable

import pytest

from app.errors import TurnErrorCode
from app.llm.failures import Unreachable
from app.llm.model import AssistantMessage, Finish, ModelRequest, SystemMessage, ToolCall, ToolMessage, UserMessage
from app.tools.tool import Entity, NumberedSource
from app.turn import prompts
from app.turn.context import Prompt
from app.turn.hooks import (
    Accept,
    AskAgain,
    CallView,
    Fail,
    FailureView,
    ModelTurnFinished,
    Observe,
    OutcomeView,
    Refuse,
    Run,
    RunCalls,
    RunView,
    TurnView,
)
from app.turn.policy import Limits, Mode, Policy
from tests.unit.policy_states import GATHER, PAST, QUESTION, judged, one_shot, opened, ordered, policy, ran, reply, sent
from tests.unit.scripted import SPECS, Shelf, found, refusal, search

EMPTY = Fail(TurnErrorCode.ANSWER_EMPTY, "The model returned no answer, also when asked again.")
MARKUP = Fail(TurnErrorCode.ANSWER_TOOL_TEXT, "The model wrote a tool call as text instead of an answer, twice.")
ASK_EMPTY = AskAgain(prompts.LATEST.empty_feedback, keep_text=False)
ASK_PROMISE = AskAgain(prompts.LATEST.gate_feedback, keep_text=True)
ASK_MARKUP = AskAgain(prompts.LATEST.markup_feedback, keep_text=True)
REPAIR = AskAgain(None, keep_text=False)
SOURCE = NumberedSource(1, "chunk", "k1", "d1", "board.md", "The board", "…")


# before a model request


def test_a_tool_is_required_until_one_has_run() -> None:
    """Case A05: `required` until one tool has run, then no choice is sent at all; text is held as long."""
    hooks = policy()
    first = sent(hooks)
    assert (first.request, first.hold) == (ModelRequest(Prompt(QUESTION).messages(), SPECS, "required"), True)
    ran(hooks)
    exchange = (AssistantMessage(None, (search(),)), ToolMessage("c1", "OK: x"))
    second = sent(hooks, *exchange)
    assert second.request == ModelRequest((*Prompt(QUESTION).messages(), *exchange), SPECS)
    assert not second.hold


@pytest.mark.parametrize("status", ["ok", "empty", "error"])
def test_any_tool_that_ran_opens_the_gate(status: str) -> None:
    """The gate asks whether a tool ran, not what it found."""
    hooks = policy()
    ran(hooks, status=status)
    assert sent(hooks).request.tool_choice is None


def test_no_evidence_needed_opens_the_gate() -> None:
    """Case A01 C: a greeting ends normally."""
    hooks = policy()
    ran(hooks, ToolCall("c1", "no_evidence_needed", '{"reason": "greeting"}'))
    assert judged(hooks, reply("Hello!")) == Accept(truncated=False)


def test_a_refused_call_leaves_the_gate_shut() -> None:
    """A call that did not run is no evidence."""
    hooks = policy()
    hooks.call_finished(OutcomeView("x", {}, refusal("x", "no", "no"), ran=False))
    assert sent(hooks).request.tool_choice == "required"


def test_the_answer_is_ordered_once_the_budget_is_spent() -> None:
    """DESIGN 6: fresh, no tool fields, no tool messages, two messages, held until it is judged."""
    shelf = Shelf(sources=(SOURCE,), resolved=(Entity("e1", "OpenAI", None),))
    hooks = policy(shelf=shelf, limits=Limits(max_rounds=2), past=PAST[:1])
    for call in (search("a"), ToolCall("c2", "no_evidence_needed", '{"reason": "greeting"}')):
        judged(hooks, reply("", call))
        ran(hooks, call)
    send = sent(hooks, AssistantMessage(None, (search("a"),)), ToolMessage("c1", "OK: x"))
    assert (send.request.tools, send.request.tool_choice, send.hold) == ((), None, True)
    system, user = send.request.messages
    assert system == SystemMessage(prompts.LATEST.answer)
    assert isinstance(user, UserMessage)
    assert json.loads(user.content) == {
        "question": QUESTION,
        "background": [{"speaker": "user", "text": PAST[0].question}, {"speaker": "assistant", "text": PAST[0].answer}],
        "evidence": [
            {"tool": "search_chunks", "arguments": {"query": "a"}, "status": "ok", "result": "OK: [1] board.md"}
        ],
        "sources": [{"n": 1, "title": "board.md", "locator": "The board"}],
        "resolved": [{"id": "e1", "name": "OpenAI", "type": None}],
    }


def test_a_failed_request_does_not_spend_a_round() -> None:
    """Only requests that were answered count against the budget."""
    hooks = policy(limits=Limits(max_rounds=1))
    sent(hooks)
    hooks.request_failed(FailureView(Unreachable("x"), sent(hooks).request, shown=False))
    assert sent(hooks).request.tools == SPECS


# model turn finished, while gathering


@pytest.mark.parametrize(
    ("make", "replies", "action"),
    [
        (policy, [reply("", search())], RunCalls((search(),))),
        (policy, [reply("Let me look.", search(), search("b", "c2"))], RunCalls((search(), search("b", "c2")))),
        (policy, [reply("x", search(), markup=True)], RunCalls((search(),))),
        (policy, [reply("", search(), finish=Finish.LENGTH)], RunCalls((search(),))),
        (policy, [reply("")], ASK_EMPTY),
        (policy, [reply(" \n")], ASK_EMPTY),
        (policy, [reply(""), reply("")], EMPTY),
        (policy, [reply("", finish=Finish.LENGTH), reply("")], EMPTY),
        (policy, [reply("I will look that up.")], ASK_PROMISE),
        (policy, [reply("I will look that up."), reply("One moment.")], GATHER),
        (policy, [reply("I will look."), reply("")], ASK_EMPTY),
        (policy, [reply(""), reply("I will look.")], ASK_PROMISE),
        (policy, [reply("Checking.", markup=True)], ASK_MARKUP),
        (policy, [reply("", markup=True)], ASK_MARKUP),
        (policy, [reply("", markup=True), reply("", markup=True)], MARKUP),
        (policy, [reply("", markup=True), reply("I will look.")], ASK_PROMISE),
        (opened, [reply("The answer [1].")], Accept(truncated=False)),
        (opened, [reply("The answer", finish=Finish.LENGTH)], Accept(truncated=True)),
        (opened, [reply("The answer", finish=None)], Accept(truncated=False)),
        (opened, [reply("")], ASK_EMPTY),
        (opened, [reply(""), reply("The answer.")], Accept(truncated=False)),
        (opened, [reply(""), reply("")], EMPTY),
        (opened, [reply("Checking.", markup=True)], ASK_MARKUP),
        (opened, [reply("Checking.", markup=True), reply("x", markup=True)], MARKUP),
        (opened, [reply("Checking.", markup=True), reply("")], ASK_EMPTY),
        (opened, [reply("", markup=True), reply("The answer.")], Accept(truncated=False)),
        (opened, [reply("And more.", search("b"))], RunCalls((search("b"),))),
    ],
)
def test_what_follows_from_a_model_turn(
    make: Callable[[], Policy], replies: list[TurnView], action: ModelTurnFinished
) -> None:
    """Cases A01, A02 and P10: each of empty, promise and markup is sent back once; then the turn goes another way."""
    assert judged(make(), *replies) == action


@pytest.mark.parametrize("fault", [reply("I will look."), reply(""), reply("x", markup=True)])
def test_without_a_round_left_and_nothing_gathered_the_turn_gathers(fault: TurnView) -> None:
    """A turn can't end on a promise, also where the budget leaves no request to send it back with."""
    hooks = policy(limits=Limits(max_rounds=1))
    assert isinstance(judged(hooks, fault), AskAgain)
    assert hooks.before_request(RunView(())) == GATHER
    assert sent(hooks).request.tools == ()


def test_without_a_round_left_the_feedback_goes_to_the_ordered_answer() -> None:
    """Once something was gathered, the budget's end asks for the answer, not for another call."""
    hooks = opened(limits=Limits(max_rounds=2))
    assert judged(hooks, reply("")) == ASK_EMPTY
    assert sent(hooks).request.messages[0] == SystemMessage(prompts.LATEST.answer)


# model turn finished, after the answer was ordered


@pytest.mark.parametrize(
    ("replies", "action", "repair"),
    [
        ([reply("The answer.")], Accept(truncated=False), None),
        ([reply("The answer.", search())], Accept(truncated=False), None),
        ([reply("")], REPAIR, "empty"),
        ([reply("", search())], REPAIR, "calls"),
        ([reply("x", markup=True)], REPAIR, "markup"),
        ([reply("The ans", finish=Finish.LENGTH)], REPAIR, "length"),
        ([reply(""), reply("The answer.")], Accept(truncated=False), "empty"),
        ([reply(""), reply("")], EMPTY, "empty"),
        ([reply("", search()), reply("", search())], MARKUP, "calls"),
        ([reply("x", markup=True), reply("x", markup=True)], MARKUP, "markup"),
        ([reply("", markup=True), reply("")], EMPTY, "markup"),
        ([reply("a", finish=Finish.LENGTH), reply("b", finish=Finish.LENGTH)], Accept(truncated=True), "length"),
        ([reply(""), reply("b", finish=Finish.LENGTH)], Accept(truncated=True), "empty"),
    ],
)
def test_an_ordered_answer_is_repaired_once(
    replies: list[TurnView], action: ModelTurnFinished, repair: str | None
) -> None:
    """Case A05 B and DESIGN 6: empty, markup, a structured call or finish length is asked for once more."""
    hooks = ordered()
    assert judged(hooks, *replies) == action
    expected = (
        prompts.LATEST.answer if repair is None else f"{prompts.LATEST.answer}\n\n{prompts.LATEST.repair[repair]}"
    )
    assert sent(hooks).request.messages[0] == SystemMessage(expected)


@pytest.mark.parametrize(
    ("replies", "action"),
    [
        ([reply("The answer.")], Accept(truncated=False)),
        ([reply("The ans", finish=Finish.LENGTH)], Accept(truncated=True)),
        ([reply("")], REPAIR),
        ([reply(""), reply("")], EMPTY),
        ([reply("x", markup=True), reply("x", markup=True)], MARKUP),
    ],
)
def test_the_answer_after_one_shot_retrieval_streams_and_is_repaired_once(
    replies: list[TurnView], action: ModelTurnFinished
) -> None:
    """Case A01 B: after the turn gathered for itself the text stands."""
    hooks = one_shot()
    send = sent(hooks)
    assert (send.request.tools, send.request.tool_choice, send.hold) == ((), None, False)
    assert judged(hooks, *replies) == action


# before a tool call, and its result


def test_the_third_identical_call_is_refused_and_the_next_one_ends_the_gathering() -> None:
    """Case A03: refused without running; when it comes again, tools are withdrawn."""
    hooks = policy(limits=Limits(max_rounds=50))
    ran(hooks)
    ran(hooks)
    again = CallView(search(), cut_off=False)
    for tools in (SPECS, ()):
        judged(hooks, reply("", search()))
        decision = hooks.before_call(again)
        assert isinstance(decision, Refuse)
        assert decision.repeated
        hooks.call_finished(OutcomeView("search_chunks", {}, refusal("search_chunks", "r", "d"), ran=False))
        assert sent(hooks).request.tools == tools


def test_equal_calls_of_one_batch_are_one_repetition() -> None:
    """A model that repeats itself in parallel is told so before its tools are withdrawn (case A03)."""
    hooks = policy(limits=Limits(max_rounds=50))
    ran(hooks)
    ran(hooks)
    for _ in range(3):
        assert isinstance(hooks.before_call(CallView(search(), cut_off=False)), Refuse)
    assert sent(hooks).request.tools == SPECS


def test_a_call_that_failed_is_refused_at_once_and_another_one_runs() -> None:
    """DESIGN 6: an identical call that already returned ERROR this turn is refused."""
    hooks = policy()
    ran(hooks, status="error")
    assert isinstance(hooks.before_call(CallView(search(), cut_off=False)), Refuse)
    assert isinstance(hooks.before_call(CallView(search("other"), cut_off=False)), Run)


def test_calls_refused_for_what_they_say_do_not_end_the_gathering() -> None:
    """Only repeats do; bad arguments count against the budget alone."""
    hooks = policy()
    for _ in range(5):
        assert isinstance(hooks.before_call(CallView(ToolCall("c1", "nope", "{}"), cut_off=False)), Refuse)
    assert sent(hooks).request.tools == SPECS


def test_a_cut_off_call_is_judged_as_one() -> None:
    """Case A07: the policy hands on that the token limit ended the model turn."""
    decision = policy().before_call(CallView(ToolCall("c1", "search_chunks", '{"query": "caf'), cut_off=True))
    assert isinstance(decision, Refuse)
    assert decision.detail == "arguments cut off"


@pytest.mark.parametrize(
    ("view", "kept"),
    [
        (OutcomeView("search_chunks", {"query": "x"}, found("search_chunks"), ran=True), 1),
        (OutcomeView("search_chunks", {}, refusal("search_chunks", "why", "what"), ran=False), 1),
        (OutcomeView("no_evidence_needed", {"reason": "x"}, found("no_evidence_needed"), ran=True), 0),
    ],
)
def test_a_result_is_handed_on_as_stamped_and_kept_as_evidence(view: OutcomeView, kept: int) -> None:
    """DESIGN 6: the terminal is no evidence; a refusal is one of status error."""
    hooks = policy()
    assert hooks.call_finished(view) == Observe(view.outcome.observation)
    assert len(hooks.ledger.observations) == kept


def test_the_ledger_tells_how_the_turn_is_being_answered() -> None:
    """For the log: the three modes."""
    assert [make().ledger.mode for make in (opened, ordered, one_shot)] == [Mode.GATHERING, Mode.ORDERED, Mode.ONE_SHOT]
