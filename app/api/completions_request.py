"""A chat completion request of OpenAI's protocol -> the question it asks here, and what of it has no effect.

What would change the kind of answer (tools, several choices, a JSON format, stop words) is refused. What only tunes a
model's sampling, and what isn't known, has no effect and is named in the answer's `x_turnstream.ignored`. Source:
decision 0018; OpenAI API reference, chat completions.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from uuid import UUID, uuid5

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.api.chat import ChatRequest
from app.api.openai_errors import Unfit, place
from app.errors import RefusalCode
from app.store.threads import EarlierMessage
from app.text import clean, cut

MAX_MESSAGES = 2_000
EARLIER_MAX_CHARS = 2_000_000
"""How long all messages before the question may be together."""

_KEYS = UUID("6f0b1c0e-6a3e-5d0b-9a55-2d8f9a0c7a11")
"""The namespace in which an Idempotency-Key that is no UUID becomes one."""


class Part(BaseModel):
    """A part of a message's content; only text can be read."""

    model_config = ConfigDict(extra="allow")

    type: str
    text: str | None = None


class InputMessage(BaseModel):
    """A message of the list. `system` and `developer` messages have no effect: the turn's prompt is the server's."""

    model_config = ConfigDict(extra="allow")

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[Part] | None = None


class StreamOptions(BaseModel):
    model_config = ConfigDict(extra="allow")

    include_usage: bool | None = None


class Metadata(BaseModel):
    """What this server reads of `metadata`; other keys have no effect."""

    model_config = ConfigDict(extra="allow")

    conversation_id: UUID | None = Field(default=None, description="The conversation to go on with.")
    base: str | None = Field(default=None, max_length=100, description="The base of a new conversation.")
    as_of: str | None = Field(default=None, max_length=40, description="Record time: what the base held then.")
    on_disconnect: Literal["go_on", "stop"] | None = Field(
        default=None, description="What becomes of a streamed turn whose reader goes away; unset: it goes on."
    )


class CompletionRequest(BaseModel):
    """A chat completion request. Fields that aren't listed are taken too: see the description of the route."""

    model_config = ConfigDict(extra="allow")

    model: Annotated[str, Field(max_length=400, description="One that GET /v1/models lists.")]
    messages: Annotated[list[InputMessage], Field(min_length=1, max_length=MAX_MESSAGES)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    metadata: Metadata | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """The question, the messages before it, and the names of what has no effect."""

    question: ChatRequest
    base: str
    earlier: tuple[EarlierMessage, ...]
    ignored: tuple[str, ...]
    stop_when_gone: bool


_NOTHING: tuple[Any, ...] = (None, False, 0, "", [], {})
_ALLOWED: dict[str, Callable[[Any], bool]] = {
    "n": lambda value: value in (None, 1),
    "tools": lambda value: value in _NOTHING,
    "tool_choice": lambda value: value in (None, "none", "auto"),
    "functions": lambda value: value in _NOTHING,
    "function_call": lambda value: value in (None, "none", "auto"),
    "logprobs": lambda value: value in _NOTHING,
    "top_logprobs": lambda value: value in _NOTHING,
    "response_format": lambda value: value in (None, {"type": "text"}),
    "modalities": lambda value: value in (None, ["text"]),
    "audio": lambda value: value is None,
    "stop": lambda value: value in _NOTHING,
    "web_search_options": lambda value: value is None,
}
"""Fields that would change what kind of answer is given, each with the values that ask for nothing."""


def read(body: CompletionRequest, *, model: str, conversation_header: str | None, idempotency_key: str | None) -> Asked:
    """What the request asks.

    Raises:
        Unfit: for what this door can't do, with the field and what is allowed.
    """
    _refuse_unsupported(body)
    metadata = body.metadata or Metadata()
    base = _base(body.model, metadata, model)
    conversation_id = _conversation(metadata, conversation_header)
    told = list(_told(body.messages))
    question, earlier = _split(told)
    ignored = list(_ignored(body))
    if conversation_id is not None and earlier:
        ignored.append("messages before the question")
    question_body = _question(
        {
            "message": question,
            "conversation_id": conversation_id,
            "base": base,
            "as_of": metadata.as_of,
            "request_id": _request_id(idempotency_key),
        }
    )
    return Asked(
        question_body,
        base or "default",
        () if conversation_id is not None else earlier,
        tuple(ignored),
        metadata.on_disconnect == "stop",
    )


def base_of(asked: str, model: str) -> str | None:
    """The base that a model's name chooses: `model@base`; None where it chooses none.

    Raises:
        Unfit: it isn't a name of the model that answers here.
    """
    if asked == model:
        return None
    prefix = f"{model}@"
    if asked.startswith(prefix) and len(asked) > len(prefix):
        return asked.removeprefix(prefix)
    message = f"There is no model {cut(clean(asked), 80)!r}; use {model!r}, or {prefix}name for the base of that name."
    raise Unfit(message, param="model", known_as="model_not_found", code=RefusalCode.NOT_FOUND)


def _refuse_unsupported(body: CompletionRequest) -> None:
    for name, value in (body.model_extra or {}).items():
        allowed = _ALLOWED.get(name)
        if allowed is not None and not allowed(value):
            message = f"`{name}` isn't supported here; leave it out."
            raise Unfit(message, param=name, known_as="unsupported_parameter")


def _base(asked: str, metadata: Metadata, model: str) -> str | None:
    named = base_of(asked, model)
    if named is not None and metadata.base is not None and named != metadata.base:
        message = f"`model` names the base {cut(clean(named), 80)!r} and `metadata.base` another one; name one."
        raise Unfit(message, param="metadata.base")
    return named if named is not None else metadata.base


def _conversation(metadata: Metadata, header: str | None) -> UUID | None:
    if header is None or not header.strip():
        return metadata.conversation_id
    try:
        named = UUID(header.strip())
    except ValueError:
        raise Unfit("The header X-Conversation-Id holds no UUID.", param="X-Conversation-Id") from None
    if metadata.conversation_id not in (None, named):
        message = "X-Conversation-Id and `metadata.conversation_id` name two conversations; name one."
        raise Unfit(message, param="metadata.conversation_id")
    return named


def _request_id(key: str | None) -> UUID | None:
    if key is None or not key.strip():
        return None
    try:
        return UUID(key.strip())
    except ValueError:
        return uuid5(_KEYS, key.strip())


def _told(messages: Sequence[InputMessage]) -> Iterator[EarlierMessage]:
    """What people and answers said, in order; neighbours of one role are one message, as a model reads them."""
    pending: EarlierMessage | None = None
    for index, message in enumerate(messages):
        extra = message.model_extra or {}
        if message.role in ("tool", "function") or extra.get("tool_calls") or extra.get("function_call"):
            where = place(("messages", index))
            known_as = "unsupported_parameter"
            raise Unfit("Tool calls of a client's own aren't supported here.", param=where, known_as=known_as)
        if message.role not in ("user", "assistant"):
            continue
        text = _text(message, index)
        if not text:
            continue
        if pending is not None and pending.role == message.role:
            pending = EarlierMessage(pending.role, f"{pending.content}\n\n{text}")
            continue
        if pending is not None:
            yield pending
        pending = EarlierMessage(message.role, text)
    if pending is not None:
        yield pending


def _text(message: InputMessage, index: int) -> str:
    if message.content is None or isinstance(message.content, str):
        return clean(message.content or "").strip()
    texts: list[str] = []
    for number, part in enumerate(message.content):
        if part.type != "text" or part.text is None:
            where = place(("messages", index, "content", number))
            kind = cut(clean(part.type), 40)
            raise Unfit(f"Parts of type {kind!r} can't be read here; allowed is text.", param=where)
        texts.append(part.text)
    return clean("\n".join(texts)).strip()


def _split(told: list[EarlierMessage]) -> tuple[str, tuple[EarlierMessage, ...]]:
    """The question and what came before it."""
    if not told or told[-1].role != "user":
        raise Unfit("The last message must be the user's question, with more than blanks in it.", param="messages")
    earlier = tuple(told[:-1])
    if (given := sum(len(message.content) for message in earlier)) > EARLIER_MAX_CHARS:
        message = f"The messages before the question hold {given} characters; at most {EARLIER_MAX_CHARS} are taken."
        raise Unfit(message, param="messages", code=RefusalCode.TOO_LARGE)
    return told[-1].content, earlier


def _question(fields: dict[str, object]) -> ChatRequest:
    try:
        return ChatRequest.model_validate(fields)
    except ValidationError as error:
        fault = error.errors()[0]
        said = fault["msg"].removeprefix("Value error, ")
        raise Unfit(said, param=f"metadata.{place(fault['loc'])}") from error


def _ignored(body: CompletionRequest) -> Iterator[str]:
    """The names of what was given and has no effect, in the order of the request."""
    for name, value in (body.model_extra or {}).items():
        if name not in _ALLOWED and value is not None:
            yield cut(clean(name), 80)
    if body.metadata is not None:
        for name in body.metadata.model_extra or {}:
            yield f"metadata.{cut(clean(name), 80)}"
        if body.metadata.on_disconnect is not None and not body.stream:
            yield "metadata.on_disconnect"
    roles = {message.role for message in body.messages}
    for role in ("system", "developer"):
        if role in roles:
            yield f"messages of role {role}"
    extras = {name: None for message in body.messages for name, value in (message.model_extra or {}).items() if value}
    for name in extras:
        yield f"messages[].{cut(clean(name), 80)}"
