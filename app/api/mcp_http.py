"""POST /mcp: MCP over streamable HTTP. Stateless, one JSON response per request; nothing streams, nothing resumes.

The base is chosen by the address, `/mcp?base=name`, since that is what every client can be given.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager

import structlog
from mcp import types
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from app.api import principal
from app.api.hosts import stranger
from app.api.mcp import Access, Context, build_server
from app.knowledge.nearest import Nearest
from app.store.bases import DEFAULT_BASE
from app.store.engine import Database
from app.tools.registry import Registry

BODY_MAX_BYTES = 1024 * 1024
"""The largest request that is taken."""

_log = structlog.get_logger(__name__)


class McpDoor:
    """The route and what it needs while the application lives. `draining` says whether the server is going down."""

    def __init__(
        self,
        registry: Registry,
        database: Database,
        *,
        allowed_hosts: Sequence[str],
        draining: Callable[[], bool],
        nearest: Nearest | None = None,
    ) -> None:
        self.route = Route("/mcp", self, name="mcp")
        self._server = build_server(registry, database, _access, nearest=nearest)
        self._allowed_hosts = tuple(allowed_hosts)
        self._draining = draining
        self._manager: StreamableHTTPSessionManager | None = None

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        """Answer requests for the block; what still runs at its end is cancelled."""
        manager = StreamableHTTPSessionManager(
            self._server, json_response=True, stateless=True, max_request_body_size=BODY_MAX_BYTES
        )
        async with manager.run():
            self._manager = manager
            try:
                yield
            finally:
                self._manager = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse strangers before anything else is looked at, and what a stateless server has no answer to."""
        reason = stranger(Headers(scope=scope), self._allowed_hosts)
        if reason is not None:
            _log.warning("mcp_stranger_refused", reason=reason)
            await refusal(403, reason)(scope, receive, send)
        elif scope["method"] != "POST":
            message = "MCP is spoken here by POST; there are no sessions and no streams to open or end."
            await refusal(405, message, {"Allow": "POST"})(scope, receive, send)
        elif self._manager is None or self._draining():
            message = "The server is shutting down; ask again in a moment."
            await refusal(503, message, {"Retry-After": "2"})(scope, receive, send)
        else:
            await self._manager.handle_request(scope, receive, send)


def _access(ctx: Context) -> Access:
    request = ctx.request
    if not isinstance(request, Request):
        raise TypeError("an MCP message came without the HTTP request that carried it")
    return Access(request.query_params.get("base", DEFAULT_BASE), principal.of(request.scope))


def refusal(status: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """A JSON-RPC error without the id of a request, as the MCP specification wants it."""
    error = {"code": types.INVALID_REQUEST, "message": message}
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, status, headers)
