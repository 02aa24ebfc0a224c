"""Pieces of tool calls -> the calls of one model turn.

Decides which pieces belong together, from the structure alone: an index of its own is a call of its own; else
a new id together with a name begins one; else the piece continues the call opened last. Blank ids and names
count as absent. Does not judge the arguments: they are joined and handed on as written. Source: P01, P03, P04.

Where index and id don't tell calls apart, two facts do: a name that can't be a part or a repetition of the open
call's name, and arguments that follow a JSON object that is already whole.
"""

import json
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from app.llm.chunk import whole_number
from app.llm.model import ToolCall
from app.text import clean, clean_json

_NAMED = frozenset({"id", "index", "type", "function"})
"""The fields of a call that the protocol names; any other is kept as extra (case A13)."""


def _fold(name: str) -> str:
    return name.replace("-", "_").casefold()


@dataclass(slots=True)
class _Open:
    """A call that pieces are still added to."""

    index: int | None
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list[str])
    extra: dict[str, object] = field(default_factory=dict[str, object])

    @property
    def is_whole(self) -> bool:
        """Whether the arguments are one complete JSON object, which nothing can continue."""
        text = "".join(self.arguments).strip()
        if not (text.startswith("{") and text.endswith("}")):
            return False
        try:
            json.loads(text, strict=False)
        except (ValueError, RecursionError):
            return False
        return True


@dataclass(frozen=True, slots=True)
class _Piece:
    """One entry of `tool_calls`; blank where something is absent. `whole`: its arguments came as an object."""

    index: int | None
    id: str
    name: str
    arguments: str
    whole: bool
    extra: dict[str, object]


class CallAssembly:
    """The calls of one model turn while they arrive. `known` are the names of the tools that were offered."""

    __slots__ = ("_by_id", "_by_index", "_calls", "_last", "_legacy", "_names", "_origin")

    def __init__(self, known: Collection[str], *, origin: str) -> None:
        self._names = frozenset(_fold(name) for name in known)
        self._origin = origin
        self._calls: list[_Open] = []
        self._by_index: dict[int, _Open] = {}
        self._by_id: dict[str, _Open] = {}
        self._last: _Open | None = None
        self._legacy: _Open | None = None

    def add(self, entries: Sequence[object]) -> None:
        """Take the `tool_calls` of one delta. Several entries without index and id are told apart by place."""
        pieces = [piece for entry in entries if (piece := _piece(entry)) is not None]
        if len(pieces) > 1 and all(piece.index is None and not piece.id for piece in pieces):
            pieces = [replace(piece, index=place) for place, piece in enumerate(pieces)]
        for piece in pieces:
            call = self._found(piece)
            if call is None or self._begins_another(call, piece):
                call = self._open(piece)
            self._extend(call, piece)

    def add_whole(self, entries: Sequence[object]) -> None:
        """Take the `tool_calls` of a whole message: every entry is a call of its own."""
        for entry in entries:
            piece = _piece(entry)
            if piece is not None:
                self._extend(self._open(piece), piece)

    def add_legacy(self, function_call: dict[str, object]) -> None:
        """Take a `function_call`, the protocol's form for a single call before tools."""
        piece = _piece({"function": function_call})
        if piece is None:
            return
        if self._legacy is None:
            self._legacy = _Open(None)
        self._extend(self._legacy, piece)

    def calls(self) -> tuple[ToolCall, ...]:
        """The calls in the order in which they were opened; one without a name is none.

        Ids are unique and not blank: a missing or repeated one is minted anew.
        """
        opened = [call for call in self._calls if call.name.strip()]
        if not opened and self._legacy is not None and self._legacy.name.strip():
            opened = [self._legacy]
        taken: set[str] = set()
        out: list[ToolCall] = []
        for call in opened:
            call_id = clean(call.id).strip()
            if not call_id or call_id in taken:
                call_id = f"call_{uuid.uuid4().hex[:24]}"
            taken.add(call_id)
            extra = cast("dict[str, object]", clean_json(call.extra)) or None
            out.append(
                ToolCall(
                    id=call_id,
                    name=clean(call.name).strip(),
                    arguments=clean("".join(call.arguments)),
                    extra=extra,
                    origin=self._origin if extra else None,
                )
            )
        return tuple(out)

    def _found(self, piece: _Piece) -> _Open | None:
        """The open call that index, id or order point at. A call opened without index may be given one later."""
        by_id = self._by_id.get(piece.id) if piece.id else None
        if piece.index is None:
            return by_id or self._last
        call = self._by_index.get(piece.index)
        if call is None:
            continued = by_id if piece.id else None if piece.name else self._last
            if continued is not None and continued.index is None:
                continued.index = piece.index
                self._by_index[piece.index] = call = continued
        return call

    def _begins_another(self, call: _Open, piece: _Piece) -> bool:
        """Whether the piece can't be a part of the call that its index, id or place points at."""
        if not piece.name:
            return False
        if piece.id and piece.id != call.id and (call.id or call.is_whole):
            return True
        if not call.name:
            return False
        if not self._is_part(call.name, piece.name) and (_fold(piece.name) in self._names or call.arguments):
            return True
        return bool(piece.arguments.strip()) and call.is_whole and piece.arguments != "".join(call.arguments)

    def _is_part(self, name: str, more: str) -> bool:
        """Whether `more` repeats the name, or continues it towards a known one."""
        return more.startswith(name) or self._leads_on(name + more)

    def _leads_on(self, name: str) -> bool:
        folded = _fold(name)
        return any(known.startswith(folded) for known in self._names)

    def _open(self, piece: _Piece) -> _Open:
        call = _Open(piece.index)
        self._calls.append(call)
        if piece.index is not None:
            self._by_index[piece.index] = call
        return call

    def _extend(self, call: _Open, piece: _Piece) -> None:
        if call is not self._legacy:
            self._last = call
        if piece.id and not call.id:
            call.id = piece.id
            self._by_id.setdefault(piece.id, call)
        if piece.name:
            call.name = self._named(call.name, piece.name)
        if piece.whole:
            call.arguments = [piece.arguments]
        elif piece.arguments and not (piece.name and call.is_whole):
            call.arguments.append(piece.arguments)
        call.extra.update(piece.extra)

    def _named(self, name: str, more: str) -> str:
        """The name with one more piece: joined only while the result still leads to a known name (case P03)."""
        if not name:
            return more
        if more == name and _fold(name) in self._names:
            return name
        if self._leads_on(name + more):
            return name + more
        return more if more.startswith(name) else name


def _piece(entry: object) -> _Piece | None:
    if not isinstance(entry, dict):
        return None
    fields = cast("dict[str, object]", entry)
    function = fields.get("function")
    named = cast("dict[str, object]", function) if isinstance(function, dict) else {}
    arguments = named.get("arguments")
    return _Piece(
        index=whole_number(fields.get("index")),
        id=_filled(fields.get("id")),
        name=_filled(named.get("name")),
        arguments=_written(arguments),
        whole=arguments is not None and not isinstance(arguments, str),
        extra={key: value for key, value in fields.items() if key not in _NAMED and value is not None},
    )


def _filled(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) and value.strip() else ""


def _written(arguments: object) -> str:
    """The arguments as text; an object becomes the JSON it stands for, null nothing (case P04)."""
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
