# pyright: basic, reportMissingImports=false
# (its packages are in the peers' venv)
"""pydantic-ai with its UI adapter for Vercel AI. Source: its documentation, "Usage with Starlette/FastAPI"."""

import os

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.ui.vercel_ai import VercelAIAdapter
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

provider = OpenAIProvider(base_url=os.environ["BENCH_UPSTREAM"], api_key="none")
agent = Agent(OpenAIChatModel("m", provider=provider), instructions="Search before you answer.")


@agent.tool_plain
async def search_chunks(query: str) -> str:
    """Search the knowledge base."""
    return f"Nothing about {query}."


async def chat(request: Request) -> Response:
    return await VercelAIAdapter.dispatch_request(request, agent=agent)


async def up(request: Request) -> Response:
    del request
    return PlainTextResponse("up")


app = Starlette(routes=[Route("/", up), Route("/chat", chat, methods=["POST"])])
