"""Embeddings: any endpoint that speaks the OpenAI embeddings protocol, over httpx.

Decides how texts are put into requests, what is asked again and how a reply is checked. A refusal is read by the
one classifier (app/llm/failures.py) and leaves as EmbeddingFailed, the ModelFailure chained: what lies below the turn
knows no model failures. Implements app.knowledge.embedder.Embedder.
"""

import asyncio
import math
from dataclasses import dataclass, field, replace
from typing import Literal, Self

import httpx
import msgspec

from app.errors import EmbeddingFailed
from app.llm.endpoint import EndpointConfig
from app.llm.failures import Asked, ContextTooLong, ModelFailure, Rejected, Unreachable, classify
from app.llm.provider_error import Redactor
from app.llm.transport import TRANSPORT_ERRORS, from_transport

MAX_REPLY_BYTES = 64 * 1024 * 1024
"""The largest reply that is taken: 64 texts of 4,096 numbers are about 6 MB."""

_ROUTE = "/embeddings"
_TEXT_REFUSALS = frozenset({400, 413, 422})
"""Statuses under which the texts themselves may be what was refused."""

_PREFIXES = {
    "e5": ("query: ", "passage: "),
    "nomic-embed": ("search_query: ", "search_document: "),
}
"""What a family of models wants before each text, by a part of its name. Source: the families' model cards."""


@dataclass(frozen=True, slots=True)
class EmbeddingConfig:
    """An embeddings endpoint and what it takes. Times are seconds.

    `endpoint.base_url` follows the rules of EndpointConfig, and may also be the whole URL of the embeddings. A request
    holds at most `batch` texts and `batch_chars` characters. A transient failure is tried `retries` times more, after
    `retry_base_s`, doubling, or what the provider asks for, at most `retry_max_wait_s`. `query_prefix` and
    `passage_prefix` None mean: by the model's name.

    Raises:
        ValueError: a field can't be used; the text says which and what is allowed.
    """

    endpoint: EndpointConfig
    batch: int = 64
    batch_chars: int = 100_000
    retries: int = 3
    retry_base_s: float = 0.5
    retry_max_wait_s: float = 20.0
    query_prefix: str | None = None
    passage_prefix: str | None = None

    def __post_init__(self) -> None:
        if not self.endpoint.model:
            raise ValueError("an embedding model's name must be given")
        if self.batch < 1 or self.batch_chars < 1:
            raise ValueError("batch and batch_chars must be at least 1")
        if self.retries < 0 or not self.retry_base_s > 0 or self.retry_max_wait_s < 0:
            raise ValueError("retries and retry_max_wait_s must not be negative, retry_base_s greater than 0")

    @property
    def url(self) -> str:
        """Where requests go, without credentials."""
        return self.endpoint.url_of(_ROUTE).replace(_ROUTE + _ROUTE, _ROUTE, 1)

    def prefix(self, kind: Literal["query", "passage"]) -> str:
        """What is written before each text of this kind."""
        given = self.query_prefix if kind == "query" else self.passage_prefix
        if given is not None:
            return given
        name = self.endpoint.model.lower()
        pair = next((pair for part, pair in _PREFIXES.items() if part in name), ("", ""))
        return pair[0] if kind == "query" else pair[1]


class _Vector(msgspec.Struct):
    embedding: list[float]
    index: int | None = None


class _Reply(msgspec.Struct):
    data: list[_Vector]


@dataclass(slots=True)
class _Limit:
    """How many texts of a request the endpoint takes, as far as it is known."""

    texts: int


_decoder = msgspec.json.Decoder(_Reply)


@dataclass(frozen=True, slots=True)
class Embeddings:
    """An embedding model behind an endpoint. Close it with `aclose`; what `for_model` gives shares its connections."""

    config: EmbeddingConfig
    client: httpx.AsyncClient = field(repr=False)
    limit: _Limit

    @classmethod
    def open(cls, config: EmbeddingConfig) -> Self:
        """A client that honours the environment's proxies; nothing is connected yet."""
        endpoint = config.endpoint
        client = httpx.AsyncClient(
            auth=endpoint.auth,
            timeout=httpx.Timeout(endpoint.read_timeout_s, connect=endpoint.connect_timeout_s),
            trust_env=True,
        )
        return cls(config, client, _Limit(config.batch))

    @property
    def model(self) -> str:
        return self.config.endpoint.model

    def for_model(self, model: str) -> Self:
        if model == self.model:
            return self
        return replace(self, config=replace(self.config, endpoint=replace(self.config.endpoint, model=model)))

    async def aclose(self) -> None:
        await self.client.aclose()

    async def embed(self, texts: list[str], *, kind: Literal["query", "passage"]) -> list[list[float]]:
        """A vector for each text, in order. A query is asked for once, a passage again after a transient failure.

        Raises:
            EmbeddingFailed: as the port says; also when the vectors are not all of one length.
        """
        prefix = self.config.prefix(kind)
        retries = 0 if kind == "query" else self.config.retries
        vectors: list[list[float]] = []
        for batch in self._batches([prefix + text for text in texts]):
            vectors += await self._whole(batch, retries)
        if len(lengths := {len(vector) for vector in vectors}) > 1:
            raise EmbeddingFailed(
                f"{self.model} gave vectors of {' and '.join(map(str, sorted(lengths)))} numbers.", lasting=True
            )
        return vectors

    def _batches(self, texts: list[str]) -> list[list[str]]:
        """The texts in requests: at most as many and as long as one may be, and never none."""
        batches: list[list[str]] = []
        size = 0
        for text in texts:
            full = size + len(text) > self.config.batch_chars or (batches and len(batches[-1]) >= self.limit.texts)
            if not batches or full:
                batches.append([])
                size = 0
            batches[-1].append(text)
            size += len(text)
        return batches

    async def _whole(self, texts: list[str], retries: int) -> list[list[float]]:
        """The vectors of one batch; a batch that is refused is asked for in halves.

        Where both halves are taken their number was what was refused, and is remembered: some endpoints take ten.
        """
        try:
            return await self._patiently(texts, retries)
        except (Rejected, ContextTooLong) as refusal:
            if refusal.status not in _TEXT_REFUSALS:
                raise _failed(refusal) from refusal
            if len(texts) == 1:
                raise _failed(refusal, refused_text=True) from refusal
        except ModelFailure as failure:
            raise _failed(failure) from failure
        half = len(texts) // 2
        vectors = [*await self._whole(texts[:half], retries), *await self._whole(texts[half:], retries)]
        self.limit.texts = min(self.limit.texts, len(texts) - half)
        return vectors

    async def _patiently(self, texts: list[str], retries: int) -> list[list[float]]:
        for attempt in range(retries + 1):
            try:
                return await self._once(texts)
            except ModelFailure as failure:
                asked = failure.retry_after_s
                wait_s = self.config.retry_base_s * 2**attempt if asked is None else asked
                if not failure.transient or attempt == retries or wait_s > self.config.retry_max_wait_s:
                    raise
            await asyncio.sleep(wait_s)
        raise AssertionError("range(retries + 1) is never empty")

    async def _once(self, texts: list[str]) -> list[list[float]]:
        """One request.

        Raises:
            ModelFailure: no reply, a refusal, or a reply that doesn't hold a vector for each text.
        """
        endpoint = self.config.endpoint
        asked = Asked(host=endpoint.host, redact=Redactor(endpoint.secrets))
        body = {"model": endpoint.model, "input": texts, "encoding_format": "float"}
        request = self.client.build_request(
            "POST", self.config.url, content=msgspec.json.encode(body), headers=endpoint.headers
        )
        began = False
        try:
            response = await self.client.send(request, stream=True)
            began = True
            try:
                raw = await _body(response, asked)
            finally:
                await response.aclose()
        except TRANSPORT_ERRORS as error:
            raise from_transport(error, began=began, host=asked.host, redact=asked.redact) from error
        if not response.is_success:
            raise classify(response.status_code, response.headers, raw, asked=asked)
        return _vectors(raw, len(texts), asked)


async def _body(response: httpx.Response, asked: Asked) -> bytes:
    """The whole body, as far as it may be."""
    parts: list[bytes] = []
    size = 0
    async for part in response.aiter_bytes():
        parts.append(part)
        size += len(part)
        if size > MAX_REPLY_BYTES:
            raise Unreachable(f"{asked.host} answered with more than {MAX_REPLY_BYTES} bytes.", transient=False)
    return b"".join(parts)


def _vectors(raw: bytes, count: int, asked: Asked) -> list[list[float]]:
    """The vectors of a reply in the order of the texts, whichever order they came in."""
    try:
        data = _decoder.decode(raw).data
    except msgspec.DecodeError as error:
        failure = classify(None, {}, raw, asked=asked) if b'"error"' in raw[:1000] else None
        raise failure or Unreachable(
            f"{asked.host} answered with something else than embeddings: check the base URL.", transient=False
        ) from error
    by_index = {n if one.index is None else one.index: one.embedding for n, one in enumerate(data)}
    if len(data) != count or sorted(by_index) != list(range(count)):
        raise Unreachable(f"{asked.host} gave {len(data)} embeddings for {count} texts.", transient=False)
    vectors = [by_index[n] for n in range(count)]
    if not all(vector and all(map(math.isfinite, vector)) for vector in vectors):
        raise Unreachable(f"{asked.host} gave an embedding that is empty or holds no numbers.", transient=False)
    return vectors


def _failed(failure: ModelFailure, *, refused_text: bool = False) -> EmbeddingFailed:
    return EmbeddingFailed(
        failure.message,
        refused_text=refused_text,
        lasting=not failure.transient and not refused_text,
        retry_after_s=failure.retry_after_s,
    )
