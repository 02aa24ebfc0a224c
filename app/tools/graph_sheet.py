"""What the graph tools share: which entity is meant, and a sheet of lines of which each cites its evidence.

A line's passage is numbered exactly when the line is shown, so that no source stands in the list without the line
that rests on it. The sheet ends before the observation would be cut. Source: DESIGN section 7, TOOLS O11, O16.
"""

from dataclasses import dataclass

from app.knowledge.graph import called, count, entity_line, frame, inline, look_up, view_of
from app.knowledge.moments import Period, parse_period
from app.store import entities
from app.store.entities import EntityRecord
from app.store.graph import LOOKED_AT, Evidence, GraphFact, View
from app.store.ids import is_id
from app.text import clean, cut
from app.tools.tool import QUOTE_CHARS, Entity, Source, Step, ToolContext, ToolResult

SHEET_CHARS = 20_000
"""Lines of one observation; below what the registry cuts at."""

LABEL_CHARS = 200
MARK_CHARS = 8
"""Room for the number of a source."""


class Sheet:
    """The text of a graph tool's result, filled line by line."""

    def __init__(self, context: ToolContext, head: str) -> None:
        self._context = context
        self._lines = [head]
        self._chars = len(head)
        self.numbers: dict[str, int] = {}
        """The number of each shown fact's source, by the fact's id."""

    def add(self, line: str) -> None:
        """A line that rests on nothing."""
        self._lines.append(line)
        self._chars += len(line) + 1

    def has_room(self, chars: int) -> bool:
        """Whether lines of so many characters fit."""
        return self._chars + chars <= SHEET_CHARS

    def fact(self, line: str, *facts: GraphFact) -> bool:
        """A line about facts with the numbers of their live evidence at its end. False: no room, nothing shown."""
        if not self.has_room(len(line) + len(facts) * MARK_CHARS):
            return False
        self.add(line + "".join(dict.fromkeys(self.mark(fact) for fact in facts)))
        return True

    def mark(self, fact: GraphFact) -> str:
        """` [n]` for a fact with live evidence, which is registered with its sentence; else nothing."""
        if fact.evidence is None:
            return ""
        n = self._context.citations.cite(_source(fact.evidence), quote=fact.evidence.quote)
        self.numbers[fact.id] = n
        return f" [{n}]"

    @property
    def text(self) -> str:
        return "\n".join(self._lines)


def _source(evidence: Evidence) -> Source:
    page = f"p. {evidence.page}" if evidence.page is not None else ""
    return Source(
        kind="chunk",
        id=evidence.chunk_id,
        document_id=evidence.document_id,
        title=evidence.title,
        locator=", ".join(part for part in (evidence.heading, page) if part),
        excerpt=cut(" ".join(evidence.quote.split()), QUOTE_CHARS),
    )


@dataclass(frozen=True, slots=True)
class Meant:
    """The entity that an argument means; `note` says so where it was given by a name."""

    entity: EntityRecord
    note: str

    @property
    def resolved(self) -> Entity:
        return resolved(self.entity)


def resolved(entity: EntityRecord) -> Entity:
    """An entity for the block of the next turn."""
    return Entity(entity.id, called(entity), entity.type or None)


async def meant(context: ToolContext, given: str, *, field: str, kind: str) -> Meant | ToolResult:
    """The entity of an id, or the one that a name clearly means; else the result that says what to do.

    An id or a name that nothing has is EMPTY; a blank one and a name of several entities are ERROR.
    """
    asked = " ".join(clean(given).split())
    label = cut(asked, LABEL_CHARS)
    if not asked:
        return ToolResult("error", f"`{field}` is blank. Give an id or a name.", Step(kind, field, f"blank {field}"))
    view = view_of(context.base_id, context.as_of)
    if is_id(asked):
        found = await entities.get(context.database, view.base_id, asked.lower(), as_of=view.as_of)
        into = found.entity.merged_into if found is not None and found.fact_count == 0 else None
        if into is not None:
            found = await entities.get(context.database, view.base_id, into, as_of=view.as_of)
        if found is not None:
            return Meant(found.entity, f"{asked} was merged into:\n" if into else "")
        text = f"no entity of this base has the id {asked}. Find ids by name with find_entities."
        return ToolResult("empty", text, Step(kind, label, "no such entity"))
    names = await look_up(context.database, view, asked, question=context.question)
    if not names.matches:
        text = f"no entity of this base is called {label!r}. Try another spelling, or look in documents."
        return ToolResult("empty", text, Step(kind, label, "no such entity"))
    if not names.clear:
        lines = [entity_line(match.entity, match.facts) for match in names.matches]
        text = f"`{field}` {label!r} may mean several entities; call again with the id of one:"
        return ToolResult("error", "\n".join([text, *lines]), Step(kind, label, "ambiguous name"))
    first = names.matches[0]
    return Meant(first.entity, "" if first.tier == "exact" else f"{label!r} was taken for:\n")


def period_of(given: str, *, field: str, kind: str, label: str) -> Period | ToolResult | None:
    """The period of an optional argument, or the ERROR that names the forms."""
    if not given.strip():
        return None
    try:
        return parse_period(given, field=field)
    except ValueError as error:
        return ToolResult("error", str(error), Step(kind, label, f"bad {field}"))


def head(meaning: Meant, at: Period | None, view: View) -> str:
    """The first lines of a result: who is meant, by which other names, and at which times."""
    entity = meaning.entity
    aliases = (
        f"; also called {', '.join(inline(alias, 100) for alias in entity.aliases[:10])}" if entity.aliases else ""
    )
    return f"{meaning.note}{entity_line(entity)}{aliases}{frame(at, view)}"


def shown(number: int, total: int, what: str, narrow: str) -> str:
    """How much of a list of `what` (one of them) is shown, and how to narrow it where that isn't all."""
    if number >= total and total < LOOKED_AT:
        return f"{count(total, what)}."
    return f"showing {number} of {counted(total, what)}; {narrow}."


def counted(total: int, what: str) -> str:
    """How many there are; "at least" where no more were looked at."""
    return f"at least {total} {what}s" if total >= LOOKED_AT else count(total, what)
