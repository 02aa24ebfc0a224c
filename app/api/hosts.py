"""Against DNS rebinding: a request must name this server by a name of its own, and a page must come from one.

A foreign page can make its name resolve to 127.0.0.1 and then speak to a server that only listens there; the
browser still says the page's name in Host and Origin. Source: MCP specification, transports, security.
"""

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from app.auth.addresses import is_loopback

_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?\Z")


def stranger(headers: Headers, allowed: Sequence[str]) -> str | None:
    """Why the request is refused, in a sentence; None when its Host and its Origin, if any, are ours.

    Ours are the loopback names and addresses, with any port, and `allowed`: each a `name` (any port) or `name:port`.
    """
    hosts = headers.getlist("host")
    if len(hosts) != 1 or not _is_ours(hosts[0], allowed):
        return "The Host header doesn't name this server."
    origins = headers.getlist("origin")
    if len(origins) > 1 or any(not _is_our_origin(origin, allowed) for origin in origins):
        return "Pages of that Origin may not use this server."
    return None


def _is_our_origin(origin: str, allowed: Sequence[str]) -> bool:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return (
        parts.scheme in ("http", "https")
        and origin == f"{parts.scheme}://{parts.netloc}"
        and _is_ours(parts.netloc, allowed)
    )


def _is_ours(host: str, allowed: Sequence[str]) -> bool:
    match = _HOST.match(host)
    if match is None:
        return False
    name = match["name"].lower()
    return is_loopback(name.strip("[]")) or any(
        given.lower() in (name, name.strip("[]"), host.lower()) for given in allowed
    )
