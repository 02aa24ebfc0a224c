"""Conversations: list, detail, rename, delete, attach to the running turn, stop it. Source: DESIGN section 4."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Query, Response
from pydantic import BaseModel, ConfigDict, Field, field_validator

from app.api import openapi_document, principal
from app.api.principal import Principal, Scope
from app.api.refusals import RESPONSES
from app.api.sse import FrameStream
from app.errors import AppError, RefusalCode
from app.live.log import LiveLog, Position, Reader
from app.live.replay import Replay
from app.store import conversations
from app.store.conversations import ConversationRecord, MessageRecord
from app.store.engine import Database
from app.text import clean
from app.turn import replay
from app.turn.supervisor import Supervisor

Who = Annotated[Principal, Depends(principal.current)]


class Conversation(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    id: str
    base: str
    title: str
    created_at: datetime
    updated_at: datetime
    message_count: int


class ConversationPage(BaseModel):
    conversations: list[Conversation]
    total: int


class Message(BaseModel):
    """A stored message; `steps` and `sources` are the data of the frames that were streamed."""

    model_config = ConfigDict(from_attributes=True)

    id: str
    role: str
    content: str
    steps: list[dict[str, Any]]
    sources: list[dict[str, Any]]
    resolved: list[dict[str, Any]]
    tool_exchange: list[dict[str, Any]]
    evidence: str | None
    cited: list[int]
    stopped: bool
    error_code: str | None
    error_message: str | None
    model: str | None
    usage: dict[str, Any] | None
    turn_id: str | None
    created_at: datetime


class ConversationDetail(Conversation):
    """`running_turn_id` is the turn that can be attached to or stopped, if one runs."""

    messages: list[Message]
    running_turn_id: str | None


class Rename(BaseModel):
    title: str = Field(max_length=400)

    @field_validator("title")
    @classmethod
    def _one_line(cls, value: str) -> str:
        title = " ".join(clean(value).split())
        if not 1 <= len(title) <= 120:
            raise ValueError("a title has 1 to 120 characters")
        return title


class StopRequest(BaseModel):
    turn_id: UUID


class Stopping(BaseModel):
    """The stop is on its way; the turn's terminal frame says when it has stopped."""

    turn_id: str


def router(supervisor: Supervisor, live: LiveLog, database: Database, *, heartbeat_s: float) -> APIRouter:
    """The routes, bound to their parts."""
    routes = APIRouter(prefix="/api/conversations", tags=["conversations"], responses=RESPONSES)

    async def owned(conversation_id: UUID, who: Who) -> ConversationRecord:
        found = await conversations.get(database, who.owner, str(conversation_id), bases=who.reach(Scope.READ))
        if found is None:
            raise AppError(RefusalCode.NOT_FOUND, "There is no such conversation.")
        return found

    @routes.get("")
    async def find(
        who: Who,
        q: Annotated[str | None, Query(max_length=200)] = None,
        limit: Annotated[int, Query(ge=1, le=100)] = 30,
        offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
    ) -> ConversationPage:
        """The caller's, in bases that they may see, latest first; `q` is looked for in titles and messages."""
        query = clean(q).strip() if q else None
        wanted = conversations.Wanted(query, who.reach(Scope.READ))
        found, total = await conversations.find(database, who.owner, wanted, limit=limit, offset=offset)
        return ConversationPage(conversations=[Conversation.model_validate(c) for c in found], total=total)

    @routes.get("/{conversation_id}")
    async def detail(found: Annotated[ConversationRecord, Depends(owned)]) -> ConversationDetail:
        """One conversation with its messages, oldest first."""
        running = await conversations.running_turn(database, found.id)
        stored = await conversations.messages(database, found.id)
        return _detail(found, stored, running)

    @routes.patch("/{conversation_id}")
    async def rename(found: Annotated[ConversationRecord, Depends(owned)], body: Rename, who: Who) -> Conversation:
        """Give it another title."""
        await conversations.rename(database, who.owner, found.id, body.title)
        return Conversation.model_validate(found).model_copy(update={"title": body.title})

    @routes.delete("/{conversation_id}", status_code=204)
    async def delete(found: Annotated[ConversationRecord, Depends(owned)], who: Who) -> Response:
        """Stop what runs in it, then delete it with its messages and what is left of its live log."""
        running = await conversations.running_turn(database, found.id)
        if running is not None and supervisor.stop_here(running):
            await supervisor.wait_for(running)
        await live.forget(await conversations.delete(database, who.owner, found.id) or ())
        return Response(status_code=204)

    @routes.get(
        "/{conversation_id}/live",
        status_code=200,
        response_class=FrameStream,
        responses={200: openapi_document.stream_of_frames("The running turn's frames, or `idle`.")},
    )
    async def attach(
        found: Annotated[ConversationRecord, Depends(owned)],
        who: Who,
        last_event_id: Annotated[str | None, Header(max_length=200)] = None,
    ) -> FrameStream:
        """Attach to the running turn: on from `Last-Event-ID` where it is still in the log, else a snapshot."""
        if supervisor.draining:
            raise AppError(RefusalCode.DRAINING, "The server is shutting down; attach elsewhere.", retry_after_s=1)
        reader = await _reader(live, database, found.id, who, Position.parse(last_event_id))
        return FrameStream(reader, heartbeat_s=heartbeat_s)

    @routes.post("/{conversation_id}/stop", status_code=202)
    async def stop(found: Annotated[ConversationRecord, Depends(owned)], body: StopRequest, who: Who) -> Stopping:
        """Stop the turn; what it had published stays as a stopped answer."""
        turn_id = str(body.turn_id)
        await supervisor.stop(owner=who.owner, conversation_id=found.id, turn_id=turn_id)
        return Stopping(turn_id=turn_id)

    return routes


async def _reader(
    live: LiveLog, database: Database, conversation_id: str, who: Principal, after: Position | None
) -> Reader | None:
    """A reader of the conversation's running or last turn; None when it has nothing that the tab hasn't seen.

    A tab that was following a turn whose log is gone is given its stored end.
    """
    latest = await conversations.latest_turn(database, conversation_id)
    if latest is None:
        return None
    reader = await live.attach(latest.turn_id, after, running=latest.running)
    if reader is None and after is not None and after.turn_id == latest.turn_id:
        stored = await replay.stored_turn(database, who.owner, latest.turn_id)
        if stored is not None and after.seq != stored.last_seq:
            return Replay(stored)
    return reader


def _detail(found: ConversationRecord, stored: list[MessageRecord], running: str | None) -> ConversationDetail:
    return ConversationDetail(
        **Conversation.model_validate(found).model_dump(),
        messages=[Message.model_validate(m) for m in stored],
        running_turn_id=running,
    )
