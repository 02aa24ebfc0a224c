"""Tokens of an OpenID issuer: who is believed, what they may, and who is a member of a base. Source: issue 9 item 1.

The issuer is a small one of our own (tests/harness/issuer.py).
"""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import jwt
import pytest
from sqlalchemy import URL

from tests.harness.app import App, running_app
from tests.harness.issuer import AUDIENCE, Issuer, SigningKey
from tests.harness.postgres import PostgresServer

READ, WRITE, ADMIN = "turnstream:read", "openid turnstream:write", "turnstream:admin"
PAGE = {"X-Turnstream": "page"}


@pytest.fixture(scope="module")
async def issuer() -> AsyncGenerator[Issuer, None]:
    """One with a key of each kind that is believed, and one that isn't."""
    keys = [SigningKey(algorithm) for algorithm in ("EdDSA", "ES256", "RS256", "RS512")]
    async with Issuer(*keys) as running:
        yield running


@pytest.fixture(scope="module")
async def house(postgres: PostgresServer, issuer: Issuer) -> AsyncGenerator[App, None]:
    async with postgres.new_database() as url, guarded(url, issuer) as app:
        yield app


def guarded(url: URL, issuer: Issuer, **settings: Any) -> AbstractAsyncContextManager[App]:
    return running_app(url, auth="oidc", oidc_issuer=issuer.url, oidc_audience=AUDIENCE, **settings)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize("number", range(3))
async def test_each_allowed_signature_is_believed(house: App, issuer: Issuer, number: int) -> None:
    """EdDSA, ES256, RS256; the owner is the subject at the issuer."""
    token = issuer.token(issuer.keys[number], sub="ann", scope=READ)
    told = (await house.http.get("/api/session", headers=bearer(token))).json()
    assert told == {"auth": "oidc", "owner": f"ann@{issuer.url}", "scope": "read"}


def forged_with_the_public_key(issuer: Issuer) -> str:
    """HS256 with the bytes of the listed key as the secret: what a library signs without looking at the algorithm."""
    header = {"alg": "HS256", "typ": "JWT", "kid": issuer.keys[0].kid}
    claims = {"iss": issuer.url, "aud": AUDIENCE, "sub": "ann", "exp": int(time.time()) + 300, "scope": ADMIN}
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in (header, claims)]
    secret = base64.urlsafe_b64decode(issuer.keys[0].listed["x"] + "=")
    signature = hmac.new(secret, b".".join(parts), hashlib.sha256).digest()
    return b".".join([*parts, base64.urlsafe_b64encode(signature).rstrip(b"=")]).decode()


def unsigned(issuer: Issuer) -> str:
    claims = {"iss": issuer.url, "aud": AUDIENCE, "sub": "ann", "exp": int(time.time()) + 300, "scope": ADMIN}
    return jwt.encode(claims, "", algorithm="none", headers={"kid": issuer.keys[0].kid})


def tampered(issuer: Issuer) -> str:
    head, _, signature = issuer.token(scope=READ).split(".")
    claims = {"iss": issuer.url, "aud": AUDIENCE, "sub": "ann", "exp": int(time.time()) + 300, "scope": ADMIN}
    return f"{head}.{base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b'=').decode()}.{signature}"


BAD: dict[str, tuple[Callable[[Issuer], str], str]] = {
    "expired": (lambda i: i.token(exp=int(time.time()) - 31, scope=ADMIN), "it has expired"),
    "not yet": (lambda i: i.token(nbf=int(time.time()) + 60, scope=ADMIN), "it isn't valid yet"),
    "of tomorrow": (lambda i: i.token(iat=int(time.time()) + 60, scope=ADMIN), "it isn't valid yet"),
    "other audience": (lambda i: i.token(aud="another", scope=ADMIN), "it is for another audience"),
    "no audience": (lambda i: i.token(aud=None, scope=ADMIN), "its claim aud is missing"),
    "other issuer": (lambda i: i.token(iss="https://evil.example", scope=ADMIN), "it is from another issuer"),
    "no expiry": (lambda i: i.token(exp=None, scope=ADMIN), "its claim exp is missing"),
    "no subject": (lambda i: i.token(sub=None, scope=ADMIN), "its claim sub is missing"),
    "odd subject": (lambda i: i.token(sub="ann\u0000", scope=ADMIN), "printable"),
    "unsigned": (unsigned, "isn't signed with a named key"),
    "shared secret": (forged_with_the_public_key, "isn't signed with a named key"),
    "tampered": (tampered, "its signature is wrong"),
    "another's key": (lambda i: i.token(SigningKey("EdDSA"), scope=ADMIN), "a key that the issuer doesn't list"),
    "key under another's name": (
        lambda i: i.token(SigningKey("EdDSA"), {"kid": i.keys[0].kid}, scope=ADMIN),
        "its signature is wrong",
    ),
    "algorithm of no ours": (lambda i: i.token(i.keys[3], scope=ADMIN), "isn't signed with a named key"),
    "other algorithm than its key's": (
        lambda i: i.token(i.keys[2], {"kid": i.keys[0].kid}, scope=ADMIN),
        "it can't be read",
    ),
    "no key id": (lambda i: i.token(headers={"kid": ""}, scope=ADMIN), "a key that the issuer doesn't list"),
    "no token": (lambda _: "a.b.c", "no JWT"),
    "too long": (lambda i: i.token(scope=ADMIN, x="x" * 20_000), "longer than the 16384 characters"),
}


@pytest.mark.parametrize("kind", BAD)
async def test_what_proves_nothing_is_refused_with_the_reason(house: App, issuer: Issuer, kind: str) -> None:
    """RFC 8725: algorithm by the key, issuer, audience, times, and no token without an end."""
    make, reason = BAD[kind]
    refused = await house.http.get("/api/bases", headers=bearer(make(issuer)))
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "unauthenticated")
    assert reason in refused.json()["error"]["message"]


async def test_a_clock_that_is_half_a_minute_off_is_forgiven(house: App, issuer: Issuer) -> None:
    """Both ways; 31 seconds aren't, as above."""
    now = int(time.time())
    forgiven: list[dict[str, Any]] = [{"exp": now - 20}, {"nbf": now + 20, "iat": now + 20}]
    for claims in forgiven:
        answer = await house.http.get("/api/bases", headers=bearer(issuer.token(scope=READ, **claims)))
        assert answer.status_code == 200


async def test_a_token_that_allows_nothing_here_is_told_so(house: App, issuer: Issuer) -> None:
    """403: it counts, and its scopes are somebody else's."""
    for scope in (None, "", "openid admin", ["read"], 7):
        refused = await house.http.get("/api/bases", headers=bearer(issuer.token(scope=scope)))
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")


@pytest.mark.parametrize(
    ("path", "claims"),
    [
        ("groups", {"groups": ["staff", "kb-admins"]}),
        ("realm_access.roles", {"realm_access": {"roles": ["kb-admins"]}}),
        ("https://kb.example/roles", {"https://kb.example/roles": "kb-admins other"}),
    ],
)
async def test_scopes_are_read_from_the_claim_that_is_configured(
    postgres: PostgresServer, issuer: Issuer, path: str, claims: dict[str, Any]
) -> None:
    """A list or words; by a path of names, or a name with dots of its own. Other values grant nothing."""
    async with (
        postgres.new_database() as url,
        guarded(url, issuer, oidc_scope_claim=path, oidc_admin_scope="kb-admins") as app,
    ):
        told = (await app.http.get("/api/session", headers=bearer(issuer.token(**claims)))).json()
        assert told["scope"] == "admin"
        refused = await app.http.get("/api/session", headers=bearer(issuer.token(scope=ADMIN)))
        assert refused.status_code == 403


async def test_members_see_a_base_as_far_as_their_role_and_their_token_both_allow(house: App, issuer: Issuer) -> None:
    """Nobody sees it before; writing needs the role and the scope; a membership that ends takes conversations along."""
    admin = bearer(issuer.token(sub="root", scope=ADMIN))
    may_write, may_read = (bearer(issuer.token(sub="ann", scope=scope)) for scope in (WRITE, READ))
    await house.http.post("/api/bases", json={"name": "club"}, headers=admin)
    files = {"file": ("a.md", b"Words.")}
    members = "/api/bases/club/members"
    owner = f"ann@{issuer.url}"

    async def seen(token: dict[str, str]) -> tuple[list[str], int, int]:
        listed = (await house.http.get("/api/bases", headers=token)).json()["bases"]
        detail = await house.http.get("/api/bases/club", headers=token)
        upload = await house.http.post("/api/bases/club/documents", files=files, headers=token)
        return [base["name"] for base in listed], detail.status_code, upload.status_code

    assert await seen(may_write) == ([], 404, 404)
    put = await house.http.put(members, json={"owner": owner, "role": "read"}, headers=admin)
    assert put.json() | {"created_at": ""} == {
        "owner": owner,
        "role": "read",
        "added_by": f"root@{issuer.url}",
        "created_at": "",
    }
    assert await seen(may_write) == (["club"], 200, 403)
    house.http.headers.update(may_read)
    turn = await house.ask("Who?", base="club")
    del house.http.headers["Authorization"]
    await house.http.put(members, json={"owner": owner, "role": "write"}, headers=admin)
    assert await seen(may_read) == (["club"], 200, 403)
    assert await seen(may_write) == (["club"], 200, 202)
    conversation = f"/api/conversations/{turn.conversation_id}"
    assert (await house.http.get(conversation, headers=may_read)).status_code == 200
    assert (await house.http.get(conversation, headers=admin)).status_code == 404
    gone = await house.http.delete(members, params={"owner": owner}, headers=admin)
    assert (gone.status_code, (await house.http.get(members, headers=admin)).json()) == (204, {"members": []})
    assert await seen(may_write) == ([], 404, 404)
    assert (await house.http.get(conversation, headers=may_read)).status_code == 404
    again = await house.http.delete(members, params={"owner": owner}, headers=admin)
    assert (again.status_code, again.json()["error"]["code"]) == (404, "not_found")


async def test_a_base_can_be_for_everybody_who_signs_in(house: App, issuer: Issuer) -> None:
    """The member `*`; somebody's own role counts where it is the greater one."""
    admin = bearer(issuer.token(sub="root", scope=ADMIN))
    await house.http.post("/api/bases", json={"name": "hall"}, headers=admin)
    for owner, role in (("*", "read"), (f"bob@{issuer.url}", "write")):
        await house.http.put("/api/bases/hall/members", json={"owner": owner, "role": role}, headers=admin)
    files = {"file": ("a.md", b"Words.")}
    uploaded = {
        name: (
            await house.http.post(
                "/api/bases/hall/documents", files=files, headers=bearer(issuer.token(sub=name, scope=WRITE))
            )
        ).status_code
        for name in ("bob", "cid")
    }
    assert uploaded == {"bob": 202, "cid": 403}


async def test_the_page_logs_in_with_a_token_that_is_pasted_and_no_longer_than_it_lasts(
    house: App, issuer: Issuer
) -> None:
    """The cookie's login has the token's owner and scope."""
    token = issuer.token(sub="ann", scope=READ, exp=int(time.time()) + 120)
    login = await house.http.post("/api/session", json={"token": f" {token}\n"}, headers=PAGE)
    house.http.cookies.clear()
    [age] = [part for part in login.headers["set-cookie"].split("; ") if part.startswith("Max-Age=")]
    assert 100 <= int(age.removeprefix("Max-Age=")) <= 150
    cookie = {"Cookie": login.headers["set-cookie"].split(";")[0]}
    told = (await house.http.get("/api/session", headers=cookie)).json()
    assert told == {"auth": "oidc", "owner": f"ann@{issuer.url}", "scope": "read"}
    [row] = await house.rows("SELECT token_id FROM sessions")
    assert row.token_id is None


async def test_a_key_that_is_new_is_fetched_when_a_token_needs_it(postgres: PostgresServer) -> None:
    """And a token of a withdrawn key isn't believed from then on."""
    async with Issuer() as issuer, postgres.new_database() as url, guarded(url, issuer) as app:
        old = bearer(issuer.token(scope=READ))
        assert (await app.http.get("/api/bases", headers=old)).status_code == 200
        issuer.rotate()
        gate: Any = app.parts.gate
        gate._keys._asked_at -= 60  # a minute later
        assert (await app.http.get("/api/bases", headers=bearer(issuer.token(scope=READ)))).status_code == 200
        assert (await app.http.get("/api/bases", headers=old)).status_code == 401
        assert issuer.asked == ["/.well-known/openid-configuration", "/keys"] * 2


async def test_an_issuer_that_is_away_is_said_to_be(postgres: PostgresServer) -> None:
    """503 with a time to come back, under /v1 in OpenAI's shape; nobody is let in meanwhile."""
    async with Issuer() as issuer, postgres.new_database() as url, guarded(url, issuer) as app:
        issuer.answers["/keys"] = (503, {}, b"")
        for path in ("/api/bases", "/v1/models"):
            refused = await app.http.get(path, headers=bearer(issuer.token(scope=READ)))
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "issuer_unavailable")
            assert refused.headers["retry-after"] == "5"
