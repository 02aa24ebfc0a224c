"""How large a request's body may be, held while it is read: by its declared length at once, else where it grows beyond.

Plain ASGI, around `receive`, so that nothing stands in memory that isn't taken. What each route takes stands in the
table of app/api/access.py. Source: issue 9 item 2.
"""

from dataclasses import dataclass
from enum import Enum

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope

from app.errors import AppError, RefusalCode

SMALL_BYTES = 1024 * 1024
BULK_BYTES = 16 * 1024 * 1024

_BYTES_PER_CHAR = 12
"""A character of a question, written as JSON in the longest way: two escapes of six bytes."""
_AROUND_BYTES = 64 * 1024


class Body(Enum):
    """What kind of body a route takes."""

    SMALL = "small"
    QUESTION = "question"
    BULK = "bulk"
    """Many rows of facts, or a conversation's messages."""
    COUNTED_THERE = "counted there"
    """The route counts by itself: an upload, whose file has a limit of its own, and MCP's SDK."""


@dataclass(frozen=True, slots=True)
class BodySizes:
    """The bytes that each kind may have. `question_chars` is the longest question."""

    question_chars: int

    def of(self, body: Body) -> int | None:
        """At most so many; None where the route counts."""
        question = self.question_chars * _BYTES_PER_CHAR + _AROUND_BYTES
        match body:
            case Body.SMALL:
                return SMALL_BYTES
            case Body.QUESTION:
                return max(SMALL_BYTES, question)
            case Body.BULK:
                return max(BULK_BYTES, question)
            case Body.COUNTED_THERE:
                return None


USUAL = BodySizes(question_chars=32_000)
"""With nothing set."""


class _Grown(HTTPException):
    """The body grew too large while it was read. The framework lets this kind of error alone through its parsing."""


def bounded(scope: Scope, receive: Receive, most: int) -> Receive:
    """`receive`, ended where the body is larger than `most` bytes.

    Raises:
        AppError: too_large, where the request says by itself that it is.
    """
    declared = Headers(scope=scope).get("content-length", "")
    if declared.isdecimal() and int(declared) > most:
        raise AppError(RefusalCode.TOO_LARGE, _message(most))
    left = most

    async def counted() -> Message:
        nonlocal left
        message = await receive()
        if message["type"] == "http.request":
            left -= len(message.get("body", b""))
            if left < 0:
                raise _Grown(413, _message(most))
        return message

    return counted


def _message(most: int) -> str:
    return f"The request's body is larger than the {most / 1_048_576:g} MB allowed here."
