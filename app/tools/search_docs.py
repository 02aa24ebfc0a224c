"""The search of this product's own manual. Needs no database. Source: DESIGN section 7."""

import asyncio
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from app.knowledge.manual import Section, manual
from app.text import clean, cut
from app.tools.passage import render
from app.tools.tool import Source, Step, Tool, ToolContext, ToolResult

KIND = "manual"
SECTIONS = 4
"""Sections returned at most."""

_LABEL_CHARS = 200
_EXCERPT_CHARS = 300


class Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    query: Annotated[str, Field(description="What to look up in the manual: a setting, a route, a command or a term.")]


async def run(context: ToolContext, args: Arguments) -> ToolResult:
    """Search the manual and number what is found."""
    asked = " ".join(clean(args.query).split())
    label = cut(asked, _LABEL_CHARS)
    if not asked:
        return ToolResult("error", "`query` is blank. Give the words to look up.", Step(KIND, "manual", "blank query"))
    pages = await asyncio.to_thread(manual)
    found = pages.search(asked, limit=SECTIONS)
    if found is None:
        text = "no searchable words in `query`. Give terms in letters or digits."
        return ToolResult("empty", text, Step(KIND, label, "no searchable words"))
    if not found:
        text = "the manual holds none of these words. It is in English: try the English term."
        return ToolResult("empty", text, Step(KIND, label, "nothing found"))
    passages: list[str] = []
    for section in found:
        source = _source(section)
        passages.append(render(context.citations.cite(source), source, section.text))
    count = "1 section" if len(found) == 1 else f"{len(found)} sections"
    return ToolResult("ok", "\n\n".join([f"{count} of the manual.", *passages]), Step(KIND, label, count))


def _source(section: Section) -> Source:
    return Source(
        kind="manual",
        id=section.id,
        document_id=None,
        title=section.title,
        locator=section.heading,
        excerpt=cut(" ".join(section.text.split()), _EXCERPT_CHARS),
    )


TOOL = Tool(
    name="search_docs",
    description="""\
Search the manual of turnstream, this chat server, and return the sections that fit best, numbered for citing.

WHEN:
  - A question is about this product: its settings, commands, API, models, errors or how it works

WHEN NOT:
  - The question is about the subject of the documents in the base: use `search_chunks`

RETURNS:
  A line with the count, then sections with [n], page and heading; a sentence that rests on one MUST cite its [n].
  EMPTY means that the manual, which is in English, holds none of the words.

EXAMPLE: search_docs {"query": "configure a chat model"}""",
    args=Arguments,
    run=run,
    kind=KIND,
)
