"""Our policy: the gate, the budget, the retries, the ways down. Pure and synchronous; one object per turn.

Every row of DESIGN section 6 is a method here and nowhere else. The policy never reads the model's prose: it
judges structure only (what was called, whether text is blank, whether control markup was held back). Source:
DESIGN section 6, decision 0002, seeds 001 and 003.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

from app.errors import TurnErrorCode
from app.llm.failures import ContentFiltered, ContextTooLong, Interrupted, ModelFailure, Rejected
from app.llm.model import Feature, Finish, Message, ModelRequest, ToolSpec
from app.tools.tool import Entity, NumberedSource
from app.turn.asked import Asked
from app.turn.check_call import Catalogue, Past, check, signature
from app.turn.context import Observation, Prompt
from app.turn.gather import one_shot
from app.turn.hooks import (
    Accept,
    AskAgain,
    BeforeCall,
    BeforeRequest,
    CallView,
    Fail,
    FailureView,
    Gather,
    ModelTurnFinished,
    Observe,
    OutcomeView,
    Refuse,
    RequestFailed,
    Run,
    RunCalls,
    RunView,
    Send,
    TryAgain,
    TurnView,
)
from app.turn.markup import AnswerFilter


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one turn. Delays are seconds."""

    max_rounds: int = 6
    retries: int = 3
    retry_base_s: float = 0.5
    retry_max_wait_s: float = 20.0


class Evidence(Catalogue, Protocol):
    """What the tools of this turn know that a policy needs: the catalogue, and what was gathered so far."""

    def specs(self) -> tuple[ToolSpec, ...]: ...

    def is_terminal(self, name: str) -> bool: ...

    @property
    def sources(self) -> tuple[NumberedSource, ...]: ...

    @property
    def resolved(self) -> tuple[Entity, ...]: ...


class Mode(StrEnum):
    """How the turn is being answered. The values are stored with a running turn."""

    GATHERING = "gathering"
    """Requests carry tools."""
    ORDERED = "ordered"
    """The budget is spent: one fresh answer request, judged before anything of it is shown."""
    ONE_SHOT = "one_shot"
    """The loop can't be had from this endpoint: the answer request after one retrieval, streamed as it comes."""


@dataclass(slots=True)
class Ledger:
    """What this turn has already been granted; each of it at most once, or counted."""

    mode: Mode = Mode.GATHERING
    rounds: int = 0
    gate_open: bool = False
    asked_after_empty: bool = False
    asked_after_promise: bool = False
    asked_after_markup: bool = False
    repair: str | None = None
    shrunk: bool = False
    tools_accepted: bool = False
    avoid: frozenset[Feature] = frozenset()
    failures_in_a_row: int = 0
    retries: int = 0
    """Requests that failed and were made again."""
    turned_back: int = 0
    """Replies that were sent back to the model, or asked for again."""
    repeats_refused: int = 0
    repeat_refused_in: int | None = None
    past: list[Past] = field(default_factory=list[Past])
    observations: list[Observation] = field(default_factory=list[Observation])

    def copy(self) -> "Ledger":
        """As it stands now; what is granted later doesn't change the copy."""
        return replace(self, past=list(self.past), observations=list(self.observations))


class Policy:
    """The hooks of one turn. Implements turn.hooks.Hooks. `ledger` is what an earlier owner of the turn had granted."""

    def __init__(
        self,
        prompt: Prompt,
        evidence: Evidence,
        limits: Limits,
        *,
        jitter: Callable[[], float],
        ledger: Ledger | None = None,
    ) -> None:
        self._ledger = Ledger() if ledger is None else ledger.copy()
        self._asked = Asked(prompt.question, [turn.question for turn in prompt.past])
        self._names = [entity.name for entity in prompt.entities]
        self._prompt = (prompt.halved() or prompt) if self._ledger.shrunk else prompt
        self._evidence = evidence
        self._limits = limits
        self._jitter = jitter

    @property
    def ledger(self) -> Ledger:
        """What has been granted so far, for the log and the tests."""
        return self._ledger

    def before_request(self, view: RunView) -> BeforeRequest:
        ledger = self._ledger
        if ledger.mode is Mode.GATHERING and (ledger.rounds >= self._limits.max_rounds or ledger.repeats_refused > 1):
            if not ledger.gate_open:
                return self._go_one_shot()  # no tool has run, and an answer can't rest on nothing
            ledger.mode = Mode.ORDERED
        if ledger.mode is Mode.GATHERING:
            request = ModelRequest(
                (*self._prompt.messages(), *view.exchange),
                tools=self._evidence.specs(),
                tool_choice=None if ledger.gate_open else "required",
                avoid=ledger.avoid,
            )
            return Send(request, AnswerFilter(), hold=not ledger.gate_open)
        request = ModelRequest(self._answer_messages(), avoid=ledger.avoid)
        return Send(request, AnswerFilter(), hold=ledger.mode is Mode.ORDERED)

    def _answer_messages(self) -> tuple[Message, ...]:
        return self._prompt.answer_messages(
            self._ledger.observations, self._evidence.sources, self._evidence.resolved, self._ledger.repair
        )

    def model_turn_finished(self, view: TurnView) -> ModelTurnFinished:
        self._ledger.failures_in_a_row = 0
        gathering = self._ledger.mode is Mode.GATHERING
        verdict = self._judge_round(view) if gathering else self._judge_answer(view)
        self._ledger.turned_back += isinstance(verdict, AskAgain)
        return verdict

    def _judge_round(self, view: TurnView) -> ModelTurnFinished:
        """A reply while tools are offered."""
        ledger = self._ledger
        ledger.rounds += 1
        ledger.tools_accepted = True
        if view.turn.tool_calls:
            return RunCalls(view.turn.tool_calls)
        if view.found_markup:
            if ledger.asked_after_markup:
                return _fail_markup()
            ledger.asked_after_markup = True
            return AskAgain(self._prompt.words.markup_feedback, keep_text=True)
        if not view.visible_text.strip():
            if ledger.asked_after_empty:
                return _fail_empty()
            ledger.asked_after_empty = True
            return AskAgain(self._prompt.words.empty_feedback, keep_text=False)
        if not ledger.gate_open:
            if ledger.asked_after_promise:
                return self._go_one_shot()
            ledger.asked_after_promise = True
            return AskAgain(self._prompt.words.gate_feedback, keep_text=True)
        return Accept(truncated=view.turn.finish is Finish.LENGTH)

    def _judge_answer(self, view: TurnView) -> ModelTurnFinished:
        """An answer request's reply. What can't stand is asked for once more, from the same evidence.

        A call nobody offered is neither run nor stored; text beside it is used (case A05).
        """
        blank = not view.visible_text.strip()
        cut = view.turn.finish is Finish.LENGTH
        if view.found_markup:
            fault = "markup"
        elif blank:
            fault = "calls" if view.turn.tool_calls else "empty"
        elif cut and self._ledger.mode is Mode.ORDERED:
            fault = "length"
        else:
            return Accept(truncated=cut)
        if self._ledger.repair is None:
            self._ledger.repair = fault
            return AskAgain(None, keep_text=False)
        if fault == "length":
            return Accept(truncated=True)
        return _fail_empty() if fault == "empty" else _fail_markup()

    def _go_one_shot(self) -> Gather:
        self._ledger.mode = Mode.ONE_SHOT
        return one_shot(self._prompt.question)

    def before_call(self, view: CallView) -> BeforeCall:
        ledger = self._ledger
        decision = check(view.call, cut_off=view.cut_off, catalogue=self._evidence, past=ledger.past)
        if isinstance(decision, Run):
            decision = self._may_write(decision)
        if isinstance(decision, Run):
            ledger.past.append(Past(signature(decision.name, decision.arguments), None))
        elif decision.repeated and ledger.repeat_refused_in != ledger.rounds:
            ledger.repeats_refused += 1  # a batch of equal calls is one repetition
            ledger.repeat_refused_in = ledger.rounds
        return decision

    def _may_write(self, decision: Run) -> BeforeCall:
        """A call that writes runs only where the user's message asked for just that (asked.py)."""
        written = self._evidence.written(decision.name, decision.arguments)
        if written is None:
            return decision
        names = [*self._names, *(entity.name for entity in self._evidence.resolved)]
        objection = self._asked.objection(decision.name, written, names)
        return decision if objection is None else Refuse(decision.call, *objection)

    def call_finished(self, view: OutcomeView) -> Observe:
        ledger = self._ledger
        outcome = view.outcome
        if view.ran:
            ledger.gate_open = True
            ended = Past(signature(view.name, view.arguments), outcome.status)
            open_one = Past(ended.signature, None)
            if open_one in ledger.past:
                ledger.past[ledger.past.index(open_one)] = ended
        if not self._evidence.is_terminal(view.name):
            ledger.observations.append(Observation(view.name, view.arguments, outcome.status, outcome.observation))
        return Observe(outcome.observation)

    def request_failed(self, view: FailureView) -> RequestFailed:
        """The way on from a failed request, or the code with which the turn ends.

        Once a reader has seen text of it, no request is made again, whatever failed (case P06).
        """
        way_on = self._way_on(view)
        self._ledger.retries += isinstance(way_on, TryAgain)
        return way_on

    def _way_on(self, view: FailureView) -> RequestFailed:
        ledger, failure = self._ledger, view.failure
        if view.shown:
            return _fail(failure)
        if isinstance(failure, ContextTooLong):
            smaller = None if ledger.shrunk else self._prompt.halved()
            if smaller is None:
                return _fail(failure)
            ledger.shrunk = True
            self._prompt = smaller
            return TryAgain(0.0)
        if isinstance(failure, Rejected) and not isinstance(failure, ContentFiltered):
            return self._without_what_was_refused(view, failure)
        if failure.transient:
            return self._later(failure)
        return _fail(failure)

    def _without_what_was_refused(self, view: FailureView, refusal: Rejected) -> RequestFailed:
        """Drop what the refusal names; where it names nothing, one optional field after the other, then tools."""
        ledger = self._ledger
        unnamed = not refusal.refused and refusal.status in (400, 422)
        droppable = refusal.refused - ledger.avoid - {Feature.TOOLS}
        if not droppable and unnamed and not ledger.tools_accepted:
            droppable = frozenset(_optional(view.request)[:1])
        if droppable:
            ledger.avoid |= droppable
            return TryAgain(0.0)
        tools_refused = Feature.TOOLS in refusal.refused or unnamed
        if tools_refused and view.request.tools and not ledger.tools_accepted:
            ledger.avoid = frozenset()  # a field wasn't the reason, so nothing is learnt about it
            return self._go_one_shot()
        return _fail(refusal)

    def _later(self, failure: ModelFailure) -> RequestFailed:
        ledger, limits = self._ledger, self._limits
        allowed = min(limits.retries, 1) if isinstance(failure, Interrupted) else limits.retries
        asked = failure.retry_after_s
        if ledger.failures_in_a_row >= allowed or (asked is not None and asked > limits.retry_max_wait_s):
            return _fail(failure)
        backoff = limits.retry_base_s * 2**ledger.failures_in_a_row * (0.5 + self._jitter())
        ledger.failures_in_a_row += 1
        return TryAgain(min(asked if asked is not None else backoff, limits.retry_max_wait_s))


def _optional(request: ModelRequest) -> Sequence[Feature]:
    """What an unnamed refusal may have been about, likeliest first, of what the request did not yet avoid."""
    candidates = [Feature.TOOL_CHOICE] if request.tool_choice else []
    candidates.append(Feature.STREAM_OPTIONS)
    return [feature for feature in candidates if feature not in request.avoid]


def _fail(failure: ModelFailure) -> Fail:
    return Fail(failure.code, failure.message)


def _fail_empty() -> Fail:
    return Fail(TurnErrorCode.ANSWER_EMPTY, "The model returned no answer, also when asked again.")


def _fail_markup() -> Fail:
    return Fail(TurnErrorCode.ANSWER_TOOL_TEXT, "The model wrote a tool call as text instead of an answer, twice.")
