"""A body that is too large is refused before it is read whole, whichever route it is for. Source: issue 9 item 2."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.exceptions import HTTPException

from app.api.access import TABLE
from app.api.body_size import BULK_BYTES, SMALL_BYTES, Body, bounded
from app.api.documents import FORM_OVERHEAD_BYTES
from app.settings import Settings
from app.store.ids import new_id
from tests.harness.app import App
from tests.harness.scripted_endpoint import ScriptedEndpoint, call, text

MOST = {
    Body.SMALL: SMALL_BYTES,
    Body.QUESTION: SMALL_BYTES,
    Body.BULK: BULK_BYTES,
    Body.COUNTED_THERE: Settings.model_fields["max_upload_bytes"].default + FORM_OVERHEAD_BYTES,
}
PIECE = 65_536
TAKING = [
    (method, path, need.body)
    for path, needs in TABLE.items()
    for method, need in needs.items()
    if method in ("POST", "PUT", "PATCH")
]


async def answer_to_the_head(app: App, method: str, path: str, headers: dict[str, str]) -> tuple[int, Any]:
    """Status and JSON of the answer to a request whose body is announced and never sent."""
    host = urlsplit(app.url)
    reader, writer = await asyncio.open_connection(host.hostname, host.port)
    try:
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host.netloc}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        async with asyncio.timeout(5):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
            assert length is not None, head
            return int(head.split()[1]), json.loads(await reader.readexactly(int(length[1])))
    finally:
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize(("method", "path", "body"), TAKING, ids=str)
async def test_what_says_of_itself_that_it_is_too_large_is_not_waited_for(
    app: App, method: str, path: str, body: Body
) -> None:
    """Every route that takes a body, with one byte more than it takes. None of it is sent."""
    address = re.sub(r"{[^}]*}", new_id(), path.replace("{base}", "default"))
    headers = {"Content-Type": "application/json", "Content-Length": str(MOST[body] + 1), "X-Turnstream": "page"}
    if path.endswith("/documents"):
        headers["Content-Type"] = "multipart/form-data; boundary=b"
    status, told = await answer_to_the_head(app, method, address, headers)
    assert status == 413
    assert told["error"]["code"] == "too_large"
    assert re.search(r"larger than the \d+ MB allowed", told["error"]["message"])


@pytest.mark.parametrize(
    ("path", "most"),
    [
        ("/api/chat", SMALL_BYTES),
        ("/api/session", SMALL_BYTES),
        ("/api/bases", SMALL_BYTES),
        ("/v1/chat/completions", BULK_BYTES),
        ("/mcp", SMALL_BYTES),
    ],
)
async def test_what_grows_too_large_is_cut_off(app: App, path: str, most: int) -> None:
    """Without a declared length: the answer is typed all the same."""

    async def pieces() -> AsyncGenerator[bytes]:
        yield b'{"message": "'
        for _ in range(2 * most // PIECE):
            yield b"x" * PIECE

    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "X-Turnstream": "page",
    }
    answer = await app.http.post(path, content=pieces(), headers=headers)
    assert answer.status_code == 413, answer.text
    if path != "/mcp":
        assert answer.json()["error"]["code"] == "too_large"


async def test_nothing_is_taken_beyond_the_piece_that_is_too_much() -> None:
    """What is read meanwhile is what stands in memory: the rest isn't asked for."""
    asked = 0

    async def receive() -> dict[str, object]:
        nonlocal asked
        asked += 1
        return {"type": "http.request", "body": b"x" * PIECE, "more_body": True}

    limited = bounded({"type": "http", "headers": []}, receive, 10 * PIECE)
    for _ in range(10):
        await limited()
    with pytest.raises(HTTPException) as refused:
        await limited()
    assert (refused.value.status_code, asked) == (413, 11)


async def test_the_longest_question_is_taken_however_it_is_written(app: App, endpoint: ScriptedEndpoint) -> None:
    """Twelve bytes a character, as JSON may have it; and in pieces, without a declared length."""
    script = endpoint.script(call(("search_chunks", {"query": "board"})), text("Four [1]."))
    question = f"{script} ".ljust(Settings.model_fields["message_max_chars"].default - 2, "😀")

    async def pieces() -> AsyncGenerator[bytes]:
        yield json.dumps({"message": question}, ensure_ascii=True).encode()

    answer = await app.http.post("/api/chat", content=pieces(), headers={"Content-Type": "application/json"})
    assert answer.status_code == 200, answer.text
    assert "event: done" in answer.text
