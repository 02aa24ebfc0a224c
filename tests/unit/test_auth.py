"""Principals, secrets, and what is remembered of them."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.auth import secret
from app.auth.addresses import is_trustworthy
from app.auth.gate import MOST, Remembered
from app.auth.principal import LOCAL, Principal, Scope

SCOPES = st.sampled_from(Scope)
ROLES = st.dictionaries(st.sampled_from(["a", "b", "c"]), SCOPES)


@given(SCOPES, ROLES, st.sampled_from(["a", "b", "c", "d"]), SCOPES)
def test_what_is_allowed_in_a_base_is_the_lesser_of_token_and_role(
    scope: Scope, roles: dict[str, Scope], base: str, asked: Scope
) -> None:
    """`on` and `reach` say the same; a base without a role isn't there."""
    who = Principal("ann", scope, roles)
    assert who.on(base) == (min(scope, roles[base]) if base in roles else None)
    reach = who.reach(asked)
    assert reach is not None
    assert (base in reach) == ((who.on(base) or 0) >= asked)


@given(SCOPES, SCOPES)
def test_without_a_limit_every_base_is_reached_as_far_as_the_scope_goes(scope: Scope, asked: Scope) -> None:
    """None stands for all, an empty tuple for none."""
    who = Principal("ann", scope, None)
    assert (who.on("any"), who.reach(asked)) == (scope, None if scope >= asked else ())


def test_scopes_are_ordered_and_have_words() -> None:
    """Read before write before admin; any other word is none."""
    assert [scope.word for scope in sorted(Scope)] == ["read", "write", "admin"]
    assert [Scope.of(scope.word) for scope in Scope] == list(Scope)
    assert (LOCAL.owner, LOCAL.scope, LOCAL.bases) == ("local", Scope.ADMIN, None)
    with pytest.raises(KeyError):
        Scope.of("all")


def test_a_secret_has_256_bits_says_its_kind_and_is_kept_as_a_hash() -> None:
    """Each is another one, and one kind isn't taken for the other."""
    made = {secret.fresh("ts") for _ in range(100)}
    assert len(made) == 100
    for one in made:
        assert (len(one), one.startswith("ts_")) == (46, True)
        assert (secret.is_secret("ts", one), secret.is_secret("tsc", one)) == (True, False)
        assert secret.digest(one) == hashlib.sha256(one.encode()).digest()


@given(st.text())
def test_whatever_else_is_sent_is_no_secret(text: str) -> None:
    """So it is never looked up."""
    assert not secret.is_secret("ts", text)
    assert not secret.is_secret("ts", f"ts_{text}\n")


def test_what_is_remembered_is_forgotten_after_five_seconds_or_when_it_ends() -> None:
    """The bound on how long a revoked token is good for."""
    now = [100.0]
    remembered: Remembered[str] = Remembered(lambda: now[0])
    remembered.put("long", "a", left_s=None)
    remembered.put("short", "b", left_s=2.0)
    seen: list[tuple[str | None, str | None]] = []
    for moment in (101.9, 102.0, 104.9, 105.0):
        now[0] = moment
        seen.append((remembered.get("long"), remembered.get("short")))
    assert seen == [("a", "b"), ("a", None), ("a", None), (None, None)]


def test_not_more_is_remembered_than_there_is_room_for() -> None:
    """Somebody with many tokens can't fill the memory."""
    remembered: Remembered[int] = Remembered(lambda: 0.0)
    for n in range(MOST + 1):
        remembered.put(str(n), n, left_s=None)
    assert (remembered.get("0"), remembered.get(str(MOST))) == (None, MOST)
    remembered.forget(str(MOST))
    assert remembered.get(str(MOST)) is None


@pytest.mark.parametrize(
    ("url", "trustworthy"),
    [
        ("https://id.example", True),
        ("https://id.example:8443/realms/x", True),
        ("http://127.0.0.1:9000", True),
        ("http://localhost/keys", True),
        ("http://[::1]:1", True),
        ("http://id.example", False),
        ("http://10.0.0.1", False),
        ("http://127.0.0.1.evil.example", False),
        ("https://user@id.example", False),
        ("https://id.example?next=x", False),
        ("https://id.example#x", False),
        ("https://", False),
        ("https://id.example:99999", False),
        ("http://[::1", False),
        ("ftp://id.example", False),
        ("file:///etc/passwd", False),
        ("", False),
    ],
)
def test_keys_are_asked_for_only_where_nobody_on_the_way_can_change_them(url: str, trustworthy: bool) -> None:
    """https, or http on this machine."""
    assert is_trustworthy(url) is trustworthy
