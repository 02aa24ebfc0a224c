"""Refusals under /v1 in OpenAI's shape: `{"error": {"message", "type", "code", "param"}}`, with OpenAI's statuses.

The codes are ours, or OpenAI's own where it has one that its clients look for. Input that is invalid has status 400
here and not 422, as OpenAI's has. Source: OpenAI API reference, error codes.
"""

from collections.abc import Sequence
from typing import Annotated

from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from app.errors import AppError, ErrorCode, RefusalCode, TurnErrorCode

PREFIX = "/v1"

ENDED_STATUS: dict[TurnErrorCode, int] = {
    TurnErrorCode.NO_CHAT_MODEL: 400,
    TurnErrorCode.ANSWER_RUNNING: 409,
    TurnErrorCode.TURN_NOT_RUNNING: 409,
    TurnErrorCode.MODEL_UNREACHABLE: 502,
    TurnErrorCode.MODEL_UNAVAILABLE: 503,
    TurnErrorCode.MODEL_RATE_LIMITED: 429,
    TurnErrorCode.MODEL_OUT_OF_CREDIT: 402,
    TurnErrorCode.MODEL_REJECTED: 502,
    TurnErrorCode.MODEL_INTERRUPTED: 502,
    TurnErrorCode.CONTEXT_TOO_LONG: 400,
    TurnErrorCode.ANSWER_EMPTY: 502,
    TurnErrorCode.ANSWER_TOOL_TEXT: 502,
    TurnErrorCode.ANSWER_TOO_LONG: 500,
    TurnErrorCode.ANSWER_NOT_SAVED: 500,
    TurnErrorCode.TURN_INTERRUPTED: 503,
    TurnErrorCode.INTERNAL: 500,
}
"""The status of a completion whose turn ended without an answer, where nothing of it was sent yet."""

KNOWN_AS: dict[ErrorCode, str] = dict.fromkeys(
    (RefusalCode.TOO_MANY_REQUESTS, RefusalCode.TOO_MANY_TOKENS, RefusalCode.TOO_MANY_TURNS), "rate_limit_exceeded"
)
"""OpenAI's own codes, where its clients look for one."""

_KIND = {401: "authentication_error", 402: "insufficient_quota", 403: "permission_error", 429: "rate_limit_error"}


class OpenAIErrorBody(BaseModel):
    message: Annotated[str, Field(description="What was wrong and what is allowed.")]
    type: Annotated[str, Field(description="The kind of error, as OpenAI names kinds.")]
    code: Annotated[str, Field(description="A stable code.")]
    param: Annotated[str | None, Field(description="The field of the request that it is about.")]


class OpenAIError(BaseModel):
    """The body of every refusal under /v1, and the data of the event that ends a stream without an answer."""

    error: OpenAIErrorBody


class Unfit(AppError):
    """A request that this door can't serve, with the field it is about, and OpenAI's own code for it."""

    def __init__(
        self, message: str, *, param: str, known_as: str = "", code: RefusalCode = RefusalCode.INVALID
    ) -> None:
        super().__init__(code, message)
        self.param = param
        self.known_as = known_as or str(code)


def speaks(path: str) -> bool:
    """Whether what is refused at this path is refused in OpenAI's shape."""
    return path == PREFIX or path.startswith(f"{PREFIX}/")


def body(code: str, message: str, status: int, *, param: str | None = None) -> OpenAIError:
    """The error as OpenAI would say it."""
    kind = _KIND.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return OpenAIError(error=OpenAIErrorBody(message=message, type=kind, code=code, param=param))


def response(
    code: str, message: str, status: int, headers: dict[str, str] | None, *, param: str | None = None
) -> JSONResponse:
    """A refusal with OpenAI's status for it."""
    told = 400 if status == 422 else status
    return JSONResponse(body(code, message, told, param=param).model_dump(), told, headers)


def place(path: Sequence[object]) -> str:
    """Where in a body a fault is, as OpenAI writes it: `messages[0].content`."""
    out = ""
    for part in path:
        out += f"[{part}]" if isinstance(part, int) else f".{part}" if out else str(part)
    return out


RESPONSES: dict[int | str, dict[str, object]] = {
    status: {"model": OpenAIError} for status in (400, 401, 402, 403, 404, 405, 409, 413, 429, 500, 502, 503)
}
"""What a route under /v1 may answer besides success, for the OpenAPI document."""
