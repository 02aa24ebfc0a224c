"""Neutral messages -> the request of one endpoint.

Decides everything an endpoint is particular about: the form of ids, what is echoed, where system text may stand,
which optional fields are left out. One validator looks at every outgoing list last: what it finds is a bug of
ours, never a thing to send. Rows of a tool exchange are app/llm/stored.py's, offered here too. Source: DESIGN 6,
cases A11, A13, A14, A15.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from app.llm.capabilities import IdFormat
from app.llm.model import (
    AssistantMessage,
    Feature,
    Message,
    ModelRequest,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from app.llm.stored import from_stored, to_stored
from app.text import clean

__all__ = ["Profile", "Shaped", "from_stored", "shape", "to_stored", "validate"]

_NINE = re.compile(r"[A-Za-z0-9]{9}")
_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_UNFIT_IN_NAME = re.compile(r"[^A-Za-z0-9_-]")
_NAME_CHARS = 64
_ECHOED = frozenset({"reasoning_content", "reasoning"})
_PROTOCOL = frozenset({"id", "type", "function", "index"})


@dataclass(frozen=True, slots=True)
class Profile:
    """How the endpoint that is asked wants its requests. `avoid` are the features to do without."""

    model: str
    origin: str
    id_format: IdFormat = IdFormat.ANY
    avoid: frozenset[Feature] = frozenset()
    parallel_tool_calls: bool | None = None


@dataclass(frozen=True, slots=True)
class Shaped:
    """A request's JSON body, and the features it makes use of: only these can be refused."""

    body: dict[str, object]
    sent: frozenset[Feature]


def shape(request: ModelRequest, profile: Profile) -> Shaped:
    """The request as this endpoint takes it.

    Raises:
        ValueError: the messages break the protocol; a bug of the caller.
    """
    avoid = profile.avoid | request.avoid
    messages = _folded(request.messages) if Feature.LATE_SYSTEM in avoid else request.messages
    ids = _Ids(IdFormat.NINE if Feature.CALL_IDS in avoid else profile.id_format)
    wire = [_wire(message, ids, profile.origin, echo=Feature.REASONING not in avoid) for message in messages]
    validate(wire)
    body: dict[str, object] = {"model": profile.model, "messages": wire, "stream": True}
    if Feature.STREAM_OPTIONS not in avoid:
        body["stream_options"] = {"include_usage": True}
    if request.tools and Feature.TOOLS not in avoid:
        body["tools"] = [_tool(tool) for tool in request.tools]
        if request.tool_choice is not None and Feature.TOOL_CHOICE not in avoid:
            body["tool_choice"] = request.tool_choice
        if profile.parallel_tool_calls is not None and Feature.PARALLEL_TOOL_CALLS not in avoid:
            body["parallel_tool_calls"] = profile.parallel_tool_calls
    return Shaped(body, _sent(body, wire, free_ids=ids.free))


def validate(messages: Sequence[dict[str, object]]) -> None:
    """Look at an outgoing list: not empty, every call has exactly one result directly after it, no other results.

    Raises:
        ValueError: naming what is wrong and where.
    """
    if not messages:
        raise ValueError("a request without messages")
    open_ids: list[str] = []
    for place, message in enumerate(messages):
        role = message["role"]
        if role == "tool":
            call_id = str(message["tool_call_id"])
            if call_id not in open_ids:
                raise ValueError(f"message {place}: a result for {call_id!r}, which no call before it waits for")
            open_ids.remove(call_id)
            continue
        if open_ids:
            raise ValueError(f"message {place}: {role} before the result of {open_ids[0]!r}")
        calls = message.get("tool_calls")
        if isinstance(calls, list):
            open_ids = [str(call["id"]) for call in calls]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            if not open_ids or len(set(open_ids)) < len(open_ids):
                raise ValueError(f"message {place}: calls without ids of their own: {open_ids}")
        elif role == "assistant" and not message["content"]:
            raise ValueError(f"message {place}: an assistant message with neither text nor calls")
    if open_ids:
        raise ValueError(f"the list ends before the result of {open_ids[0]!r}")


class _Ids:
    """Stored ids -> ids on the wire, for one request: unique, of the wanted form, the same on call and result."""

    def __init__(self, id_format: IdFormat) -> None:
        self.free = id_format is IdFormat.ANY
        self._taken: set[str] = set()
        self._current: dict[str, str] = {}

    def of_calls(self, calls: Sequence[ToolCall]) -> list[str]:
        """The wire ids of one assistant message's calls. Ids may repeat over rounds; a repetition gets its own."""
        self._current = {}
        out: list[str] = []
        for call in calls:
            wire = self._fresh(call.id)
            self._taken.add(wire)
            self._current.setdefault(call.id, wire)
            out.append(wire)
        return out

    def of_result(self, call_id: str) -> str:
        """The wire id of the call that a result right after it belongs to; as stored where there is none."""
        return self._current.get(call_id, call_id)

    def _fresh(self, call_id: str) -> str:
        wire, attempt = self._form(call_id, 0), 0
        while wire in self._taken:
            attempt += 1
            wire = self._form(call_id, attempt)
        return wire

    def _form(self, call_id: str, attempt: int) -> str:
        if self.free:
            return f"{call_id}_{attempt + 1}" if attempt else call_id
        if not attempt and _NINE.fullmatch(call_id):
            return call_id
        number = int.from_bytes(hashlib.sha256(f"{attempt} {call_id}".encode(errors="surrogatepass")).digest())
        digits: list[str] = []
        for _ in range(9):
            number, digit = divmod(number, len(_ALPHABET))
            digits.append(_ALPHABET[digit])
        return "".join(digits)


def _folded(messages: Sequence[Message]) -> tuple[Message, ...]:
    """All system text in the first message, in order; for templates that refuse any other place (case A15)."""
    system = [message.content for message in messages if isinstance(message, SystemMessage)]
    others = tuple(message for message in messages if not isinstance(message, SystemMessage))
    return (SystemMessage("\n\n".join(system)), *others) if system else others


def _wire(message: Message, ids: _Ids, origin: str, *, echo: bool) -> dict[str, object]:
    match message:
        case SystemMessage():
            return {"role": "system", "content": clean(message.content)}
        case UserMessage():
            return {"role": "user", "content": clean(message.content)}
        case ToolMessage():
            return {
                "role": "tool",
                "tool_call_id": ids.of_result(message.tool_call_id),
                "content": clean(message.content),
            }
        case AssistantMessage():
            return _assistant(message, ids, origin, echo=echo)
        case _:
            assert_never(message)


def _assistant(message: AssistantMessage, ids: _Ids, origin: str, *, echo: bool) -> dict[str, object]:
    """Content is "" where there is none: some endpoints refuse null, some a missing key (case A14)."""
    out: dict[str, object] = {"role": "assistant", "content": clean(message.content or "")}
    reasoning = message.reasoning
    if echo and reasoning is not None and reasoning.origin == origin and reasoning.field in _ECHOED:
        out[reasoning.field] = reasoning.text
    if message.tool_calls:
        wire_ids = ids.of_calls(message.tool_calls)
        out["tool_calls"] = [
            _call(call, wire_id, origin) for call, wire_id in zip(message.tool_calls, wire_ids, strict=True)
        ]
    return out


def _call(call: ToolCall, wire_id: str, origin: str) -> dict[str, object]:
    """A call as it is echoed: a name and arguments every endpoint takes, extra fields only to where they came from."""
    function = {
        "name": _UNFIT_IN_NAME.sub("_", call.name)[:_NAME_CHARS],
        "arguments": _object_text(call.arguments),
    }
    out: dict[str, object] = {"id": wire_id, "type": "function", "function": function}
    if call.extra and call.origin in (None, origin):
        out.update((key, value) for key, value in call.extra.items() if key not in _PROTOCOL)
    return out


def _object_text(arguments: str) -> str:
    """The arguments if they are a JSON object; else an empty one, since endpoints parse what they are sent (A07)."""
    try:
        is_object = isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        is_object = False
    return clean(arguments) if is_object else "{}"


def _tool(tool: ToolSpec) -> dict[str, object]:
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": function}


def _sent(body: dict[str, object], wire: Sequence[dict[str, object]], *, free_ids: bool) -> frozenset[Feature]:
    has = {
        Feature.TOOLS: "tools" in body,
        Feature.TOOL_CHOICE: "tool_choice" in body,
        Feature.PARALLEL_TOOL_CALLS: "parallel_tool_calls" in body,
        Feature.STREAM_OPTIONS: "stream_options" in body,
        Feature.LATE_SYSTEM: any(message["role"] == "system" for message in wire[1:]),
        Feature.CALL_IDS: free_ids and any("tool_calls" in message for message in wire),
        Feature.REASONING: any(not _ECHOED.isdisjoint(message) for message in wire),
    }
    return frozenset(feature for feature, used in has.items() if used)
