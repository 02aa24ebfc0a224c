"""A policy in the states a turn can be in, and what it is shown there."""

from app.llm.model import Finish, Message, ToolCall
from app.turn.context import PastTurn, Prompt
from app.turn.hooks import CallView, Gather, ModelTurnFinished, OutcomeView, Run, RunCalls, RunView, Send, TurnView
from app.turn.policy import Limits, Policy
from tests.unit.scripted import Shelf, failed, found, search, turn

QUESTION = "Who sat on the board?"
GATHER = Gather("gathered_0", "search_chunks", {"query": QUESTION})
PAST = tuple(PastTurn(f"question {n}", (), "answer " * 20) for n in range(4))


def policy(
    *, shelf: Shelf | None = None, limits: Limits | None = None, past: tuple[PastTurn, ...] = (), jitter: float = 0.5
) -> Policy:
    return Policy(Prompt(QUESTION, past), shelf or Shelf(), limits or Limits(), jitter=lambda: jitter)


def sent(hooks: Policy, *exchange: Message) -> Send:
    decided = hooks.before_request(RunView(exchange))
    assert isinstance(decided, Send)
    return decided


def reply(text: str = "", *calls: ToolCall, markup: bool = False, finish: Finish | None = Finish.STOP) -> TurnView:
    return TurnView(turn(text, *calls, finish=finish), text, markup)


def judged(hooks: Policy, *views: TurnView) -> ModelTurnFinished:
    """What the policy says to the last of these replies, each to a request of its own."""
    action: ModelTurnFinished | None = None
    for view in views:
        sent(hooks)
        action = hooks.model_turn_finished(view)
    assert action is not None
    return action


def ran(hooks: Policy, call: ToolCall | None = None, status: str = "ok") -> None:
    """A call is let through and ends."""
    decision = hooks.before_call(CallView(call or search(), cut_off=False))
    assert isinstance(decision, Run)
    outcome = found(decision.name) if status == "ok" else failed(decision.name)
    hooks.call_finished(OutcomeView(decision.name, decision.arguments, outcome, ran=True))


def opened(limits: Limits | None = None) -> Policy:
    """A policy whose gate is open: one round in which a tool ran."""
    hooks = policy(limits=limits)
    assert judged(hooks, reply("", search())) == RunCalls((search(),))
    ran(hooks)
    return hooks


def ordered() -> Policy:
    """A policy that has spent its budget and ordered the answer."""
    hooks = opened(limits=Limits(max_rounds=1))
    assert sent(hooks).request.tools == ()
    return hooks


def one_shot() -> Policy:
    """A policy that gathers for itself because the endpoint ignores that a tool is required."""
    hooks = policy()
    assert judged(hooks, reply("I will look."), reply("One moment.")) == GATHER
    hooks.call_finished(OutcomeView("search_chunks", {"query": QUESTION}, found("search_chunks"), ran=True))
    return hooks
