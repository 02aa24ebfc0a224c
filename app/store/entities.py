"""Entities: who and what facts are about. Found, listed, made, and given more aliases; never deleted.

Decides identity: a folded name, a type and a disambiguator are one entity of a base, by a unique constraint.
Which entity a name of a row means is decided in app/knowledge/names.py.
"""

import json
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import date, datetime

from sqlalchemy import Row, text

from app.store.clocks import AS_OF, BELIEVED, HELD
from app.store.engine import Database
from app.store.graph_write import GraphWrite


@dataclass(frozen=True, slots=True)
class EntityRecord:
    """An entity. `type` and `disambiguator` are "" where nobody said; `aliases` stand as they were written.

    `merged_into` is the entity that took its names and facts: it stands for nothing any more.
    """

    id: str
    name: str
    aliases: tuple[str, ...]
    type: str
    disambiguator: str
    merged_into: str | None = None


@dataclass(frozen=True, slots=True)
class CountedEntity:
    """An entity of a list, with the number of facts in which it is subject or object."""

    entity: EntityRecord
    created_at: datetime
    fact_count: int


@dataclass(frozen=True, slots=True)
class EntityFilter:
    """Which entities are asked for: `query` is in the name or an alias. `at` and `as_of` say which facts count."""

    query: str = ""
    type: str | None = None
    at: tuple[date, date] | None = None
    as_of: datetime | None = None


_COLUMNS = "e.id, e.name, e.aliases, e.type, e.disambiguator, e.merged_into, e.created_at"

_NAMED = text(f"""
SELECT {_COLUMNS} FROM entities e
WHERE e.base_id = CAST(:base_id AS uuid) AND e.id IN (
    SELECT n.id FROM entities n
    WHERE n.base_id = CAST(:base_id AS uuid) AND n.name_key = ANY(CAST(:keys AS text[]))
    UNION ALL
    SELECT n.id FROM entities n CROSS JOIN LATERAL unnest(string_to_array(n.search_text, E'\\n')) AS a (called)
    WHERE n.base_id = CAST(:base_id AS uuid) AND n.aliases <> '[]' AND a.called = ANY(CAST(:keys AS text[]))
)
ORDER BY e.created_at, e.id
""")  # noqa: S608 - only constants of this module are put together

_SAVE = text("""
INSERT INTO entities (id, base_id, name, name_key, aliases, search_text, type, disambiguator, created_at)
SELECT n.id, CAST(:base_id AS uuid), n.name, n.name_key, CAST(n.aliases AS jsonb), n.search_text, n.type,
       n.disambiguator, :created_at
FROM unnest(CAST(:ids AS uuid[]), CAST(:names AS text[]), CAST(:name_keys AS text[]), CAST(:aliases AS text[]),
            CAST(:search_texts AS text[]), CAST(:types AS text[]), CAST(:disambiguators AS text[]))
     AS n (id, name, name_key, aliases, search_text, type, disambiguator)
ON CONFLICT (id) DO UPDATE
SET aliases = excluded.aliases, search_text = excluded.search_text, type = excluded.type
""")

_MATCHES = f"""e.base_id = CAST(:base_id AS uuid) AND e.created_at < {AS_OF}
    AND (e.merged_into IS NULL
         OR EXISTS (SELECT 1 FROM facts f WHERE (f.subject_id = e.id OR f.object_id = e.id) AND {BELIEVED}))
    AND e.search_text LIKE :pattern AND (CAST(:type AS text) IS NULL OR e.type = :type)"""  # noqa: S608

_FACT_COUNT = f"""
(SELECT count(*) FROM facts f WHERE f.subject_id = p.id AND {BELIEVED} AND {HELD})
    + (SELECT count(*) FROM facts f WHERE f.object_id = p.id AND {BELIEVED} AND {HELD})"""  # noqa: S608

_LIST = text(f"""
WITH page AS (
    SELECT {_COLUMNS}, e.name_key, count(*) OVER () AS total FROM entities e
    WHERE {_MATCHES}
    ORDER BY e.name_key <> :query, e.name_key NOT LIKE :prefix, e.name_key, e.id LIMIT :limit OFFSET :offset
)
SELECT p.*, {_FACT_COUNT} AS fact_count FROM page p
ORDER BY p.name_key <> :query, p.name_key NOT LIKE :prefix, p.name_key, p.id
""")  # noqa: S608

_COUNT = text(f"SELECT count(*) FROM entities e WHERE {_MATCHES}")  # noqa: S608

_GET = text(f"""
SELECT p.*, {_FACT_COUNT} AS fact_count FROM (
    SELECT {_COLUMNS} FROM entities e WHERE e.base_id = CAST(:base_id AS uuid) AND e.id = CAST(:id AS uuid)
) p
""")  # noqa: S608

_REDIRECT = text("""
UPDATE entities SET merged_into = CAST(:into AS uuid)
WHERE base_id = CAST(:base_id AS uuid) AND (id = CAST(:merged AS uuid) OR merged_into = CAST(:merged AS uuid))
""")

_GET_MANY = text(f"""
SELECT {_COLUMNS} FROM entities e
WHERE e.base_id = CAST(:base_id AS uuid) AND e.id = ANY(CAST(:ids AS uuid[]))
""")  # noqa: S608


def name_key(name: str) -> str:
    """What identity compares: NFKC, lower case, single spaces. "" where nothing is left."""
    return " ".join(unicodedata.normalize("NFKC", name).lower().split())


def like(words: str, *, prefix: bool = False) -> str:
    """A LIKE pattern for text that holds (or begins with) these words, whatever signs are in them."""
    escaped = words.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"{escaped}%" if prefix else f"%{escaped}%"


async def named(graph: GraphWrite, keys: Collection[str]) -> list[EntityRecord]:
    """The entities whose name or alias is one of these, folded by `name_key`; oldest first."""
    rows = await graph.connection.execute(_NAMED, {"base_id": graph.base_id, "keys": sorted(keys)})
    return [_whole(row) for row in rows]


async def save(graph: GraphWrite, entities: Collection[EntityRecord]) -> None:
    """Stores new entities, and the aliases and the type of known ones."""
    if not entities:
        return
    keys = [name_key(entity.name) for entity in entities]
    await graph.connection.execute(
        _SAVE,
        {
            "base_id": graph.base_id,
            "created_at": graph.at,
            "ids": [entity.id for entity in entities],
            "names": [entity.name for entity in entities],
            "name_keys": keys,
            "aliases": [json.dumps(entity.aliases, ensure_ascii=False) for entity in entities],
            "search_texts": [
                "\n".join(dict.fromkeys((key, *map(name_key, entity.aliases))))
                for key, entity in zip(keys, entities, strict=True)
            ],
            "types": [entity.type for entity in entities],
            "disambiguators": [entity.disambiguator for entity in entities],
        },
    )


async def redirect(graph: GraphWrite, *, merged: str, into: str) -> None:
    """Marks an entity, and those that were merged into it before, as merged into another."""
    await graph.connection.execute(_REDIRECT, {"base_id": graph.base_id, "merged": merged, "into": into})


async def find(
    database: Database, base_id: str, wanted: EntityFilter, *, limit: int, offset: int
) -> tuple[list[CountedEntity], int]:
    """A base's entities by name, and how many there are.

    The exact name comes first, then names that begin with the query. An entity that was merged is listed only as of
    a time when it had facts.
    """
    key = name_key(wanted.query)
    first, last = wanted.at or (None, None)
    parameters = {
        "base_id": base_id,
        "as_of": wanted.as_of,
        "at_first": first,
        "at_last": last,
        "query": key,
        "pattern": like(key),
        "prefix": like(key, prefix=True),
        "type": wanted.type,
        "limit": limit,
        "offset": offset,
    }
    async with database.read() as connection:
        rows = (await connection.execute(_LIST, parameters)).all()
        total = rows[0].total if rows else (await connection.execute(_COUNT, parameters)).scalar_one()
    return [CountedEntity(_whole(row), row.created_at, row.fact_count) for row in rows], total


async def get(
    database: Database,
    base_id: str,
    entity_id: str,
    *,
    at: tuple[date, date] | None = None,
    as_of: datetime | None = None,
) -> CountedEntity | None:
    """An entity of the base, with the number of facts that were believed and held then."""
    first, last = at or (None, None)
    parameters = {"base_id": base_id, "id": entity_id, "as_of": as_of, "at_first": first, "at_last": last}
    async with database.read() as connection:
        row = (await connection.execute(_GET, parameters)).one_or_none()
    return None if row is None else CountedEntity(_whole(row), row.created_at, row.fact_count)


async def ids_named(database: Database, base_id: str, name: str) -> tuple[str, ...]:
    """The ids of the entities whose name or alias this is."""
    async with database.read() as connection:
        rows = await connection.execute(_NAMED, {"base_id": base_id, "keys": [name_key(name)]})
        return tuple(str(row.id) for row in rows)


async def get_many(graph: GraphWrite, ids: Collection[str]) -> dict[str, EntityRecord]:
    """The entities of these ids that the base has, by id."""
    rows = await graph.connection.execute(_GET_MANY, {"base_id": graph.base_id, "ids": list(ids)})
    return {str(row.id): _whole(row) for row in rows}


def record(row: Row[tuple[object, ...]]) -> EntityRecord:
    """The record of a row with id, name, aliases, type and disambiguator."""
    return EntityRecord(str(row.id), row.name, tuple(row.aliases), row.type, row.disambiguator)


def _whole(row: Row[tuple[object, ...]]) -> EntityRecord:
    """The record of a row that says too whether it was merged."""
    return replace(record(row), merged_into=None if row.merged_into is None else str(row.merged_into))
