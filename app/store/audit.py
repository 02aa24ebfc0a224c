"""The audit: who changed what and when, written with the change itself, in its transaction. Source: decision 0021.

Decides which actions there are and what a line may hold: ids, names of bases, tokens and members, roles and counts;
never a text of a message, a document or a fact. A trigger lets the table only grow; `prune` is the one way out, for
whoever owns the table, by hand.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.engine import Database

LOCAL = "local"
"""Who works at the server's own machine, by its commands or where nobody is asked who they are."""
RETENTION = "retention"
"""The server itself, when it deletes what is older than it is to keep."""


class Action(StrEnum):
    """What can be audited."""

    BASE_CREATED = "base.created"
    BASE_CHANGED = "base.changed"
    BASE_DELETED = "base.deleted"
    MEMBER_SET = "member.set"
    MEMBER_REMOVED = "member.removed"
    DOCUMENT_UPLOADED = "document.uploaded"
    DOCUMENT_DELETED = "document.deleted"
    FACT_RECORDED = "fact.recorded"
    FACT_CORRECTED = "fact.corrected"
    FACT_REJECTED = "fact.rejected"
    ENTITY_MERGED = "entity.merged"
    PROPOSAL_REMEMBERED = "proposal.remembered"
    PROPOSAL_ACCEPTED = "proposal.accepted"
    PROPOSAL_REFUSED = "proposal.refused"
    CONVERSATION_DELETED = "conversation.deleted"
    CONVERSATION_EXPIRED = "conversation.expired"
    TOKEN_CREATED = "token.created"  # noqa: S105 - the name of an action
    TOKEN_REVOKED = "token.revoked"  # noqa: S105
    BACKUP_RESTORED = "backup.restored"
    AUDIT_PRUNED = "audit.pruned"


@dataclass(frozen=True, slots=True)
class Line:
    """What was done, to what. `object_id` is None where the base itself, or nothing with an id, was changed."""

    who: str
    action: Action
    base_id: str | None = None
    object_id: str | None = None
    detail: dict[str, object] = field(default_factory=dict[str, object])


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """A line as it is stored; `base` is the base's name at the time."""

    id: int
    at: datetime
    who: str
    action: str
    base_id: str | None
    base: str | None
    object_id: str | None
    detail: dict[str, Any]


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which lines are asked for; what is None doesn't matter. `before` is an id: lines older than that one."""

    who: str | None = None
    action: str | None = None
    base: str | None = None
    object_id: str | None = None
    since: datetime | None = None
    before: int | None = None


_WRITE = text("""
INSERT INTO audit (who, action, base_id, base, object, detail)
SELECT n.who, n.action, n.base_id, (SELECT b.name FROM bases b WHERE b.id = n.base_id), n.object,
       CAST(n.detail AS jsonb)
FROM unnest(CAST(:who AS text[]), CAST(:actions AS text[]), CAST(:base_ids AS uuid[]), CAST(:objects AS text[]),
            CAST(:details AS text[])) WITH ORDINALITY AS n (who, action, base_id, object, detail, place)
ORDER BY n.place
""")

_FIND = text("""
SELECT id, at, who, action, base_id, base, object, detail FROM audit
WHERE (CAST(:who AS text) IS NULL OR who = :who)
  AND (CAST(:action AS text) IS NULL OR action = :action)
  AND (CAST(:base AS text) IS NULL OR base = :base)
  AND (CAST(:object_id AS text) IS NULL OR object = :object_id)
  AND (CAST(:since AS timestamptz) IS NULL OR at >= :since)
  AND (CAST(:before AS bigint) IS NULL OR id < :before)
ORDER BY id DESC LIMIT :limit
""")

_LET_DELETE = text("ALTER TABLE audit DISABLE TRIGGER audit_only_grows")
_PRUNE = text("DELETE FROM audit WHERE at < now() - make_interval(days => :days)")
_ONLY_GROW = text("ALTER TABLE audit ENABLE ALWAYS TRIGGER audit_only_grows")


async def write(connection: AsyncConnection, lines: Sequence[Line]) -> None:
    """Put lines into the caller's transaction: they stand if what they tell of does."""
    if not lines:
        return
    await connection.execute(
        _WRITE,
        {
            "who": [line.who for line in lines],
            "actions": [line.action.value for line in lines],
            "base_ids": [line.base_id for line in lines],
            "objects": [line.object_id for line in lines],
            "details": [json.dumps(line.detail, ensure_ascii=False) for line in lines],
        },
    )


async def find(database: Database, wanted: AuditFilter, *, limit: int) -> list[AuditRecord]:
    """Lines, newest first."""
    parameters = {name: getattr(wanted, name) for name in AuditFilter.__dataclass_fields__} | {"limit": limit}
    async with database.single() as connection:
        rows = (await connection.execute(_FIND, parameters)).all()
    return [_record(row) for row in rows]


async def prune(database: Database, *, days: int, who: str) -> int:
    """Delete the lines older than so many days, and leave one that says so; how many there were.

    Everybody who changes something waits meanwhile: the table is locked, since the trigger is off for the transaction.
    """
    async with database.begin() as connection:
        await connection.execute(_LET_DELETE)
        pruned = (await connection.execute(_PRUNE, {"days": days})).rowcount
        await connection.execute(_ONLY_GROW)
        await write(connection, [Line(who, Action.AUDIT_PRUNED, detail={"days": days, "lines": pruned})])
    return pruned


def _record(row: Row[Any]) -> AuditRecord:
    base_id = None if row.base_id is None else str(row.base_id)
    return AuditRecord(row.id, row.at, row.who, row.action, base_id, row.base, row.object, row.detail)
