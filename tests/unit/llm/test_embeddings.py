"""The embeddings client against a real port: batches, retries, refusals, and what a reply must hold."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from app.errors import EmbeddingFailed
from app.llm.embeddings import EmbeddingConfig, Embeddings
from app.llm.endpoint import EndpointConfig
from app.llm.failures import OutOfCredit, RateLimited, Rejected, Unavailable, Unreachable
from tests.harness.embedding_endpoint import EmbeddingEndpoint, hashed_vector

KEY = "sk-test-0123456789"


@asynccontextmanager
async def opened(
    endpoint: EmbeddingEndpoint, *, model: str = "small", base_url: str = "", batch: int = 64, prefix: str | None = None
) -> AsyncGenerator[Embeddings]:
    config = EmbeddingConfig(
        EndpointConfig(base_url or endpoint.base_url, model, KEY, connect_timeout_s=2, read_timeout_s=5),
        batch=batch,
        retry_base_s=0.01,
        query_prefix=prefix,
    )
    embeddings = Embeddings.open(config)
    try:
        yield embeddings
    finally:
        await embeddings.aclose()


@pytest.fixture
async def endpoint() -> AsyncGenerator[EmbeddingEndpoint]:
    async with EmbeddingEndpoint() as running:
        yield running


def vector(text: str, model: str = "small") -> list[float]:
    return hashed_vector(text, dimensions=64, concepts={}, model=model)


async def test_texts_give_vectors_in_their_order_whatever_the_order_of_the_reply(endpoint: EmbeddingEndpoint) -> None:
    """The harness replies backwards; the key goes in the header, the model and the format in the body."""
    async with opened(endpoint) as embeddings:
        assert await embeddings.embed(["one", "two", "three"], kind="passage") == [
            vector("one"),
            vector("two"),
            vector("three"),
        ]
    assert endpoint.requests == [{"model": "small", "input": ["one", "two", "three"], "encoding_format": "float"}]
    assert (endpoint.paths[0], endpoint.headers[0]["authorization"]) == ("/v1/embeddings", f"Bearer {KEY}")


async def test_many_texts_go_in_several_requests(endpoint: EmbeddingEndpoint) -> None:
    """At most `batch` in each."""
    texts = [f"text {n}" for n in range(5)]
    async with opened(endpoint, batch=2) as embeddings:
        assert await embeddings.embed(texts, kind="passage") == [vector(text) for text in texts]
        assert await embeddings.embed([], kind="passage") == []
    assert [len(request["input"]) for request in endpoint.requests] == [2, 2, 1]


async def test_an_endpoint_that_takes_fewer_texts_is_asked_for_fewer_from_then_on(endpoint: EmbeddingEndpoint) -> None:
    """DashScope takes ten; what it refuses is halved, and the size that it took is remembered."""
    endpoint.most = 3
    texts = [f"text {n}" for n in range(8)]
    async with opened(endpoint) as embeddings:
        assert await embeddings.embed(texts, kind="passage") == [vector(text) for text in texts]
        del endpoint.requests[:]
        assert await embeddings.embed(texts, kind="passage") == [vector(text) for text in texts]
    assert [len(request["input"]) for request in endpoint.requests] == [2, 2, 2, 2]


async def test_a_refused_text_is_named_as_such_and_doesn_t_shrink_later_batches(endpoint: EmbeddingEndpoint) -> None:
    """The others of its batch were fine."""
    endpoint.refuses = "bad".__eq__
    async with opened(endpoint) as embeddings:
        with pytest.raises(EmbeddingFailed) as refusal:
            await embeddings.embed(["good", "bad", "fine", "well"], kind="passage")
        del endpoint.requests[:]
        await embeddings.embed(["good", "fine", "well"], kind="passage")
    assert (refusal.value.refused_text, refusal.value.lasting) == (True, False)
    assert isinstance(refusal.value.__cause__, Rejected)
    assert [len(request["input"]) for request in endpoint.requests] == [3]


@pytest.mark.parametrize("base", ["{root}", "{root}/v1", "{root}/v1/", "{root}/v1/embeddings"])
async def test_the_base_url_is_taken_as_for_chat(endpoint: EmbeddingEndpoint, base: str) -> None:
    """With or without /v1, with a slash, or whole."""
    root = endpoint.base_url.removesuffix("/v1")
    async with opened(endpoint, base_url=base.format(root=root)) as embeddings:
        await embeddings.embed(["a"], kind="passage")
    assert endpoint.paths == ["/v1/embeddings"]


async def test_a_passage_is_asked_again_after_a_transient_failure_and_a_query_is_not(
    endpoint: EmbeddingEndpoint,
) -> None:
    """A background job has time; a reader hasn't."""
    async with opened(endpoint) as embeddings:
        endpoint.refuse(503, {"error": {"message": "loading"}}, times=2)
        assert await embeddings.embed(["a"], kind="passage") == [vector("a")]
        endpoint.refuse(503, {"error": {"message": "loading"}}, times=1)
        with pytest.raises(EmbeddingFailed) as failure:
            await embeddings.embed(["a"], kind="query")
    assert (len(endpoint.requests), str(failure.value), failure.value.lasting) == (4, "loading", False)
    assert isinstance(failure.value.__cause__, Unavailable)


async def test_retries_end(endpoint: EmbeddingEndpoint) -> None:
    """Three more, then the failure."""
    endpoint.refuse(429, {"error": {"message": "slow down"}}, times=9)
    async with opened(endpoint) as embeddings:
        with pytest.raises(EmbeddingFailed) as failure:
            await embeddings.embed(["a"], kind="passage")
    assert len(endpoint.requests) == 4
    assert isinstance(failure.value.__cause__, RateLimited)


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, {"error": {"message": f"Incorrect API key provided: {KEY}"}}, Rejected),
        (404, {"error": {"message": "no such model", "code": "model_not_found"}}, Rejected),
        (429, {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}, OutOfCredit),
        (200, b'{"data": []}', Unreachable),
        (200, {"data": [{"index": 0, "embedding": [1.0]}, {"index": 0, "embedding": [1.0]}]}, Unreachable),
        (200, {"data": [{"index": 0, "embedding": [1.0]}, {"index": 7, "embedding": [1.0]}]}, Unreachable),
        (200, b'{"data": [{"index": 0, "embedding": []}, {"index": 1, "embedding": [1.0]}]}', Unreachable),
        (200, b'{"data": [{"index": 0, "embedding": [1e999]}, {"index": 1, "embedding": [1.0]}]}', Unreachable),
        (200, b"<html>a page</html>", Unreachable),
    ],
)
async def test_what_no_retry_helps_is_lasting_and_asked_once(
    endpoint: EmbeddingEndpoint, status: int, body: object, kind: type[Exception]
) -> None:
    """The classifier of chat decides; the key never shows."""
    endpoint.refuse(status, body, times=5)
    async with opened(endpoint) as embeddings:
        with pytest.raises(EmbeddingFailed) as failure:
            await embeddings.embed(["a", "b"], kind="passage")
    assert (len(endpoint.requests), failure.value.lasting, failure.value.refused_text) == (1, True, False)
    assert isinstance(failure.value.__cause__, kind)
    assert KEY not in str(failure.value)


async def test_vectors_of_two_lengths_are_refused(endpoint: EmbeddingEndpoint) -> None:
    """They could never be compared."""
    two = {"data": [{"index": 0, "embedding": [1.0, 2.0]}, {"index": 1, "embedding": [1.0]}]}
    endpoint.refuse(200, two)
    async with opened(endpoint) as embeddings:
        with pytest.raises(EmbeddingFailed, match="gave vectors of 1 and 2 numbers"):
            await embeddings.embed(["a", "b"], kind="passage")


async def test_nobody_there_is_a_failure_and_not_a_crash() -> None:
    """Nothing listens on the discard port of the loopback."""
    async with opened(EmbeddingEndpoint(), base_url="http://127.0.0.1:9/v1") as embeddings:
        with pytest.raises(EmbeddingFailed) as failure:
            await embeddings.embed(["a"], kind="query")
    assert isinstance(failure.value.__cause__, Unreachable)


async def test_models_that_want_to_be_told_what_a_text_is_are_told(endpoint: EmbeddingEndpoint) -> None:
    """The e5 family by its name, any other by its settings."""
    async with opened(endpoint, model="multilingual-e5-small") as embeddings:
        await embeddings.embed(["a"], kind="query")
        await embeddings.embed(["b"], kind="passage")
        await embeddings.for_model("other").embed(["c"], kind="query")
    async with opened(endpoint, prefix="ask: ") as embeddings:
        await embeddings.embed(["d"], kind="query")
    assert [(r["model"], *r["input"]) for r in endpoint.requests] == [
        ("multilingual-e5-small", "query: a"),
        ("multilingual-e5-small", "passage: b"),
        ("other", "c"),
        ("small", "ask: d"),
    ]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"batch": 0}, "batch and batch_chars must be at least 1"),
        ({"retries": -1}, "retries and retry_max_wait_s must not be negative, retry_base_s greater than 0"),
    ],
)
def test_a_setting_that_can_t_be_used_is_named(wrong: dict[str, Any], words: str) -> None:
    """When the configuration is made, not when it is used."""
    with pytest.raises(ValueError, match=words):
        EmbeddingConfig(EndpointConfig("http://host/v1", "small"), **wrong)
    with pytest.raises(ValueError, match="an embedding model's name must be given"):
        EmbeddingConfig(EndpointConfig("http://host/v1", ""))
