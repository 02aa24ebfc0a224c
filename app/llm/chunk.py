"""One JSON payload of a reply -> the few fields of it that are used.

Decides what counts as readable: msgspec decodes the common shape in one go, and what it refuses (a lone
surrogate escape, a field of an unexpected type, two objects in one event) is read by json with a tolerant
hand. Does not judge what the fields mean (app/llm/reply.py). Hot path: about 0.6 us a chunk.
"""

import json
from typing import cast

import msgspec

_DETAIL_KEYS = ("text", "content", "thinking", "summary")


class Delta(msgspec.Struct, gc=False):
    """What a choice adds; also the `message` of a whole reply. `content` is text or a list of parts."""

    content: str | list[object] | None = None
    tool_calls: list[object] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[object] | None = None
    refusal: str | None = None
    function_call: dict[str, object] | None = None


class Choice(msgspec.Struct, gc=False):
    index: int | None = None
    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: str | None = None
    usage: dict[str, object] | None = None
    error: object = None


class Chunk(msgspec.Struct, gc=False):
    choices: list[Choice] | None = None
    usage: dict[str, object] | None = None
    error: object = None
    kind: object = msgspec.field(default=None, name="object")
    code: object = None
    message: object = None

    @property
    def is_error(self) -> bool:
        """Whether it reports an error instead of a part of a reply (case P14). Source: OpenAI, vLLM, DashScope."""
        if self.error or self.kind == "error":
            return True
        return self.choices is None and bool(self.code) and bool(self.message)


class _Named(msgspec.Struct, gc=False):
    model: object = None


_named = msgspec.json.Decoder(_Named).decode

REFUSED = (msgspec.DecodeError, RecursionError)
"""What `decode` raises for a payload that wants `decode_odd`."""

decode = msgspec.json.Decoder(Chunk).decode


def decode_odd(payload: bytes) -> list[Chunk]:
    """The chunks of a payload that `decode` refused; empty where nothing in it can be read.

    Lone surrogates stay in the text: a pair may be split over two deltas, so they are joined later.
    """
    text = payload.decode("utf-8", "replace")
    value = _parsed(text)
    if isinstance(value, dict):
        return [_chunk(cast("dict[str, object]", value))]
    if value is None and "\n" in text:
        lines = (_parsed(line.removeprefix("data:")) for line in text.split("\n"))
        return [_chunk(cast("dict[str, object]", line)) for line in lines if isinstance(line, dict)]
    return []


def model_of(payload: bytes) -> str | None:
    """The model that a chunk says it is from."""
    try:
        named = _named(payload).model
    except REFUSED:
        return None
    return named if isinstance(named, str) and named else None


def parts_of(content: list[object]) -> tuple[str, str]:
    """The answer text and the reasoning in a content list. Source: OpenAI parts, Mistral's thinking parts."""
    text: list[str] = []
    reasoning: list[str] = []
    for part in content:
        if isinstance(part, str):
            text.append(part)
        elif isinstance(part, dict):
            fields = cast("dict[str, object]", part)
            thinks = fields.get("type") in ("thinking", "reasoning")
            (reasoning if thinks else text).append(_text_within(fields))
    return "".join(text), "".join(reasoning)


def details_of(details: list[object]) -> str:
    """The readable text of OpenRouter's `reasoning_details`; encrypted ones have none."""
    return "".join(_text_within(cast("dict[str, object]", detail)) for detail in details if isinstance(detail, dict))


def _text_within(part: dict[str, object]) -> str:
    for key in _DETAIL_KEYS:
        value = part.get(key)
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            text, reasoning = parts_of(cast("list[object]", value))
            return text + reasoning
    return ""


def _parsed(text: str) -> object:
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def _chunk(value: dict[str, object]) -> Chunk:
    choices = value.get("choices")
    if isinstance(choices, dict):
        choices = [cast("object", choices)]
    return Chunk(
        choices=[
            _choice(cast("dict[str, object]", choice))
            for choice in cast("list[object]", choices)
            if isinstance(choice, dict)
        ]
        if isinstance(choices, list)
        else None,
        usage=_dict(value.get("usage")),
        error=value.get("error"),
        kind=value.get("object"),
        code=value.get("code"),
        message=value.get("message"),
    )


def _choice(value: dict[str, object]) -> Choice:
    return Choice(
        index=whole_number(value.get("index")),
        delta=_delta(value.get("delta")),
        message=_delta(value.get("message")),
        finish_reason=_str(value.get("finish_reason")),
        usage=_dict(value.get("usage")),
        error=value.get("error"),
    )


def _delta(value: object) -> Delta | None:
    fields = _dict(value)
    if fields is None:
        return None
    content = fields.get("content")
    if isinstance(content, int | float) and not isinstance(content, bool):
        content = str(content)
    elif isinstance(content, dict):
        content = [cast("object", content)]
    return Delta(
        content=cast("str | list[object]", content) if isinstance(content, str | list) else None,
        tool_calls=_list(fields.get("tool_calls")),
        reasoning_content=_str(fields.get("reasoning_content")),
        reasoning=_str(fields.get("reasoning")),
        reasoning_details=_list(fields.get("reasoning_details")),
        refusal=_str(fields.get("refusal")),
        function_call=_dict(fields.get("function_call")),
    )


def whole_number(value: object) -> int | None:
    """An index or a count as some servers write it: 0, 0.0 or "0"; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    return None


def _str(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _dict(value: object) -> dict[str, object] | None:
    return cast("dict[str, object]", value) if isinstance(value, dict) else None


def _list(value: object) -> list[object] | None:
    if isinstance(value, dict):
        return [cast("object", value)]
    return cast("list[object]", value) if isinstance(value, list) else None
