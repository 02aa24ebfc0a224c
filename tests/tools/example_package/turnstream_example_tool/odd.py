"""Things that an entry point may name and that are no tools."""

from typing import Any, cast

from pydantic import BaseModel, ConfigDict

from app.tools.tool import Step, Tool, ToolContext, ToolResult

NOT_A_TOOL = "a string"


class Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Opaque:
    """A type that no schema describes."""


class OpaqueArguments(BaseModel):
    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    what: Opaque


async def run(context: ToolContext, args: BaseModel) -> ToolResult:
    """Never reached."""
    del context, args
    return ToolResult("ok", "x", Step("odd", "x"))


def run_at_once(context: ToolContext, args: BaseModel) -> ToolResult:
    """Would block every turn of the process."""
    del context, args
    return ToolResult("ok", "x", Step("odd", "x"))


NOT_ASYNC = Tool("not_async", "x", Arguments, cast("Any", run_at_once), "odd")
NO_SCHEMA = Tool("no_schema", "x", OpaqueArguments, run, "odd")
