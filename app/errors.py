"""Failure as a value: the closed list of codes, and the one exception that carries a refusal to the caller.

Decides which codes exist and what status an HTTP refusal has. Does not decide how a turn ends
(app/turn/outcome.py) nor how a provider's words are classified (app/llm/failures.py).
"""

from enum import StrEnum


class TurnErrorCode(StrEnum):
    """Every way a turn can fail, as an `error` frame and a stored row name it. Source: DESIGN section 6."""

    NO_CHAT_MODEL = "no_chat_model"
    ANSWER_RUNNING = "answer_running"
    TURN_NOT_RUNNING = "turn_not_running"
    MODEL_UNREACHABLE = "model_unreachable"
    MODEL_UNAVAILABLE = "model_unavailable"
    MODEL_RATE_LIMITED = "model_rate_limited"
    MODEL_OUT_OF_CREDIT = "model_out_of_credit"
    MODEL_REJECTED = "model_rejected"
    MODEL_INTERRUPTED = "model_interrupted"
    CONTEXT_TOO_LONG = "context_too_long"
    ANSWER_EMPTY = "answer_empty"
    ANSWER_TOOL_TEXT = "answer_tool_text"
    ANSWER_TOO_LONG = "answer_too_long"
    ANSWER_NOT_SAVED = "answer_not_saved"
    TURN_INTERRUPTED = "turn_interrupted"
    INTERNAL = "internal"


class RefusalCode(StrEnum):
    """Why a request was refused before anything began, beside the turn codes that can refuse one too."""

    BAD_REQUEST = "bad_request"
    INVALID = "invalid"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    CONFLICT = "conflict"
    TOO_LARGE = "too_large"
    RETRY_ANSWERED = "retry_answered"
    RETRY_NOT_QUESTION = "retry_not_question"
    RETRY_NEEDS_CONVERSATION = "retry_needs_conversation"
    TOO_MANY_TURNS = "too_many_turns"
    TOO_MANY_REQUESTS = "too_many_requests"
    TOO_MANY_TOKENS = "too_many_tokens"
    DRAINING = "draining"
    DATABASE_UNAVAILABLE = "database_unavailable"
    DATABASE_BUSY = "database_busy"
    LIVE_LOG_UNAVAILABLE = "live_log_unavailable"
    ISSUER_UNAVAILABLE = "issuer_unavailable"


class StartError(Exception):
    """What keeps a command from beginning, in one line for the person who gave it: what was wrong, what to do."""


ErrorCode = TurnErrorCode | RefusalCode

STATUS: dict[ErrorCode, int] = {
    TurnErrorCode.NO_CHAT_MODEL: 422,
    TurnErrorCode.ANSWER_RUNNING: 409,
    TurnErrorCode.TURN_NOT_RUNNING: 409,
    TurnErrorCode.INTERNAL: 500,
    RefusalCode.BAD_REQUEST: 400,
    RefusalCode.INVALID: 422,
    RefusalCode.UNAUTHENTICATED: 401,
    RefusalCode.FORBIDDEN: 403,
    RefusalCode.NOT_FOUND: 404,
    RefusalCode.METHOD_NOT_ALLOWED: 405,
    RefusalCode.CONFLICT: 409,
    RefusalCode.TOO_LARGE: 413,
    RefusalCode.RETRY_ANSWERED: 409,
    RefusalCode.RETRY_NOT_QUESTION: 422,
    RefusalCode.RETRY_NEEDS_CONVERSATION: 422,
    RefusalCode.TOO_MANY_TURNS: 429,
    RefusalCode.TOO_MANY_REQUESTS: 429,
    RefusalCode.TOO_MANY_TOKENS: 429,
    RefusalCode.DRAINING: 503,
    RefusalCode.DATABASE_UNAVAILABLE: 503,
    RefusalCode.DATABASE_BUSY: 503,
    RefusalCode.LIVE_LOG_UNAVAILABLE: 503,
    RefusalCode.ISSUER_UNAVAILABLE: 503,
}
"""The HTTP status of each code that can refuse a request."""


class AppError(Exception):
    """A refusal with a code: what was wrong and what is allowed, in words a person can act on."""

    def __init__(self, code: ErrorCode, message: str, *, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = STATUS[code]
        self.retry_after_s = retry_after_s


class EmbeddingFailed(Exception):
    """No vectors were had for some texts. The cause, where it was a provider's refusal, is chained.

    `refused_text` says that the endpoint took the request and refused what one text holds; the others are fine.
    `lasting` says that trying again won't help until somebody changes a setting or pays. `retry_after_s` is what
    the provider asked for.
    """

    def __init__(
        self, message: str, *, refused_text: bool = False, lasting: bool = False, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.refused_text = refused_text
        self.lasting = lasting
        self.retry_after_s = retry_after_s

    @property
    def kind(self) -> str:
        """What it was, for the log: the cause's type and status. Its words may quote the texts."""
        cause = self.__cause__
        status: object = getattr(cause, "status", None)
        return " ".join(str(part) for part in (type(cause or self).__name__, status) if part is not None)
