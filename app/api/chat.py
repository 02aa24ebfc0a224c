"""POST /api/chat: a question in, the new turn's frames out. Admission first, then the response only reads.

The route holds no database connection while it streams, and the turn doesn't notice whether it is read.
Source: DESIGN sections 4 and 5.
"""

from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends
from pydantic import BaseModel, ConfigDict, Field, field_validator

from app.api import openapi_document, principal
from app.api.principal import Principal, Scope
from app.api.refusals import RESPONSES
from app.api.sse import FrameStream
from app.errors import AppError, RefusalCode, TurnErrorCode
from app.knowledge.moments import parse_as_of
from app.live.frames import Conversation
from app.live.log import LiveLog, Position, Reader
from app.live.replay import Introduced, Replay
from app.store.engine import Database
from app.store.ids import new_id
from app.store.turns import AdmittedTurn, KnownRequest, NewTurn
from app.text import clean, cut
from app.turn import replay
from app.turn.supervisor import Supervisor

TITLE_CHARS = 80


@dataclass(frozen=True, slots=True)
class ChatConfig:
    """`unconfigured` says why no model can answer, None when one can; `most_running` is per principal, None for any."""

    replica: str
    heartbeat_s: float
    message_max_chars: int
    unconfigured: str | None
    most_running: int | None = None


class ChatRequest(BaseModel):
    """A question. `message` may be left out only with `retry_message_id`, whose stored text is asked again."""

    model_config = ConfigDict(extra="forbid")

    message: str = Field("", description="The question.")
    conversation_id: UUID | None = Field(None, description="The conversation to go on with; unset: a new one.")
    base: str | None = Field(None, max_length=100, description="The base of a new conversation; unset: default.")
    as_of: str | None = Field(None, max_length=40, description="Record time: what the base held then.")
    retry_message_id: UUID | None = Field(None, description="A stored question without answer to ask again.")
    request_id: UUID | None = Field(None, description="Made by the client; sent again, it attaches to its turn.")

    @field_validator("message")
    @classmethod
    def _clean(cls, value: str) -> str:
        return clean(value).strip()

    @field_validator("base")
    @classmethod
    def _a_name(cls, value: str | None) -> str | None:
        if value is not None and value != clean(value):
            raise ValueError("a base's name holds lower-case letters, digits, - and _")
        return value

    @field_validator("as_of")
    @classmethod
    def _a_moment(cls, value: str | None) -> str | None:
        if value is not None:
            parse_as_of(value)
        return value


def router(supervisor: Supervisor, live: LiveLog, database: Database, config: ChatConfig) -> APIRouter:
    """The route, bound to its parts."""
    routes = APIRouter(tags=["chat"])

    @routes.post(
        "/api/chat",
        status_code=200,
        response_class=FrameStream,
        responses={200: openapi_document.stream_of_frames("The new turn's frames."), **RESPONSES},
    )
    async def chat(body: ChatRequest, who: Annotated[Principal, Depends(principal.current)]) -> FrameStream:
        """Start a turn and stream it."""
        check(body, config)
        started = await supervisor.start(new_turn(body, who, config), retry=body.retry_message_id is not None)
        reader = await whole_turn(started, live, database, who)
        return FrameStream(reader, heartbeat_s=config.heartbeat_s)

    return routes


def check(body: ChatRequest, config: ChatConfig) -> None:
    """Raises AppError for a question that can't be taken: no model to ask, nothing asked, too long."""
    if config.unconfigured is not None:
        raise AppError(TurnErrorCode.NO_CHAT_MODEL, config.unconfigured)
    if body.retry_message_id is not None:
        if body.conversation_id is None:
            message = "`retry_message_id` needs the `conversation_id` it belongs to."
            raise AppError(RefusalCode.RETRY_NEEDS_CONVERSATION, message)
        return
    if not body.message:
        raise AppError(RefusalCode.INVALID, "message: must hold more than blanks.")
    if len(body.message) > config.message_max_chars:
        given, most = len(body.message), config.message_max_chars
        raise AppError(RefusalCode.TOO_LARGE, f"message: {given} characters were given; at most {most} are taken.")


def new_turn(body: ChatRequest, who: Principal, config: ChatConfig) -> NewTurn:
    """The question as admission takes it, titled from its first line."""
    return NewTurn(
        turn_id=new_id(),
        question_id=str(body.retry_message_id) if body.retry_message_id else new_id(),
        new_conversation_id=new_id(),
        owner=who.owner,
        replica=config.replica,
        question=body.message,
        title=title_of(body.message),
        conversation_id=str(body.conversation_id) if body.conversation_id else None,
        base=body.base if body.conversation_id else body.base or "default",
        as_of=body.as_of,
        request_id=str(body.request_id) if body.request_id else None,
        readable=who.reach(Scope.READ),
        writable=who.reach(Scope.WRITE),
        most_running=config.most_running,
    )


def title_of(question: str) -> str:
    """What a conversation that begins with this question is called."""
    return cut(" ".join(question.split("\n", 1)[0].split()), TITLE_CHARS)


async def whole_turn(
    started: AdmittedTurn | KnownRequest, live: LiveLog, database: Database, who: Principal
) -> Reader | None:
    """A reader from the turn's first frame; for a repeated request whose log is gone, from what was stored."""
    turn_id, beginning = started.turn_id, Position(started.turn_id, 0)
    if isinstance(started, AdmittedTurn):
        return await live.attach(turn_id, beginning, running=True)
    reader: Reader | None = await live.attach(turn_id, beginning, running=False)
    if reader is None and (stored := await replay.stored_turn(database, who.owner, turn_id)) is not None:
        reader = Replay(stored)
    reader = reader or await live.attach(turn_id, beginning, running=True)
    conversation = Conversation(started.conversation_id, turn_id, started.question_id, started.title)
    return None if reader is None else Introduced(reader, conversation)
