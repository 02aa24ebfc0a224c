"""Whether the process lives and whether it can serve: /healthz and /readyz, which tell the truth."""

from collections.abc import Awaitable, Callable

from fastapi import APIRouter, Response
from pydantic import BaseModel


class Health(BaseModel):
    status: str


def router(ready: Callable[[], Awaitable[str | None]]) -> APIRouter:
    """The routes; `ready` gives what is in the way, or None."""
    routes = APIRouter(tags=["operations"])

    @routes.get("/healthz")
    async def healthz() -> Health:
        """The process answers."""
        return Health(status="ok")

    @routes.get("/readyz", responses={503: {"model": Health}})
    async def readyz(response: Response) -> Health:
        """It can take questions: the database answers, background tasks run, it isn't shutting down."""
        fault = await ready()
        if fault is None:
            return Health(status="ok")
        response.status_code = 503
        response.headers["Retry-After"] = "2"
        return Health(status=fault)

    return routes
