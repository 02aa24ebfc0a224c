"""A name for every HTTP request, on each line that is logged while it is answered and in the answer's X-Request-Id.

The outermost layer, around the one that turns a fault of ours into an answer. Plain ASGI: streams aren't wrapped, and
what is sent is only looked at to put the header in. A turn's task inherits the name from the request that asked for it.
"""

import re
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = "X-Request-Id"
ROUTE = "turnstream.route"
"""Where in a request's scope its route stands as the table of routes writes it, once the door has looked it up: what
stands in the places of a path may be a title or a name."""

Within = Callable[[Headers], AbstractContextManager[object]]

_WELL_FORMED = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/+=-]{0,127}")
_ASKED_OFTEN = frozenset({"/healthz", "/readyz", "/metrics"})
"""By monitors, every few seconds."""

_log = structlog.get_logger(__name__)


class RequestIds:
    """Takes the request's own name where it brings a well-formed one, as a proxy or a client with a trace of its own
    does; else makes one. `within` gives a context in which to answer, by the request's headers.
    """

    def __init__(self, app: ASGIApp, *, within: Within | None = None) -> None:
        self._app = app
        self._within: Within = within or (lambda _: nullcontext())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get(HEADER, "")
        request_id = given if _WELL_FORMED.fullmatch(given) else uuid.uuid4().hex
        began, status = time.perf_counter(), 0

        def named(message: Message) -> Awaitable[None]:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[HEADER] = request_id
            return send(message)  # its coroutine: a frame that is streamed costs one call more, no task and no await

        with structlog.contextvars.bound_contextvars(request_id=request_id), self._within(headers):
            try:
                await self._app(scope, receive, named)
            finally:
                say = _log.debug if scope["path"] in _ASKED_OFTEN else _log.info
                ms = round((time.perf_counter() - began) * 1000)
                say("request", method=scope["method"], route=scope.get(ROUTE), status=status, ms=ms)
