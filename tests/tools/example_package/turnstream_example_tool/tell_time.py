"""A tool whose entry point names the object itself."""

from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict

from app.tools.tool import Step, Tool, ToolContext, ToolResult


class Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid")


async def run(context: ToolContext, args: Arguments) -> ToolResult:
    """The server's clock."""
    del context, args
    now = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    return ToolResult("ok", now, Step("time", "now", now))


TELL_TIME = Tool(
    name="tell_time",
    description="""\
Tell what day and time it is now, in UTC.

WHEN:
  - A question depends on the present day, such as how long ago something was

WHEN NOT:
  - The date of an event is asked for: use `search_chunks`

RETURNS:
  The date and the time. EMPTY is not used.

EXAMPLE: tell_time {}""",
    args=Arguments,
    run=run,
    kind="time",
)
