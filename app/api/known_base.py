"""The base that an address names, as a dependency of the routes below it."""

from collections.abc import Awaitable, Callable

from app.errors import AppError, RefusalCode
from app.store import bases
from app.store.engine import Database
from app.text import clean, cut


def no_base(name: str) -> AppError:
    """The refusal of a base that isn't there."""
    return AppError(RefusalCode.NOT_FOUND, f"There is no base {cut(clean(name), 80)!r}.")


def known_base_of(database: Database) -> Callable[[str], Awaitable[str]]:
    """A dependency that gives the id of the base in the path; it reads and lets go before the route runs."""

    async def known_base(base: str) -> str:
        found = await bases.find_id(database, base)
        if found is None:
            raise no_base(base)
        return found

    return known_base
