# pyright: basic, reportMissingImports=false
# (its packages are in the peers' venv)
"""LangGraph's agent, its tokens by stream_mode "messages". Source: its documentation, "Streaming", and "Agents"."""

import json
import os
from collections.abc import AsyncIterator

from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route


@tool
async def search_chunks(query: str) -> str:
    """Search the knowledge base."""
    return f"Nothing about {query}."


model = ChatOpenAI(model="m", base_url=os.environ["BENCH_UPSTREAM"], api_key="none", streaming=True)
agent = create_agent(model, tools=[search_chunks], system_prompt="Search before you answer.")


async def events(message: str) -> AsyncIterator[str]:
    asked = {"messages": [{"role": "user", "content": message}]}
    async for chunk, _ in agent.astream(asked, stream_mode="messages"):
        if chunk.type == "tool":
            yield f"event: tool\ndata: {json.dumps({'name': chunk.name, 'content': chunk.content})}\n\n"
        elif chunk.content:
            yield f"event: delta\ndata: {json.dumps({'text': chunk.content})}\n\n"
    yield "event: done\ndata: {}\n\n"


async def chat(request: Request) -> Response:
    body = await request.json()
    return StreamingResponse(events(body["message"]), media_type="text/event-stream")


async def up(request: Request) -> Response:
    del request
    return PlainTextResponse("up")


app = Starlette(routes=[Route("/", up), Route("/chat", chat, methods=["POST"])])
