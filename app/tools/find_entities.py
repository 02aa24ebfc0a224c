"""Who or what a name means: entities by name, alias, part of a name or typo. Source: DESIGN section 7, seed 003."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from app.knowledge.graph import LookUp, count, entity_data, entity_line, frame, look_up, view_of
from app.text import clean, cut
from app.tools.graph_sheet import LABEL_CHARS, resolved
from app.tools.tool import Step, Tool, ToolContext, ToolResult

KIND = "entity"
_TYPES_SHOWN = 10


class Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(description="A name, an alias or a part of one, in the language it is written in.")]
    type: Annotated[str, Field(description="Only entities of this type, such as person; blank for any.")] = ""
    limit: Annotated[int, Field(ge=1, le=20, description="How many entities to return at most, 1 to 20.")] = 8


async def run(context: ToolContext, args: Arguments) -> ToolResult:
    """Look the name up; namesakes are ranked by the words of the question."""
    asked = " ".join(clean(args.name).split())
    label = cut(asked, LABEL_CHARS)
    if not asked:
        return ToolResult("error", "`name` is blank. Give a name to look for.", Step(KIND, "entities", "blank name"))
    view = view_of(context.base_id, context.as_of)
    wanted = " ".join(clean(args.type).split())
    found = await look_up(
        context.database, view, asked, question=context.question, type_=wanted or None, limit=args.limit
    )
    if found.matches:
        text = _told(found) + (f"\n({frame(None, view).strip(' ()')})" if view.as_of else "")
        read = (resolved(found.matches[0].entity),) if found.clear else ()
        return ToolResult("ok", text, Step(KIND, label, _detail(found)), read, _structured(found))
    if wanted:
        others = await look_up(context.database, view, asked, question=context.question, limit=_TYPES_SHOWN)
        if others.matches:
            types = sorted({match.entity.type or "no type" for match in others.matches})
            text = f"no entity of type {wanted!r} has such a name; others have: {', '.join(types)}. Leave `type` out."
            return ToolResult("empty", text, Step(KIND, label, "none of that type"))
    text = (
        "no entity of this base has such a name or one that looks like it. Try another spelling, a part of the name "
        "or the other language; what has no entity may still stand in a document: search_chunks."
    )
    return ToolResult("empty", text, Step(KIND, label, "nothing found"))


def _told(found: LookUp) -> str:
    lines = [entity_line(match.entity, match.facts) for match in found.matches]
    cut_note = [] if len(lines) == found.total else [f"showing {len(lines)} of {found.total}; narrow with `type`."]
    alike = " (by its looks; check the spelling)" if found.matches[0].tier == "typo" else ""
    if found.clear:
        others = ["others:", *lines[1:]] if len(lines) > 1 else []
        return "\n".join([f"best match{alike}:", lines[0], *others, *cut_note])
    which = f"{count(found.total, 'entity', 'entities')} may be meant{alike}; use the id of the one that fits, "
    return "\n".join([f"{which}or ask the user which one:", *lines, *cut_note])


def _detail(found: LookUp) -> str:
    return "best match" if found.clear else f"{count(found.total, 'entity', 'entities')} may be meant"


def _structured(found: LookUp) -> dict[str, object]:
    entities = [{**entity_data(match.entity), "facts": match.facts} for match in found.matches]
    return {"entities": entities, "total": found.total, "clear": found.clear}


TOOL = Tool(
    name="find_entities",
    description="""\
Find people, organisations and other entities of the knowledge graph by name, with their ids.

WHEN:
  - A question names somebody or something whose id is unknown
  - A name may be misspelt, an alias, in Chinese, or shared by several entities

WHEN NOT:
  - The id is known, or the name can mean only one entity: use `entity_facts` at once
  - The question is about what a document says: use `search_chunks`

RETURNS:
  "best match" and others, or several that may be meant; lines are id, name (disambiguator), type, number of facts.
  EMPTY means that no entity has such a name; a document may still speak of it. More of them: raise `limit`.

EXAMPLE: find_entities {"name": "Sam Altman", "type": "person"}""",
    args=Arguments,
    run=run,
    kind=KIND,
)
