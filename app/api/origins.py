"""No page of somebody else's uses this server through a visitor's browser. Plain ASGI: what streams isn't wrapped.

On a loopback address every request must name the server by a name of its own, against DNS rebinding (hosts.py); where
others can reach it, what changes something must come from a page of the same origin, or from no page. Source: OWASP
CSRF prevention cheat sheet ("Verifying Origin with standard headers"); MCP specification, transports, security.
"""

from collections.abc import Sequence
from urllib.parse import urlsplit

import structlog
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.hosts import stranger
from app.api.refusals import headers_of, told
from app.errors import AppError, RefusalCode

_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_APART = frozenset({"/healthz", "/readyz", "/metrics", "/mcp"})
"""What monitors ask for by whatever address they know, and the door that has its own guard and shape of refusals."""

_log = structlog.get_logger(__name__)


class Origins:
    """`loopback`: only this machine can reach the server. `allowed` are further names that it has (hosts.py)."""

    def __init__(self, app: ASGIApp, *, loopback: bool, allowed: Sequence[str]) -> None:
        self._app = app
        self._loopback = loopback
        self._allowed = allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (reason := self._reason(scope)) is not None:
            _log.warning("stranger_refused", reason=reason)
            refusal = AppError(RefusalCode.FORBIDDEN, reason)
            await told(scope, refusal, headers_of(refusal))(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _reason(self, scope: Scope) -> str | None:
        if scope["path"] in _APART:
            return None
        headers = Headers(scope=scope)
        if self._loopback:
            return stranger(headers, self._allowed)
        if scope["method"] in _READING:
            return None
        origin, host = headers.get("origin"), headers.get("host", "")
        if origin is None or urlsplit(origin).netloc.lower() == host.lower():
            return None
        return "Pages of that Origin may not use this server." if stranger(headers, self._allowed) else None
