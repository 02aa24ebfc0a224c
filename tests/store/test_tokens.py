"""Tokens, members and sessions as they are stored: what counts, and what a deleted base leaves."""

from app.auth.secret import digest, fresh
from app.store import bases, members, sessions, tokens
from app.store.engine import Database
from app.store.ids import new_id
from app.store.sessions import SessionRecord
from app.store.tokens import LiveToken, NewToken


async def base(database: Database) -> tuple[str, str]:
    made = await bases.create(database, name := f"base-{new_id()}")
    assert made is not None
    return made.id, name


def new(name: str, *, limits: tuple[str, ...] | None = None, days: int | None = None) -> NewToken:
    return NewToken(new_id(), name, "ann", "write", digest(fresh("ts")), limits, days)


async def test_a_name_is_taken_while_its_token_counts(database: Database) -> None:
    """And free once that is revoked, by name or by id; the revoked one is still listed."""
    name = new_id()
    first, second = new(name), new(name)
    assert await tokens.add(database, first)
    assert not await tokens.add(database, second)
    assert await tokens.revoke(database, first.id) == name
    assert await tokens.revoke(database, first.id) is None
    assert await tokens.add(database, second)
    assert await tokens.by_hash(database, first.secret_hash) is None
    found = await tokens.by_hash(database, second.secret_hash)
    assert found == LiveToken(second.id, name, "ann", "write", None, None) == await tokens.by_id(database, second.id)
    listed = [token for token in await tokens.list_all(database) if token.name == name]
    assert [(token.id, token.revoked_at is None) for token in listed] == [(first.id, False), (second.id, True)]


async def test_a_token_that_is_limited_to_bases_never_becomes_one_for_all(database: Database) -> None:
    """Its bases are kept when they are renamed and leave nothing when they are deleted."""
    (one, name), (two, _) = await base(database), await base(database)
    token = new(new_id(), limits=(one, two))
    await tokens.add(database, token)
    await bases.change(database, name, new_name=f"renamed-{new_id()}")
    found = await tokens.by_hash(database, token.secret_hash)
    assert found is not None
    assert set(found.bases or ()) == {one, two}
    for record in await bases.list_all(database):
        if record.id in (one, two):
            await bases.delete(database, record.name)
    found = await tokens.by_hash(database, token.secret_hash)
    assert found is not None
    assert found.bases == ()


async def test_a_token_says_how_long_it_still_counts(database: Database) -> None:
    """By the database's clock."""
    token = new(new_id(), days=2)
    await tokens.add(database, token)
    found = await tokens.by_hash(database, token.secret_hash)
    assert found is not None
    assert found.left_s is not None
    assert 2 * 86_400 - 60 < found.left_s <= 2 * 86_400


async def test_a_use_is_noted_for_the_tokens_that_were_used(database: Database) -> None:
    """One statement for all of them."""
    used, unused = new(new_id()), new(new_id())
    for token in (used, unused):
        await tokens.add(database, token)
    await tokens.used(database, {used.id})
    noted = {token.id: token.last_used_at is not None for token in await tokens.list_all(database)}
    assert (noted[used.id], noted[unused.id]) == (True, False)


async def test_a_session_ends_with_its_time_and_with_its_token(database: Database) -> None:
    """What is over is forgotten when the next one begins."""
    token = new(new_id())
    await tokens.add(database, token)
    kept, over = digest(fresh("tsc")), digest(fresh("tsc"))
    await sessions.add(database, over, SessionRecord(None, "ann", "read", -1))
    await sessions.add(database, kept, SessionRecord(token.id, "ann", "write", 60))
    assert await sessions.get(database, over) is None
    found = await sessions.get(database, kept)
    assert found is not None
    assert (found.token_id, found.owner, found.scope, 0 < found.left_s <= 60) == (token.id, "ann", "write", True)
    await sessions.end(database, kept)
    assert await sessions.get(database, kept) is None


async def test_members_are_of_one_base_and_end_with_it(database: Database) -> None:
    """A second role takes the first one's place; `*` is everybody."""
    (one, name), owner = await base(database), f"{new_id()}@issuer"
    await members.put(database, one, owner, role="read", added_by="root")
    put = await members.put(database, one, owner, role="write", added_by="root")
    await members.put(database, one, "*", role="read", added_by="root")
    assert (await members.list_all(database, one))[0] == put
    assert sorted(await members.of_owner(database, owner)) == sorted([(one, "read"), (one, "write")])
    assert await members.remove(database, one, owner)
    assert not await members.remove(database, one, owner)
    await bases.delete(database, name)
    assert await members.of_owner(database, owner) == []
