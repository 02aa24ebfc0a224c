"""Who may use which route, and how much: one table of them all, and the door that enforces it. Plain ASGI: what is sent
isn't wrapped.

Before a request's body is read, the door finds out who asks, counts the request, refuses who may not, and looks up the
base that the path names; the body is bounded while it is read. A base that isn't the caller's is 404, as if it weren't
there; a scope that is missing where the caller may look is 403. What belongs to an owner, conversations and turns, is
looked for by its owner in the store. A route that isn't in the table can't be served: the application doesn't start.
Source: issue 9 items 1 and 2, decisions 0019 and 0020.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import structlog
from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route, compile_path
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as AsgiScope

from app.api import allowance, known_base, mcp_http, principal, refusals, request_ids
from app.api.body_size import USUAL, Body, BodySizes, bounded
from app.auth.gate import Gate, refused
from app.auth.principal import LOCAL, Principal, Scope
from app.auth.rates import Lane, Rates
from app.errors import AppError, RefusalCode
from app.store import bases
from app.store.engine import Database

COOKIE = "turnstream_session"
PAGE_HEADER = "X-Turnstream"
"""What the page sends along where its cookie changes something. No other page can send it without asking first, and
nobody is ever allowed to: the proof that the request is the page's own (CSRF)."""

_READING = frozenset({"GET", "HEAD"})


@dataclass(frozen=True, slots=True)
class Need:
    """What a route asks of its caller. `scope` None: nothing, anybody may. With `{base}` in the path the scope must
    be allowed in that base; `everywhere` asks for it without a limit to bases.

    `lane` is what it counts as for who asks, None for nothing; `asks` says that it begins a turn, which spends tokens.
    """

    scope: Scope | None
    everywhere: bool = False
    lane: Lane | None = Lane.REQUESTS
    asks: bool = False
    body: Body = Body.SMALL


OPEN = Need(None, lane=None)
READ = Need(Scope.READ)
WRITE = Need(Scope.WRITE)
ADMIN = Need(Scope.ADMIN)
SERVER = Need(Scope.ADMIN, everywhere=True)
SCRAPED = Need(Scope.READ, everywhere=True, lane=None)
TAB = Need(Scope.READ, lane=Lane.TABS)

_BASE = "/api/bases/{base}"

TABLE: dict[str, dict[str, Need]] = {
    "/": {"GET": OPEN, "HEAD": OPEN},
    "/c/{id}": {"GET": OPEN, "HEAD": OPEN},
    "/bases": {"GET": OPEN, "HEAD": OPEN},
    "/bases/{rest:path}": {"GET": OPEN, "HEAD": OPEN},
    "/settings": {"GET": OPEN, "HEAD": OPEN},
    "/settings/{rest:path}": {"GET": OPEN, "HEAD": OPEN},
    "/assets/{name}": {"GET": OPEN, "HEAD": OPEN},
    "/openapi.json": {"GET": OPEN, "HEAD": OPEN},
    "/healthz": {"GET": OPEN},
    "/readyz": {"GET": OPEN},
    "/metrics": {"GET": SCRAPED},  # its labels are the names of all bases
    # the base is in its query, and its refusals are MCP's: app/api/mcp.py
    "/mcp": {"*": replace(READ, body=Body.COUNTED_THERE)},
    "/api/session": {"POST": OPEN, "GET": TAB, "DELETE": OPEN},
    "/api/chat": {"POST": replace(READ, asks=True, body=Body.QUESTION)},
    "/api/conversations": {"GET": READ},
    "/api/conversations/{conversation_id}": {"GET": TAB, "PATCH": READ, "DELETE": READ},
    "/api/conversations/{conversation_id}/live": {"GET": TAB},
    "/api/conversations/{conversation_id}/stop": {"POST": TAB},
    "/v1/models": {"GET": READ},
    "/v1/models/{model:path}": {"GET": READ},
    "/v1/chat/completions": {"POST": replace(READ, asks=True, body=Body.BULK)},
    "/api/audit": {"GET": SERVER},  # of every base, and of tokens
    "/api/settings": {"GET": READ},
    "/api/settings/doctor": {"POST": SERVER},
    "/api/bases": {"GET": READ, "POST": SERVER},
    _BASE: {"GET": READ, "PATCH": ADMIN, "DELETE": ADMIN},
    f"{_BASE}/members": {"GET": ADMIN, "PUT": ADMIN, "DELETE": ADMIN},
    f"{_BASE}/documents": {"GET": READ, "POST": replace(WRITE, body=Body.COUNTED_THERE)},
    f"{_BASE}/documents/{{document_id}}": {"GET": READ, "DELETE": WRITE},
    f"{_BASE}/documents/{{document_id}}/chunks": {"GET": READ},
    f"{_BASE}/chunks/{{chunk_id}}": {"GET": READ},
    f"{_BASE}/overview": {"GET": READ},
    f"{_BASE}/entities": {"GET": READ},
    f"{_BASE}/entities/{{entity_id}}": {"GET": READ},
    f"{_BASE}/entities/{{entity_id}}/merge": {"POST": WRITE},
    f"{_BASE}/facts": {"GET": READ, "POST": replace(WRITE, body=Body.BULK)},
    f"{_BASE}/facts/{{fact_id}}/correct": {"POST": WRITE},
    f"{_BASE}/facts/{{fact_id}}/reject": {"POST": WRITE},
    f"{_BASE}/proposals": {"GET": READ},
    f"{_BASE}/proposals/{{proposal_id}}/accept": {"POST": WRITE},
    f"{_BASE}/proposals/{{proposal_id}}/refuse": {"POST": WRITE},
    f"{_BASE}/embeddings": {"GET": READ},
    f"{_BASE}/verdicts": {"GET": READ},
    f"{_BASE}/extraction": {"GET": READ, "POST": ADMIN},
    f"{_BASE}/extraction/stop": {"POST": ADMIN},
}
"""Every route, by path and method, what it needs and what it counts as."""

_PATTERNS = [(compile_path(path)[0], path, needs) for path, needs in TABLE.items()]

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Found:
    """A request's place in the table: its route as it is written there, what it needs, the base that its path names."""

    route: str
    need: Need
    base: str | None


def find(method: str, path: str) -> Found | None:
    """None for what isn't served here."""
    for pattern, route, needs in _PATTERNS:
        match = pattern.match(path)
        if match is not None and (need := needs.get(method, needs.get("*"))) is not None:
            return Found(route, need, match.groupdict().get("base"))
    return None


def served(routes: Sequence[BaseRoute]) -> Iterator[tuple[str, str]]:
    """Every (path, method) of an application's routes, those of its routers too; method "*" for any."""
    for route in routes:
        inner: object = getattr(route, "original_router", None)  # how the framework keeps a router that was included
        if inner is not None:
            yield from served(inner.routes)  # pyright: ignore[reportAttributeAccessIssue,reportUnknownMemberType,reportUnknownArgumentType]
        elif isinstance(route, Route):
            yield from ((route.path, method) for method in route.methods or {"*"})
        else:
            raise TypeError(f"{route!r} is no route that can be in the table")


def check(routes: Sequence[BaseRoute]) -> None:
    """Hold the application's routes and the table against each other.

    Raises:
        LookupError: naming those that only one of them has.
    """
    ours = set(served(routes))
    listed = {(path, method) for path, needs in TABLE.items() for method in needs}
    if ours != listed:
        raise LookupError(f"not in the table: {sorted(ours - listed)}; only there: {sorted(listed - ours)}")


class Access:
    """The door. Without a `gate` nobody is asked who they are, and everybody is LOCAL (AUTH=none). Without `rates`
    nobody is counted.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        gate: Gate | None,
        database: Database,
        rates: Rates | None = None,
        sizes: BodySizes = USUAL,
    ) -> None:
        self._app = app
        self._gate = gate
        self._database = database
        self._rates = rates
        self._sizes = sizes

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (found := find(scope["method"], scope["path"])) is not None:
            scope[request_ids.ROUTE] = found.route
            try:
                if found.need.scope is not None:
                    scope[principal.KEY] = who = await self._principal(scope)
                    if self._rates is not None:
                        need = found.need
                        await allowance.count(self._rates, scope, who.owner, need.lane, asks=need.asks)
                    await self._allow(scope, who, found.need, found.base)
                most = self._sizes.of(found.need.body)
                receive = receive if most is None else bounded(scope, receive, most)
            except AppError as refusal:
                _log.info("refused_at_the_door", route=found.route, code=refusal.code)
                await _response(scope, refusal)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _principal(self, scope: AsgiScope) -> Principal:
        """Who asks: by the Authorization header, else, under /api, by the page's cookie."""
        if self._gate is None:
            return LOCAL
        headers = Headers(scope=scope)
        given = headers.getlist("authorization")
        if given:
            kind, _, token = given[0].partition(" ")
            if len(given) > 1 or kind.lower() != "bearer" or not token.strip():
                raise refused("The Authorization header must be one `Bearer` and a token.")
            return await self._gate.bearer(token.strip())
        secret = session_secret(headers) if scope["path"].startswith("/api/") else None
        if secret is None:
            raise refused("Say who asks: send `Authorization: Bearer` with a token.")
        if scope["method"] not in _READING:
            needs_page_header(headers)
        who = await self._gate.session(secret)
        if who is None:
            raise refused("The login has ended; log in again.")
        return who

    async def _allow(self, scope: AsgiScope, who: Principal, need: Need, base: str | None) -> None:
        held: Scope | None = who.scope
        if base is not None:
            base_id = await bases.find_id(self._database, base)
            held = None if base_id is None else who.on(base_id)
            if held is None:
                raise known_base.no_base(base)
            scope[known_base.KEY] = base_id
        if need.scope is not None and (held < need.scope or (need.everywhere and who.bases is not None)):
            where = " in every base" if need.everywhere else "" if base is None else " in this base"
            message = f"This needs the scope `{need.scope.word}`{where}; yours is `{held.word}`."
            raise AppError(RefusalCode.FORBIDDEN, message)


def session_secret(headers: Headers) -> str | None:
    """The value of the page's cookie, if it came along."""
    given = headers.getlist("cookie")
    return cookie_parser("; ".join(given)).get(COOKIE) or None


def needs_page_header(headers: Headers) -> None:
    """Raises AppError, forbidden, where the request doesn't prove that the page made it."""
    if headers.get(PAGE_HEADER) != "page":
        raise AppError(RefusalCode.FORBIDDEN, f"With the page's cookie the header `{PAGE_HEADER}: page` is needed.")


def _response(scope: AsgiScope, refusal: AppError) -> JSONResponse:
    """The refusal in the shape that callers of this path read."""
    headers = refusals.headers_of(refusal)
    if scope["path"] == "/mcp":
        return mcp_http.refusal(refusal.status, refusal.message, headers)
    return refusals.told(scope, refusal, headers)
