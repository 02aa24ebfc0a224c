"""What the door counts of a request, and what it tells OpenAI's clients of it: the `x-ratelimit-*` headers.

Which route counts as what stands in the table of app/api/access.py; the counts are app/auth/rates.py's.
"""

from collections.abc import Mapping
from math import ceil

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope as AsgiScope

from app.api import openai_errors
from app.auth.rates import Lane, Rates

KEY = "turnstream.allowance"
"""Where in a request's scope the door leaves the headers."""

_TOLD = (Lane.REQUESTS, Lane.TOKENS)


async def count(rates: Rates, scope: AsgiScope, owner: str, lane: Lane | None, *, asks: bool) -> None:
    """Count a request before it is served; one that `asks` begins a turn, which spends tokens.

    Raises:
        AppError: too_many_requests, too_many_tokens.
    """
    try:
        if lane is not None:
            await rates.take(owner, lane)
        if asks:
            await rates.may_spend(owner)
    finally:
        if openai_errors.speaks(scope["path"]):
            scope[KEY] = await _headers(rates, owner)


def headers(scope: AsgiScope) -> Mapping[str, str]:
    """What the answer to this request says of the limits; nothing where none is told."""
    return scope.get(KEY, {})


async def tell(request: Request, response: Response) -> None:
    """A dependency of routes that don't make their response themselves."""
    response.headers.update(headers(request.scope))


async def _headers(rates: Rates, owner: str) -> dict[str, str]:
    told: dict[str, str] = {}
    for lane in _TOLD:
        standing = await rates.standing(owner, lane)
        if standing is not None:
            told[f"x-ratelimit-limit-{lane}"] = str(standing.limit)
            told[f"x-ratelimit-remaining-{lane}"] = str(standing.left)
            told[f"x-ratelimit-reset-{lane}"] = f"{ceil(standing.reset_s)}s"
    return told
