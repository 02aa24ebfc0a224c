"""Retrieval: what full text finds on the gold set; what vectors add and never break. Source: issue 4 item 5."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import URL, text
from structlog.testing import capture_logs

from app.errors import EmbeddingFailed
from app.knowledge.backfill import Backfill, BackfillLimits, progress
from app.knowledge.bulk import ingest_paths
from app.knowledge.ingest import Ingest
from app.knowledge.nearest import Nearest, NearestLimits
from app.knowledge.search import fuse, search
from app.llm.embeddings import EmbeddingConfig, Embeddings
from app.llm.endpoint import EndpointConfig
from app.store import bases, embeddings
from app.store.chunks import ChunkRecord, FoundChunk
from app.store.embeddings import Progress
from app.store.engine import Database
from bench import gold
from tests.harness.app import running_app
from tests.harness.embedding_endpoint import EmbeddingEndpoint
from tests.harness.postgres import PostgresServer, run_sql
from tests.harness.scripted_endpoint import ScriptedEndpoint, call
from tests.harness.scripted_endpoint import text as says

CONCEPTS = {"kitten": "cat", "feline": "cat", "猫咪": "cat", "automobile": "car", "vehicle": "car"}
FILES = {
    "cats.md": "# Notes\n\nThe feline feline feline sleeps on the roof.\n",
    "cars.md": "# Roads\n\nAn automobile automobile automobile needs oil.\n",
    "tea.md": "# Kitchen\n\nTea is drunk hot.\n",
    "bread.md": "# Bakery\n\nBread is baked early.\n",
    "rain.md": "# Weather\n\nRain fell all night.\n",
}
LIMITS = BackfillLimits(batch=2, lease_s=30.0, index_from=10_000)


@asynccontextmanager
async def embedder(endpoint: EmbeddingEndpoint, model: str = "small") -> AsyncGenerator[Embeddings]:
    """The real client on the endpoint of the test."""
    config = EmbeddingConfig(
        EndpointConfig(endpoint.base_url, model, connect_timeout_s=2, read_timeout_s=10), retry_base_s=0.01
    )
    opened = Embeddings.open(config)
    try:
        yield opened
    finally:
        await opened.aclose()


@pytest.fixture
async def endpoint() -> AsyncGenerator[EmbeddingEndpoint]:
    async with EmbeddingEndpoint(concepts=CONCEPTS) as running:
        yield running


@pytest.fixture
async def url(postgres: PostgresServer) -> AsyncGenerator[URL]:
    async with postgres.new_database() as url:
        yield url


@pytest.fixture
async def shelf(url: URL) -> AsyncGenerator[Database]:
    """A database whose default base holds FILES."""
    database = Database(url)
    try:
        await put(database, FILES)
        yield database
    finally:
        await database.aclose()


async def put(database: Database, files: dict[str, str]) -> None:
    base_id = await default(database)
    ingest = Ingest(database)
    async with ingest.running():
        for name, content in files.items():
            stored = await ingest.wait((await ingest.submit(base_id, name, content.encode())).id)
            assert stored is not None
            assert stored.status == "ready", stored.error


async def default(database: Database) -> str:
    return (await bases.ensure_default(database)).id


async def names(database: Database, question: str, nearest: Nearest | None = None) -> tuple[str, list[str]]:
    hits = await search(database, await default(database), question, nearest=nearest)
    return hits.outcome, [hit.chunk.name for hit in hits.hits]


def passages(endpoint: EmbeddingEndpoint) -> list[str]:
    """The texts of passages that the endpoint was asked for."""
    return [one for request in endpoint.requests for one in request["input"] if "\n" in one]


# The gold set


async def test_full_text_alone_finds_the_answers_of_the_gold_set(url: URL) -> None:
    """recall@6 is at least 0.85 on at least 60 questions, 30 of them Chinese."""
    database = Database(url)
    try:
        base_id = await default(database)
        ingest = Ingest(database)
        async with ingest.running():
            async for result in ingest_paths(ingest, base_id, [gold.SAMPLE]):
                assert result.error is None, result

        async def find(question: str) -> list[ChunkRecord]:
            return [hit.chunk for hit in (await search(database, base_id, question)).hits]

        parts = gold.parts(await gold.places(find))
    finally:
        await database.aclose()
    assert parts["all"].questions >= 60
    assert parts["zh"].questions >= 30
    assert parts["all"].recall >= 0.85, parts


def test_every_question_of_the_gold_set_has_its_answer_in_the_documents_it_names() -> None:
    """A quote that no longer stands in the sample would make its question unanswerable."""
    asked = gold.questions()
    assert len({question.question for question in asked}) == len(asked)
    for question in asked:
        for name in question.documents:
            content = Path(gold.SAMPLE, name).read_text(encoding="utf-8")
            assert any(quote in content for quote in question.quotes), (question.id, name)


# Fusion


def chunk(name: str) -> ChunkRecord:
    return ChunkRecord(name, name, name, name, "", None, 0, name, live=True)


def hit(name: str) -> FoundChunk:
    return FoundChunk(chunk(name), phrase=False, all_words=True, weight=1.0, density=0.5)


def test_what_both_rankings_hold_comes_first_and_words_win_a_tie() -> None:
    """Reciprocal rank: 1 / (60 + place) from each."""
    both = fuse([hit("a"), hit("b")], [chunk("b"), chunk("c")])
    assert [one.chunk.id for one in both] == ["b", "a", "c"]
    assert both[2] == FoundChunk(chunk("c"), phrase=False, all_words=False, weight=0.0, density=0.0)
    assert [one.chunk.id for one in fuse([hit("a")], [chunk("c")])] == ["a", "c"]
    assert fuse([hit("a"), hit("b")], []) == [hit("a"), hit("b")]


# Vectors


async def test_a_question_with_none_of_the_words_is_found_once_the_vectors_are_complete(
    shelf: Database, endpoint: EmbeddingEndpoint
) -> None:
    """Also in the other language; before, and without vectors, it finds nothing."""
    async with embedder(endpoint) as small:
        nearest = Nearest(shelf, small)
        assert await names(shelf, "kitten", nearest) == ("nothing", [])
        await Backfill(shelf, small, LIMITS).fill()
        nearest = Nearest(shelf, small)
        outcome, found = await names(shelf, "猫咪", nearest)
        assert (outcome, found[0], len(found)) == ("near", "cats.md", 5)
        outcome, found = await names(shelf, "vehicle oil", nearest)
        assert (outcome, found[0]) == ("found", "cars.md")
        assert await names(shelf, "!?", nearest) == ("no_searchable_words", [])
    assert await names(shelf, "kitten") == ("nothing", [])


async def test_a_base_is_never_searched_by_another_s_vectors(shelf: Database, endpoint: EmbeddingEndpoint) -> None:
    """And a superseded document's passage is not near anything."""
    other = await bases.create(shelf, "other")
    assert other is not None
    await put(shelf, {"cats.md": "# Notes\n\nA feline purrs.\n"})
    async with embedder(endpoint) as small:
        await Backfill(shelf, small, LIMITS).fill()
        nearest = Nearest(shelf, small)
        assert (await search(shelf, other.id, "kitten", nearest=nearest)).outcome == "nothing"
        found = [hit.chunk.text for hit in (await search(shelf, await default(shelf), "kitten", nearest=nearest)).hits]
    assert found[0] == "A feline purrs."
    assert len(found) == 5


async def test_a_backfill_that_was_cut_short_goes_on_where_it_stopped(
    shelf: Database, endpoint: EmbeddingEndpoint
) -> None:
    """No passage is embedded twice; progress tells how far it is."""
    base_id = await default(shelf)
    assert await progress(shelf, base_id) == Progress(None, 0, 5)
    async with embedder(endpoint) as small:
        endpoint.refuse(200, {"data": [{"index": 0, "embedding": [1.0] * 64}]})  # the probe
        endpoint.refuse(200, {"data": [{"index": n, "embedding": [float(n), *[1.0] * 63]} for n in range(2)]})
        endpoint.refuse(401, {"error": {"message": "the key was revoked"}})
        with pytest.raises(EmbeddingFailed, match="the key was revoked"):
            await Backfill(shelf, small, LIMITS).fill()
        assert await progress(shelf, base_id) == Progress("small", 2, 5)
        assert await embeddings.for_search(shelf, "small") is None
        first = passages(endpoint)[:2]
        del endpoint.requests[:]
        await Backfill(shelf, small, LIMITS).fill()
    assert await progress(shelf, base_id) == Progress("small", 5, 5)
    assert len(passages(endpoint)) == 3
    assert set(passages(endpoint)).isdisjoint(first)


async def test_two_workers_embed_every_passage_once(shelf: Database, endpoint: EmbeddingEndpoint) -> None:
    """One has the lease; the other leaves the model to it."""
    async with embedder(endpoint) as small:
        await asyncio.gather(*(Backfill(shelf, small, LIMITS).fill() for _ in range(3)))
    assert len(passages(endpoint)) == len(set(passages(endpoint))) == 5


async def test_a_worker_that_lost_its_lease_stores_nothing(shelf: Database, endpoint: EmbeddingEndpoint) -> None:
    """It was thought dead, and somebody else fills the model now."""
    async with embedder(endpoint) as small:
        endpoint.gate.clear()
        filling = asyncio.create_task(Backfill(shelf, small, LIMITS).fill())
        await until(lambda: len(endpoint.requests) == 1)
        endpoint.gate.set()
        await until(lambda: len(endpoint.requests) >= 2)
        endpoint.gate.clear()
        async with shelf.begin() as connection:
            await connection.execute(text("UPDATE embedding_models SET worker = gen_random_uuid()"))
            before = await connection.scalar(text("SELECT count(*) FROM embeddings"))
        endpoint.gate.set()
        await filling
        async with shelf.read() as connection:
            assert await connection.scalar(text("SELECT count(*) FROM embeddings")) == before
    assert await embeddings.for_search(shelf, "small") is None


async def test_the_running_worker_embeds_what_comes_later(shelf: Database, endpoint: EmbeddingEndpoint) -> None:
    """Woken, it looks at once."""
    base_id = await default(shelf)
    async with embedder(endpoint) as small:
        backfill = Backfill(shelf, small, LIMITS)
        async with backfill.running():
            await until_done(shelf, base_id, 5)
            assert backfill.healthy
            await put(shelf, {"late.md": "# Late\n\nA late kitten.\n"})
            backfill.wake()
            await until_done(shelf, base_id, 6)
        assert not backfill.healthy


async def test_changing_the_model_searches_the_old_vectors_until_the_new_are_complete(
    shelf: Database, endpoint: EmbeddingEndpoint
) -> None:
    """Other dimensions, no downtime, and the old model goes once nobody is configured with it."""
    endpoint.dimensions["large"] = 96
    async with embedder(endpoint) as small, embedder(endpoint, "large") as large:
        await Backfill(shelf, small, LIMITS).fill()
        endpoint.refuse(200, {"data": [{"index": 0, "embedding": [1.0] * 96}]})
        endpoint.refuse(503, {"error": {"message": "loading"}}, times=4)
        with pytest.raises(EmbeddingFailed, match="loading"):
            await Backfill(shelf, large, LIMITS).fill()
        assert await asked_with(shelf, large, endpoint) == ("small", "cats.md")
        await Backfill(shelf, large, LIMITS).fill()
        assert await asked_with(shelf, large, endpoint) == ("large", "cats.md")
        assert await asked_with(shelf, small, endpoint) == ("small", "cats.md")
        await Backfill(shelf, large, BackfillLimits(unused_s=0.0)).fill()
        assert await asked_with(shelf, small, endpoint) == ("large", "cats.md")
    async with shelf.read() as connection:
        assert await connection.scalar(text("SELECT string_agg(name, ' ') FROM embedding_models")) == "large"
        assert await connection.scalar(text("SELECT count(*) FROM embeddings")) == 5


async def asked_with(database: Database, small: Embeddings, endpoint: EmbeddingEndpoint) -> tuple[str, str]:
    """Which model a question's vector was asked of, and what was found first."""
    _, found = await names(database, "kitten", Nearest(database, small))
    return endpoint.requests[-1]["model"], found[0]


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (500, {"error": {"message": "out of memory"}}, "Unavailable 500"),
        (200, {"data": [{"index": 0, "embedding": [1.0, 2.0]}]}, "a vector of 2 numbers, not 64"),
    ],
)
async def test_a_question_without_its_vector_is_searched_by_its_words(
    shelf: Database, endpoint: EmbeddingEndpoint, status: int, body: object, reason: str
) -> None:
    """One log line, without the words of the endpoint, which may quote; then it is left alone for a while."""
    async with embedder(endpoint) as small:
        await Backfill(shelf, small, LIMITS).fill()
        nearest = Nearest(shelf, small)
        endpoint.refuse(status, body)
        with capture_logs() as logs:
            assert await names(shelf, "tea", nearest) == ("found", ["tea.md"])
        asked = len(endpoint.requests)
        assert await names(shelf, "tea", nearest) == ("found", ["tea.md"])
    assert len(endpoint.requests) == asked
    assert logs == [
        {
            "event": "search_without_vectors",
            "log_level": "warning",
            "model": "small",
            "reason": reason,
            "pause_s": 30.0,
        }
    ]


async def test_a_slow_endpoint_holds_no_connection_and_no_search(url: URL, endpoint: EmbeddingEndpoint) -> None:
    """With a pool of one connection others are served while a question waits for its vector, which has an end."""
    database = Database(url, pool_size=1, pool_timeout_s=1.0)
    try:
        await put(database, FILES)
        async with embedder(endpoint) as small:
            await Backfill(database, small, LIMITS).fill()
            endpoint.gate.clear()
            asked = len(endpoint.requests)
            nearest = Nearest(database, small, NearestLimits(timeout_s=0.5))
            searching = asyncio.create_task(names(database, "tea", nearest))
            await until(lambda: len(endpoint.requests) > asked)
            assert await names(database, "bread") == ("found", ["bread.md"])
            assert not searching.done()
            assert await searching == ("found", ["tea.md"])
            endpoint.gate.set()
    finally:
        await database.aclose()


async def test_a_passage_that_the_model_refuses_holds_nothing_up(shelf: Database, endpoint: EmbeddingEndpoint) -> None:
    """It counts as done, and full text still finds it."""
    endpoint.refuses = lambda one: "Rain" in one
    async with embedder(endpoint) as small:
        with capture_logs() as logs:
            await Backfill(shelf, small, LIMITS).fill()
        outcome, found = await names(shelf, "rain", Nearest(shelf, small))
    assert await progress(shelf, await default(shelf)) == Progress("small", 5, 5)
    assert [line["event"] for line in logs] == ["passage_not_embedded", "embedded", "embedding_model_ready"]
    assert (outcome, found[0], len(found)) == ("found", "rain.md", 5)


async def test_an_endpoint_that_refuses_every_text_marks_none(shelf: Database, endpoint: EmbeddingEndpoint) -> None:
    """A wrong model's name may look like a refused text."""
    async with embedder(endpoint) as small:
        backfill = Backfill(shelf, small, LIMITS)
        endpoint.refuse(200, {"data": [{"index": 0, "embedding": [1.0] * 64}]})
        endpoint.refuses = lambda _: True
        with pytest.raises(EmbeddingFailed) as failure:
            await backfill.fill()
    assert failure.value.lasting
    assert await progress(shelf, await default(shelf)) == Progress("small", 0, 5)


@pytest.mark.parametrize(("dimensions", "indexed"), [(64, "vector(64)"), (2_100, "halfvec(2100)"), (4_100, None)])
async def test_vectors_are_indexed_as_far_as_pgvector_can(
    shelf: Database, endpoint: EmbeddingEndpoint, url: URL, dimensions: int, indexed: str | None
) -> None:
    """HNSW by cosine, one index per model, and the search finds through it what it finds without."""
    endpoint.dimensions["small"] = dimensions
    async with embedder(endpoint) as small:
        await Backfill(shelf, small, BackfillLimits(index_from=1)).fill()
        await Backfill(shelf, small, BackfillLimits(index_from=1)).fill()
        assert (await names(shelf, "kitten", Nearest(shelf, small)))[1][0] == "cats.md"
    made = await run_sql(url, "SELECT string_agg(indexdef, '|') FROM pg_indexes WHERE indexname LIKE 'hnsw%'")
    assert made is None if indexed is None else f"(embedding)::{indexed}" in str(made)
    assert "|" not in str(made)


async def test_the_index_is_what_a_search_of_many_vectors_uses(
    shelf: Database, endpoint: EmbeddingEndpoint, url: URL
) -> None:
    """The statement's expression and condition are the index's own."""
    async with embedder(endpoint) as small:
        await Backfill(shelf, small, BackfillLimits(index_from=1)).fill()
        await run_sql(url, f'ALTER DATABASE "{url.database}" SET enable_seqscan = off')
        await run_sql(url, f'ALTER DATABASE "{url.database}" SET enable_sort = off')
        fresh = Database(url)
        try:
            await names(fresh, "kitten", Nearest(fresh, small))
        finally:
            await fresh.aclose()
    used = "SELECT sum(idx_scan) FROM pg_stat_user_indexes WHERE indexrelname LIKE 'hnsw%'"
    await until_sql(url, used, 1)


async def test_without_pgvector_full_text_searches_alone(url: URL, endpoint: EmbeddingEndpoint) -> None:
    """A role that may not make the extension, and a server that has none, are told so once in the log."""
    await run_sql(url, "CREATE ROLE plain_reader LOGIN PASSWORD 'p'")
    try:
        for statement in ("GRANT ALL ON SCHEMA public", "GRANT ALL ON ALL TABLES IN SCHEMA public"):
            await run_sql(url, f"{statement} TO plain_reader")
        database = Database(url.set(username="plain_reader", password="p"))
        try:
            async with embedder(endpoint) as small:
                backfill = Backfill(database, small, LIMITS)
                with capture_logs() as logs:
                    await backfill.fill()
                    await backfill.fill()
                assert await Nearest(database, small).find(await default(database), "tea", limit=3) == []
        finally:
            await database.aclose()
    finally:
        await run_sql(url, "DROP OWNED BY plain_reader")
        await run_sql(url, "DROP ROLE plain_reader")
    assert [line["event"] for line in logs] == ["full_text_search_only"]
    assert logs[0]["reason"].startswith("the extension vector could not be made (")
    assert endpoint.requests == []


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not true():
            await asyncio.sleep(0.005)


async def until_done(database: Database, base_id: str, done: int) -> None:
    async with asyncio.timeout(10):
        while (await progress(database, base_id)).done != done:
            await asyncio.sleep(0.01)


async def until_sql(url: URL, statement: str, value: int) -> None:
    async with asyncio.timeout(10):
        while await run_sql(url, statement) != value:
            await asyncio.sleep(0.05)


async def test_a_turn_finds_by_meaning_what_holds_none_of_its_words(
    postgres: PostgresServer, endpoint: EmbeddingEndpoint
) -> None:
    """Wired through: the worker fills vectors in, the tool searches by them, MCP and the API know of it."""
    async with postgres.new_database() as url, ScriptedEndpoint() as model:
        vectors = {"embedding_base_url": endpoint.base_url, "embedding_model": "small"}
        async with running_app(url, llm=model.base_url, **vectors) as app:
            for name, content in FILES.items():
                await app.upload(name, content.encode())
            app.parts.vectors.backfill.wake()  # pyright: ignore[reportOptionalMemberAccess]
            address = "/api/bases/default/embeddings"
            async with asyncio.timeout(20):
                while (done := (await app.http.get(address)).json())["done"] < len(FILES) or not done["model"]:
                    await asyncio.sleep(0.05)
            assert done == {"model": "small", "done": 5, "total": 5}
            script = model.script(call(("search_chunks", {"query": "kitten"})), says("On the roof [1]."))
            turn = await app.ask(f"Where is the kitten? {script}")
    assert "feline" in turn.sources[0]["excerpt"]
    assert "nearest to the query in meaning" in script.messages(1)[-1]["content"]
    assert turn.done["evidence"] == "cited"
