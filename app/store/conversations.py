"""Conversations and their messages, as they are read, renamed and deleted. Messages are written by store/turns.py.

Everything is asked for together with its owner: what belongs to somebody else isn't there.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row, select, text
from sqlalchemy.dialects.postgresql import JSONB

from app.store import tables
from app.store.audit import Action
from app.store.engine import Database


@dataclass(frozen=True, slots=True)
class ConversationRecord:
    id: str
    base: str
    title: str
    created_at: datetime
    updated_at: datetime
    message_count: int


@dataclass(frozen=True, slots=True)
class MessageRecord:
    """A stored message; steps, sources and cited are the frames' data, tool_exchange the neutral protocol shape."""

    id: str
    role: str
    content: str
    steps: list[dict[str, Any]]
    sources: list[dict[str, Any]]
    resolved: list[dict[str, Any]]
    tool_exchange: list[dict[str, Any]]
    evidence: str | None
    cited: list[int]
    stopped: bool
    error_code: str | None
    error_message: str | None
    model: str | None
    usage: dict[str, Any] | None
    turn_id: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class PastMessage:
    """A message as the next turn needs it: sources and exchange only with the latest answer."""

    role: str
    content: str
    stopped: bool
    error_code: str | None
    resolved: list[dict[str, Any]]
    sources: list[dict[str, Any]]
    tool_exchange: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class LatestTurn:
    """A conversation's latest turn, and whether it runs."""

    turn_id: str
    running: bool


@dataclass(frozen=True, slots=True)
class FinishedTurn:
    """How a turn that is over ended, for a request that comes back to it."""

    status: str
    conversation_id: str
    title: str
    question_id: str
    last_seq: int
    answer: MessageRecord


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which of an owner's conversations: with `query` in title or message, and in these bases, None for every base."""

    query: str | None
    bases: tuple[str, ...] | None


_COUNT = "(SELECT count(*) FROM messages m WHERE m.conversation_id = c.id)"

_REACHED = "(CAST(:bases AS uuid[]) IS NULL OR c.base_id = ANY(CAST(:bases AS uuid[])))"

_MATCHES = f"""
c.owner = :owner AND {_REACHED} AND (CAST(:q AS text) IS NULL OR c.title ILIKE :q
    OR EXISTS (SELECT 1 FROM messages s WHERE s.conversation_id = c.id AND s.content ILIKE :q))
"""  # noqa: S608 - only constants of this module are put together

_LIST = text(f"""
SELECT c.id, b.name AS base, c.title, c.created_at, c.updated_at, {_COUNT} AS message_count,
       count(*) OVER () AS total
FROM conversations c JOIN bases b ON b.id = c.base_id
WHERE {_MATCHES}
ORDER BY c.updated_at DESC, c.id DESC LIMIT :limit OFFSET :offset
""")  # noqa: S608 - only constants of this module are put together

_TOTAL = text(f"SELECT count(*) FROM conversations c WHERE {_MATCHES}")  # noqa: S608

_ONE = text(f"""
SELECT c.id, b.name AS base, c.title, c.created_at, c.updated_at, {_COUNT} AS message_count
FROM conversations c JOIN bases b ON b.id = c.base_id
WHERE c.id = CAST(:id AS uuid) AND c.owner = :owner AND {_REACHED}
""")  # noqa: S608

_LATEST = text("""
SELECT id, status = 'running' AS running FROM turns WHERE conversation_id = CAST(:id AS uuid)
ORDER BY status = 'running' DESC, created_at DESC LIMIT 1
""")

_RUNNING = text("SELECT id FROM turns WHERE conversation_id = CAST(:id AS uuid) AND status = 'running'")

_PAST = text("""
WITH recent AS (
    SELECT position, role, content, stopped, error_code, resolved, sources, tool_exchange,
           max(position) FILTER (WHERE role = 'assistant') OVER () AS latest
    FROM messages
    WHERE conversation_id = CAST(:id AS uuid)
      AND position < (SELECT position FROM messages WHERE id = CAST(:question_id AS uuid))
    ORDER BY position DESC LIMIT :limit
)
SELECT role, content, stopped, error_code, resolved,
       CASE WHEN position = latest THEN sources ELSE '[]' END AS sources,
       CASE WHEN position = latest THEN tool_exchange ELSE '[]' END AS tool_exchange
FROM recent ORDER BY position
""").columns(resolved=JSONB, sources=JSONB, tool_exchange=JSONB)

RECENT = "(t.finished_at IS NULL OR t.finished_at > now() - interval '5 minutes')"
"""Turns `t` that run or ended so lately that their live log may still be kept."""

_DELETE = text(f"""
WITH gone AS (
    DELETE FROM conversations WHERE id = CAST(:id AS uuid) AND owner = :owner RETURNING id, owner, base_id
), line AS (
    INSERT INTO audit (who, action, base_id, base, object)
    SELECT g.owner, '{Action.CONVERSATION_DELETED}', b.id, b.name, CAST(g.id AS text)
    FROM gone g JOIN bases b ON b.id = g.base_id
)
SELECT t.id AS turn_id FROM gone g LEFT JOIN turns t ON t.conversation_id = g.id AND {RECENT}
""")  # noqa: S608 - only constants are put together

_FINISHED = text("""
SELECT t.status, t.conversation_id, t.question_id, t.last_seq, c.title, t.answer_id
FROM turns t JOIN conversations c ON c.id = t.conversation_id
WHERE t.id = CAST(:turn_id AS uuid) AND c.owner = :owner AND t.status <> 'running'
""")


async def find(
    database: Database, owner: str, wanted: Wanted, *, limit: int, offset: int
) -> tuple[list[ConversationRecord], int]:
    """The owner's conversations that are wanted, latest first, and how many there are in all."""
    pattern = None if not wanted.query else f"%{_escape(wanted.query)}%"
    bases = None if wanted.bases is None else list(wanted.bases)
    parameters = {"owner": owner, "q": pattern, "bases": bases, "limit": limit, "offset": offset}
    async with database.read() as connection:
        rows = (await connection.execute(_LIST, parameters)).all()
        total = rows[0].total if rows else (await connection.execute(_TOTAL, parameters)).scalar_one()
    return [_conversation(row) for row in rows], total


async def get(
    database: Database, owner: str, conversation_id: str, *, bases: tuple[str, ...] | None = None
) -> ConversationRecord | None:
    """The owner's conversation, if it is in one of these bases; None for every base."""
    parameters = {"id": conversation_id, "owner": owner, "bases": None if bases is None else list(bases)}
    async with database.single() as connection:
        row = (await connection.execute(_ONE, parameters)).one_or_none()
    return _conversation(row) if row else None


async def messages(database: Database, conversation_id: str) -> list[MessageRecord]:
    """All messages of a conversation, oldest first. The caller has checked whose it is."""
    of = tables.messages.c.conversation_id == conversation_id
    statement = select(tables.messages).where(of).order_by(tables.messages.c.position)
    async with database.single() as connection:
        rows = (await connection.execute(statement)).all()
    return [_message(row) for row in rows]


async def running_turn(database: Database, conversation_id: str) -> str | None:
    """The id of the turn that runs in the conversation, in whichever process."""
    async with database.single() as connection:
        found = (await connection.execute(_RUNNING, {"id": conversation_id})).scalar_one_or_none()
    return None if found is None else str(found)


async def latest_turn(database: Database, conversation_id: str) -> LatestTurn | None:
    """The turn that a tab of the conversation would attach to: the running one, else the last one."""
    async with database.single() as connection:
        row = (await connection.execute(_LATEST, {"id": conversation_id})).one_or_none()
    return None if row is None else LatestTurn(str(row.id), row.running)


async def past(database: Database, conversation_id: str, question_id: str, limit: int) -> list[PastMessage]:
    """At most `limit` messages before the question, oldest first."""
    parameters = {"id": conversation_id, "question_id": question_id, "limit": limit}
    async with database.single() as connection:
        rows = (await connection.execute(_PAST, parameters)).all()
    return [
        PastMessage(r.role, r.content, r.stopped, r.error_code, r.resolved, r.sources, r.tool_exchange) for r in rows
    ]


async def finished_turn(database: Database, owner: str, turn_id: str) -> FinishedTurn | None:
    """A turn that is over, with its stored answer; None while it runs, and when it isn't there."""
    async with database.read() as connection:
        row = (await connection.execute(_FINISHED, {"turn_id": turn_id, "owner": owner})).one_or_none()
        if row is None or row.answer_id is None:
            return None
        of = tables.messages.c.id == str(row.answer_id)
        answer = (await connection.execute(select(tables.messages).where(of))).one_or_none()
    if answer is None:
        return None
    return FinishedTurn(
        row.status, str(row.conversation_id), row.title, str(row.question_id), row.last_seq or 0, _message(answer)
    )


async def rename(database: Database, owner: str, conversation_id: str, title: str) -> bool:
    """Give it another title; False when it isn't there. Its place in the list stays."""
    statement = text("UPDATE conversations SET title = :title WHERE id = CAST(:id AS uuid) AND owner = :owner")
    parameters = {"title": title, "id": conversation_id, "owner": owner}
    async with database.begin() as connection:
        return (await connection.execute(statement, parameters)).rowcount == 1


async def delete(database: Database, owner: str, conversation_id: str) -> tuple[str, ...] | None:
    """Delete it with its messages and turns; gives the ids of turns whose live log may still be kept.

    None where it isn't there.
    """
    async with database.single() as connection:
        rows = (await connection.execute(_DELETE, {"id": conversation_id, "owner": owner})).all()
    return tuple(str(row.turn_id) for row in rows if row.turn_id is not None) if rows else None


def _escape(pattern: str) -> str:
    return pattern.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _conversation(row: Row[Any]) -> ConversationRecord:
    return ConversationRecord(str(row.id), row.base, row.title, row.created_at, row.updated_at, row.message_count)


def _message(row: Row[Any]) -> MessageRecord:
    return MessageRecord(
        id=str(row.id),
        role=row.role,
        content=row.content,
        steps=row.steps,
        sources=row.sources,
        resolved=row.resolved,
        tool_exchange=row.tool_exchange,
        evidence=row.evidence,
        cited=row.cited,
        stopped=row.stopped,
        error_code=row.error_code,
        error_message=row.error_message,
        model=row.model,
        usage=row.usage,
        turn_id=None if row.turn_id is None else str(row.turn_id),
        created_at=row.created_at,
    )
