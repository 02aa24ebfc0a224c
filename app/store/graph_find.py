"""Entities by name: exact names, aliases, beginnings, parts, and typos, namesakes ranked by the question.

Decides the order of what a name may mean; which of them is meant, if any, is decided in app/knowledge/graph.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import text

from app.store.clocks import AS_OF, BELIEVED
from app.store.engine import Database
from app.store.entities import EntityRecord, like, record
from app.store.graph import LOOKED_AT, View

CANDIDATES = 50
"""Entities of a name that are ranked."""

PROFILE_FACTS = 200
"""Facts of a candidate that are compared with the question."""

LEAST_ALIKE = 0.45
"""The least word similarity of a name that counts as a typo of what was asked."""

Tier = Literal["exact", "alias", "prefix", "partial", "typo"]
_TIERS: tuple[Tier, ...] = ("exact", "alias", "prefix", "partial", "typo")


@dataclass(frozen=True, slots=True)
class EntityMatch:
    """An entity that a name may mean, and why: `hits` of the question's words are in its facts; `alike` 0 to 1."""

    entity: EntityRecord
    tier: Tier
    hinted: bool
    hits: int
    facts: int
    alike: float


@dataclass(frozen=True, slots=True)
class NameQuery:
    """A name to look for, folded; `words` are the question's, `hint` a folded disambiguator."""

    key: str
    hint: str = ""
    type: str | None = None
    words: Sequence[str] = ()


_LINES = "E'\\n' || e.search_text || E'\\n'"


def _find(condition: str, tier: str, alike: str) -> str:
    """A statement that ranks the entities of a name; only constants of this module are put together."""
    return f"""
WITH matched AS MATERIALIZED (
    SELECT e.id, e.name, e.type, e.disambiguator, e.aliases, {tier} AS tier, {alike} AS alike,
           (:hint <> '' AND strpos(lower(e.disambiguator), :hint) > 0) AS hinted, count(*) OVER () AS total
    FROM entities e
    WHERE e.base_id = CAST(:base_id AS uuid) AND (CAST(:type AS text) IS NULL OR lower(e.type) = :type)
      AND e.created_at < {AS_OF} AND ({condition})
      AND (e.merged_into IS NULL
           OR EXISTS (SELECT 1 FROM facts f WHERE (f.subject_id = e.id OR f.object_id = e.id) AND {BELIEVED}))
    ORDER BY tier, alike DESC, hinted DESC, length(e.name), e.id LIMIT :candidates
)
SELECT m.*, p.facts, p.hits
FROM matched m
CROSS JOIN LATERAL (
    SELECT (SELECT count(*) FROM (
                SELECT 1 FROM facts f WHERE (f.subject_id = m.id OR f.object_id = m.id) AND {BELIEVED} LIMIT :looked_at
            ) c) AS facts,
           (SELECT count(*) FROM unnest(CAST(:words AS text[])) w (word) WHERE strpos(t.profile, w.word) > 0) AS hits
    FROM (
        SELECT lower(m.type || ' ' || m.disambiguator || ' ' || coalesce(string_agg(g.said, ' '), '')) AS profile
        FROM (
            SELECT concat_ws(' ', f.predicate, f.value,
                             CASE WHEN f.subject_id = m.id THEN o.name ELSE s.name END) AS said
            FROM facts f JOIN entities s ON s.id = f.subject_id LEFT JOIN entities o ON o.id = f.object_id
            WHERE (f.subject_id = m.id OR f.object_id = m.id) AND {BELIEVED} LIMIT :profile_facts
        ) g
    ) t
) p
ORDER BY m.tier, m.alike DESC, m.hinted DESC, p.hits DESC, p.facts DESC, m.name, m.id
LIMIT :limit"""  # noqa: S608


_FIND = text(
    _find(
        "e.search_text LIKE :partial",
        f"""CASE WHEN e.name_key = :key THEN 0 WHEN strpos({_LINES}, E'\\n' || :key || E'\\n') > 0 THEN 1
                 WHEN strpos({_LINES}, E'\\n' || :key) > 0 THEN 2 ELSE 3 END""",
        "CAST(0 AS float4)",
    )
)
_FIND_ALIKE = text(
    _find(
        "CAST(:key AS text) <% e.search_text",
        "4",
        "round(CAST(word_similarity(:key, e.search_text) AS numeric), 2)",
    )
)


async def find(database: Database, view: View, name: NameQuery, *, limit: int) -> tuple[list[EntityMatch], int]:
    """The entities that a name may mean, best first, and how many there are; by their looks only if by nothing else."""
    values = {
        "base_id": view.base_id,
        "as_of": view.as_of,
        "key": name.key,
        "partial": like(name.key),
        "hint": name.hint,
        "type": name.type,
        "words": list(name.words),
        "candidates": CANDIDATES,
        "looked_at": LOOKED_AT,
        "profile_facts": PROFILE_FACTS,
        "limit": limit,
    }
    async with database.read() as connection:
        rows = (await connection.execute(_FIND, values)).all()
        if not rows:
            threshold = text("SELECT set_config('pg_trgm.word_similarity_threshold', :least, true)")
            await connection.execute(threshold, {"least": str(LEAST_ALIKE)})
            del values["partial"]
            rows = (await connection.execute(_FIND_ALIKE, values)).all()
    matches = [
        EntityMatch(record(row), _TIERS[int(row.tier)], row.hinted, row.hits, row.facts, float(row.alike))
        for row in rows
    ]
    return matches, rows[0].total if rows else 0
