"""MCP's requests over HTTP, as the SDK answers them. Imports the SDK: app/api/mcp_http.py does so when one comes."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request
from starlette.types import ASGIApp

from app.api import principal
from app.api.mcp import Access, Context, build_server
from app.knowledge.nearest import Nearest
from app.store.bases import DEFAULT_BASE
from app.store.engine import Database
from app.tools.registry import Registry

BODY_MAX_BYTES = 1024 * 1024
"""The largest request that is taken."""


@asynccontextmanager
async def sessions(registry: Registry, database: Database, nearest: Nearest | None) -> AsyncGenerator[ASGIApp, None]:
    """What answers requests for the block; what still runs at its end is cancelled."""
    server = build_server(registry, database, _access, nearest=nearest)
    manager = StreamableHTTPSessionManager(
        server, json_response=True, stateless=True, max_request_body_size=BODY_MAX_BYTES
    )
    async with manager.run():
        yield manager.handle_request


def _access(ctx: Context) -> Access:
    request = ctx.request
    if not isinstance(request, Request):
        raise TypeError("an MCP message came without the HTTP request that carried it")
    return Access(request.query_params.get("base", DEFAULT_BASE), principal.of(request.scope))
