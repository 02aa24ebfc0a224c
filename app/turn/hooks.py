"""The joints of the loop: what a hook is shown at each, and the closed set of actions it may return.

The runner asks at five joints and does what it is told; every decision about a turn is an action returned
by a hook. Views are frozen; an action carries all that is needed to carry it out, and each joint has its
own union, so that an answer that makes no sense there is a type error. Source: seed 003, DESIGN section 6.

    before_request        Send | Gather
    model_turn_finished   RunCalls | Accept | AskAgain | Gather | Fail
    before_call           Run | Refuse
    call_finished         Observe
    request_failed        TryAgain | Gather | Fail
"""

from dataclasses import dataclass
from typing import Protocol

from app.errors import TurnErrorCode
from app.llm.failures import ModelFailure
from app.llm.model import Message, ModelRequest, ModelTurn, ToolCall


class TextFilter(Protocol):
    """Decides what of a model turn's text may be shown, while it streams."""

    def feed(self, text: str) -> str:
        """The text that may go out now."""
        ...

    def finish(self) -> str:
        """What was only held back until it could be judged; called once, at the end."""
        ...

    @property
    def found_markup(self) -> bool:
        """Whether control markup was found; it and what followed it are never let out."""
        ...


@dataclass(frozen=True, slots=True)
class RunView:
    """The run so far: the messages this turn has added to the conversation, oldest first."""

    exchange: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Send:
    """Send this request. `hold` keeps its text back until the finished model turn has been judged."""

    request: ModelRequest
    text_filter: TextFilter
    hold: bool


@dataclass(frozen=True, slots=True)
class Gather:
    """Drop held text and run this tool for the turn itself; it isn't part of the exchange with the model."""

    call_id: str
    name: str
    arguments: dict[str, object]


BeforeRequest = Send | Gather


@dataclass(frozen=True, slots=True)
class TurnView:
    """A finished model turn. `visible_text` is its text without markup; `found_markup` says some was held back."""

    turn: ModelTurn
    visible_text: str
    found_markup: bool


@dataclass(frozen=True, slots=True)
class RunCalls:
    """Let out held text, add the assistant message, run these calls in order."""

    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class Accept:
    """The text is the answer. `truncated`: a token limit cut it."""

    truncated: bool


@dataclass(frozen=True, slots=True)
class AskAgain:
    """Drop held text and ask again. `feedback`, if any, is added as a user message after the assistant's
    text where `keep_text`.
    """

    feedback: str | None
    keep_text: bool


@dataclass(frozen=True, slots=True)
class Fail:
    """The turn ends as an error with this code; `message` is for the reader."""

    code: TurnErrorCode
    message: str


ModelTurnFinished = RunCalls | Accept | AskAgain | Gather | Fail


@dataclass(frozen=True, slots=True)
class CallView:
    """A call about to run. `cut_off`: a token limit ended the model turn, so its arguments may be incomplete."""

    call: ToolCall
    cut_off: bool


@dataclass(frozen=True, slots=True)
class Run:
    """Run the call, with the name and the arguments as they were understood."""

    call: ToolCall
    name: str
    arguments: dict[str, object]


@dataclass(frozen=True, slots=True)
class Refuse:
    """Don't run it; tell the model why. `stored` is the call as the exchange keeps it: with a name and
    arguments that every endpoint takes back. `detail` is for the reader's step. `repeated`: it already ran.
    """

    stored: ToolCall
    reason: str
    detail: str
    repeated: bool = False


BeforeCall = Run | Refuse


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """What a call came to. `observation` carries its status prefix; the rest is how the reader sees it."""

    status: str
    observation: str
    kind: str
    label: str
    detail: str


@dataclass(frozen=True, slots=True)
class OutcomeView:
    """A call that ended: run, refused (`ran` is false), or gathered by the turn itself."""

    name: str
    arguments: dict[str, object]
    outcome: CallOutcome
    ran: bool


@dataclass(frozen=True, slots=True)
class Observe:
    """What the model is told of the call."""

    text: str


@dataclass(frozen=True, slots=True)
class FailureView:
    """A request that failed. `shown`: text of this very request has reached a reader."""

    failure: ModelFailure
    request: ModelRequest
    shown: bool


@dataclass(frozen=True, slots=True)
class TryAgain:
    """Wait, then go back to the joint before a request."""

    delay_s: float


RequestFailed = TryAgain | Gather | Fail


class Hooks(Protocol):
    """A policy: synchronous and without I/O. One object serves one run and may remember what it decided."""

    def before_request(self, view: RunView) -> BeforeRequest: ...

    def model_turn_finished(self, view: TurnView) -> ModelTurnFinished: ...

    def before_call(self, view: CallView) -> BeforeCall: ...

    def call_finished(self, view: OutcomeView) -> Observe: ...

    def request_failed(self, view: FailureView) -> RequestFailed: ...


class Tools(Protocol):
    """Runs calls for a run. Never raises but for cancellation: what goes wrong is an outcome of status error."""

    async def run(self, name: str, arguments: dict[str, object]) -> CallOutcome: ...

    def refused(self, name: str, reason: str, detail: str) -> CallOutcome:
        """The outcome of a call that was not run."""
        ...
