"""An OpenID issuer's signing keys: found, fetched, kept, and fetched anew when they rotate.

Fetched over https, or http on this machine; no redirect is followed, so that an issuer's answer leads nowhere else
than to the address that it names itself. Source: OpenID Connect Discovery 1.0, 3 and 4.3; RFC 7517.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec
import structlog
from jwt import PyJWK, PyJWTError

from app.auth.addresses import is_loopback, is_trustworthy
from app.errors import AppError, RefusalCode

ALGORITHMS = frozenset({"RS256", "ES256", "EdDSA"})
"""The only signatures that are believed, each bound to its key. Not `none`, and none that a shared secret makes."""

AGAIN_S = 60.0
"""An unknown key makes the keys be fetched again, at most this often."""
AFTER_FAILURE_S = 5.0
"""How long an issuer that could not be asked isn't asked again."""
FRESH_S = 3600.0
"""How old keys may be before they are fetched again, so that a withdrawn one ends."""
KEPT_S = 24 * 3600.0
"""How old they may be while the issuer can't be reached."""
FETCH_S = 10.0
MAX_BYTES = 256 * 1024

_log = structlog.get_logger(__name__)


class KeysUnavailable(Exception):
    """The issuer didn't give its keys; says why."""


class Keys:
    """The keys of one issuer. `clock` gives seconds."""

    def __init__(self, issuer: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._issuer = issuer
        self._clock = clock
        self._keys: dict[str, PyJWK] = {}
        self._fetched_at: float | None = None
        self._asked_at: float | None = None
        self._failed = False
        self._fetching = asyncio.Lock()

    async def get(self, kid: str) -> PyJWK | None:
        """The key of this id; None where the issuer has none, or had none a moment ago.

        Raises:
            AppError: issuer_unavailable, where no keys are known.
        """
        if kid not in self._keys or self._age() > FRESH_S:
            async with self._fetching:
                if self._may_ask() and (kid not in self._keys or self._age() > FRESH_S):
                    await self._refresh()
        if self._age() > KEPT_S:
            message = "The issuer's keys can't be had, so tokens can't be checked; try again."
            raise AppError(RefusalCode.ISSUER_UNAVAILABLE, message, retry_after_s=int(AFTER_FAILURE_S))
        return self._keys.get(kid)

    def _age(self) -> float:
        return float("inf") if self._fetched_at is None else self._clock() - self._fetched_at

    def _may_ask(self) -> bool:
        wait = AFTER_FAILURE_S if self._failed else AGAIN_S
        return self._asked_at is None or self._clock() - self._asked_at >= wait

    async def _refresh(self) -> None:
        self._asked_at = self._clock()
        try:
            self._keys = await _fetched(self._issuer)
        except KeysUnavailable as error:
            self._failed = True
            _log.warning("issuer_keys_unavailable", issuer=self._issuer, reason=str(error))
            return
        self._failed, self._fetched_at = False, self._clock()
        _log.info("issuer_keys", issuer=self._issuer, keys=len(self._keys))


async def _fetched(issuer: str) -> dict[str, PyJWK]:
    # a proxy of the environment knows no issuer of this machine
    trust_env = not is_loopback(urlsplit(issuer).hostname or "")
    try:
        async with asyncio.timeout(FETCH_S), httpx.AsyncClient(trust_env=trust_env, follow_redirects=False) as http:
            about = await _json(http, f"{issuer.rstrip('/')}/.well-known/openid-configuration")
            if about.get("issuer") != issuer:
                raise KeysUnavailable(f"it calls itself {about.get('issuer')!r}")
            address = about.get("jwks_uri")
            if not isinstance(address, str) or not is_trustworthy(address):
                raise KeysUnavailable(f"its jwks_uri {address!r} is neither https nor of this machine")
            if not trust_env and not is_loopback(urlsplit(address).hostname or ""):
                raise KeysUnavailable(f"its jwks_uri {address!r} leads off this machine, where the issuer is")
            return _usable(await _json(http, address))
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
        raise KeysUnavailable(str(error) or type(error).__name__) from error


async def _json(http: httpx.AsyncClient, url: str) -> dict[str, Any]:
    async with http.stream("GET", url, headers={"Accept": "application/json"}) as response:
        if response.status_code != 200:
            raise KeysUnavailable(f"{url} answered {response.status_code}")
        body = bytearray()
        async for part in response.aiter_bytes():
            body += part
            if len(body) > MAX_BYTES:
                raise KeysUnavailable(f"{url} answered more than {MAX_BYTES} bytes")
    try:
        return msgspec.json.decode(bytes(body), type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise KeysUnavailable(f"{url} answered no JSON object") from error


def _usable(key_set: dict[str, Any]) -> dict[str, PyJWK]:
    """The keys that sign with an algorithm of ours, by id; others are for somebody else."""
    listed: object = key_set.get("keys")
    if not isinstance(listed, list):
        raise KeysUnavailable("its key set has no list `keys`")
    keys: dict[str, PyJWK] = {}
    for given in listed:  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(given, dict) or given.get("use", "sig") != "sig":  # pyright: ignore[reportUnknownMemberType]
            continue
        try:
            key = PyJWK(given)  # pyright: ignore[reportUnknownArgumentType]
        except PyJWTError:
            continue  # a kind of key that can't be one of ours
        if key.key_id and key.algorithm_name in ALGORITHMS:
            keys[key.key_id] = key
    return keys
