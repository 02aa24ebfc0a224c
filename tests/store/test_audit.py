"""The audit only grows, and holds what its transaction did. Source: issue 9 item 6, decision 0021."""

from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest
from sqlalchemy import text
from sqlalchemy.exc import ProgrammingError

from app.errors import AppError
from app.knowledge import corrections
from app.store import audit, bases, members, proposals, tokens
from app.store.audit import Action, AuditFilter, Line
from app.store.engine import Database
from app.store.ids import new_id
from app.store.proposals import NewProposal
from app.store.tokens import NewToken
from tests.harness.postgres import PostgresServer, run_sql


@pytest.fixture(scope="module")
async def own(postgres: PostgresServer) -> AsyncGenerator[Database]:
    """A database whose audit nobody else writes."""
    async with postgres.new_database() as url:
        database = Database(url)
        try:
            yield database
        finally:
            await database.aclose()


async def lines(
    database: Database, *, who: str | None = None, base: str | None = None
) -> list[tuple[str, str, str | None]]:
    found = await audit.find(database, AuditFilter(who, base=base), limit=1_000)
    return [(line.who, line.action, line.base) for line in found]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit SET who = 'nobody'",
        "UPDATE audit SET who = 'nobody' WHERE false",
        "DELETE FROM audit",
        "TRUNCATE audit",
        "SET session_replication_role = replica; DELETE FROM audit",
    ],
)
async def test_no_statement_changes_a_line(own: Database, statement: str) -> None:
    """Not even one of a superuser that switches ordinary triggers off."""
    *before, last = statement.split("; ")
    async with own.engine.connect() as connection:
        for said in before:
            await connection.execute(text(said))
        with pytest.raises(ProgrammingError, match="the audit only grows"):
            await connection.execute(text(last))


async def test_a_line_stands_if_what_it_tells_of_does(own: Database) -> None:
    """A nod at what can't be recorded leaves neither a fact nor a line."""
    name = f"n{new_id()}"
    made = await bases.create(own, name, by="ann")
    assert made is not None
    [waiting] = await proposals.propose(
        own, made.id, [NewProposal({"subject": "A"}, "A.", "remember", "bob", new_id())]
    )
    with pytest.raises(AppError):
        await corrections.accept(own, made.id, waiting.id, decided_by="cy")
    assert await lines(own, base=name) == [("bob", "proposal.remembered", name), ("ann", "base.created", name)]
    again = await proposals.propose(own, made.id, [NewProposal({"subject": "A"}, "A.", "extraction", "x", new_id())])
    assert len(again) == 1
    assert await lines(own, who="x") == []
    assert await bases.change(own, name, new_name=f"m{name}", by="ann")
    assert await bases.delete(own, f"m{name}", by="dan") is not None
    assert await lines(own, who="dan") == [("dan", "base.deleted", f"m{name}")]


async def test_members_and_tokens_leave_lines_with_names_and_roles_and_no_secret(own: Database) -> None:
    """Of a member the object is the owner; what removes nobody leaves nothing."""
    name = f"n{new_id()}"
    made = await bases.create(own, name)
    assert made is not None
    await members.put(own, made.id, "bob@issuer", role="read", added_by="eve")
    assert await members.remove(own, made.id, "bob@issuer", by="eve")
    assert not await members.remove(own, made.id, "bob@issuer", by="eve")
    token = NewToken(new_id(), name, "bob", "read", b"secret hash", (made.id,), None)
    assert await tokens.add(own, token, by="eve")
    assert not await tokens.add(own, replace(token, id=new_id(), secret_hash=b"other"), by="eve")
    assert await tokens.revoke(own, name, by="eve") == name
    assert await tokens.revoke(own, name, by="eve") is None
    found = await audit.find(own, AuditFilter("eve"), limit=9)
    assert [(line.action, line.object_id, line.detail) for line in found] == [
        ("token.revoked", token.id, {"name": name}),
        ("token.created", token.id, {"name": name, "owner": "bob", "scope": "read", "bases": [made.id]}),
        ("member.removed", "bob@issuer", {}),
        ("member.set", "bob@issuer", {"role": "read"}),
    ]


async def test_old_lines_go_only_by_the_operators_hand_which_leaves_a_line(own: Database) -> None:
    """And afterwards the table only grows again."""
    async with own.begin() as connection:
        await audit.write(
            connection,
            [Line("ann", Action.DOCUMENT_DELETED, None, "old"), Line("ann", Action.DOCUMENT_DELETED, None, "new")],
        )
        await connection.execute(text("ALTER TABLE audit DISABLE TRIGGER audit_only_grows"))
        await connection.execute(text("UPDATE audit SET at = now() - interval '11 days' WHERE object = 'old'"))
        await connection.execute(text("ALTER TABLE audit ENABLE ALWAYS TRIGGER audit_only_grows"))
    assert await audit.prune(own, days=10, who="local") == 1
    newest = (await audit.find(own, AuditFilter(), limit=1))[0]
    assert (newest.who, newest.action, newest.detail) == ("local", "audit.pruned", {"days": 10, "lines": 1})
    assert [line.object_id for line in await audit.find(own, AuditFilter(action="document.deleted"), limit=9)] == [
        "new"
    ]
    url = own.engine.url
    with pytest.raises(ProgrammingError, match="the audit only grows"):
        await run_sql(url, "DELETE FROM audit")
