"""Which entity a name of a row means, among those that its base knows; pure.

Decides: a name with a type is the entity of that name, type and disambiguator, or the one of that type that has it as
an alias. A name without a type is the only entity that is called so. What stays open between several is refused with
a sentence, never guessed: so the same rows in the same order never mean something else than they did the first
time. An entity that was merged stands for the one that took its place.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from app.store.entities import EntityRecord, name_key
from app.store.ids import new_id
from app.text import cut

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Mention:
    """An entity as a row names it; None where the row doesn't say."""

    name: str
    type: str | None = None
    disambiguator: str | None = None
    aliases: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return name_key(self.name)


class AmbiguousName(ValueError):
    """Several entities could be meant. The message is a sentence that names them and says what to add."""


class Names:
    """The entities that a batch of rows may mean; those that it makes or changes are in `changed`."""

    def __init__(self, known: Iterable[EntityRecord]) -> None:
        self.changed: dict[str, EntityRecord] = {}
        self._entities: dict[str, EntityRecord] = {}
        self._by_name = defaultdict[str, list[str]](list)
        self._by_alias = defaultdict[str, list[str]](list)
        for entity in known:
            self._learn(entity)

    def match(self, mention: Mention) -> EntityRecord | None:
        """The entity that is meant; None where it is a new one.

        Raises:
            AmbiguousName: several could be meant.
        """
        alike = self._of(self._by_name, mention)
        disambiguator = mention.disambiguator or ""
        for entity in alike:
            if (entity.type, entity.disambiguator) == (mention.type or "", disambiguator):
                return self._standing(entity)
        called = [] if mention.disambiguator is not None else self._of(self._by_alias, mention)
        if mention.type is None:
            return self._only(
                mention, [one for one in alike if mention.disambiguator in (None, one.disambiguator)] + called
            )
        untyped = [one for one in alike if not one.type and one.disambiguator == disambiguator]
        return self._only(mention, [one for one in called if one.type == mention.type]) or self._only(mention, untyped)

    def take(self, mention: Mention) -> EntityRecord:
        """The entity that is meant, made where it is new; it learns the mention's aliases and its type.

        Raises:
            AmbiguousName: as `match`.
        """
        found = self.match(mention)
        if found is None:
            made = EntityRecord(new_id(), mention.name, (), mention.type or "", mention.disambiguator or "")
            return self._change(replace(made, aliases=_joined(made, mention.aliases)))
        aliases = _joined(found, mention.aliases)
        type_ = mention.type if mention.type and not found.type and self._is_free(found, mention.type) else found.type
        if (aliases, type_) == (found.aliases, found.type):
            return found
        return self._change(replace(found, aliases=aliases, type=type_))

    def _of(self, index: dict[str, list[str]], mention: Mention) -> list[EntityRecord]:
        return [self._entities[entity_id] for entity_id in index.get(mention.key, ())]

    def _only(self, mention: Mention, candidates: Iterable[EntityRecord]) -> EntityRecord | None:
        standing = list({entity.id: entity for entity in map(self._standing, candidates)}.values())
        if len(standing) > 1:
            told = ", ".join(_described(entity) for entity in standing[:_SHOWN])
            raise AmbiguousName(
                f"{cut(mention.name, 80)!r} may be any of {len(standing)} entities ({told}); "
                "give its type and, where it has one, its disambiguator"
            )
        return standing[0] if standing else None

    def _standing(self, entity: EntityRecord) -> EntityRecord:
        """The entity itself, or the one it was merged into."""
        return entity if entity.merged_into is None else self._entities.get(entity.merged_into, entity)

    def _is_free(self, entity: EntityRecord, type_: str) -> bool:
        alike = (self._entities[entity_id] for entity_id in self._by_name.get(name_key(entity.name), ()))
        return all((one.type, one.disambiguator) != (type_, entity.disambiguator) for one in alike)

    def _change(self, entity: EntityRecord) -> EntityRecord:
        self.changed[entity.id] = entity
        self._learn(entity)
        return entity

    def _learn(self, entity: EntityRecord) -> None:
        if entity.id not in self._entities:
            self._by_name[name_key(entity.name)].append(entity.id)
        self._entities[entity.id] = entity
        for alias in entity.aliases:
            called = self._by_alias[name_key(alias)]
            if entity.id not in called:
                called.append(entity.id)


def with_aliases(entity: EntityRecord, aliases: Iterable[str]) -> EntityRecord:
    """The entity with more aliases; those that it has already, however cased, are not repeated."""
    return replace(entity, aliases=_joined(entity, aliases))


def _joined(entity: EntityRecord, aliases: Iterable[str]) -> tuple[str, ...]:
    known = {name_key(entity.name): ""} | {name_key(alias): alias for alias in entity.aliases}
    for alias in aliases:
        if name_key(alias):
            known.setdefault(name_key(alias), alias)
    return tuple(alias for alias in known.values() if alias)


def _described(entity: EntityRecord) -> str:
    what = ", ".join(part for part in (entity.type or "no type", entity.disambiguator) if part)
    return f"{cut(entity.name, 80)}: {what}"
