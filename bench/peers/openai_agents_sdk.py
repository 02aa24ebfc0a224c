# pyright: basic, reportMissingImports=false
# (its packages are in the peers' venv)
"""The OpenAI Agents SDK over a chat-completions endpoint. Source: its documentation, "Streaming", and "Models"."""

import json
import os
from collections.abc import AsyncIterator

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI
from openai.types.responses import ResponseTextDeltaEvent
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

set_tracing_disabled(disabled=True)


@function_tool
async def search_chunks(query: str) -> str:
    """Search the knowledge base."""
    return f"Nothing about {query}."


client = AsyncOpenAI(base_url=os.environ["BENCH_UPSTREAM"], api_key="none")
agent = Agent(
    name="bench",
    instructions="Search before you answer.",
    model=OpenAIChatCompletionsModel(model="m", openai_client=client),
    tools=[search_chunks],
)


async def events(message: str) -> AsyncIterator[str]:
    result = Runner.run_streamed(agent, input=message)
    async for event in result.stream_events():
        if event.type == "raw_response_event" and isinstance(event.data, ResponseTextDeltaEvent):
            yield f"event: delta\ndata: {json.dumps({'text': event.data.delta})}\n\n"
        elif event.type == "run_item_stream_event" and event.item.type == "tool_call_item":
            yield f"event: tool\ndata: {json.dumps({'name': event.item.raw_item.name})}\n\n"
    yield "event: done\ndata: {}\n\n"


async def chat(request: Request) -> Response:
    body = await request.json()
    return StreamingResponse(events(body["message"]), media_type="text/event-stream")


async def up(request: Request) -> Response:
    del request
    return PlainTextResponse("up")


app = Starlette(routes=[Route("/", up), Route("/chat", chat, methods=["POST"])])
