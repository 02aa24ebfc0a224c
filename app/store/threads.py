"""Which conversation a caller means who names none and sends the messages so far instead, as OpenAI's clients do.

Nothing is written here; what isn't found begins a conversation with those messages (store/turns.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import text

from app.store.engine import Database

RECENT = 200
"""Among how many of the owner's latest conversations one is looked for."""
CANDIDATES = 20
"""How many of those that hold the same last answer are compared as a whole."""

BLANKS = 64
"""How many blanks around a stored answer may be missing in what a client sends. By its length, which is known without
reading it, an answer that can't be the one is passed over."""


@dataclass(frozen=True, slots=True)
class EarlierMessage:
    """A message that came before the question, as a caller tells it."""

    role: Literal["user", "assistant"]
    content: str


_SAME_LAST_ANSWER = text("""
WITH recent AS (
    SELECT c.id, c.updated_at FROM conversations c JOIN bases b ON b.id = c.base_id
    WHERE c.owner = :owner AND b.name = :base
    ORDER BY c.updated_at DESC, c.id DESC LIMIT :recent
)
SELECT r.id FROM recent r
WHERE EXISTS (SELECT 1 FROM messages m
              WHERE m.conversation_id = r.id AND m.role = 'assistant'
                AND octet_length(m.content) BETWEEN :bytes AND :bytes + :blanks
                AND btrim(m.content, E' \\t\\r\\n') = :last)
  AND NOT EXISTS (SELECT 1 FROM turns t WHERE t.conversation_id = r.id AND t.status = 'running')
ORDER BY r.updated_at DESC LIMIT :candidates
""")

_MESSAGES = text("""
SELECT conversation_id, role, content FROM messages
WHERE conversation_id = ANY(CAST(:ids AS uuid[])) ORDER BY conversation_id, position
""")


async def find(database: Database, owner: str, base: str, earlier: Sequence[EarlierMessage]) -> str | None:
    """The owner's latest conversation of the base that holds exactly these messages and in which nothing runs.

    Questions without an answer, and blanks around a text, don't count. None where there is none, and for no messages.
    """
    if not earlier or earlier[-1].role != "assistant":
        return None
    told = [(message.role, message.content.strip()) for message in earlier]
    parameters = {
        "owner": owner,
        "base": base,
        "last": told[-1][1],
        "bytes": len(told[-1][1].encode()),
        "blanks": BLANKS,
        "recent": RECENT,
        "candidates": CANDIDATES,
    }
    async with database.read() as connection:
        ids = [str(found) for found in (await connection.execute(_SAME_LAST_ANSWER, parameters)).scalars()]
        if not ids:
            return None
        rows = (await connection.execute(_MESSAGES, {"ids": ids})).all()
    held: dict[str, list[tuple[str, str]]] = {id_: [] for id_ in ids}
    for row in rows:
        held[str(row.conversation_id)].append((row.role, row.content))
    return next((id_ for id_ in ids if _answered(held[id_]) == told), None)


def _answered(messages: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The messages without questions that nothing answered, and without answers that hold no text."""
    out: list[tuple[str, str]] = []
    for role, content in messages:
        if role == "assistant" and not content.strip():
            continue
        if role == "user" and out and out[-1][0] == "user":
            out.pop()
        out.append((role, content.strip()))
    if out and out[-1][0] == "user":
        out.pop()
    return out
