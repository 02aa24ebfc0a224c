"""What the graph holds about an entity, grouped by predicate, each fact with its range and its source.

Facts whose dates don't say whether they held at `at` are told apart, never as holding: an unknown date is not an
open one. Source: DESIGN section 7, issue 4.
"""

from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from app.knowledge.graph import called, days, entity_data, fact_data, inline, other_end, qualified, view_of
from app.knowledge.moments import Period
from app.store import graph
from app.store.entities import EntityRecord, name_key
from app.store.graph import FactPage, FactQuery, GraphFact, View
from app.tools.graph_sheet import Meant, Sheet, counted, head, meant, period_of, shown
from app.tools.tool import Step, Tool, ToolContext, ToolResult

KIND = "facts"
_PREDICATES_SHOWN = 40


class Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    entity_id: Annotated[str, Field(description="The id of the entity, or a name that only one entity has.")]
    predicate: Annotated[str, Field(description="Only facts whose predicate holds these words; blank for all.")] = ""
    at: Annotated[str, Field(description="Only what held then: YYYY, YYYY-MM or YYYY-MM-DD; blank for any time.")] = ""
    limit: Annotated[int, Field(ge=1, le=100, description="How many facts to return at most, 1 to 100.")] = 60


async def run(context: ToolContext, args: Arguments) -> ToolResult:
    """Read an entity's facts, those of others about it too."""
    who = await meant(context, args.entity_id, field="entity_id", kind=KIND)
    if isinstance(who, ToolResult):
        return who
    label = called(who.entity)
    at = period_of(args.at, field="at", kind=KIND, label=label)
    if isinstance(at, ToolResult):
        return at
    view = view_of(context.base_id, context.as_of)
    predicate = name_key(args.predicate.replace("_", " ")) or None
    query = FactQuery(who.entity.id, predicate, days(at))
    page = await graph.facts_about(context.database, view, query, limit=args.limit)
    top = head(who, at, view)
    if not page.facts:
        text = f"{top}\n{await _instead(context, view, who.entity, narrowed=bool(predicate or at))}"
        return ToolResult("empty", text, Step(KIND, label, "no facts"), (who.resolved,))
    sheet = Sheet(context, top)
    told = _fill(sheet, page, who, at)
    sheet.add(shown(told, page.total, "fact", "narrow with `predicate` or `at`, or raise `limit`"))
    return ToolResult(
        "ok",
        sheet.text,
        Step(KIND, label, counted(page.total, "fact")),
        (who.resolved,),
        {
            "entity": entity_data(who.entity),
            "facts": [fact_data(fact, sheet.numbers.get(fact.id)) for fact in page.facts[:told]],
            "total": page.total,
            "undecided": page.undecided,
        },
    )


def _fill(sheet: Sheet, page: FactPage, who: Meant, at: Period | None) -> int:
    """Put the facts on the sheet; gives how many there was room for."""
    holding = [fact for fact in page.facts if fact.holds]
    told = _grouped(sheet, holding, who.entity)
    if told < len(holding) or not page.undecided:
        return told
    sheet.add(f"\ndate unknown ({page.undecided}): not known whether these held at {at}")
    return told + _grouped(sheet, [fact for fact in page.facts if not fact.holds], who.entity)


def _grouped(sheet: Sheet, facts: Sequence[GraphFact], entity: EntityRecord) -> int:
    group = ""
    for told, fact in enumerate(facts):
        own = fact.subject.id == entity.id
        predicate = inline(fact.predicate)
        heading = f"{predicate}:" if own else f"{predicate} {called(entity)}:"
        if heading != group:
            group = heading
            sheet.add(heading)
        if not sheet.fact(f"- {other_end(fact, entity.id)}; {qualified(fact)}", fact):
            return told
    return len(facts)


async def _instead(context: ToolContext, view: View, entity: EntityRecord, *, narrowed: bool) -> str:
    """What there is where nothing fits."""
    if narrowed:
        known = await graph.predicates(context.database, view, entity.id, limit=_PREDICATES_SHOWN)
        if known:
            listed = ", ".join(f"{inline(predicate)} ({facts})" for predicate, facts in known)
            return f"no fact fits. It has facts with these predicates: {listed}."
    return "no facts are recorded about it. Documents may still speak of it: search_chunks."


TOOL = Tool(
    name="entity_facts",
    description="""\
Read the recorded facts of one entity, grouped by predicate, each with its dates and source.

WHEN:
  - A question is about a person, an organisation or a thing of the graph: roles, founders, money, products
  - A question asks what was true at a time: give `at`

WHEN NOT:
  - The name may mean several entities: use `find_entities` first
  - The order of events is wanted: use `timeline`; links between two entities: use `paths_between`

RETURNS:
  Facts by predicate: value or other entity with id, range, confidence if below 1, and [n], which MUST be cited.
  "unknown end" is no "open"; facts of unknown date are told apart. EMPTY means no fact fits.
  Cut lists say so: narrow with `predicate` or `at`, or raise `limit`.

EXAMPLE: entity_facts {"entity_id": "OpenAI", "at": "2023-11"}""",
    args=Arguments,
    run=run,
    kind=KIND,
)
