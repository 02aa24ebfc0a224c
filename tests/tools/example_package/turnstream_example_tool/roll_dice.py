"""A tool in a module of its own: its entry point names the module, which has a `TOOL`."""

import random
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from app.tools.tool import Step, Tool, ToolContext, ToolResult


class Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    sides: Annotated[int, Field(ge=2, le=100, description="How many sides the die has, 2 to 100.")] = 6


async def run(context: ToolContext, args: Arguments) -> ToolResult:
    """Roll once; the question is the seed, so that a turn can be repeated."""
    rolled = random.Random(context.question).randint(1, args.sides)
    return ToolResult("ok", f"{rolled}", Step("dice", f"d{args.sides}", f"{rolled}"))


TOOL = Tool(
    name="roll_dice",
    description="""\
Roll a die and return the number.

WHEN:
  - A question asks for a random number or a throw of dice

WHEN NOT:
  - The number stands in a document: use `search_chunks`

RETURNS:
  The number that was rolled. EMPTY is not used.

EXAMPLE: roll_dice {"sides": 20}""",
    args=Arguments,
    run=run,
    kind="dice",
)
