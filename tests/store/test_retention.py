"""Conversations are kept as long as they are to be, and no running turn is touched. Source: issue 9 item 6."""

from collections.abc import AsyncGenerator

import pytest
from sqlalchemy import text

from app.store import audit, retention
from app.store.audit import AuditFilter
from app.store.engine import Database
from app.store.ids import new_id
from app.turn import keeping
from app.turn.keeping import Keeping
from tests.harness.postgres import PostgresServer

TALK = (
    """INSERT INTO conversations (id, owner, base_id, title, updated_at)
    SELECT CAST(:c AS uuid), 'ann', id, 'T', now() - make_interval(secs => 86400 * CAST(:days AS float))
    FROM bases WHERE name = 'default'""",
    """INSERT INTO messages (id, conversation_id, position, role, content)
    VALUES (CAST(:m AS uuid), CAST(:c AS uuid), 1, 'user', 'Q')""",
    """INSERT INTO turns (id, conversation_id, question_id, owner, status, lease_until)
    VALUES (CAST(:t AS uuid), CAST(:c AS uuid), CAST(:m AS uuid), 'ann', :status, now())""",
)


@pytest.fixture
async def own(postgres: PostgresServer) -> AsyncGenerator[Database]:
    """A database of the test's own."""
    async with postgres.new_database() as url:
        database = Database(url)
        try:
            yield database
        finally:
            await database.aclose()


async def talk(database: Database, *, days: float, status: str = "done") -> str:
    """A conversation whose last message is so old, with one turn."""
    ids = {"c": new_id(), "m": new_id(), "t": new_id(), "days": days, "status": status}
    async with database.begin() as connection:
        for statement in TALK:
            await connection.execute(text(statement), ids)
    return str(ids["c"])


async def left(database: Database) -> set[str]:
    async with database.read() as connection:
        return {str(found) for found in (await connection.execute(text("SELECT id FROM conversations"))).scalars()}


async def test_what_is_older_is_deleted_in_batches_and_audited(own: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the last message, to the day; a conversation in which a turn runs stays, however old."""
    monkeypatch.setattr(keeping, "BATCH", 2)
    old = {await talk(own, days=days) for days in (30.1, 31, 400, 401, 402)}
    young, running = await talk(own, days=29.9), await talk(own, days=500, status="running")
    assert await Keeping(own, days=None).look() == 0
    assert await left(own) == {*old, young, running}
    assert await Keeping(own, days=30).look() == 5
    assert await left(own) == {young, running}
    lines = await audit.find(own, AuditFilter(action="conversation.expired"), limit=9)
    assert {line.object_id for line in lines} == old
    assert {(line.who, line.base, str(line.detail)) for line in lines} == {("retention", "default", "{'days': 30}")}


async def test_one_process_at_a_time_deletes_and_who_asks_just_then_is_not_waited_for(own: Database) -> None:
    """The other does nothing; a row that an admission holds is passed over."""
    asked, old = await talk(own, days=90), await talk(own, days=91)
    async with own.begin() as other:
        await other.execute(text(f"SELECT pg_advisory_xact_lock({retention.RETENTION_LOCK})"))
        assert await retention.expire(own, days=30, limit=9) == 0
    async with own.begin() as admission:
        await admission.execute(
            text("UPDATE conversations SET updated_at = now() WHERE id = CAST(:c AS uuid)"), {"c": asked}
        )
        assert await retention.expire(own, days=30, limit=9) == 1
    assert await left(own) == {asked}
    assert old != asked
