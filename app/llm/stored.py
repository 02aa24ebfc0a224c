"""Messages <-> their stored form: the neutral OpenAI JSON shape, as the rows of a turn's tool exchange hold it.

What the protocol has no name for stands under one key of ours. Nothing malformed is tolerated on the way back:
a row that can't be read is a bug or a broken store, and a guess would be sent to a model. Called by the store's
users in app/turn. Source: DESIGN 6, cases A11 and A13.
"""

from collections.abc import Mapping
from typing import assert_never, cast

from app.llm.model import AssistantMessage, Message, Reasoning, SystemMessage, ToolCall, ToolMessage, UserMessage
from app.text import clean, clean_json

OURS = "x_turnstream"
"""The key that holds what the protocol doesn't name: a message's reasoning, the origin of a call's extra fields."""

_CALL_KEYS = frozenset({"id", "type", "function", OURS})


def to_stored(message: Message) -> dict[str, object]:
    """The message as JSON: {role, content, tool_calls?, tool_call_id?, x_turnstream?}; text is clean."""
    match message:
        case SystemMessage():
            return {"role": "system", "content": clean(message.content)}
        case UserMessage():
            return {"role": "user", "content": clean(message.content)}
        case ToolMessage():
            return {
                "role": "tool",
                "tool_call_id": clean(message.tool_call_id),
                "content": clean(message.content),
            }
        case AssistantMessage():
            return _stored_assistant(message)
        case _:
            assert_never(message)


def from_stored(stored: Mapping[str, object]) -> Message:
    """The message that `to_stored` wrote.

    Raises:
        ValueError: it isn't one; the text names the field.
    """
    role = stored.get("role")
    if role == "system":
        return SystemMessage(_text(stored, "content"))
    if role == "user":
        return UserMessage(_text(stored, "content"))
    if role == "tool":
        return ToolMessage(_text(stored, "tool_call_id", blank=False), _text(stored, "content"))
    if role == "assistant":
        return _assistant(stored)
    raise ValueError(f"role must be system, user, assistant or tool, not {role!r}")


def _stored_assistant(message: AssistantMessage) -> dict[str, object]:
    content = None if message.content is None else clean(message.content)
    out: dict[str, object] = {"role": "assistant", "content": content}
    if message.tool_calls:
        out["tool_calls"] = [_stored_call(call) for call in message.tool_calls]
    if message.reasoning is not None:
        kept = message.reasoning
        out[OURS] = {"reasoning": {"field": kept.field, "text": clean(kept.text), "origin": kept.origin}}
    return out


def _stored_call(call: ToolCall) -> dict[str, object]:
    extra = {key: value for key, value in (call.extra or {}).items() if key not in _CALL_KEYS}
    out: dict[str, object] = {
        "id": clean(call.id),
        "type": "function",
        "function": {"name": clean(call.name), "arguments": clean(call.arguments)},
        **cast("dict[str, object]", clean_json(extra)),
    }
    if call.origin is not None:
        out[OURS] = {"origin": call.origin}
    return out


def _assistant(stored: Mapping[str, object]) -> AssistantMessage:
    content = stored.get("content")
    if content is not None and not isinstance(content, str):
        raise ValueError(f"content must be text or null, not {type(content).__name__}")
    calls = stored.get("tool_calls", [])
    if not isinstance(calls, list):
        raise ValueError(f"tool_calls must be a list, not {calls!r}")  # noqa: TRY004 - one error for a bad row
    tool_calls = tuple(_call(_object(call, "tool_calls")) for call in cast("list[object]", calls))
    if content is None and not tool_calls:
        raise ValueError("an assistant message needs content or tool_calls")
    ours = _object(stored.get(OURS, {}), OURS)
    return AssistantMessage(content, tool_calls, _reasoning(ours["reasoning"]) if "reasoning" in ours else None)


def _call(stored: Mapping[str, object]) -> ToolCall:
    function = _object(stored.get("function"), "function")
    ours = _object(stored.get(OURS, {}), OURS)
    extra = {key: value for key, value in stored.items() if key not in _CALL_KEYS}
    return ToolCall(
        id=_text(stored, "id", blank=False),
        name=_text(function, "name", blank=False),
        arguments=_text(function, "arguments"),
        extra=extra or None,
        origin=_text(ours, "origin", blank=False) if "origin" in ours else None,
    )


def _reasoning(stored: object) -> Reasoning:
    fields = _object(stored, "reasoning")
    return Reasoning(_text(fields, "field", blank=False), _text(fields, "text"), _text(fields, "origin", blank=False))


def _object(value: object, name: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ValueError(f"{name} must hold an object, not {value!r}")  # noqa: TRY004 - one error for a bad row
    return cast("dict[str, object]", value)


def _text(fields: Mapping[str, object], name: str, *, blank: bool = True) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not (blank or value):
        raise ValueError(f"{name} must be {'text' if blank else 'text that is not empty'}, not {value!r}")
    return value
