"""The terminal for messages that aren't about what the base holds. Its call and reason are stored with the turn.

It opens the gate without a search, so a greeting costs no retrieval, and a skip is a recorded, reasoned
decision rather than an absence. Source: seed 001.
"""

from pydantic import BaseModel, ConfigDict, Field

from app.text import cut
from app.tools.tool import Step, Tool, ToolContext, ToolResult


class Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    reason: str = Field(description="Why this message can be answered without the knowledge base, in a few words.")


async def run(context: ToolContext, args: Arguments) -> ToolResult:
    """Record the decision."""
    del context
    return ToolResult(
        "ok",
        "Understood. Answer the user directly now.",
        Step("skip", cut(args.reason.strip(), 200), "answered without the base"),
    )


TOOL = Tool(
    name="no_evidence_needed",
    description="""\
Say that this message can be answered without the knowledge base.

WHEN:
  - The message is a greeting, thanks or small talk
  - The message is about this conversation: reword, shorten, translate or explain what was said

WHEN NOT:
  - The message asks about any person, organisation, date or thing: use `search_chunks` first

RETURNS:
  A confirmation; the answer MUST follow as plain text. EMPTY is not used.

EXAMPLE: no_evidence_needed {"reason": "greeting"}""",
    args=Arguments,
    run=run,
    kind="skip",
    chat_only=True,
    terminal=True,
)
