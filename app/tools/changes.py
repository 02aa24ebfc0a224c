"""What the base came to believe, corrected, rejected and merged, and exactly when. Source: DESIGN section 7, seed 003.

The record clock, not the world's: each line begins with an instant that can be given back as `since`, and that
`as_of` of a request takes to show what was believed just before it.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.knowledge.graph import called, fact_data, frame, qualified, sentence, view_of
from app.knowledge.moments import parse_span, show_instant
from app.store import graph_changes
from app.store.graph_changes import Change, ChangeKind, ChangeQuery
from app.text import clean, cut
from app.tools.graph_sheet import LABEL_CHARS, Meant, Sheet, counted, meant, shown
from app.tools.tool import Step, Tool, ToolContext, ToolResult

KIND = "changes"
ALL_KINDS: tuple[ChangeKind, ...] = ("asserted", "corrected", "rejected", "merged")


class Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    since: Annotated[str, Field(description="From when: YYYY, YYYY-MM, YYYY-MM-DD or an RFC 3339 instant, UTC.")]
    until: Annotated[str, Field(description="Up to and with when, written as `since`; blank for now.")] = ""
    entity_id: Annotated[str, Field(description="Only about this entity: its id or clear name; blank for all.")] = ""
    kinds: Annotated[
        list[Literal["asserted", "corrected", "rejected", "merged"]],
        Field(max_length=4, description="Only events of these kinds; empty for all."),
    ] = []
    limit: Annotated[int, Field(ge=1, le=100, description="How many events to return at most, 1 to 100.")] = 40


async def run(context: ToolContext, args: Arguments) -> ToolResult:
    """Read the record axis, newest first."""
    label = cut(" ".join(clean(f"{args.since} {args.until}").split()), LABEL_CHARS)
    who: Meant | None = None
    if args.entity_id.strip():
        found = await meant(context, args.entity_id, field="entity_id", kind=KIND)
        if isinstance(found, ToolResult):
            return found
        who, label = found, called(found.entity)
    query = _query(args, who, label)
    if isinstance(query, ToolResult):
        return query
    view = view_of(context.base_id, context.as_of)
    events, total = await graph_changes.changes(context.database, view, query, limit=args.limit)
    read = (who.resolved,) if who else ()
    top = f"{who.note if who else ''}{_window(query, who)}{frame(None, view)}"
    if not events:
        text = f"{top}\nnothing was recorded or changed then. Times are of the record, not of the world: timeline."
        return ToolResult("empty", text, Step(KIND, label, "no changes"), read)
    sheet = Sheet(context, top)
    told = _fill(sheet, events)
    sheet.add(shown(told, total, "event", "narrow with `until`, `entity_id` or `kinds`, or raise `limit`"))
    structured: dict[str, object] = {"events": [_data(e, sheet) for e in events[:told]], "total": total}
    return ToolResult("ok", sheet.text, Step(KIND, label, counted(total, "event")), read, structured)


def _query(args: Arguments, who: Meant | None, label: str) -> ChangeQuery | ToolResult:
    try:
        since = parse_span(args.since, field="since").start
        until = parse_span(args.until, field="until").end if args.until.strip() else None
    except ValueError as error:
        return ToolResult("error", str(error), Step(KIND, label, "bad time"))
    if until is not None and since >= until:
        text = f"`since` {args.since.strip()} is after `until` {args.until.strip()}."
        return ToolResult("error", text, Step(KIND, label, "empty window"))
    return ChangeQuery(since, until, args.kinds or ALL_KINDS, who.entity.id if who else None)


def _window(query: ChangeQuery, who: Meant | None) -> str:
    about = f" about {called(who.entity)}" if who else ""
    until = f" and before {show_instant(query.until)}" if query.until else ""
    return f"recorded{about} from {show_instant(query.since)}{until}, newest first"


def _fill(sheet: Sheet, events: Sequence[Change]) -> int:
    """Put the events on the sheet; gives how many there was room for."""
    for told, event in enumerate(events):
        line = f"{show_instant(event.at)} {event.kind}: {sentence(event.fact)}; {qualified(event.fact)}"
        believed = [event.fact] if event.kind == "asserted" else []
        if event.replaced_by is not None:
            line += f" → now: {sentence(event.replaced_by)}; {qualified(event.replaced_by)}"
            believed = [event.replaced_by]
        if not sheet.fact(line, *believed):
            return told
    return len(events)


def _data(event: Change, sheet: Sheet) -> dict[str, object]:
    after = event.replaced_by
    return {
        "at": show_instant(event.at),
        "kind": event.kind,
        "fact": fact_data(event.fact, sheet.numbers.get(event.fact.id)),
        "replaced_by": None if after is None else fact_data(after, sheet.numbers.get(after.id)),
    }


TOOL = Tool(
    name="changes",
    description="""\
List what the knowledge base newly recorded, corrected, rejected or merged, by the time of recording.

WHEN:
  - A question asks what is new in the base, what was corrected, or since when the base says so
  - The exact time of a correction is wanted, to look at what was believed before it

WHEN NOT:
  - What happened in the world is wanted: use `timeline`
  - What is believed about an entity is wanted: use `entity_facts`

RETURNS:
  Events, newest first, each with its exact UTC record time, kind, fact, what replaced it, and [n] of what stands.
  EMPTY means that nothing was recorded then. A sentence that rests on an [n] MUST cite it.
  Cut lists say so: narrow with `until`, `entity_id` or `kinds`, or raise `limit`.

EXAMPLE: changes {"since": "2026-01", "kinds": ["corrected", "rejected"]}""",
    args=Arguments,
    run=run,
    kind=KIND,
)
