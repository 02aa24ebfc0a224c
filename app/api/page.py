"""The page: what a person who opens the address in a browser sees. Built from web/ into app/_page/ (hatch_build.py).

`/` and the page's own paths answer with index.html, which is asked for each time; what it loads has a hash in its
name and is kept for good. Nothing of it is inline, and the policy lets it speak to this server only.
"""

import re
from html import escape
from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import FileResponse, HTMLResponse, Response

from app.errors import AppError, RefusalCode

PAGE = Path(__file__).parent.parent / "_page"

PATHS = ("/", "/c/{id}", "/bases", "/bases/{rest:path}", "/settings", "/settings/{rest:path}")
"""What the page itself answers to; its router decides what is there. Everything else stays the API's."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
FOR_GOOD = "public, max-age=31536000, immutable"

# By suffix and not by the machine's own table, which calls JavaScript text/plain on some.
_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
}
_ASSET = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\Z")

_NOT_BUILT = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>turnstream</title><meta name="viewport" content="width=device-width"></head>
<body>
<h1>turnstream</h1>
<p>The server runs, but its page was not built. In a checkout, run <code>make setup</code> and start it again;
an installed package has the page.</p>
<p>Answering now: <strong>{model}</strong>. {description}</p>
<p>Asking works without the page:</p>
<pre>curl -N {address}api/chat -H 'content-type: application/json' \\
  -d '{{"message": "Who sat on the board when Sam Altman was removed?"}}'</pre>
</body>
</html>
"""


def router(model: str, description: str, address: str, *, folder: Path = PAGE) -> APIRouter:
    """The routes. Model, description and address are for the message where `folder` holds no built page."""
    routes = APIRouter(include_in_schema=False)
    not_built = _NOT_BUILT.format(model=escape(model), description=escape(description), address=escape(address))
    index = folder / "index.html"

    async def page() -> Response:
        headers = {**HEADERS, "Cache-Control": "no-cache"}
        if not index.is_file():  # built while the server runs, it is there from then on
            return HTMLResponse(not_built, headers={**headers, "Cache-Control": "no-store"}, status_code=503)
        return FileResponse(index, media_type="text/html; charset=utf-8", headers=headers)

    for path in PATHS:
        routes.add_api_route(path, page, methods=["GET", "HEAD"])

    @routes.api_route("/assets/{name}", methods=["GET", "HEAD"])
    async def asset(name: str) -> Response:
        kind = _TYPES.get(Path(name).suffix)
        file = folder / "assets" / name
        if kind is None or not _ASSET.match(name) or not file.is_file():
            raise AppError(RefusalCode.NOT_FOUND, "The page has no such file; reload it.")
        return FileResponse(file, media_type=kind, headers={**HEADERS, "Cache-Control": FOR_GOOD})

    return routes
