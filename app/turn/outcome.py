"""Every way a turn can end: its terminal frame and its stored status, in one table.

A test holds the tables complete over the closed list of codes. Source: DESIGN sections 5 and 6.
"""

from dataclasses import dataclass
from typing import Literal

from app.errors import TurnErrorCode
from app.live.frames import Failed

TurnStatus = Literal["done", "stopped", "failed"]

RETRYABLE: dict[TurnErrorCode, bool] = {
    TurnErrorCode.NO_CHAT_MODEL: False,
    TurnErrorCode.ANSWER_RUNNING: True,
    TurnErrorCode.TURN_NOT_RUNNING: False,
    TurnErrorCode.MODEL_UNREACHABLE: True,
    TurnErrorCode.MODEL_UNAVAILABLE: True,
    TurnErrorCode.MODEL_RATE_LIMITED: True,
    TurnErrorCode.MODEL_OUT_OF_CREDIT: False,
    TurnErrorCode.MODEL_REJECTED: False,
    TurnErrorCode.MODEL_INTERRUPTED: True,
    TurnErrorCode.CONTEXT_TOO_LONG: False,
    TurnErrorCode.ANSWER_EMPTY: True,
    TurnErrorCode.ANSWER_TOOL_TEXT: True,
    TurnErrorCode.ANSWER_TOO_LONG: False,
    TurnErrorCode.ANSWER_NOT_SAVED: True,
    TurnErrorCode.TURN_INTERRUPTED: True,
    TurnErrorCode.INTERNAL: True,
}
"""Whether asking the same question again may go better without anybody changing anything."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The model gave an answer. `truncated`: a token limit cut it."""

    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Stopped:
    """The reader stopped it; what was published is the answer."""


@dataclass(frozen=True, slots=True)
class Broke:
    """It failed; what was published is kept as unfinished."""

    code: TurnErrorCode
    message: str


Outcome = Answered | Stopped | Broke


INTERNAL = Broke(TurnErrorCode.INTERNAL, "Something went wrong on our side; the log says what.")
NOT_SAVED = Broke(TurnErrorCode.ANSWER_NOT_SAVED, "The answer could not be stored, so it may be gone after a reload.")


def failed_frame(broke: Broke) -> Failed:
    """The terminal frame of a turn that failed."""
    return Failed(broke.code, broke.message, RETRYABLE[broke.code])


def status_of(outcome: Outcome) -> TurnStatus:
    """The status a turn's row gets."""
    match outcome:
        case Answered():
            return "done"
        case Stopped():
            return "stopped"
        case Broke():
            return "failed"
