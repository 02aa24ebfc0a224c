"""The floor: an ASGI application that passes an upstream's bytes through httpx to the client, and does nothing else."""

import os

import httpx
from starlette.types import Receive, Scope, Send

UPSTREAM = os.environ.get("BENCH_UPSTREAM", "")
_client: list[httpx.AsyncClient] = []


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """POST anything: the upstream's answer to a request that needs no tool, byte for byte."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    if not _client:
        _client.append(httpx.AsyncClient(timeout=60, limits=httpx.Limits(max_connections=None)))
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    async with _client[0].stream(
        "POST", f"{UPSTREAM}/chat/completions", json={"model": "m", "stream": True}
    ) as upstream:
        async for piece in upstream.aiter_raw():
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
