"""Which entities an entity is linked with, and by what. Source: DESIGN section 7, seed 003."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from app.knowledge.graph import called, days, entity_data, entity_line, fact_data, qualified, sentence, view_of
from app.knowledge.moments import Period
from app.store import graph
from app.store.entities import EntityRecord, name_key
from app.store.graph import FactQuery, GraphFact
from app.tools.graph_sheet import Meant, Sheet, counted, head, meant, period_of, shown
from app.tools.tool import Step, Tool, ToolContext, ToolResult

KIND = "neighbors"


class Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    entity_id: Annotated[str, Field(description="The id of the entity, or a name that only one entity has.")]
    predicate: Annotated[str, Field(description="Only links whose predicate holds these words; blank for all.")] = ""
    at: Annotated[str, Field(description="Only links of that time: YYYY, YYYY-MM or YYYY-MM-DD; blank for any.")] = ""
    limit: Annotated[int, Field(ge=1, le=100, description="How many links to return at most, 1 to 100.")] = 40


async def run(context: ToolContext, args: Arguments) -> ToolResult:
    """Read an entity's links, the most linked neighbour first."""
    who = await meant(context, args.entity_id, field="entity_id", kind=KIND)
    if isinstance(who, ToolResult):
        return who
    label = called(who.entity)
    at = period_of(args.at, field="at", kind=KIND, label=label)
    if isinstance(at, ToolResult):
        return at
    view = view_of(context.base_id, context.as_of)
    query = FactQuery(who.entity.id, name_key(args.predicate.replace("_", " ")) or None, days(at))
    page = await graph.neighbors(context.database, view, query, limit=args.limit)
    top = head(who, at, view)
    if not page.facts:
        text = f"{top}\nno link fits. Its facts may still hold values: entity_facts."
        return ToolResult("empty", text, Step(KIND, label, "no links"), (who.resolved,))
    sheet = Sheet(context, top)
    told = _fill(sheet, page.facts, who, at)
    sheet.add(shown(told, page.total, "link", "narrow with `predicate` or `at`, or raise `limit`"))
    return ToolResult(
        "ok",
        sheet.text,
        Step(KIND, label, counted(page.total, "link")),
        (who.resolved,),
        {
            "entity": entity_data(who.entity),
            "links": [fact_data(fact, sheet.numbers.get(fact.id)) for fact in page.facts[:told]],
            "total": page.total,
            "undecided": page.undecided,
        },
    )


def _fill(sheet: Sheet, facts: tuple[GraphFact, ...], who: Meant, at: Period | None) -> int:
    """Put the links on the sheet under their neighbours; gives how many there was room for."""
    under, undecided = "", False
    for told, fact in enumerate(facts):
        if not fact.holds and not undecided:
            under, undecided = "", True
            sheet.add(f"\ndate unknown: not known whether these held at {at}")
        other = _other(fact, who.entity)
        if other.id != under:
            under = other.id
            sheet.add(entity_line(other))
        if not sheet.fact(f"- {sentence(fact, other.id, who.entity.id)}; {qualified(fact)}", fact):
            return told
    return len(facts)


def _other(fact: GraphFact, entity: EntityRecord) -> EntityRecord:
    if fact.object is None or fact.object.id == entity.id:
        return fact.subject
    return fact.object


TOOL = Tool(
    name="neighbors",
    description="""\
List the entities that one entity is linked with, and by which facts.

WHEN:
  - A question asks who or what is connected with an entity, or with whom it worked, invested or competed
  - The next entity to look at is to be found from this one

WHEN NOT:
  - Values such as amounts or dates are wanted: use `entity_facts`
  - Two entities are given and the link between them is wanted: use `paths_between`

RETURNS:
  Neighbours as id, name, type, most linked first; under each its links with range and [n], which MUST be cited.
  Links of unknown date are told apart when `at` is given. EMPTY means that no link fits.
  Cut lists say so: narrow with `predicate` or `at`, or raise `limit`.

EXAMPLE: neighbors {"entity_id": "OpenAI", "predicate": "board"}""",
    args=Arguments,
    run=run,
    kind=KIND,
)
