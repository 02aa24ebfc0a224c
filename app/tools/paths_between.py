"""How two entities are linked over others: the shortest chains of facts. Source: DESIGN section 7, decision 0009."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from app.knowledge.graph import (
    called,
    count,
    days,
    entity_data,
    entity_line,
    fact_data,
    frame,
    qualified,
    sentence,
    view_of,
)
from app.knowledge.moments import Period
from app.knowledge.paths import Hop, Paths, paths
from app.store import graph_links
from app.store.graph import GraphFact
from app.store.graph_links import PathQuery
from app.tools.graph_sheet import MARK_CHARS, Sheet, meant, period_of
from app.tools.tool import Step, Tool, ToolContext, ToolResult

KIND = "path"
CHAINS = 8
"""Chains shown at most."""

_FACTS_OF_A_HOP = 2

Line = tuple[str, GraphFact | None]
"""A line of a chain, and the fact whose source is cited at its end."""


class Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    a: Annotated[str, Field(description="One entity: its id, or a name that only one entity has.")]
    b: Annotated[str, Field(description="The other entity: its id, or a name that only one entity has.")]
    max_hops: Annotated[int, Field(ge=1, le=4, description="How many links a chain may have at most, 1 to 4.")] = 3
    at: Annotated[str, Field(description="Only links of that time: YYYY, YYYY-MM or YYYY-MM-DD; blank for any.")] = ""


async def run(context: ToolContext, args: Arguments) -> ToolResult:
    """Find the shortest chains, by links that are known to hold where `at` is given."""
    start = await meant(context, args.a, field="a", kind=KIND)
    if isinstance(start, ToolResult):
        return start
    end = await meant(context, args.b, field="b", kind=KIND)
    if isinstance(end, ToolResult):
        return end
    label = f"{called(start.entity)} → {called(end.entity)}"
    if start.entity.id == end.entity.id:
        text = "`a` and `b` are the same entity. What it is linked with: neighbors."
        return ToolResult("error", text, Step(KIND, label, "the same entity"))
    at = period_of(args.at, field="at", kind=KIND, label=label)
    if isinstance(at, ToolResult):
        return at
    view = view_of(context.base_id, context.as_of)
    query = PathQuery(start.entity.id, end.entity.id, args.max_hops, days(at))
    ends = (start.entity.id, end.entity.id)
    found = await paths(context.database, view, query, limit=CHAINS)
    both = (start.resolved, end.resolved)
    top = f"{start.note}{entity_line(start.entity)}\n{end.note}{entity_line(end.entity)}{frame(at, view)}"
    notes = _notes(found, at)
    if not found.chains:
        text = "\n".join([top, f"no chain of at most {count(args.max_hops, 'link')} was found.", *notes])
        return ToolResult("empty", text, Step(KIND, label, "no chain"), both)
    ids = {fact_id for chain in found.chains for hop in chain for fact_id in hop.fact_ids[:_FACTS_OF_A_HOP]}
    facts = await graph_links.facts_by_id(context.database, view, sorted(ids))
    sheet = Sheet(context, top)
    told = _fill(sheet, [[_lines(hop, facts, ends) for hop in chain] for chain in found.chains])
    sheet.add(_shown(told, len(found.chains)))
    for note in notes:
        sheet.add(note)
    structured: dict[str, object] = {
        "from": entity_data(start.entity),
        "to": entity_data(end.entity),
        "chains": [
            [[fact_data(fact, sheet.numbers.get(fact.id)) for fact in _facts(hop, facts)] for hop in chain]
            for chain in found.chains[:told]
        ],
        "bounded": found.bounded,
        "undecided": found.undecided,
    }
    return ToolResult("ok", sheet.text, Step(KIND, label, count(told, "chain")), both, structured)


def _notes(found: Paths, at: Period | None) -> list[str]:
    """What the search left out, in sentences."""
    told: list[str] = []
    if found.bounded:
        bound = f"the search was ended at its bound of {graph_links.MAX_EDGES} links, so there may be other chains"
        told.append(f"{bound}; narrow with `max_hops` or `at`.")
    if found.undecided:
        left_out = count(found.undecided, "link of unknown date was", "links of unknown date were")
        told.append(f"{left_out} left out: not known to hold at {at}.")
    return told


def _shown(told: int, found: int) -> str:
    if told < found or found == CHAINS:
        return f"showing {count(told, 'chain')}, shortest first; there may be more: narrow with `at` or `max_hops`."
    return f"{count(told, 'chain')}, shortest first."


def _fill(sheet: Sheet, told: Sequence[Sequence[Sequence[Line]]]) -> int:
    """Put whole chains on the sheet; gives how many there was room for."""
    for n, chain in enumerate(told):
        lines = [line for hop in chain for line in hop]
        if not sheet.has_room(sum(len(words) + MARK_CHARS for words, _ in lines) + MARK_CHARS):
            return n
        sheet.add(f"{n + 1}.")
        for words, fact in lines:
            sheet.add(words + (sheet.mark(fact) if fact else ""))
    return len(told)


def _lines(hop: Hop, facts: Mapping[str, GraphFact], ends: tuple[str, str]) -> list[Line]:
    """The lines of one link, each with the fact that it rests on."""
    known = _facts(hop, facts)
    lines: list[Line] = []
    for fact in known:
        lines.append((f"   {'also:' if lines else '-'} {sentence(fact, *ends)}; {qualified(fact)}", fact))
    more = len(hop.fact_ids) - len(known)
    if more:
        lines.append((f"   also: {count(more, 'more fact')} between these two", None))
    return lines


def _facts(hop: Hop, facts: Mapping[str, GraphFact]) -> list[GraphFact]:
    return [facts[fact_id] for fact_id in hop.fact_ids[:_FACTS_OF_A_HOP] if fact_id in facts]


TOOL = Tool(
    name="paths_between",
    description="""\
Find how two entities are linked, directly or over others, as chains of facts.

WHEN:
  - A question asks what two people, organisations or things have to do with each other
  - A link over a third entity is possible: a common founder, investor, board or employer

WHEN NOT:
  - Only one entity is given: use `neighbors`
  - A name may mean several entities: use `find_entities` first

RETURNS:
  Numbered chains, shortest first, one link a line with range and [n], which MUST be cited.
  It says when the search was ended at its bound, and how many links of unknown date were left out.
  EMPTY means that no chain of at most `max_hops` links was found.

EXAMPLE: paths_between {"a": "Sam Altman", "b": "Microsoft", "max_hops": 2}""",
    args=Arguments,
    run=run,
    kind=KIND,
)
