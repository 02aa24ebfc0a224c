"""Who asks, as the routes see it. Who that is was decided at the door, by app/api/access.py."""

from starlette.requests import HTTPConnection
from starlette.types import Scope as AsgiScope

from app.auth.principal import LOCAL, Principal, Scope

__all__ = ["KEY", "LOCAL", "Principal", "Scope", "current", "of"]

KEY = "turnstream.principal"
"""Where in a request's scope the door leaves its principal."""


def of(scope: AsgiScope) -> Principal:
    """The principal of a request's ASGI scope. Raises LookupError where it got past the door without one."""
    found: object = scope.get(KEY)
    if not isinstance(found, Principal):
        raise LookupError(f"{scope['path']} was reached without a principal")  # noqa: TRY004
    return found


async def current(request: HTTPConnection) -> Principal:
    """The request's principal. A coroutine, since the framework runs a plain function in a thread."""
    return of(request.scope)
