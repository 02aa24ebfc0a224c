"""An entity's dated facts in order. Undated ones are counted, not placed. Source: DESIGN section 7, seed 003."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from app.knowledge.graph import called, count, doubt, entity_data, fact_data, sentence, view_of, when
from app.knowledge.moments import Period
from app.store import graph
from app.store.graph import GraphFact
from app.tools.graph_sheet import Sheet, counted, head, meant, period_of, shown
from app.tools.tool import Step, Tool, ToolContext, ToolResult

KIND = "timeline"


class Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    entity_id: Annotated[str, Field(description="The id of the entity, or a name that only one entity has.")]
    since: Annotated[str, Field(description="Not before: YYYY, YYYY-MM or YYYY-MM-DD; blank for the beginning.")] = ""
    until: Annotated[str, Field(description="Not after: YYYY, YYYY-MM or YYYY-MM-DD; blank for the end.")] = ""
    limit: Annotated[int, Field(ge=1, le=100, description="How many facts to return at most, 1 to 100.")] = 60


async def run(context: ToolContext, args: Arguments) -> ToolResult:
    """Read what began or ended within the window, oldest first."""
    who = await meant(context, args.entity_id, field="entity_id", kind=KIND)
    if isinstance(who, ToolResult):
        return who
    label = called(who.entity)
    window = _window(args, label)
    if isinstance(window, ToolResult):
        return window
    since, until = window
    view = view_of(context.base_id, context.as_of)
    first, last = since.first if since else None, until.last if until else None
    page = await graph.timeline(context.database, view, who.entity.id, since=first, until=last, limit=args.limit)
    within = f"; from {since or 'the beginning'} to {until or 'the end'}" if since or until else ""
    top = f"{head(who, None, view)}{within}"
    undated = f"{count(page.undecided, 'fact has', 'facts have')} no date and no place here: entity_facts shows them."
    if not page.facts:
        text = f"{top}\nno fact begins or ends then." + (f" {undated}" if page.undecided else "")
        return ToolResult("empty", text, Step(KIND, label, "nothing dated"), (who.resolved,))
    sheet = Sheet(context, top)
    told = _fill(sheet, page.facts, who.entity.id)
    sheet.add(shown(told, page.total, "dated fact", "narrow with `since` and `until`, or raise `limit`"))
    if page.undecided:
        sheet.add(undated)
    structured: dict[str, object] = {
        "entity": entity_data(who.entity),
        "facts": [fact_data(fact, sheet.numbers.get(fact.id)) for fact in page.facts[:told]],
        "total": page.total,
        "undated": page.undecided,
    }
    return ToolResult(
        "ok", sheet.text, Step(KIND, label, counted(page.total, "dated fact")), (who.resolved,), structured
    )


def _window(args: Arguments, label: str) -> tuple[Period | None, Period | None] | ToolResult:
    since = period_of(args.since, field="since", kind=KIND, label=label)
    if isinstance(since, ToolResult):
        return since
    until = period_of(args.until, field="until", kind=KIND, label=label)
    if isinstance(until, ToolResult):
        return until
    if since and until and since.first > until.last:
        return ToolResult("error", f"`since` {since} is after `until` {until}.", Step(KIND, label, "empty window"))
    return since, until


def _fill(sheet: Sheet, facts: Sequence[GraphFact], entity_id: str) -> int:
    """Put the facts on the sheet; gives how many there was room for."""
    for told, fact in enumerate(facts):
        if not sheet.fact(f"- {when(fact)}: {sentence(fact, entity_id)}{doubt(fact)}", fact):
            return told
    return len(facts)


TOOL = Tool(
    name="timeline",
    description="""\
List the dated facts of one entity in the order of time.

WHEN:
  - A question asks what happened to somebody or something, when, or in which order
  - A question asks for what began or ended within some years: give `since` and `until`

WHEN NOT:
  - What was true at one moment is wanted: use `entity_facts` with a date
  - What the base came to believe or corrected is wanted: use `changes`

RETURNS:
  Facts that begin or end in the window, oldest first: range as precise as known, fact, [n], which MUST be cited.
  Facts without a date are counted. EMPTY means that no fact begins or ends then.
  Cut lists say so: narrow with `since` and `until`, or raise `limit`.

EXAMPLE: timeline {"entity_id": "OpenAI", "since": "2015", "until": "2023-11"}""",
    args=Arguments,
    run=run,
    kind=KIND,
)
