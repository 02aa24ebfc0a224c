"""The base that an address names, as a dependency of the routes below it. It was looked up at the door (access.py)."""

from starlette.requests import HTTPConnection

from app.errors import AppError, RefusalCode
from app.text import clean, cut

KEY = "turnstream.base_id"
"""Where in a request's scope the door leaves the id of the base in the path."""


def no_base(name: str) -> AppError:
    """The refusal of a base that isn't there, or isn't the caller's."""
    return AppError(RefusalCode.NOT_FOUND, f"There is no base {cut(clean(name), 80)!r}.")


async def known_base(base: str, request: HTTPConnection) -> str:
    """The id of the base `base` of the path, which the caller may see."""
    found: object = request.scope.get(KEY)
    if not isinstance(found, str):
        raise LookupError(f"{request.url.path} was reached without its base {base!r}")  # noqa: TRY004
    return found
