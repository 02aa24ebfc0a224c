"""GET /: what a person who opens the address in a browser sees first."""

from html import escape

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

_PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>turnstream</title><meta name="viewport" content="width=device-width"></head>
<body>
<h1>turnstream</h1>
<p>A chat server that shows its work. Answering now: <strong>{model}</strong>. {description}</p>
<p>Ask from a terminal:</p>
<pre>curl -N {address}api/chat -H 'content-type: application/json' \\
  -d '{{"message": "Who sat on the board when Sam Altman was removed?"}}'</pre>
<p><a href="openapi.json">API description</a> · <a href="api/conversations">conversations</a> ·
<a href="api/bases">bases</a> · <a href="healthz">health</a></p>
</body>
</html>
"""


def router(model: str, description: str, address: str) -> APIRouter:
    """The route; the page holds no script and asks for nothing else."""
    routes = APIRouter()
    page = _PAGE.format(model=escape(model), description=escape(description), address=escape(address))

    @routes.get("/", include_in_schema=False)
    async def index() -> HTMLResponse:
        return HTMLResponse(page, headers={"Content-Security-Policy": "default-src 'none'"})

    return routes
