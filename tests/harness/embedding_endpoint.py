"""An endpoint that speaks the OpenAI embeddings protocol on a real port, with vectors that depend on the text alone.

    async with EmbeddingEndpoint(concepts={"feline": "cat", "猫": "cat"}) as endpoint:
        ...                                    # point EMBEDDING_BASE_URL at endpoint.base_url
        endpoint.refuse(429, {"error": {"message": "slow down"}}, times=2)

A text's vector is the sum of one fixed direction per word (Latin) or pair of characters (Chinese), so that texts which
share words are near each other. `concepts` lets words mean the same. `requests` are the bodies that came, with a
header's value under its name in `headers`. `gate` holds every reply back until it is set.
"""

import asyncio
import contextlib
import hashlib
import json
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import uvicorn

Refusal = tuple[int, object]


def hashed_vector(text: str, *, dimensions: int, concepts: Mapping[str, str], model: str) -> list[float]:
    """The text's vector for a model: the same text gives the same numbers on every machine."""
    words = re.findall(r"[a-z0-9]+|[\u4e00-\u9fff]+", text.lower())
    total = [0.001] * dimensions
    for word in words:
        pairs = [word[n : n + 2] for n in range(len(word) - 1)] if word[0] > "z" and len(word) > 2 else [word]
        for part in pairs:
            seed = f"{model} {concepts.get(part, part)}".encode()
            digest = hashlib.shake_256(seed).digest(dimensions)
            for n, byte in enumerate(digest):
                total[n] += (byte - 127.5) / 127.5
    return total


@dataclass(slots=True)
class EmbeddingEndpoint:
    """A running endpoint. `dimensions` by model name, 64 where it isn't there; `most` texts are taken at a time."""

    concepts: Mapping[str, str] = field(default_factory=dict[str, str])
    dimensions: dict[str, int] = field(default_factory=dict[str, int])
    most: int = 1_000
    refuses: Callable[[str], bool] = "".__eq__
    requests: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    paths: list[str] = field(default_factory=list[str])
    base_url: str = ""
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    _refusals: list[Refusal] = field(default_factory=list[Refusal])
    _server: uvicorn.Server | None = None
    _serving: "asyncio.Task[None] | None" = None
    _listener: socket.socket | None = None

    def __post_init__(self) -> None:
        self.gate.set()

    def refuse(self, status: int, body: object, *, times: int = 1) -> None:
        """The next requests get this answer; bytes go out as they are."""
        self._refusals += [(status, body)] * times

    def relent(self) -> None:
        """No refusal is left."""
        self._refusals.clear()

    async def __aenter__(self) -> Self:
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(
            self._app, log_config=None, access_log=False, lifespan="off", ws="none", interface="asgi3"
        )
        self._server = _Server(config)
        self._serving = asyncio.create_task(self._server.serve(sockets=[self._listener]), name="embedding endpoint")
        self.base_url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        assert self._serving is not None
        assert self._listener is not None
        self.gate.set()
        self._server.should_exit = True
        await self._serving
        self._listener.close()

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        raw = b""
        while True:
            message = await receive()
            raw += message.get("body", b"")
            if not message.get("more_body"):
                break
        body = json.loads(raw)
        self.requests.append(body)
        self.headers.append({name.decode(): value.decode() for name, value in scope["headers"]})
        self.paths.append(scope["path"])
        await self.gate.wait()
        status, answer = self._answer(body)
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        await send(
            {"type": "http.response.start", "status": status, "headers": [(b"content-type", b"application/json")]}
        )
        await send({"type": "http.response.body", "body": data})

    def _answer(self, body: dict[str, Any]) -> Refusal:
        if self._refusals:
            return self._refusals.pop(0)
        texts: list[str] = body["input"]
        if len(texts) > self.most:
            return 400, {"error": {"message": f"batch size is invalid, it should not be larger than {self.most}"}}
        if any(self.refuses(text) for text in texts):
            return 400, {"error": {"message": "the input is not valid"}}
        size = self.dimensions.get(body["model"], 64)
        data = [
            {
                "object": "embedding",
                "index": n,
                "embedding": hashed_vector(text, dimensions=size, concepts=self.concepts, model=body["model"]),
            }
            for n, text in enumerate(texts)
        ]
        data.reverse()  # the protocol gives an index: order is not promised
        return 200, {"object": "list", "data": data, "model": body["model"], "usage": {"total_tokens": 1}}


class _Server(uvicorn.Server):
    """A server that leaves the signals alone."""

    def capture_signals(self) -> Any:
        return contextlib.nullcontext()
