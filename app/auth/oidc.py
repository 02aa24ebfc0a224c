"""AUTH=oidc: tokens that an OpenID issuer signed, and the page's logins with them. Implements Gate.

A token says who and with what scope; which bases that holds for is said by the members of bases, except that admin
holds for every base. Source: issue 9 item 1, decision 0019; RFC 7519, RFC 8725, RFC 9068.
"""

import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import jwt

from app.auth import gate
from app.auth.gate import Login, OidcConfig, Remembered, refused
from app.auth.jwks import ALGORITHMS, Keys
from app.auth.principal import Principal, Scope
from app.auth.secret import digest, fresh, is_secret
from app.errors import AppError, RefusalCode
from app.store import members, sessions
from app.store.engine import Database
from app.store.sessions import SessionRecord

LEEWAY_S = 30
"""How far the issuer's clock may be from ours."""
MAX_CHARS = 16_384
"""The longest token that is looked at."""


@dataclass(frozen=True, slots=True)
class Proven:
    """What a token proves, and for how many seconds more."""

    owner: str
    scope: Scope
    left_s: float


class OidcGate:
    """The tokens of one issuer, for one audience."""

    def __init__(self, database: Database, config: OidcConfig) -> None:
        self._database = database
        self._config = config
        self._keys = Keys(config.issuer)
        self._roles: Remembered[Mapping[str, Scope]] = Remembered()
        self._sessions: Remembered[SessionRecord] = Remembered()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        """Nothing runs in the background: keys are fetched when a token asks for them."""
        yield

    @property
    def healthy(self) -> bool:
        return True

    async def bearer(self, token: str) -> Principal:
        proven = await self._proven(token)
        return await self._principal(proven.owner, proven.scope)

    async def session(self, secret: str) -> Principal | None:
        if not is_secret("tsc", secret):
            return None
        session = self._sessions.get(key := digest(secret))
        if session is None:
            session = await sessions.get(self._database, key)
            if session is None or session.token_id is not None:  # the second: from when AUTH was token
                return None
            self._sessions.put(key, session, left_s=session.left_s)
        return await self._principal(session.owner, Scope.of(session.scope))

    async def login(self, token: str) -> Login:
        proven = await self._proven(token)
        secret, lasts_s = fresh("tsc"), min(gate.SESSION_S, int(proven.left_s))
        record = SessionRecord(None, proven.owner, proven.scope.word, lasts_s)
        await sessions.add(self._database, digest(secret), record)
        return Login(await self._principal(proven.owner, proven.scope), secret, lasts_s)

    async def logout(self, secret: str) -> None:
        self._sessions.forget(digest(secret))
        await sessions.end(self._database, digest(secret))

    def members_changed(self) -> None:
        self._roles.clear()

    async def _principal(self, owner: str, scope: Scope) -> Principal:
        if scope is Scope.ADMIN:
            return Principal(owner, scope, None)
        roles = self._roles.get(owner)
        if roles is None:
            roles = _strongest(await members.of_owner(self._database, owner))
            self._roles.put(owner, roles, left_s=None)
        return Principal(owner, scope, roles)

    async def _proven(self, token: str) -> Proven:
        """What the token proves, its signature and claims checked.

        Raises:
            AppError: unauthenticated, forbidden, issuer_unavailable.
        """
        if len(token) > MAX_CHARS:
            raise refused(f"The token is longer than the {MAX_CHARS} characters allowed.")
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, RecursionError) as error:
            raise refused("The token is no JWT of the configured issuer.") from error
        kid: object = header.get("kid")
        if header.get("alg") not in ALGORITHMS or not isinstance(kid, str):
            raise refused(f"The token isn't signed with a named key by one of {', '.join(sorted(ALGORITHMS))}.")
        key = await self._keys.get(kid)
        if key is None:
            raise refused("The token is signed with a key that the issuer doesn't list.")
        return _read(self._verified(token, key), self._config)

    def _verified(self, token: str, key: jwt.PyJWK) -> dict[str, Any]:
        try:
            return jwt.decode(
                token,
                key,
                algorithms=[key.algorithm_name],
                audience=self._config.audience,
                issuer=self._config.issuer,
                leeway=LEEWAY_S,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except (jwt.PyJWTError, RecursionError, OverflowError) as error:
            raise refused(f"The token is not accepted: {_reason(error)}.") from error


def _read(claims: Mapping[str, Any], config: OidcConfig) -> Proven:
    subject = claims["sub"]
    if not isinstance(subject, str) or not 1 <= len(subject) <= 255 or not subject.isprintable():
        raise refused("The token's subject isn't 1 to 255 printable characters.")
    allowed = [config.scopes[value] for value in _values(claims, config.scope_claim) if value in config.scopes]
    if not allowed:
        names = ", ".join(sorted(config.scopes))
        message = f"The token allows nothing here: its claim {config.scope_claim!r} has none of {names}."
        raise AppError(RefusalCode.FORBIDDEN, message)
    return Proven(f"{subject}@{config.issuer}", max(allowed), int(claims["exp"]) + LEEWAY_S - time.time())


def _values(claims: Mapping[str, Any], path: str) -> list[str]:
    """A claim's values: words of a text, or a list's texts. A claim of the whole name comes before a path to one."""
    found: object = claims
    for name in [path] if path in claims else path.split("."):
        found = cast("Mapping[str, object]", found).get(name) if isinstance(found, dict) else None
    if isinstance(found, str):
        return found.split()
    return [value for value in cast("list[object]", found) if isinstance(value, str)] if isinstance(found, list) else []


def _strongest(roles: list[tuple[str, str]]) -> Mapping[str, Scope]:
    held: dict[str, Scope] = {}
    for base_id, word in roles:
        held[base_id] = max(Scope.of(word), held.get(base_id, Scope.READ))
    return held


def _reason(error: Exception) -> str:
    match error:
        case jwt.ExpiredSignatureError():
            return "it has expired"
        case jwt.ImmatureSignatureError():
            return "it isn't valid yet"
        case jwt.InvalidAudienceError():
            return "it is for another audience"
        case jwt.InvalidIssuerError():
            return "it is from another issuer"
        case jwt.MissingRequiredClaimError():
            return f"its claim {error.claim} is missing"
        case jwt.InvalidSignatureError():
            return "its signature is wrong"
        case _:
            return "it can't be read"
