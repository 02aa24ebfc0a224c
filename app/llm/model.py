"""The port through which a turn talks to a chat model, and the vocabulary both sides share.

Decides what a request, an event of the reply and a message are. Does not know how any of it looks on a
wire (app/llm/shape.py, app/llm/openai_chat.py) nor what to do with a failure (app/turn/policy.py).
"""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One tool call of an assistant message.

    `arguments` is the JSON text as the model wrote it, unparsed. `extra` holds fields of the call that
    the protocol doesn't name and that an endpoint wants echoed (case A13: `extra_content`); `origin` is
    the endpoint and model (`Model.origin`) that sent them and may have them back, None where not known.
    """

    id: str
    name: str
    arguments: str
    extra: Mapping[str, object] | None = None
    origin: str | None = None


@dataclass(frozen=True, slots=True)
class Reasoning:
    """What a thinking model wrote before its call; echoed to the endpoint it came from, never shown.

    `field` is the wire field it arrived in (`reasoning_content`, `reasoning`; `content` for text in think
    tags, which is never echoed); `origin` is the endpoint and model (`Model.origin`) that may have it
    back. Source: case A11.
    """

    field: str
    text: str
    origin: str


@dataclass(frozen=True, slots=True)
class SystemMessage:
    content: str


@dataclass(frozen=True, slots=True)
class UserMessage:
    content: str


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """`content` is None where the model wrote only calls; calls then aren't empty."""

    content: str | None
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: Reasoning | None = None


@dataclass(frozen=True, slots=True)
class ToolMessage:
    tool_call_id: str
    content: str


Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model is shown it; `parameters` is a JSON schema whose root is an object."""

    name: str
    description: str
    parameters: Mapping[str, object]


class Feature(StrEnum):
    """What an endpoint may refuse though the protocol has it. A request can do without each of them."""

    TOOLS = "tools"
    TOOL_CHOICE = "tool_choice"
    PARALLEL_TOOL_CALLS = "parallel_tool_calls"
    STREAM_OPTIONS = "stream_options"
    LATE_SYSTEM = "late_system"
    """A system message after the first place; without it, every system text is folded into the first."""
    CALL_IDS = "call_ids"
    """Call ids as they were minted; without it, each is mapped to nine letters and digits (case A14)."""
    REASONING = "reasoning"
    """Reasoning handed back with the call it led to; without it, none is."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request. Without tools no tool field at all is sent: `tool_choice: none` isn't understood everywhere.

    `avoid` names features to do without in this request, beside those the model has learnt to avoid.
    """

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: Literal["required"] | None = None
    avoid: frozenset[Feature] = frozenset()


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the provider counted them; None where it did not say."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class Finish(StrEnum):
    """Why a model turn ended, as far as anything depends on it. Calls are taken from what was assembled (P05)."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class TextDelta:
    """Answer text, clean (app/text.py), without think tags; several tokens of one read arrive as one."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    text: str


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """The end of a reply, exactly once and last: what the deltas amounted to, and the calls, in order.

    `text` equals the joined text deltas. Call ids are unique within the turn and never empty. `model` is what the
    provider says has answered, where it says so beside the usage.
    """

    text: str
    tool_calls: tuple[ToolCall, ...]
    finish: Finish | None
    usage: Usage = field(default_factory=Usage)
    reasoning: Reasoning | None = None
    model: str | None = None


ModelEvent = TextDelta | ReasoningDelta | ModelTurn


class Model(Protocol):
    """A chat model. Implementations: OpenAIChat (any OpenAI-protocol endpoint), Extractive (offline)."""

    @property
    def name(self) -> str:
        """The model's name as stored with each answer."""
        ...

    @property
    def origin(self) -> str:
        """Endpoint and model in one string without secrets: whose reasoning this is, whose capabilities."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Send one request and yield its reply. Never retries, never sends twice.

        The caller closes the generator (contextlib.aclosing); closing it closes the connection at once.

        Raises:
            ModelFailure: one of the tree in app/llm/failures.py, at any point of the iteration.
        """
        ...

    def learn(self, feature: Feature) -> None:
        """Remember for the life of the process that this endpoint and model refuse a feature."""
        ...

    async def aclose(self) -> None:
        """Release connections."""
        ...
