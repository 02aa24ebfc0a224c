"""The floor: an ASGI application that passes an upstream's bytes through httpx to the client, and does nothing else."""

import os

import httpx
from starlette.types import Receive, Scope, Send

UPSTREAM = os.environ.get("BENCH_UPSTREAM", "")
_client: list[httpx.AsyncClient] = []


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """POST a question: the upstream's answer to it without tools, byte for byte. GET says that it is up."""
    if scope["type"] != "http":
        return
    body = b""
    while (message := await receive())["type"] == "http.request":
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    if scope["method"] == "POST":
        await _pass_through(body, send)
    await send({"type": "http.response.body", "body": b""})


async def _pass_through(question: bytes, send: Send) -> None:
    if not _client:
        _client.append(httpx.AsyncClient(timeout=60, limits=httpx.Limits(max_connections=None), trust_env=False))
    request = {"model": "m", "stream": True, "messages": [{"role": "user", "content": question.decode()}]}
    async with _client[0].stream("POST", f"{UPSTREAM}/chat/completions", json=request) as upstream:
        async for piece in upstream.aiter_raw():
            await send({"type": "http.response.body", "body": piece, "more_body": True})
