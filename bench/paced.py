"""An ASGI application that writes 400 frames, 10 ms apart, with nothing behind it: what a server itself costs."""

import asyncio

from starlette.types import Receive, Scope, Send

FRAMES = 400
PACE_S = 0.01
FRAME = b'id: 0199aaaa-bbbb-cccc-dddd-eeeeffff0000:1\nevent: delta\ndata: {"at":0,"text":"token "}\n\n'


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """POST anything for the frames; GET says that it is up."""
    if scope["type"] == "lifespan":
        await _lifespan(receive, send)
        return
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    if scope["method"] == "POST":
        loop = asyncio.get_running_loop()
        began = loop.time()
        for n in range(FRAMES):
            await send({"type": "http.response.body", "body": FRAME, "more_body": True})
            await asyncio.sleep(max(began + (n + 1) * PACE_S - loop.time(), 0))
    await send({"type": "http.response.body", "body": b""})


async def _lifespan(receive: Receive, send: Send) -> None:
    for _ in range(2):
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
