"""Whether a tool call says what it wants: judged from the tool's own schema, before anything runs.

Pure. A call that fails is never repaired and never run: the model is told what to do better. Names are
folded (case, hyphen, space), never guessed; close ones are only suggested. Source: DESIGN section 6,
seed 000, cases A03, A06 and A07.
"""

import difflib
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, cast

from app.llm.model import ToolCall
from app.text import clean_json
from app.turn.hooks import BeforeCall, Refuse, Run

MAX_IDENTICAL_CALLS = 2
"""How often one and the same call may run in a turn."""

_WRAPPERS = ("functions.", "tools.")
_UNSAFE_IN_NAME = re.compile(r"[^A-Za-z0-9_-]+")


class Catalogue(Protocol):
    """The tools of this turn, as far as judging a call needs them."""

    def names(self) -> Sequence[str]:
        """The names that may be called, sorted."""
        ...

    def required(self, name: str) -> Sequence[str]:
        """The arguments that a call of this tool must have."""
        ...

    def fault(self, name: str, arguments: dict[str, object]) -> str | None:
        """What is wrong with the arguments by the tool's schema, in a sentence; None when nothing is."""
        ...

    def written(self, name: str, arguments: dict[str, object]) -> Sequence[str] | None:
        """The texts that a call which writes must have from the user; None for a call that only reads."""
        ...


@dataclass(frozen=True, slots=True)
class Past:
    """An earlier call of this turn that was let through: what it was, and how it ended if it has."""

    signature: str
    status: str | None


def signature(name: str, arguments: dict[str, object]) -> str:
    """The identity of a call: its name and its arguments, whatever the order of keys and the spacing."""
    return f"{name} {json.dumps(arguments, sort_keys=True, ensure_ascii=False, separators=(',', ':'))}"


def check(call: ToolCall, *, cut_off: bool, catalogue: Catalogue, past: Sequence[Past]) -> BeforeCall:
    """Run the call, with its name and arguments as understood, or refuse it with a reason for the model."""
    name = resolve(call.name, catalogue.names())
    if name is None:
        return _unknown(call, catalogue.names())
    parsed = _parse(call.arguments, needs_any=cut_off or bool(catalogue.required(name)))
    if parsed is None:
        return _refuse(call, name, *_unparseable(cut_off=cut_off))
    for key in catalogue.required(name):
        if _is_empty(parsed.get(key)):
            reason = f"`{key}` is missing or empty, so {name} was not run. Call it again with a value for `{key}`."
            return _refuse(call, name, reason, f"missing {key}")
    fault = catalogue.fault(name, parsed)
    if fault is not None:
        return _refuse(
            call, name, f"{fault} {name} was not run. Call it again with arguments that fit.", "bad arguments"
        )
    repeated = _repeated(name, parsed, past)
    if repeated is not None:
        return Refuse(_as_stored(call, name, parsed), repeated, "repeated call", repeated=True)
    return Run(_as_stored(call, name, parsed), name, parsed)


def resolve(emitted: str, names: Sequence[str]) -> str | None:
    """The tool an emitted name means: exactly, or after folding case, hyphens, spaces and a known wrapper."""
    if emitted in names:
        return emitted
    bare = emitted.strip()
    for wrapper in _WRAPPERS:
        bare = bare.removeprefix(wrapper)
    folded = _fold(bare)
    matches = [name for name in names if _fold(name) == folded]
    return matches[0] if len(matches) == 1 else None


def _fold(name: str) -> str:
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"[-\s./_]+", "_", spaced).strip("_").lower()


def _parse(arguments: str, *, needs_any: bool) -> dict[str, object] | None:
    """The arguments as an object, None when they aren't one (or nest too deep to be handled).

    Blank means no arguments, where none are needed.
    """
    text = arguments.strip()
    if text in ("", "null"):
        return None if needs_any and text == "" else {}
    try:
        value = clean_json(json.loads(text, parse_constant=_no_constant, parse_float=_finite))
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, object]", value) if isinstance(value, dict) else None


def _is_empty(value: object) -> bool:
    return value is None or value in ([], {}) or (isinstance(value, str) and not value.strip())


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits} is beyond what a number can hold")
    return number


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _unparseable(*, cut_off: bool) -> tuple[str, str]:
    if cut_off:
        reason = "The arguments were cut off by the token limit, so the call was not run. Make it again, shorter."
        return reason, "arguments cut off"
    reason = "The arguments are not one complete JSON object, so the call was not run. Make it again with one."
    return reason, "bad arguments"


def _repeated(name: str, arguments: dict[str, object], past: Sequence[Past]) -> str | None:
    same = signature(name, arguments)
    earlier = [p for p in past if p.signature == same]
    if any(p.status == "error" for p in earlier):
        return f"This exact call of {name} already failed in this turn and was not run again. Change it, or answer."
    if len(earlier) >= MAX_IDENTICAL_CALLS:
        return (
            f"This exact call of {name} already ran {len(earlier)} times in this turn and was not run again. "
            "Its result stands above: use it, change the call, or answer."
        )
    return None


def _unknown(call: ToolCall, names: Sequence[str]) -> Refuse:
    safe = _UNSAFE_IN_NAME.sub("_", call.name).strip("_")[:64] or "unknown_tool"
    near = difflib.get_close_matches(_fold(call.name)[:64], names, n=3, cutoff=0.5)
    nearest = f" Nearest: {', '.join(near)}." if near else ""
    reason = f"There is no tool {safe}, so nothing was run. Tools: {', '.join(names)}.{nearest}"
    return _refuse(call, safe, reason, "unknown tool")


def _refuse(call: ToolCall, name: str, reason: str, detail: str) -> Refuse:
    """Refused for what it says: the exchange keeps it with empty arguments, which every endpoint takes back."""
    return Refuse(_as_stored(call, name, {}), reason, detail)


def _as_stored(call: ToolCall, name: str, arguments: dict[str, object]) -> ToolCall:
    return replace(call, name=name, arguments=json.dumps(arguments, ensure_ascii=False))
