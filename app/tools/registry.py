"""The list of tools: the only one. Chat, MCP and the documentation read it; nothing else dispatches.

Decides which tools there are, whether arguments fit, and that whatever a tool does wrong (raise, hang, return
a wrong shape) becomes an ERROR observation and never anything else. Source: DESIGN section 7, TOOLS O1-O26.
"""

import asyncio
import importlib
import inspect
import pkgutil
import uuid
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

import structlog
from pydantic import BaseModel, ValidationError

import app.tools
from app.tools.observation import Observed, stamp
from app.tools.tool import Step, Tool, ToolContext, ToolResult

AnyTool = Tool[Any]

_log = structlog.get_logger(__name__)


class Offered:
    """A tool as a model or an MCP client is told of it."""

    __slots__ = ("description", "name", "parameters", "read_only")

    def __init__(self, tool: AnyTool) -> None:
        self.name = tool.name
        self.description = tool.description
        self.parameters: Mapping[str, object] = json_schema(tool.args)
        self.read_only = tool.read_only


class Registry:
    """Registered tools by name. Immutable once made."""

    def __init__(self, tools: Sequence[AnyTool]) -> None:
        by_name: dict[str, AnyTool] = {}
        for tool in sorted(tools, key=lambda t: t.name):
            if tool.name in by_name:
                raise ValueError(f"two tools are named {tool.name}")
            by_name[tool.name] = tool
        self._tools: Mapping[str, AnyTool] = MappingProxyType(by_name)
        self._names = tuple(by_name)
        self._offered = tuple(Offered(tool) for tool in by_name.values())
        self._required = {o.name: tuple(cast("list[str]", o.parameters.get("required", []))) for o in self._offered}

    def __iter__(self) -> "Any":
        return iter(self._tools.values())

    def names(self) -> Sequence[str]:
        """All names, sorted."""
        return self._names

    def chat_tools(self) -> Sequence[Offered]:
        """The tools a chat model is offered, sorted by name, so that the rendered list is stable."""
        return self._offered

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
        deadline = asyncio.timeout(tool.timeout_s)
        try:
            async with deadline:
                result: object = await tool.run(context, args)
        except (Exception, SystemExit):  # noqa: BLE001 - the tool boundary: what a tool raises becomes an observation
            if deadline.expired():
                text = f"{name} did not finish within {tool.timeout_s:g} s. Ask for something narrower, or do without."
                return Observed("error", stamp("error", text), Step(tool.kind, name, "timed out"), (), {})
            reference = uuid.uuid4().hex[:8]
            _log.exception("tool_failed", tool=name, reference=reference)
            text = f"{name} is not available right now (reference {reference}). This says nothing about the base."
            return Observed("error", stamp("error", text), Step(tool.kind, name, f"failed, {reference}"), (), {})
        return _observed(name, step, result)


def _observed(name: str, step: Step, result: object) -> Observed:
    if not isinstance(result, ToolResult) or not _is_sound(result):
        _log.error("tool_returned_wrong_shape", tool=name, type=type(result).__name__)
        text = f"{name} returned something that can't be read. This says nothing about the base."
        return Observed("error", stamp("error", text), step, (), {})
    status = "empty" if result.status == "ok" and not result.text.strip() else result.status
    return Observed(status, stamp(status, result.text), result.step, result.resolved, result.structured)


_KINDS: Mapping[str, type] = {"text": str, "step": Step, "resolved": tuple, "structured": dict}


def _is_sound(result: ToolResult) -> bool:
    """Whether a result holds what its types say: a tool of a third party may not have been type-checked."""
    well_typed = all(isinstance(getattr(result, name), kind) for name, kind in _KINDS.items())
    return well_typed and result.status in ("ok", "empty", "error")


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


def load() -> Registry:
    """The registry of this process: first-party tools."""
    tools = first_party()
    for tool in tools:
        if not inspect.iscoroutinefunction(tool.run):
            raise TypeError(f"{tool.name}: run must be an async function")
    return Registry(tools)
