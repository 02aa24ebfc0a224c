"""The knowledge graph in words: which entity a name means, and what a line about a fact says.

Decides when one entity is clearly meant (so that nobody is asked), and that a date is never said more precisely
than it is known, an unknown one never as open. What is read, and how much, is decided in app/store/graph*.py.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from app.knowledge.moments import Period, parse_as_of, show_instant, show_range
from app.knowledge.segment import parse_query
from app.store import graph_find
from app.store.engine import Database
from app.store.entities import EntityRecord, name_key
from app.store.graph import Days, GraphFact, View
from app.store.graph_find import EntityMatch, NameQuery
from app.text import clean, cut

NAME_CHARS = 300
VALUE_CHARS = 300
MANY_TIMES = 3
"""So many times the facts of the next namesake make the first one the one that is meant."""

SURE_TYPO = 0.6
"""The word similarity from which the only name that looks like what was asked is taken for it."""

_HINTED = re.compile(r"(.+?)\s*[(（](.+)[)）]\s*\Z", re.DOTALL)
_MARK = re.compile(r"[\[【［](\s*[0-9][0-9\s,，、]*)[\]】］]")


@dataclass(frozen=True, slots=True)
class LookUp:
    """What a name may mean, best first. `clear`: the first one is meant; else it has to be asked."""

    matches: tuple[EntityMatch, ...]
    total: int
    clear: bool


def view_of(base_id: str, as_of: str | None) -> View:
    """The base now, or as it was believed at a record time.

    Raises:
        ValueError: `as_of` is none of the forms of app/knowledge/moments.py.
    """
    return View(base_id, None if as_of is None else parse_as_of(as_of))


def days(period: Period | None) -> Days | None:
    """The period as the store takes it."""
    return None if period is None else Days(period.first, period.last)


async def look_up(
    database: Database, view: View, name: str, *, question: str, type_: str | None = None, limit: int = 8
) -> LookUp:
    """The entities that a name may mean. `Name (disambiguator)` is understood where no entity is called so.

    Namesakes are ranked by the question's words that stand in their facts, and by how many facts they have.
    """
    key = name_key(cut(clean(name), NAME_CHARS))
    if not key:
        return LookUp((), 0, clear=False)
    words = [word for word in parse_query(question).words if word not in key]
    kind = name_key(type_) if type_ else None
    matches, total = await graph_find.find(database, view, NameQuery(key, "", kind, words), limit=limit)
    hinted = _HINTED.fullmatch(key)
    if hinted is not None and (not matches or matches[0].tier not in ("exact", "alias")):
        query = NameQuery(hinted[1], hinted[2], kind, words)
        matches, total = await graph_find.find(database, view, query, limit=limit)
    return LookUp(tuple(matches), total, clear=_is_clear(matches, total))


def _is_clear(matches: Sequence[EntityMatch], total: int) -> bool:
    if not matches:
        return False
    first = matches[0]
    if total == 1:
        return first.tier != "typo" or first.alike >= SURE_TYPO
    if first.tier == "typo":
        return first.alike >= SURE_TYPO and first.alike > matches[1].alike
    rivals = list(takewhile(lambda match: match.tier == first.tier, matches))[1:]
    if not rivals:
        return first.tier in ("exact", "alias") or _outweighs(first, matches[1])
    if first.hinted != rivals[0].hinted:
        return True
    return (first.hits > 0 and rivals[0].hits == 0) or _outweighs(first, rivals[0])


def _outweighs(first: EntityMatch, second: EntityMatch) -> bool:
    return first.hits >= second.hits and first.facts >= MANY_TIMES * max(second.facts, 1)


def inline(words: str, limit: int = VALUE_CHARS) -> str:
    """Stored text on one line, so that it can't look like a line of ours or like a citation."""
    return cut(_MARK.sub(r"(\1)", " ".join(clean(words).split())), limit)


def called(entity: EntityRecord) -> str:
    """The name, with what tells it from its namesakes."""
    name = inline(entity.name, NAME_CHARS)
    return f"{name} ({inline(entity.disambiguator)})" if entity.disambiguator else name


def mention(entity: EntityRecord) -> str:
    """The name with the id that a further call takes."""
    name = inline(entity.name, NAME_CHARS)
    return (
        f"{name} ({inline(entity.disambiguator)}, id {entity.id})"
        if entity.disambiguator
        else f"{name} (id {entity.id})"
    )


def entity_line(entity: EntityRecord, facts: int | None = None) -> str:
    """`id | name (disambiguator) | type | k facts`: bars inside names can't forge a field."""
    parts = [entity.id, called(entity).replace("|", "/"), inline(entity.type).replace("|", "/") or "no type"]
    if facts is not None:
        parts.append(count(facts, "fact"))
    return " | ".join(parts)


def when(fact: GraphFact) -> str:
    """The fact's range, as precisely as it is known."""
    return show_range(fact.valid_from, fact.valid_from_precision, fact.valid_to, fact.valid_to_precision)


def qualified(fact: GraphFact) -> str:
    """When the fact was true, and how sure it is where it isn't certain."""
    return f"{when(fact)}{doubt(fact)}"


def doubt(fact: GraphFact) -> str:
    """`; confidence 0.8` for a fact that isn't certain, else nothing."""
    if fact.confidence >= 1:
        return ""
    shown = f"{fact.confidence:.3g}"
    return "; confidence below 1" if shown == "1" else f"; confidence {shown}"


def other_end(fact: GraphFact, entity_id: str) -> str:
    """What stands at the end of the fact that isn't this entity."""
    if fact.subject.id != entity_id:
        return mention(fact.subject)
    return inline(fact.value or "") if fact.object is None else mention(fact.object)


def sentence(fact: GraphFact, *known: str) -> str:
    """Subject, predicate and object or value; ends whose id is known already stand without it."""
    subject = called(fact.subject) if fact.subject.id in known else mention(fact.subject)
    if fact.object is None:
        return f"{subject} {inline(fact.predicate)} {inline(fact.value or '')}"
    return (
        f"{subject} {inline(fact.predicate)} {called(fact.object) if fact.object.id in known else mention(fact.object)}"
    )


def frame(at: Period | None, view: View) -> str:
    """The two times that a reading was made at, as a sentence; "" for what holds at any time and is believed now."""
    told = [f"at {at}"] if at else []
    if view.as_of:
        told.append(f"as believed before {show_instant(view.as_of)}")
    return f" ({', '.join(told)})" if told else ""


def count(number: int, what: str, many: str = "") -> str:
    """`1 fact`, `2 facts`, `2 entities`."""
    return f"{number} {what}" if number == 1 else f"{number} {many or f'{what}s'}"


def fact_data(fact: GraphFact, n: int | None) -> dict[str, object]:
    """A fact for programs; `n` is the number of its source."""
    return {
        "id": fact.id,
        "subject": entity_data(fact.subject),
        "predicate": fact.predicate,
        "object": None if fact.object is None else entity_data(fact.object),
        "value": fact.value,
        "when": when(fact),
        "holds": fact.holds,
        "confidence": fact.confidence,
        "source": n,
    }


def entity_data(entity: EntityRecord) -> dict[str, object]:
    """An entity for programs."""
    return {"id": entity.id, "name": entity.name, "type": entity.type, "disambiguator": entity.disambiguator}
