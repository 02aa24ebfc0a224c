"""The OpenAI-compatible door: /v1/models and /v1/chat/completions, which run the same turn as /api/chat.

A request is read into a question (completions_request.py), admitted like any other, and the turn's live log is given
in OpenAI's shape (completions_frames.py). Source: DESIGN section 4, decision 0018.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict

from app.api import allowance, chat, completions_request, openai_errors, openapi_document, principal
from app.api.chat import ChatConfig
from app.api.completions_frames import Chunks, Names, Whole
from app.api.completions_request import Asked, CompletionRequest
from app.api.completions_stream import ChunkReader, wait_for
from app.api.openai_errors import RESPONSES, Unfit
from app.api.principal import Principal
from app.api.sse import FrameStream
from app.errors import AppError, RefusalCode, TurnErrorCode
from app.live.frames import Failed
from app.live.log import LiveLog, Reader
from app.store import bases, threads
from app.store.bases import DEFAULT_BASE
from app.store.engine import Database
from app.store.turns import AdmittedTurn, KnownRequest
from app.text import clean, cut
from app.turn.supervisor import Supervisor

Who = Annotated[Principal, Depends(principal.current)]

IDS = {"X-Conversation-Id": "The conversation that was asked in.", "X-Turn-Id": "The turn, for stopping it."}
"""The headers of every completion."""

NO_RETRY = {"x-should-retry": "false"}
"""OpenAI's clients try failures again by themselves; the server has done that, and another try is another turn."""


class ModelCard(BaseModel):
    """A name to ask by: the model's own for the base `default`, `model@base` for another base."""

    id: str
    object: str = "model"
    created: int
    owned_by: str = "turnstream"
    description: str


class ModelList(BaseModel):
    object: str = "list"
    data: list[ModelCard]


class Completion(BaseModel):
    """A chat completion. `x_turnstream` has the turn's ids, steps, sources and verdict, and what had no effect."""

    model_config = ConfigDict(extra="allow")

    id: str
    object: str
    created: int
    model: str
    choices: list[dict[str, Any]]
    usage: dict[str, Any] | None
    x_turnstream: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Door:
    """What the door leads to. `model` is the name of the one model that answers, `about` says what it is."""

    supervisor: Supervisor
    live: LiveLog
    database: Database
    config: ChatConfig
    model: str
    about: str

    async def models(self, who: Principal) -> list[ModelCard]:
        """The names by which the caller may ask, the base `default` first."""
        seen = [base for base in await bases.list_all(self.database) if who.on(base.id) is not None]
        found = sorted(seen, key=lambda base: (base.name != DEFAULT_BASE, base.name))
        return [
            ModelCard(
                id=self.model if base.name == DEFAULT_BASE else f"{self.model}@{base.name}",
                created=int(base.created_at.timestamp()),
                description=" ".join(part for part in (self.about, base.description) if part),
            )
            for base in found
        ]

    async def ask(self, asked: Asked, who: Principal) -> AdmittedTurn | KnownRequest:
        """Start the turn: in the named conversation, in the one the messages come from, or in a new one."""
        new = chat.new_turn(asked.question, who, self.config)
        if not asked.earlier:
            return await self.supervisor.start(new, retry=False)
        held = await threads.find(self.database, who.owner, asked.base, asked.earlier)
        if held is not None:
            try:
                return await self.supervisor.start(replace(new, conversation_id=held, base=None), retry=False)
            except AppError as refusal:
                if refusal.code not in (TurnErrorCode.ANSWER_RUNNING, RefusalCode.NOT_FOUND):
                    raise  # those two: somebody was quicker there, or has just deleted it
        began = next((message.content for message in asked.earlier if message.role == "user"), new.question)
        seeded = replace(new, earlier=asked.earlier, title=chat.title_of(began))
        return await self.supervisor.start(seeded, retry=False)

    async def reader(self, started: AdmittedTurn | KnownRequest, who: Principal) -> Reader:
        """The turn from its first frame."""
        reader = await chat.whole_turn(started, self.live, self.database, who)
        if reader is None:
            raise AppError(RefusalCode.NOT_FOUND, "The turn that this Idempotency-Key started is gone.")
        return reader


def router(door: Door) -> APIRouter:
    """The routes."""
    routes = APIRouter(
        prefix=openai_errors.PREFIX, tags=["openai"], responses=RESPONSES, dependencies=[Depends(allowance.tell)]
    )

    @routes.get("/models")
    async def models(who: Who) -> ModelList:
        """The model that answers, once for each base that it can be asked about."""
        return ModelList(data=await door.models(who))

    @routes.get("/models/{model:path}")
    async def model(model: str, who: Who) -> ModelCard:
        """One of them."""
        for card in await door.models(who):
            if card.id == model:
                return card
        message = f"There is no model {cut(clean(model), 80)!r}; GET /v1/models lists what there is."
        raise Unfit(message, param="model", known_as="model_not_found", code=RefusalCode.NOT_FOUND)

    @routes.post(
        "/chat/completions",
        response_model=Completion,
        responses={200: openapi_document.completion("The completion, or with `stream` its chunks.", ids=IDS)},
    )
    async def complete(
        body: CompletionRequest,
        request: Request,
        who: Who,
        x_conversation_id: Annotated[str | None, Header(max_length=100)] = None,
        idempotency_key: Annotated[str | None, Header(max_length=200)] = None,
    ) -> Response:
        """Ask a question. What can't be done here is refused; what has no effect is named in `x_turnstream.ignored`."""
        asked = completions_request.read(
            body, model=door.model, conversation_header=x_conversation_id, idempotency_key=idempotency_key
        )
        chat.check(asked.question, door.config)
        started = await door.ask(asked, who)
        names = Names(started.turn_id, started.conversation_id, started.question_id, body.model, asked.ignored)
        reader = await door.reader(started, who)
        headers = {
            "X-Conversation-Id": started.conversation_id,
            "X-Turn-Id": started.turn_id,
            **allowance.headers(request.scope),
        }
        if not body.stream:
            return await _whole(names, reader, headers, door.config.heartbeat_s)
        options = body.stream_options
        chunks = Chunks(names, include_usage=options is not None and bool(options.include_usage))
        stop = partial(
            door.supervisor.stop_soon,
            owner=who.owner,
            conversation_id=started.conversation_id,
            turn_id=started.turn_id,
        )
        when_left = stop if asked.stop_when_gone else None
        stream = FrameStream(ChunkReader(reader, chunks, when_left), heartbeat_s=door.config.heartbeat_s)
        stream.headers.update(headers)
        return stream

    return routes


async def _whole(names: Names, reader: Reader, headers: dict[str, str], wait_s: float) -> Response:
    whole = Whole(names)
    end = await wait_for(whole, reader, timeout_s=wait_s)
    if isinstance(end, Failed):
        status = openai_errors.ENDED_STATUS[TurnErrorCode(end.code)]
        return openai_errors.response(end.code, end.message, status, headers | NO_RETRY)
    return Response(whole.encode(end), media_type=JSONResponse.media_type, headers=headers)
