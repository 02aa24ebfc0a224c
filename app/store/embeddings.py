"""Vectors of chunks: which model made them, which chunks still lack one, and the nearest ones to a question.

Decides when search may use a model (once every live chunk had its vector), who fills a model (one worker at a time,
by a lease) and how vectors are indexed (HNSW, one index per model, decision 0011). The table holds plain arrays; all
that needs pgvector is here and is made by `prepare` and `finish`. Does not speak to a model.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Row, text
from sqlalchemy.exc import DBAPIError

from app.store.chunks import CHUNK_COLUMNS, ChunkRecord, record
from app.store.engine import Database
from app.store.ids import new_id

LEAST_PGVECTOR = (0, 8)
"""Iterative index scans, without which a small base in a large index finds too little, came with 0.8."""

EF_SEARCH = 100
"""How many candidates an HNSW scan keeps; pgvector's own default is 40."""

MAX_VECTOR, MAX_HALFVEC = 2_000, 4_000
"""The most dimensions that HNSW indexes as vector and as halfvec. Source: pgvector's manual."""

BUILD_MEMORY = "256MB"
"""What building an index may take: 100,000 vectors of 384 numbers need about 200 MB, past which it gets slow."""

_LOCK_KEY = 0x7475726E76656374  # `turnvect` in ASCII: who makes the extension


@dataclass(frozen=True, slots=True)
class EmbeddingModel:
    """A model that chunks are embedded with. `ready`: every live chunk had its vector once."""

    id: str
    name: str
    dimensions: int
    ready: bool


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk without its vector, and what it is called."""

    id: str
    title: str
    heading: str
    text: str


@dataclass(frozen=True, slots=True)
class Progress:
    """How many of a base's live chunks have their vector of the newest model; `model` is None before the first."""

    model: str | None
    done: int
    total: int


_EXTENSION = text("""
SELECT (SELECT extversion FROM pg_extension WHERE extname = 'vector') AS installed,
       (SELECT default_version FROM pg_available_extensions WHERE name = 'vector') AS available
""")

_REGISTER = text("""
INSERT INTO embedding_models (id, name, dimensions) VALUES (CAST(:id AS uuid), :name, :dimensions)
ON CONFLICT (name, dimensions) DO UPDATE SET seen_at = now()
RETURNING id, name, dimensions, ready_at
""")

_FOR_SEARCH = text("""
SELECT id, name, dimensions, ready_at FROM embedding_models
WHERE ready_at IS NOT NULL AND EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'vector')
ORDER BY name = :name DESC, ready_at DESC LIMIT 1
""")

_CLAIM = text("""
UPDATE embedding_models
SET worker = CAST(:worker AS uuid), lease_until = now() + make_interval(secs => :lease_s), seen_at = now()
WHERE id = CAST(:id AS uuid) AND (worker IS NULL OR worker = CAST(:worker AS uuid) OR lease_until < now())
RETURNING id
""")

_RELEASE = text("""
UPDATE embedding_models SET worker = NULL, lease_until = NULL
WHERE id = CAST(:id AS uuid) AND worker = CAST(:worker AS uuid)
""")

_MISSING = text("""
SELECT c.id, d.title, c.heading_path AS heading, c.text FROM chunks c JOIN documents d ON d.id = c.document_id
WHERE c.live AND c.id > CAST(:after AS uuid)
  AND NOT EXISTS (SELECT 1 FROM embeddings e WHERE e.chunk_id = c.id AND e.model_id = CAST(:model_id AS uuid))
ORDER BY c.id LIMIT :limit
""")

_STORE = text("""
INSERT INTO embeddings (chunk_id, model_id, embedding)
SELECT c.id, CAST(:model_id AS uuid), CAST(n.embedding AS real[])
FROM (SELECT id FROM chunks WHERE id = ANY(CAST(:ids AS uuid[])) ORDER BY id FOR KEY SHARE) c
JOIN unnest(CAST(:ids AS uuid[]), CAST(:vectors AS text[])) AS n (id, embedding) ON n.id = c.id
ON CONFLICT DO NOTHING
""")

_READY = text("""
UPDATE embedding_models SET ready_at = now() WHERE id = CAST(:id AS uuid) AND ready_at IS NULL AND NOT EXISTS (
    SELECT 1 FROM chunks c WHERE c.live
      AND NOT EXISTS (SELECT 1 FROM embeddings e WHERE e.chunk_id = c.id AND e.model_id = CAST(:id AS uuid)))
RETURNING id
""")

_MANY = text("""
SELECT count(*) >= CAST(:least AS bigint) FROM (
    SELECT 1 FROM embeddings WHERE model_id = CAST(:id AS uuid) AND embedding IS NOT NULL LIMIT CAST(:least AS bigint)
) counted
""")

_INDEX_STATE = text("""
SELECT i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE c.relname = :name AND i.indrelid = CAST('embeddings' AS regclass)
""")

_UNUSED = text("""
SELECT id FROM embedding_models
WHERE id <> CAST(:keep AS uuid) AND seen_at < now() - make_interval(secs => :unused_s)
  AND EXISTS (SELECT 1 FROM embedding_models WHERE id = CAST(:keep AS uuid) AND ready_at IS NOT NULL)
""")

_FORGET = text("""
DELETE FROM embeddings WHERE model_id = CAST(:id AS uuid) AND chunk_id IN (
    SELECT chunk_id FROM embeddings WHERE model_id = CAST(:id AS uuid) LIMIT :limit)
""")

_PROGRESS = text("""
WITH model AS (SELECT id, name FROM embedding_models ORDER BY seen_at DESC, created_at DESC LIMIT 1)
SELECT (SELECT name FROM model) AS name, count(e.chunk_id) AS done, count(*) AS total
FROM chunks c LEFT JOIN embeddings e ON e.chunk_id = c.id AND e.model_id = (SELECT id FROM model)
WHERE c.live AND c.base_id = CAST(:base_id AS uuid)
""")


async def prepare(database: Database) -> str | None:
    """Makes the extension where it is missing; None once vectors can be searched, else why they can't."""
    async with database.begin() as connection:
        await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
        installed, available = (await connection.execute(_EXTENSION)).one()
        if installed is None and available is not None:
            try:
                async with connection.begin_nested():
                    await connection.execute(text("CREATE EXTENSION vector"))
            except DBAPIError as refusal:
                return f"the extension vector could not be made ({refusal.orig})"
            installed = available
    if installed is None:
        return "this Postgres has no extension vector (pgvector)"
    least = ".".join(map(str, LEAST_PGVECTOR))
    numbers = tuple(int(part) for part in str(installed).split(".")[:2])
    return None if numbers >= LEAST_PGVECTOR else f"pgvector is {installed}, and {least} or newer is needed"


async def register(database: Database, name: str, dimensions: int) -> EmbeddingModel:
    """The model, new or known; it counts as seen now. The same name with other dimensions is another model."""
    values = {"id": new_id(), "name": name, "dimensions": dimensions}
    async with database.begin() as connection:
        return _model((await connection.execute(_REGISTER, values)).one())


async def for_search(database: Database, name: str) -> EmbeddingModel | None:
    """The model whose vectors are complete: the named one, else the one that was last; None where there is none."""
    async with database.read() as connection:
        row = (await connection.execute(_FOR_SEARCH, {"name": name})).one_or_none()
    return None if row is None else _model(row)


async def claim(database: Database, model: EmbeddingModel, worker: str, *, lease_s: float) -> bool:
    """Whether the worker may fill the model: nobody else does, or their lease has run out. Renews an own lease."""
    async with database.begin() as connection:
        values = {"id": model.id, "worker": worker, "lease_s": lease_s}
        return (await connection.execute(_CLAIM, values)).one_or_none() is not None


async def release(database: Database, model: EmbeddingModel, worker: str) -> None:
    """Gives the lease back, if it is still the worker's."""
    async with database.begin() as connection:
        await connection.execute(_RELEASE, {"id": model.id, "worker": worker})


async def missing(database: Database, model: EmbeddingModel, *, after: str | None, limit: int) -> list[Passage]:
    """Live chunks of any base without a vector of the model, in order of their ids, from behind `after` on."""
    values = {"model_id": model.id, "after": after or str(uuid.UUID(int=0)), "limit": limit}
    async with database.read() as connection:
        rows = await connection.execute(_MISSING, values)
        return [Passage(str(row.id), row.title, row.heading, row.text) for row in rows]


async def store(
    database: Database,
    model: EmbeddingModel,
    vectors: Mapping[str, Sequence[float] | None],
    *,
    worker: str,
    lease_s: float,
) -> bool:
    """Stores vectors by chunk id, None for a refused text, and renews the lease; False, and nothing, where it is lost.

    A chunk that was deleted meanwhile is left out.
    """
    async with database.begin() as connection:
        values = {"id": model.id, "worker": worker, "lease_s": lease_s}
        if (await connection.execute(_CLAIM, values)).one_or_none() is None:
            return False
        await connection.execute(
            _STORE,
            {
                "model_id": model.id,
                "ids": list(vectors),
                "vectors": [None if vector is None else _literal(vector) for vector in vectors.values()],
            },
        )
    return True


async def finish(database: Database, model: EmbeddingModel, *, index_from: int) -> bool:
    """Indexes the model's vectors where there are at least `index_from`, then lets search use it if none is missing.

    Whether it became ready just now. Below that number an exact scan is quick, and finds more.
    """
    await _index(database, model, index_from)
    async with database.begin() as connection:
        return (await connection.execute(_READY, {"id": model.id})).one_or_none() is not None


async def retire(database: Database, keep: EmbeddingModel, *, unused_s: float, batch: int = 5_000) -> list[str]:
    """Once `keep` is ready, deletes the models that no process was configured with for so long; gives their ids."""
    async with database.read() as connection:
        rows = await connection.execute(_UNUSED, {"keep": keep.id, "unused_s": unused_s})
        gone = [str(row.id) for row in rows]
    for model_id in gone:
        await _drop_index(database, model_id)
        deleted = batch
        while deleted == batch:
            async with database.begin() as connection:
                deleted = (await connection.execute(_FORGET, {"id": model_id, "limit": batch})).rowcount
        async with database.begin() as connection:
            await connection.execute(
                text("DELETE FROM embedding_models WHERE id = CAST(:id AS uuid)"), {"id": model_id}
            )
    return gone


async def progress(database: Database, base_id: str) -> Progress:
    """How far the newest model is with a base."""
    async with database.read() as connection:
        row = (await connection.execute(_PROGRESS, {"base_id": base_id})).one()
    return Progress(row.name, row.done if row.name is not None else 0, row.total)


async def nearest(
    database: Database, model: EmbeddingModel, base_id: str, vector: Sequence[float], *, limit: int
) -> list[ChunkRecord]:
    """The live chunks of the base whose vectors are nearest to this one by cosine, nearest first."""
    kind = _kind(model.dimensions)
    # constants of this module, an id and a number: literals, so that the partial index is seen to fit
    statement = text(f"""
        WITH near AS MATERIALIZED (
            SELECT e.chunk_id, CAST(e.embedding AS {kind}) <=> CAST(CAST(:vector AS real[]) AS {kind}) AS distance
            FROM embeddings e JOIN chunks c ON c.id = e.chunk_id
            WHERE {_of(model.id)} AND c.live AND c.base_id = CAST(:base_id AS uuid)
            ORDER BY CAST(e.embedding AS {kind}) <=> CAST(CAST(:vector AS real[]) AS {kind}) LIMIT :limit
        )
        SELECT {CHUNK_COLUMNS} FROM near n JOIN chunks c ON c.id = n.chunk_id JOIN documents d ON d.id = c.document_id
        ORDER BY n.distance, c.id
    """)  # noqa: S608
    async with database.read() as connection:
        await connection.execute(
            text(
                "SELECT set_config('hnsw.ef_search', :ef_search, true), "
                "set_config('hnsw.iterative_scan', 'strict_order', true)"
            ),
            {"ef_search": str(EF_SEARCH)},
        )
        rows = await connection.execute(statement, {"vector": list(vector), "base_id": base_id, "limit": limit})
        return [record(row) for row in rows]


async def _index(database: Database, model: EmbeddingModel, least: int) -> None:
    """An HNSW index over the model's vectors, built while others write; a half-built one is built again.

    Does nothing for few vectors, or for more dimensions than pgvector indexes.
    """
    kind, name = _kind(model.dimensions), _index_name(model.id)
    if model.dimensions > MAX_HALFVEC:
        return
    async with database.read() as connection:
        valid = await connection.scalar(_INDEX_STATE, {"name": name})
        if valid or not await connection.scalar(_MANY, {"id": model.id, "least": least}):
            return
    operators = f"{kind.partition('(')[0]}_cosine_ops"
    # behind a pooling proxy a SET would stay on some server; the build then makes do with that server's own value
    memory = () if database.pooler else (f"SET maintenance_work_mem = '{BUILD_MEMORY}'",)
    await _unhurried(
        database,
        *memory,
        f"DROP INDEX CONCURRENTLY IF EXISTS {name}",
        f"CREATE INDEX CONCURRENTLY {name} ON embeddings USING hnsw ((CAST(embedding AS {kind})) {operators}) "
        f"WHERE {_of(model.id)}",
    )


async def _drop_index(database: Database, model_id: str) -> None:
    await _unhurried(database, f"DROP INDEX CONCURRENTLY IF EXISTS {_index_name(model_id)}")


async def _unhurried(database: Database, *statements: str) -> None:
    """Statements that may take minutes and can't run in a transaction: on their own connection, without a timeout."""
    async with database.apart() as connection:
        for statement in statements:
            await connection.execute(text(statement))


def _kind(dimensions: int) -> str:
    """The type that vectors of so many numbers are compared as. Source: pgvector, what HNSW indexes of each type."""
    if dimensions <= MAX_VECTOR:
        return f"vector({dimensions})"
    return f"halfvec({dimensions})" if dimensions <= MAX_HALFVEC else f"vector({dimensions})"


def _of(model_id: str) -> str:
    """The condition that queries and the model's partial index share."""
    return f"model_id = CAST('{uuid.UUID(model_id)}' AS uuid) AND embedding IS NOT NULL"


def _index_name(model_id: str) -> str:
    return f"hnsw_embeddings_{uuid.UUID(model_id).hex}"


def _literal(vector: Sequence[float]) -> str:
    return "{" + ",".join(map(repr, vector)) + "}"


def _model(row: Row[tuple[object, ...]]) -> EmbeddingModel:
    return EmbeddingModel(str(row.id), row.name, row.dimensions, row.ready_at is not None)
