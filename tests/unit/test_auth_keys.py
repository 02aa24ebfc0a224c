"""An issuer's keys: when they are fetched, what is refused of its answers, how long they are good for."""

import asyncio
import json
from collections.abc import AsyncGenerator

import pytest

from app.auth.jwks import AFTER_FAILURE_S, AGAIN_S, FRESH_S, KEPT_S, MAX_BYTES, Keys
from app.errors import AppError, RefusalCode
from tests.harness.issuer import Issuer, SigningKey

FETCH = ["/.well-known/openid-configuration", "/keys"]
ABOUT = FETCH[0]


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def issuer() -> AsyncGenerator[Issuer, None]:
    async with Issuer() as running:
        yield running


async def test_keys_are_fetched_once_for_whoever_asks_at_once(issuer: Issuer) -> None:
    """One fetch, though a hundred tokens came."""
    keys = Keys(issuer.url, clock=Clock())
    found = await asyncio.gather(*(keys.get(issuer.keys[0].kid) for _ in range(100)))
    assert {key.key_id for key in found if key is not None} == {issuer.keys[0].kid}
    assert issuer.asked == FETCH


async def test_an_unknown_key_makes_them_be_fetched_again_once_a_minute(issuer: Issuer) -> None:
    """Made-up key ids don't become requests to the issuer; a new key is known within a minute."""
    clock = Clock()
    keys = Keys(issuer.url, clock=clock)
    first = issuer.keys[0].kid
    assert await keys.get(first) is not None
    issuer.rotate()
    new = issuer.keys[0].kid
    for n in range(50):
        assert await keys.get(f"made up {n}") is None
    clock.now += AGAIN_S - 0.1
    assert await keys.get(new) is None
    assert issuer.asked == FETCH
    clock.now += 0.1
    assert await keys.get(new) is not None
    assert await keys.get(first) is None
    assert issuer.asked == FETCH * 2


async def test_known_keys_are_fetched_again_each_hour_so_that_a_withdrawn_one_ends(issuer: Issuer) -> None:
    """Also while tokens with new keys don't come."""
    clock = Clock()
    keys = Keys(issuer.url, clock=clock)
    first = issuer.keys[0].kid
    assert await keys.get(first) is not None
    issuer.rotate()
    clock.now += FRESH_S
    assert await keys.get(first) is not None
    clock.now += 1
    assert await keys.get(first) is None


async def test_while_the_issuer_is_away_its_keys_are_good_for_a_day(issuer: Issuer) -> None:
    """Then nobody can be checked any more, and that is said."""
    clock = Clock()
    keys = Keys(issuer.url, clock=clock)
    kid = issuer.keys[0].kid
    await keys.get(kid)
    issuer.answers["/keys"] = (500, {}, b"")
    clock.now += KEPT_S
    assert await keys.get(kid) is not None
    clock.now += 1
    with pytest.raises(AppError) as refusal:
        await keys.get(kid)
    assert (refusal.value.code, refusal.value.status) == (RefusalCode.ISSUER_UNAVAILABLE, 503)
    issuer.answers.clear()
    clock.now += AFTER_FAILURE_S
    assert await keys.get(kid) is not None


async def test_an_issuer_that_failed_is_left_alone_for_a_moment(issuer: Issuer) -> None:
    """Not one request for each token that comes."""
    clock = Clock()
    keys = Keys(issuer.url, clock=clock)
    issuer.answers[ABOUT] = (503, {}, b"")
    for _ in range(10):
        with pytest.raises(AppError):
            await keys.get("x")
    assert issuer.asked == [ABOUT]


def about(running: Issuer, **changed: object) -> bytes:
    return json.dumps({"issuer": running.url, "jwks_uri": f"{running.url}/keys"} | changed).encode()


@pytest.mark.parametrize(
    "kind",
    [
        "another name",
        "off this machine",
        "plain http",
        "no address",
        "redirect",
        "redirected keys",
        "too large",
        "no JSON",
        "a list",
        "deep",
        "no keys",
    ],
)
async def test_an_answer_that_isn_t_an_issuer_s_gives_no_keys(issuer: Issuer, kind: str) -> None:
    """Nothing is fetched from where it leads to, and no more than 256 KB are read."""
    asked = [ABOUT]
    match kind:
        case "another name":
            issuer.answers[ABOUT] = (200, {}, about(issuer, issuer="https://evil.example"))
        case "off this machine":
            issuer.answers[ABOUT] = (200, {}, about(issuer, jwks_uri="https://10.0.0.1/keys"))
        case "plain http":
            issuer.answers[ABOUT] = (200, {}, about(issuer, jwks_uri="http://10.0.0.1/keys"))
        case "no address":
            issuer.answers[ABOUT] = (200, {}, about(issuer, jwks_uri=["x"]))
        case "redirect":
            issuer.answers[ABOUT] = (302, {"Location": f"{issuer.url}/elsewhere"}, b"")
        case _:
            asked = FETCH
            issuer.answers["/keys"] = {
                "redirected keys": (302, {"Location": f"{issuer.url}/elsewhere"}, b""),
                "too large": (200, {}, b"[" + b" " * MAX_BYTES),
                "no JSON": (200, {}, b"<html>"),
                "a list": (200, {}, b"[]"),
                "deep": (200, {}, b'{"keys":' + b"[" * 100_000),
                "no keys": (200, {}, b'{"keys": 7}'),
            }[kind]
    with pytest.raises(AppError) as refusal:
        await Keys(issuer.url, clock=Clock()).get("x")
    assert refusal.value.code is RefusalCode.ISSUER_UNAVAILABLE
    assert issuer.asked == asked


async def test_keys_that_can_t_be_ours_are_left_out(issuer: Issuer) -> None:
    """Shared secrets, other algorithms, encryption keys, what has no id, and what is no key at all."""
    good, other = SigningKey("ES256"), SigningKey("RS512")
    listed: list[object] = [
        good.listed,
        other.listed,
        {"kty": "oct", "k": "c2VjcmV0", "kid": "shared", "alg": "HS256"},
        SigningKey("EdDSA").listed | {"use": "enc", "kid": "enc"},
        {**SigningKey("EdDSA").listed, "kid": None},
        {"kty": "RSA", "kid": "broken"},
        {"kid": "nothing"},
        "a text",
    ]
    issuer.answers["/keys"] = (200, {}, json.dumps({"keys": listed}).encode())
    keys = Keys(issuer.url, clock=Clock())
    assert await keys.get(good.kid) is not None
    found = [await keys.get(kid) for kid in (other.kid, "shared", "enc", "broken", "nothing", "")]
    assert found == [None] * 6
