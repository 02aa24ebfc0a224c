"""POST /mcp: MCP over streamable HTTP. Stateless, one JSON response per request; nothing streams, nothing resumes.

The base is chosen by the address, `/mcp?base=name`, since that is what every client can be given.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import structlog
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.hosts import stranger
from app.knowledge.nearest import Nearest
from app.store.engine import Database
from app.tools.registry import Registry

INVALID_REQUEST = -32600
"""JSON-RPC 2.0, section 5.1."""

_Opening = Callable[[Registry, Database, Nearest | None], AbstractAsyncContextManager[ASGIApp]]

_log = structlog.get_logger(__name__)


class _Sessions:
    """The SDK's manager of requests, opened when it is first wanted, by a task that its requests belong to."""

    def __init__(self, registry: Registry, database: Database, nearest: Nearest | None) -> None:
        self._tools = (registry, database, nearest)
        self._wanted = asyncio.Event()
        self._opened: asyncio.Future[ASGIApp] = asyncio.get_running_loop().create_future()
        self._owner = asyncio.create_task(self._serve(), name="mcp")

    async def _serve(self) -> None:
        await self._wanted.wait()
        sessions = await asyncio.to_thread(_sessions_by_sdk)
        async with sessions(*self._tools) as answering:
            self._opened.set_result(answering)
            await asyncio.get_running_loop().create_future()  # until it is cancelled

    async def open(self) -> ASGIApp:
        """What answers requests, by ASGI."""
        self._wanted.set()
        await asyncio.wait((self._owner, self._opened), return_when=asyncio.FIRST_COMPLETED)
        if self._owner.done():
            await self._owner  # tells why
        return self._opened.result()

    async def aclose(self) -> None:
        """End what still runs."""
        self._owner.cancel()
        (ended,) = await asyncio.gather(self._owner, return_exceptions=True)
        self._opened.cancel()
        if isinstance(ended, Exception):
            raise ended


def _sessions_by_sdk() -> _Opening:
    from app.api.mcp_sessions import sessions  # noqa: PLC0415

    return sessions


class McpDoor:
    """The route and what it needs while the application lives. `draining` says whether the server is going down.

    The SDK is imported when the first request comes: that takes a fourth of the time that everything else takes
    together, and few servers are asked.
    """

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
        self._tools = (registry, database, nearest)
        self._allowed_hosts = tuple(allowed_hosts)
        self._draining = draining
        self._sessions: _Sessions | None = None

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        """Answer requests for the block; what still runs at its end is cancelled."""
        self._sessions = sessions = _Sessions(*self._tools)
        try:
            yield
        finally:
            self._sessions = None
            await sessions.aclose()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse strangers before anything else is looked at, and what a stateless server has no answer to."""
        reason = stranger(Headers(scope=scope), self._allowed_hosts)
        if reason is not None:
            _log.warning("mcp_stranger_refused", reason=reason)
            await refusal(403, reason)(scope, receive, send)
        elif scope["method"] != "POST":
            message = "MCP is spoken here by POST; there are no sessions and no streams to open or end."
            await refusal(405, message, {"Allow": "POST"})(scope, receive, send)
        elif self._sessions is None or self._draining():
            message = "The server is shutting down; ask again in a moment."
            await refusal(503, message, {"Retry-After": "2"})(scope, receive, send)
        else:
            answering = await self._sessions.open()
            await answering(scope, receive, send)


def refusal(status: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """A JSON-RPC error without the id of a request, as the MCP specification wants it."""
    error = {"code": INVALID_REQUEST, "message": message}
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, status, headers)
