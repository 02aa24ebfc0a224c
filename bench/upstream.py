"""A model endpoint for measurements, in a process of its own: one search, then TOKENS tokens, PACE_S apart."""

import asyncio
import json
import sys

PORT, TOKENS, PACE_S = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def event(delta: dict[str, object], finish: str | None = None) -> bytes:
    """One chunk of the protocol, as HTTP chunk."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
    body = {"id": "chatcmpl-bench", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    data = b"data: " + json.dumps(body).encode() + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(data), data)


CALL = event(
    {
        "tool_calls": [
            {
                "index": 0,
                "id": "call_1",
                "type": "function",
                "function": {"name": "search_chunks", "arguments": '{"query": "board"}'},
            }
        ]
    }
)
TOKEN = event({"content": "token "})
END = event({}, "stop") + b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer requests on one connection until it closes."""
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(
                next(x for x in head.lower().split(b"\r\n") if x.startswith(b"content-length:")).split(b":")[1]
            )
            request = json.loads(await reader.readexactly(length))
            writer.write(HEAD)
            if request.get("tool_choice") == "required":
                writer.write(CALL + event({}, "tool_calls") + b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
                continue
            for _ in range(TOKENS):
                writer.write(TOKEN)
                await writer.drain()
                if PACE_S:
                    await asyncio.sleep(PACE_S)
            writer.write(END)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        return
    finally:
        writer.close()


async def main() -> None:
    """Serve until killed."""
    server = await asyncio.start_server(serve, "127.0.0.1", PORT)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
