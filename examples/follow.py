"""A client in a page of code: asks a question and follows its turn to the end, over connections that may break.

    python -m examples.follow "Who sat on the board?" [http://127.0.0.1:8000]

It needs httpx and httpx-sse, and nothing of this server's. The answer goes to stdout, steps and sources to stderr.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from uuid import uuid4

import httpx
from httpx_sse import ServerSentEvent, SSEError, aconnect_sse

AGAIN_S = 0.5
TRIES = 60


async def frames(http: httpx.AsyncClient, question: str) -> AsyncIterator[ServerSentEvent]:
    """Every frame of the turn once and in order, up to and with `done` or `error`.

    Until the turn is known the question is sent again, with the same request_id, which never starts a second turn;
    from then on `Last-Event-ID` says where to go on.
    """
    body = {"message": question, "request_id": str(uuid4())}
    conversation, last_id = "", ""
    for _ in range(TRIES):
        if conversation:
            path = f"/api/conversations/{conversation}/live"
            stream = aconnect_sse(http, "GET", path, headers={"Last-Event-ID": last_id})
        else:
            stream = aconnect_sse(http, "POST", "/api/chat", json=body)
        try:
            async with stream as source:
                if source.response.is_client_error:
                    await source.response.aread()
                    sys.exit(source.response.text)  # {"error": {"code", "message"}}
                async for event in source.aiter_sse():
                    if not event.data:
                        continue  # a heartbeat
                    if event.event == "conversation":
                        conversation = json.loads(event.data)["id"]
                    last_id = event.id
                    yield event
                    if event.event in ("done", "error", "idle"):
                        return
        except (httpx.TransportError, SSEError):
            pass  # the turn goes on without us
        await asyncio.sleep(AGAIN_S)
    sys.exit("the connection was lost")


async def follow(question: str, url: str) -> int:
    """Show the turn; the exit status."""
    async with httpx.AsyncClient(base_url=url, timeout=httpx.Timeout(10, read=90)) as http:
        async for event in frames(http, question):
            data = json.loads(event.data)
            match event.event:
                case "step":
                    print(f"{data['tool']} {data['label']}: {data['status']}", file=sys.stderr)
                case "sources":
                    print(f"{len(data)} sources", file=sys.stderr)
                case "delta":
                    print(data["text"], end="", flush=True)
                case "snapshot":  # in place of all that came before
                    print(f"\n{data['content']}", end="", flush=True)
                case "done":
                    print()
                    print(f"evidence: {data['evidence']} {data['cited']}", file=sys.stderr)
                    return 0
                case "error":
                    print(f"\n{data['code']}: {data['message']}", file=sys.stderr)
                    return 1
                case _:
                    pass
    return 1


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    sys.exit(asyncio.run(follow(sys.argv[1], sys.argv[2] if len(sys.argv) == 3 else "http://127.0.0.1:8000")))
