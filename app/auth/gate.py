"""The port that the door of the server asks: whose is this token, whose is this cookie. Two ways behind it.

app/auth/token.py knows tokens that this server made, app/auth/oidc.py those of an OpenID issuer. Both remember what
they found out for REMEMBERED_S, so that a request costs no statement; within that time a revocation holds everywhere.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from app.auth.principal import Principal, Scope
from app.errors import AppError, RefusalCode

REMEMBERED_S = 5.0
"""How long it may take until a revoked token, an ended session or a membership's end holds in every process."""
MOST = 10_000
"""How many credentials are remembered at once."""
SESSION_S = 7 * 24 * 3600
"""How long a login of the page lasts at most."""

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class OidcConfig:
    """`scope_claim` is a claim's name, or a path of names with dots; `scopes` says which of its values allow what."""

    issuer: str
    audience: str
    scope_claim: str
    scopes: Mapping[str, Scope]


@dataclass(frozen=True, slots=True)
class Login:
    """A login of the page. `secret` is the cookie's value, which is kept nowhere else."""

    principal: Principal
    secret: str
    lasts_s: int


class Gate(Protocol):
    """Credentials -> principals."""

    def running(self) -> AbstractAsyncContextManager[None]:
        """Do for the block what has to be done in the background."""
        ...

    @property
    def healthy(self) -> bool:
        """Whether that is being done."""
        ...

    async def bearer(self, token: str) -> Principal:
        """Whose token it is.

        Raises:
            AppError: unauthenticated where it doesn't count; forbidden where it counts and allows nothing;
                issuer_unavailable where that can't be said.
            StoreUnavailable
        """
        ...

    async def session(self, secret: str) -> Principal | None:
        """Whose login it is; None where it doesn't count any more. Raises StoreUnavailable."""
        ...

    async def login(self, token: str) -> Login:
        """Begin a session with a token. Raises as `bearer`."""
        ...

    async def logout(self, secret: str) -> None:
        """End a session, if it is one. Raises StoreUnavailable."""
        ...

    def members_changed(self) -> None:
        """Forget who is a member where: somebody changed it through this process."""
        ...


class Remembered(Generic[V]):
    """Values that are good for a few seconds. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._held: dict[str | bytes, tuple[V, float]] = {}

    def get(self, key: str | bytes) -> V | None:
        """The value, if it is still good."""
        value, until = self._held.get(key, (None, 0.0))
        return value if self._clock() < until else None

    def put(self, key: str | bytes, value: V, *, left_s: float | None) -> None:
        """Remember a value for REMEMBERED_S, or for the `left_s` that it counts."""
        if len(self._held) >= MOST:
            self._held.clear()
        self._held[key] = (value, self._clock() + min(REMEMBERED_S, REMEMBERED_S if left_s is None else left_s))

    def forget(self, key: str | bytes) -> None:
        self._held.pop(key, None)

    def clear(self) -> None:
        self._held.clear()


def refused(message: str) -> AppError:
    """The refusal of a credential."""
    return AppError(RefusalCode.UNAUTHENTICATED, message)
