"""The list of tools: the only one. Chat, MCP and the documentation read it; nothing else dispatches.

Decides which tools there are, whether arguments fit, and that whatever a tool does wrong (raise, hang, return
a wrong shape) becomes an ERROR observation and never anything else. Source: DESIGN section 7, TOOLS O1-O26.
"""

import asyncio
import importlib
import inspect
import json
import pkgutil
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType, ModuleType
from typing import Any, cast

import structlog
from pydantic import BaseModel, ValidationError

import app.tools
from app.text import clean, cut
from app.tools.observation import Observed, stamp
from app.tools.tool import Entity, Step, Tool, ToolContext, ToolResult

AnyTool = Tool[Any]

ENTRY_POINTS = "turnstream.tools"
"""The entry point group in which an installed package names its tools: the tool's name, and where its `TOOL` is."""

STEP_CHARS = 300
"""The longest label and the longest detail of a step."""

RESOLVED = 50
"""Entities that one call may identify."""

STRUCTURED_CHARS = 200_000
"""The longest structured content, as JSON; a longer one is left out, the text says what there is."""

_NAME = re.compile(r"[a-z][a-z0-9_]{2,47}")
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ToolFault:
    """A third-party tool that was asked for and isn't there, and why."""

    name: str
    reason: str


class Offered:
    """A tool as a model or an MCP client is told of it."""

    __slots__ = ("chat_only", "description", "name", "parameters", "read_only", "writes")

    def __init__(self, tool: AnyTool) -> None:
        self.name = tool.name
        self.description = tool.description
        self.parameters: Mapping[str, object] = json_schema(tool.args)
        self.read_only = tool.read_only
        self.writes = tool.writes
        self.chat_only = tool.chat_only


class Registry:
    """Registered tools by name. Immutable once made. `errors` are the third-party tools that could not be had."""

    def __init__(self, tools: Sequence[AnyTool], errors: Sequence[ToolFault] = ()) -> None:
        by_name: dict[str, AnyTool] = {}
        for tool in sorted(tools, key=lambda t: t.name):
            if tool.name in by_name:
                raise ValueError(f"two tools are named {tool.name}")
            by_name[tool.name] = tool
        self._tools: Mapping[str, AnyTool] = MappingProxyType(by_name)
        self._offered = tuple(Offered(tool) for tool in by_name.values())
        self._reading = tuple(o for o in self._offered if not o.writes)
        self._required = {o.name: tuple(cast("list[str]", o.parameters.get("required", []))) for o in self._offered}
        self.errors = tuple(errors)

    def __iter__(self) -> Iterator[AnyTool]:
        return iter(self._tools.values())

    def names(self, *, may_write: bool = True) -> Sequence[str]:
        """The names of all tools, or of those that anybody may call; sorted."""
        return tuple(offered.name for offered in self.chat_tools(may_write=may_write))

    def chat_tools(self, *, may_write: bool = True) -> Sequence[Offered]:
        """The tools that a chat model is offered, sorted by name, so that the rendered list is stable."""
        return self._offered if may_write else self._reading

    def required(self, name: str) -> Sequence[str]:
        return self._required[name]

    def is_terminal(self, name: str) -> bool:
        tool = self._tools.get(name)
        return tool is not None and tool.terminal

    def fault(self, name: str, arguments: dict[str, object]) -> str | None:
        """What the tool's own argument model says against the arguments; None when they fit."""
        try:
            self._tools[name].args.model_validate(arguments)
        except ValidationError as error:
            return _describe(error)
        return None

    def written(self, name: str, arguments: dict[str, object]) -> Sequence[str] | None:
        """What a call of a tool that writes would write and the user must have said; None where the tool only reads.

        The arguments fit (`fault`).
        """
        tool = self._tools[name]
        if not tool.writes:
            return None
        args: BaseModel = tool.args.model_validate(arguments)
        return tuple(_texts(args.model_dump()) if tool.own_words is None else tool.own_words(args))

    def refused(self, name: str, reason: str, detail: str) -> Observed:
        """The observation of a call that was not run."""
        return Observed("error", stamp("error", reason), Step("refused", name, detail), (), {})

    async def dispatch(self, name: str, arguments: dict[str, object], context: ToolContext) -> Observed:
        """Run a registered tool with arguments that fit. Only cancellation comes out as an exception."""
        tool = self._tools[name]
        step = Step(tool.kind, name)
        try:
            args: BaseModel = tool.args.model_validate(arguments)
        except ValidationError as error:
            return self.refused(name, _describe(error), "bad arguments")
        if tool.writes and not context.may_write:
            text = f"{name} writes into the base, which whoever asks here may not. Nothing was recorded."
            return self.refused(name, text, "may not write")
        deadline = asyncio.timeout(tool.timeout_s)
        try:
            async with deadline:
                result: object = await tool.run(context, args)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return _failed(tool)  # nobody cancelled this turn: something that the tool waited for was
        except (Exception, SystemExit):  # noqa: BLE001 - the tool boundary: what a tool raises becomes an observation
            if deadline.expired():
                text = f"{name} did not finish within {tool.timeout_s:g} s. Ask for something narrower, or do without."
                return Observed("error", stamp("error", text), Step(tool.kind, name, "timed out"), (), {})
            return _failed(tool)
        return _observed(name, step, result)


def _failed(tool: AnyTool) -> Observed:
    """What a tool that broke shows: a safe sentence and a reference. Called where its exception is being handled."""
    reference = uuid.uuid4().hex[:8]
    _log.exception("tool_failed", tool=tool.name, reference=reference)
    text = f"{tool.name} is not available right now (reference {reference}). This says nothing about the base."
    return Observed("error", stamp("error", text), Step(tool.kind, tool.name, f"failed, {reference}"), (), {})


def _observed(name: str, step: Step, result: object) -> Observed:
    if not isinstance(result, ToolResult) or not _is_sound(result):
        _log.error("tool_returned_wrong_shape", tool=name, type=type(result).__name__)
        text = f"{name} returned something that can't be read. This says nothing about the base."
        return Observed("error", stamp("error", text), step, (), {})
    status = "empty" if result.status == "ok" and not result.text.strip() else result.status
    said = result.step
    shown = Step(_short(said.kind), _short(said.label), _short(said.detail))
    structured = _bounded(name, result.structured)
    return Observed(status, stamp(status, result.text), shown, result.resolved[:RESOLVED], structured)


def _short(words: str) -> str:
    return cut(clean(words), STEP_CHARS)


def _bounded(name: str, structured: dict[str, object]) -> dict[str, object]:
    """Structured content that can be sent: JSON, and not too long; else none, and the log says why."""
    if not structured:
        return structured
    try:
        chars = len(json.dumps(structured, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        _log.error("tool_structured_is_no_json", tool=name, reason=str(error))
        return {}
    if chars > STRUCTURED_CHARS:
        _log.warning("tool_structured_too_long", tool=name, chars=chars)
        return {}
    return structured


_KINDS: Mapping[str, type] = {"text": str, "step": Step, "resolved": tuple, "structured": dict}


def _is_sound(result: ToolResult) -> bool:
    """Whether a result holds what its types say: a tool of a third party may not have been type-checked."""
    well_typed = all(isinstance(getattr(result, name), kind) for name, kind in _KINDS.items())
    if not well_typed or result.status not in ("ok", "empty", "error"):
        return False
    words = cast("Sequence[object]", (result.step.kind, result.step.label, result.step.detail))
    entities = cast("Sequence[object]", result.resolved)
    return all(isinstance(word, str) for word in words) and all(isinstance(entity, Entity) for entity in entities)


def json_schema(args: type[BaseModel]) -> dict[str, object]:
    """The argument model as the JSON schema that models and MCP clients are shown: an object, closed, no titles."""
    schema = cast("dict[str, object]", _without_titles(args.model_json_schema()))
    schema["additionalProperties"] = False
    schema.setdefault("properties", {})
    schema.pop("description", None)
    return schema


def _without_titles(value: object) -> object:
    if isinstance(value, dict):
        pairs = cast("dict[str, object]", value)
        return {
            k: (
                {n: _without_titles(p) for n, p in cast("dict[str, object]", v).items()}
                if k == "properties"
                else _without_titles(v)
            )
            for k, v in pairs.items()
            if k != "title" or not isinstance(v, str)
        }
    if isinstance(value, list):
        return [_without_titles(v) for v in cast("list[object]", value)]
    return value


def _texts(value: object) -> Iterator[str]:
    """Every text in a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for held in cast("Mapping[object, object]", value).values():
            yield from _texts(held)
    elif isinstance(value, list | tuple | set | frozenset):
        for held in cast("Iterable[object]", value):
            yield from _texts(held)


def _describe(error: ValidationError) -> str:
    parts = [f"`{'.'.join(str(p) for p in e['loc']) or 'arguments'}`: {e['msg']}" for e in error.errors()[:5]]
    return "The arguments don't fit: " + "; ".join(parts) + "."


def first_party() -> list[AnyTool]:
    """The tools of this folder: every module with a `TOOL`. A module that can't be imported stops the start."""
    found: list[AnyTool] = []
    for module_info in pkgutil.iter_modules(app.tools.__path__):
        module = importlib.import_module(f"app.tools.{module_info.name}")
        tool = getattr(module, "TOOL", None)
        if isinstance(tool, Tool):
            found.append(cast("AnyTool", tool))
    return found


def load(enabled: Sequence[str] = ()) -> Registry:
    """The registry of this process: first-party tools, and those third-party ones that `enabled` names.

    Being installed is no consent: a third party's code is run only where its tool is named. What is wrong with one is
    logged and kept in `errors`; the others are there all the same. A first-party tool that is wrong stops the start.

    Raises:
        TypeError: a first-party tool isn't async.
    """
    tools = first_party()
    for tool in tools:
        if not inspect.iscoroutinefunction(tool.run):
            raise TypeError(f"{tool.name}: run must be an async function")
    errors: list[ToolFault] = []
    taken = {tool.name for tool in tools}
    for name in dict.fromkeys(enabled):
        found = "that name is a tool of turnstream itself" if name in taken else _third_party(name)
        if isinstance(found, str):
            _log.error("tool_not_loaded", tool=name, reason=found)
            errors.append(ToolFault(name, found))
        else:
            tools.append(found)
    return Registry(tools, errors)


def _third_party(name: str) -> AnyTool | str:
    """The tool of an entry point of that name, or a sentence on why there is none."""
    points = sorted(entry_points(group=ENTRY_POINTS, name=name), key=_package)
    if not points:
        return f"no installed package has an entry point {name} in the group {ENTRY_POINTS}"
    if len(points) > 1:
        return f"several packages have it: {', '.join(map(_package, points))}"
    try:
        loaded: object = points[0].load()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a third party's code runs here for the first time
        _log.warning("tool_import_failed", tool=name, package=_package(points[0]), exc_info=error)
        return f"{_package(points[0])} can't be imported: {type(error).__name__}"
    if isinstance(loaded, ModuleType):
        loaded = getattr(loaded, "TOOL", None)
    return _sound_tool(name, loaded)


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value


def _sound_tool(name: str, tool: object) -> AnyTool | str:
    """The tool if it is one, by the name under which it was asked for; else what is wrong with it."""
    if not isinstance(tool, Tool):
        return "its entry point names neither a Tool nor a module with a TOOL"
    checked = cast("AnyTool", tool)
    if checked.name != name or not _NAME.fullmatch(name):
        return f"its tool is named {checked.name!r}"
    if not inspect.iscoroutinefunction(checked.run):
        return "its run isn't an async function"
    try:
        Offered(checked)
    except Exception as error:  # noqa: BLE001 - whatever a third party's argument model raises
        _log.warning("tool_schema_failed", tool=name, exc_info=error)
        return f"its arguments have no JSON schema: {type(error).__name__}"
    return checked
