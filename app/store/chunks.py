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

CANDIDATES = 200
"""At most so many chunks are ranked per way of finding them: reading a chunk's vector is what a search costs."""

COUNTED = 3_000
"""A word's chunks are looked at up to here. A word of more picks no candidates, unless all words are like it."""

LOOKED_AT = 20_000
"""So many chunks are looked at for all words together, at least LEAST_COUNTED for each: a bound on long questions."""

LEAST_COUNTED = 300

LEAST_ALIKE = 0.5
"""The least word similarity of a title, a name or a heading that counts as meant."""

SORTING_MEMORY = "64MB"
"""work_mem of a transaction that writes chunks."""

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


CHUNK_COLUMNS = """
    c.id, c.document_id, d.name, d.title, c.heading_path AS heading, c.page, c.position, c.text, c.live"""
"""What `record` reads, of chunks as c and documents as d."""

FIELD_WEIGHTS = "CAST(ARRAY[0.7, 0.7, 1, 1] AS float4[])"
"""What a word counts in a text (D) and in a title or heading (B), for ts_rank: for one word that is its weight times a
sum over its places that grows ever slower, as BM25's does."""

_SEARCH = text(f"""
WITH size AS (
    SELECT greatest(coalesce(sum(chunk_count), 0), 1)::float8 AS chunks FROM documents
    WHERE base_id = CAST(:base_id AS uuid) AND status = 'ready' AND superseded_at IS NULL
),
postings AS MATERIALIZED (
    SELECT a.literal, held.id
    FROM unnest(CAST(:literals AS text[])) AS a (literal)
    CROSS JOIN LATERAL (
        SELECT id FROM chunks
        WHERE live AND base_id = CAST(:base_id AS uuid) AND tsv @@ CAST(a.literal AS tsquery) LIMIT :counted
    ) held
),
asked AS MATERIALIZED (
    SELECT h.literal, CAST(h.literal AS tsquery) AS query, ln(1 + size.chunks / h.chunks) AS weight,
           h.chunks < :counted OR bool_and(h.chunks >= :counted) OVER () AS telling
    FROM size, (SELECT literal, count(*) AS chunks FROM postings GROUP BY literal) h
),
found AS (
    (SELECT id FROM chunks
     WHERE live AND base_id = CAST(:base_id AS uuid) AND tsv @@ CAST(:all_words AS tsquery) LIMIT :candidates)
    UNION
    (SELECT p.id FROM postings p JOIN asked USING (literal) WHERE asked.telling
     GROUP BY p.id ORDER BY sum(asked.weight) DESC, p.id LIMIT :candidates)
),
ranked AS (
    SELECT whole.id,
           whole.tsv @@ CAST(:phrase AS tsquery) AS phrase,
           whole.tsv @@ CAST(:all_words AS tsquery) AS all_words,
           (SELECT sum(asked.weight * ts_rank({FIELD_WEIGHTS}, whole.tsv, asked.query)) FROM asked) AS weight,
           ts_rank_cd(whole.tsv, (SELECT CAST(string_agg(literal, ' | ') AS tsquery) FROM asked)) AS density
    FROM (SELECT c.id, c.tsv || CAST('' AS tsvector) AS tsv FROM chunks c JOIN found USING (id) OFFSET 0) whole
    ORDER BY phrase DESC, all_words DESC, weight DESC, density DESC, whole.id
    LIMIT :limit
)
SELECT {CHUNK_COLUMNS}, r.phrase, r.all_words, r.weight, r.density
FROM ranked r JOIN chunks c USING (id) JOIN documents d ON d.id = c.document_id
ORDER BY r.phrase DESC, r.all_words DESC, r.weight DESC, r.density DESC, c.id
""")  # noqa: S608 - only constants of this module are put together

_PLANNING = text(
    "SELECT set_config('enable_seqscan', 'off', true), set_config('plan_cache_mode', 'force_custom_plan', true)"
)
"""The planner doesn't know that looking at a vector means fetching it from beside the table, and after five searches
makes one plan for all questions: at 100,000 chunks either had it read every vector, in seconds."""

_SEARCH_ALIKE = text(f"""
WITH alike AS (
    SELECT c.id, c.position, greatest(
        word_similarity(:query, d.title), word_similarity(:query, d.name), word_similarity(:query, c.heading_path)
    ) AS weight
    FROM chunks c JOIN documents d ON d.id = c.document_id
    WHERE c.live AND c.base_id = CAST(:base_id AS uuid)
),
ranked AS (SELECT id, weight FROM alike WHERE weight >= :least ORDER BY weight DESC, position, id LIMIT :limit)
SELECT {CHUNK_COLUMNS}, false AS phrase, false AS all_words, r.weight, 0.0 AS density
FROM ranked r JOIN chunks c USING (id) JOIN documents d ON d.id = c.document_id
ORDER BY r.weight DESC, c.position, c.id
""")  # noqa: S608

_GET = text(f"""
SELECT {CHUNK_COLUMNS} FROM chunks c JOIN documents d ON d.id = c.document_id
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
SELECT {CHUNK_COLUMNS} FROM chunks c JOIN documents d ON d.id = c.document_id
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
    """Stores a document's chunks at their places.

    Now and then an insert sorts what waits into the index, in portions of work_mem: with the usual 4 MB that took
    half a minute at 90,000 chunks, past the statement's timeout.
    """
    await connection.execute(text(f"SET LOCAL work_mem = '{SORTING_MEMORY}'"))
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
    """The best live chunks that hold any of the words, best first."""
    parameters = {
        "base_id": base_id,
        "literals": list(terms.literals),
        "phrase": terms.phrase,
        "all_words": terms.all_words,
        "candidates": CANDIDATES,
        "counted": min(COUNTED, max(LEAST_COUNTED, LOOKED_AT // max(len(terms.literals), 1))),
        "limit": limit,
    }
    async with database.read() as connection:
        await connection.execute(_PLANNING)
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
    return None if row is None else record(row)


async def tidy_index(database: Database) -> None:
    """Sorts what was just written into the index, where the server's autovacuum would do so a minute later.

    Until then every search also reads the list of what is unsorted, and a long list makes the planner read all
    chunks instead. Does nothing for a role that doesn't own the index.
    """
    async with database.begin() as connection:
        await connection.execute(_TIDY)


async def outdated(database: Database, segmenter: int, *, limit: int) -> list[ChunkRecord]:
    """Chunks whose vector another version of the segmentation made."""
    async with database.read() as connection:
        rows = await connection.execute(_OUTDATED, {"segmenter": segmenter, "limit": limit})
        return [record(row) for row in rows]


async def replace_vectors(database: Database, vectors: Mapping[str, str], *, segmenter: int) -> None:
    """Stores new vectors by chunk id."""
    values = {"ids": list(vectors), "vectors": list(vectors.values()), "segmenter": segmenter}
    async with database.begin() as connection:
        await connection.execute(_REPLACE_VECTORS, values)


def record(row: Row[tuple[object, ...]]) -> ChunkRecord:
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
        chunk=record(row),
        phrase=row.phrase,
        all_words=row.all_words,
        weight=float(row.weight),
        density=float(row.density),
    )
