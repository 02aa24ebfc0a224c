"""Chunks: the passages of documents, and the statements that search them.

Decides the ranking: whole phrase, then all words, then the sum of the matched words' weights, then cover
density (decision 0004). Words, vectors and queries come ready made from app/knowledge/segment.py; Postgres
parses no text. Chunks are written by app/store/documents.py, inside its transactions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.engine import Database
from app.store.ids import new_id

CANDIDATES = 1_000
"""At most so many chunks are ranked per way of finding them."""

COUNTED = 3_000
"""A word's chunks are counted up to here: beyond it a word says nothing."""

LEAST_ALIKE = 0.5
"""The least word similarity of a title, a name or a heading that counts as meant."""

BATCH = 500
"""Chunks per statement while writing."""


@dataclass(frozen=True, slots=True)
class NewChunk:
    """A chunk to be stored at its place in the list; `tsv` is a tsvector literal."""

    heading: str
    page: int | None
    text: str
    tsv: str


@dataclass(frozen=True, slots=True)
class ChunkRecord:
    """A stored chunk. `live` is False once its document is superseded: it can be opened, not found."""

    id: str
    document_id: str
    name: str
    title: str
    heading: str
    page: int | None
    position: int
    text: str
    live: bool


@dataclass(frozen=True, slots=True)
class FoundChunk:
    """A chunk and why it was found.

    `weight` is the sum of the matched words' inverse document frequencies, `density` Postgres' cover density.
    """

    chunk: ChunkRecord
    phrase: bool
    all_words: bool
    weight: float
    density: float


@dataclass(frozen=True, slots=True)
class SearchTerms:
    """What is searched for: words as lexemes of a tsquery, and two tsqueries made of them."""

    literals: Sequence[str]
    phrase: str
    all_words: str


_CHUNK = """
    c.id, c.document_id, d.name, d.title, c.heading_path AS heading, c.page, c.position, c.text, c.live"""

_SEARCH = text(f"""
WITH size AS (
    SELECT greatest(coalesce(sum(chunk_count), 0), 1)::float8 AS chunks FROM documents
    WHERE base_id = CAST(:base_id AS uuid) AND status = 'ready' AND superseded_at IS NULL
),
asked AS MATERIALIZED (
    SELECT a.literal, CAST(a.literal AS tsquery) AS query, ln(1 + size.chunks / h.chunks) AS weight,
           sum(h.chunks) OVER (ORDER BY h.chunks, a.literal) - h.chunks AS rarer
    FROM size, unnest(CAST(:literals AS text[])) AS a (literal)
    CROSS JOIN LATERAL (
        SELECT count(*) AS chunks FROM (
            SELECT 1 FROM chunks
            WHERE live AND base_id = CAST(:base_id AS uuid) AND tsv @@ CAST(a.literal AS tsquery) LIMIT :counted
        ) held
    ) h
    WHERE h.chunks > 0
),
wanted AS MATERIALIZED (
    SELECT CAST(string_agg(literal, ' | ') AS tsquery) AS any_word,
           CAST(string_agg(literal, ' | ') FILTER (WHERE rarer < :candidates) AS tsquery) AS rare
    FROM asked
),
found AS (
    (SELECT id FROM chunks
     WHERE live AND base_id = CAST(:base_id AS uuid) AND tsv @@ CAST(:all_words AS tsquery) LIMIT :candidates)
    UNION
    (SELECT id FROM chunks
     WHERE live AND base_id = CAST(:base_id AS uuid) AND tsv @@ (SELECT rare FROM wanted) LIMIT :candidates)
),
ranked AS (
    SELECT c.id,
           c.tsv @@ CAST(:phrase AS tsquery) AS phrase,
           c.tsv @@ CAST(:all_words AS tsquery) AS all_words,
           (SELECT sum(asked.weight) FROM asked WHERE c.tsv @@ asked.query) AS weight,
           ts_rank_cd(c.tsv, (SELECT any_word FROM wanted)) AS density
    FROM chunks c JOIN found USING (id)
    ORDER BY phrase DESC, all_words DESC, weight DESC, density DESC, c.id
    LIMIT :limit
)
SELECT {_CHUNK}, r.phrase, r.all_words, r.weight, r.density
FROM ranked r JOIN chunks c USING (id) JOIN documents d ON d.id = c.document_id
ORDER BY r.phrase DESC, r.all_words DESC, r.weight DESC, r.density DESC, c.id
""")  # noqa: S608 - only constants of this module are put together

_SEARCH_ALIKE = text(f"""
WITH alike AS (
    SELECT c.id, c.position, greatest(
        word_similarity(:query, d.title), word_similarity(:query, d.name), word_similarity(:query, c.heading_path)
    ) AS weight
    FROM chunks c JOIN documents d ON d.id = c.document_id
    WHERE c.live AND c.base_id = CAST(:base_id AS uuid)
),
ranked AS (SELECT id, weight FROM alike WHERE weight >= :least ORDER BY weight DESC, position, id LIMIT :limit)
SELECT {_CHUNK}, false AS phrase, false AS all_words, r.weight, 0.0 AS density
FROM ranked r JOIN chunks c USING (id) JOIN documents d ON d.id = c.document_id
ORDER BY r.weight DESC, c.position, c.id
""")  # noqa: S608

_GET = text(f"""
SELECT {_CHUNK} FROM chunks c JOIN documents d ON d.id = c.document_id
WHERE c.base_id = CAST(:base_id AS uuid) AND c.id = CAST(:id AS uuid)
""")  # noqa: S608

_INSERT = text("""
INSERT INTO chunks (id, document_id, base_id, position, heading_path, page, text, tsv, segmenter, live)
SELECT n.id, CAST(:document_id AS uuid), CAST(:base_id AS uuid), n.position, n.heading, n.page, n.text,
       CAST(n.tsv AS tsvector), :segmenter, :live
FROM unnest(CAST(:ids AS uuid[]), CAST(:positions AS integer[]), CAST(:headings AS text[]),
            CAST(:pages AS integer[]), CAST(:texts AS text[]), CAST(:vectors AS text[]))
     AS n (id, position, heading, page, text, tsv)
""")

_OUTDATED = text(f"""
SELECT {_CHUNK} FROM chunks c JOIN documents d ON d.id = c.document_id
WHERE c.segmenter <> :segmenter ORDER BY c.id LIMIT :limit
""")  # noqa: S608

_REPLACE_VECTORS = text("""
UPDATE chunks c SET tsv = CAST(n.tsv AS tsvector), segmenter = :segmenter
FROM unnest(CAST(:ids AS uuid[]), CAST(:vectors AS text[])) AS n (id, tsv) WHERE c.id = n.id
""")

_TIDY = text("""
SELECT gin_clean_pending_list('ix_chunks_tsv')
WHERE pg_has_role(current_user, (SELECT relowner FROM pg_class WHERE oid = CAST('ix_chunks_tsv' AS regclass)), 'USAGE')
""")


async def insert(
    connection: AsyncConnection,
    chunks: Sequence[NewChunk],
    *,
    base_id: str,
    document_id: str,
    segmenter: int,
    live: bool,
) -> None:
    """Stores a document's chunks at their places."""
    for start in range(0, len(chunks), BATCH):
        batch = chunks[start : start + BATCH]
        await connection.execute(
            _INSERT,
            {
                "document_id": document_id,
                "base_id": base_id,
                "segmenter": segmenter,
                "live": live,
                "ids": [new_id() for _ in batch],
                "positions": list(range(start, start + len(batch))),
                "headings": [chunk.heading for chunk in batch],
                "pages": [chunk.page for chunk in batch],
                "texts": [chunk.text for chunk in batch],
                "vectors": [chunk.tsv for chunk in batch],
            },
        )


async def search(database: Database, base_id: str, terms: SearchTerms, *, limit: int) -> list[FoundChunk]:
    """The best live chunks that hold any of the words, best first. One statement."""
    parameters = {
        "base_id": base_id,
        "literals": list(terms.literals),
        "phrase": terms.phrase,
        "all_words": terms.all_words,
        "candidates": CANDIDATES,
        "counted": COUNTED,
        "limit": limit,
    }
    async with database.read() as connection:
        return [_found(row) for row in await connection.execute(_SEARCH, parameters)]


async def search_alike(database: Database, base_id: str, query: str, *, limit: int) -> list[FoundChunk]:
    """Chunks whose document's title or name, or whose headings, look like the query: the net for typos in names.

    Best first, `weight` is pg_trgm's word similarity. Compares every live chunk of the base.
    """
    parameters = {"base_id": base_id, "query": query, "least": LEAST_ALIKE, "limit": limit}
    async with database.read() as connection:
        return [_found(row) for row in await connection.execute(_SEARCH_ALIKE, parameters)]


async def get(database: Database, base_id: str, chunk_id: str) -> ChunkRecord | None:
    """A chunk of the base, also one whose document is superseded."""
    async with database.read() as connection:
        row = (await connection.execute(_GET, {"base_id": base_id, "id": chunk_id})).one_or_none()
    return None if row is None else _record(row)


async def tidy_index(database: Database) -> None:
    """Sorts what was just written into the index, where the server's autovacuum would do so a minute later.

    Until then every search also reads the list of what is unsorted: tens of milliseconds after a large upload.
    Does nothing for a role that doesn't own the index.
    """
    async with database.begin() as connection:
        await connection.execute(_TIDY)


async def outdated(database: Database, segmenter: int, *, limit: int) -> list[ChunkRecord]:
    """Chunks whose vector another version of the segmentation made."""
    async with database.read() as connection:
        rows = await connection.execute(_OUTDATED, {"segmenter": segmenter, "limit": limit})
        return [_record(row) for row in rows]


async def replace_vectors(database: Database, vectors: Mapping[str, str], *, segmenter: int) -> None:
    """Stores new vectors by chunk id."""
    values = {"ids": list(vectors), "vectors": list(vectors.values()), "segmenter": segmenter}
    async with database.begin() as connection:
        await connection.execute(_REPLACE_VECTORS, values)


def _record(row: Row[tuple[object, ...]]) -> ChunkRecord:
    return ChunkRecord(
        id=str(row.id),
        document_id=str(row.document_id),
        name=row.name,
        title=row.title,
        heading=row.heading,
        page=row.page,
        position=row.position,
        text=row.text,
        live=row.live,
    )


def _found(row: Row[tuple[object, ...]]) -> FoundChunk:
    return FoundChunk(
        chunk=_record(row),
        phrase=row.phrase,
        all_words=row.all_words,
        weight=float(row.weight),
        density=float(row.density),
    )
