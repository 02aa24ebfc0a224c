"""The search of the base's documents: numbered passages for a model to cite. Source: DESIGN sections 3 and 7."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from app.knowledge.search import excerpt, search
from app.store.chunks import ChunkRecord
from app.text import cut
from app.tools.passage import render
from app.tools.tool import Source, Step, Tool, ToolContext, ToolResult

KIND = "search"
_LABEL_CHARS = 200
_NOTE = {
    "alike": " whose titles or headings look like the query; none holds its words",
    "near": " nearest to the query in meaning; none holds its words",
}


class Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    query: Annotated[
        str, Field(description="What to look for: names, terms or a phrase in the words that the documents would use.")
    ]
    limit: Annotated[int, Field(ge=1, le=10, description="How many passages to return at most, 1 to 10.")] = 6


async def run(context: ToolContext, args: Arguments) -> ToolResult:
    """Search the turn's base and number what is found.

    A blank query is an error, not EMPTY: the model would say that the base holds nothing (DESIGN section 7).
    """
    asked = " ".join(args.query.split())
    label = cut(asked, _LABEL_CHARS)
    if not asked:
        text = "`query` is blank. Give the words to look for; this says nothing about the base."
        return ToolResult("error", text, Step(KIND, "search", "blank query"))
    result = await search(context.database, context.base_id, args.query, limit=args.limit, nearest=context.nearest)
    if result.outcome == "no_searchable_words":
        text = "no searchable words in `query`. Give names or terms, in letters or digits."
        return ToolResult("empty", text, Step(KIND, label, "no searchable words"))
    if result.outcome == "nothing":
        text = (
            "no passage of this base holds any of these words. Try other words that the documents may use, the "
            "other language, or fewer of them; if that finds nothing, say that the base has nothing on it."
        )
        return ToolResult("empty", text, Step(KIND, label, "nothing found"))
    passages: list[str] = []
    for hit in result.hits:
        source = _source(hit.chunk, excerpt(hit.chunk.text, result.query))
        passages.append(render(context.citations.cite(source), source, hit.chunk.text))
    documents = {hit.chunk.document_id for hit in result.hits}
    count = f"{_count(len(passages), 'passage')} in {_count(len(documents), 'document')}"
    note = _NOTE.get(result.outcome, "")
    return ToolResult("ok", "\n\n".join([f"{count}{note}.", *passages]), Step(KIND, label, count))


def _source(chunk: ChunkRecord, shown: str) -> Source:
    page = f"p. {chunk.page}" if chunk.page is not None else ""
    return Source(
        kind="chunk",
        id=chunk.id,
        document_id=chunk.document_id,
        title=chunk.title or chunk.name,
        locator=", ".join(part for part in (chunk.heading, page) if part),
        excerpt=shown,
    )


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


TOOL = Tool(
    name="search_chunks",
    description="""\
Search the documents of the knowledge base and return the passages that fit best, numbered for citing.

WHEN:
  - A question is about anything the documents may tell: people, organisations, dates, terms, decisions
  - An earlier search found too little: search again with other words, or in the other language

WHEN NOT:
  - The question is about this product itself, its settings or its API: use `search_docs`

RETURNS:
  A line with the count, then passages with [n], document and headings; a sentence that rests on one MUST cite its [n].
  EMPTY means that no passage holds the words. More than 6 passages: raise `limit`.

EXAMPLE: search_chunks {"query": "OpenAI board November 2023"}""",
    args=Arguments,
    run=run,
    kind=KIND,
)
