"""AUTH=token: bearer tokens that `turnstream token create` made, and the page's logins with them. Implements Gate.

When a token was last used is written by a background task, for all of them in one statement a minute. Source: issue 9
item 1, decision 0019.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog

from app.auth import gate
from app.auth.gate import Login, Remembered, refused
from app.auth.principal import Principal, Scope
from app.auth.secret import digest, fresh, is_secret
from app.store import sessions, tokens
from app.store.engine import Database, StoreUnavailable
from app.store.sessions import SessionRecord
from app.store.tokens import LiveToken

NOTED_S = 60.0
"""How often the last use of tokens is written down."""

_DOES_NOT_COUNT = "The token isn't known here, or it was revoked, or it has expired."

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Known:
    token_id: str
    principal: Principal
    left_s: float | None


class TokenGate:
    """The tokens of a database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: Remembered[_Known] = Remembered()
        self._used: set[str] = set()
        self._noting: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        """Note for the block, and at its end, when tokens are used."""
        self._noting = asyncio.create_task(self._note(), name="token uses")
        try:
            yield
        finally:
            self._noting.cancel()
            await asyncio.gather(self._noting, return_exceptions=True)
            await self._write_uses()

    @property
    def healthy(self) -> bool:
        return self._noting is not None and not self._noting.done()

    async def bearer(self, token: str) -> Principal:
        return (await self._token(token)).principal

    async def session(self, secret: str) -> Principal | None:
        if not is_secret("tsc", secret):
            return None
        known = self._known.get(key := digest(secret))
        if known is None:
            session = await sessions.get(self._database, key)
            if session is None or session.token_id is None:
                return None
            token = await tokens.by_id(self._database, session.token_id)
            if token is None:
                return None
            known = _known(token)
            left_s = session.left_s if known.left_s is None else min(session.left_s, known.left_s)
            self._known.put(key, known, left_s=left_s)
        self._used.add(known.token_id)
        return known.principal

    async def login(self, token: str) -> Login:
        known = await self._token(token)
        lasts_s = gate.SESSION_S if known.left_s is None else min(gate.SESSION_S, int(known.left_s))
        secret, who = fresh("tsc"), known.principal
        record = SessionRecord(known.token_id, who.owner, who.scope.word, lasts_s)
        await sessions.add(self._database, digest(secret), record)
        return Login(who, secret, lasts_s)

    async def logout(self, secret: str) -> None:
        self._known.forget(digest(secret))
        await sessions.end(self._database, digest(secret))

    def members_changed(self) -> None:
        """Nothing: a token names its bases itself."""

    async def _token(self, token: str) -> _Known:
        if not is_secret("ts", token):
            raise refused(_DOES_NOT_COUNT)
        known = self._known.get(key := digest(token))
        if known is None:
            found = await tokens.by_hash(self._database, key)
            if found is None:
                raise refused(_DOES_NOT_COUNT)
            known = _known(found)
            self._known.put(key, known, left_s=found.left_s)
        self._used.add(known.token_id)
        return known

    async def _note(self) -> None:
        while True:
            await asyncio.sleep(NOTED_S)
            await self._write_uses()

    async def _write_uses(self) -> None:
        noted, self._used = self._used, set()
        if not noted:
            return
        try:
            await tokens.used(self._database, noted)
        except StoreUnavailable as error:
            self._used |= noted
            _log.warning("token_uses_not_noted", tokens=len(noted), exc_info=error)


def _known(token: LiveToken) -> _Known:
    scope = Scope.of(token.scope)
    bases = None if token.bases is None else dict.fromkeys(token.bases, scope)
    return _Known(token.id, Principal(token.owner, scope, bases), token.left_s)
