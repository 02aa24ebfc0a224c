"""Whether the process lives, whether it can serve, and what it has done: /healthz, /readyz, /metrics."""

from collections.abc import Awaitable, Callable

from fastapi import APIRouter, Response
from pydantic import BaseModel

from app.metrics import CONTENT_TYPE, Metrics


class Health(BaseModel):
    status: str


def router(ready: Callable[[], Awaitable[str | None]], metrics: Metrics) -> APIRouter:
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

    @routes.get("/metrics", response_class=Response, responses={200: {"content": {CONTENT_TYPE: {}}}})
    async def exposition() -> Response:
        """Counters, histograms and gauges in Prometheus' text format."""
        return Response(metrics.exposition(), media_type=CONTENT_TYPE)

    return routes
