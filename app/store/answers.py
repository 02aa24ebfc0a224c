"""The end of a turn: its answer stored and its row closed, in one statement, by the owner that still has it.

JSON columns take encoded JSON text. Source: DESIGN sections 5 and 8, case S09.
"""

from dataclasses import dataclass
from typing import Literal

from sqlalchemy import text

from app.store.engine import Database


@dataclass(frozen=True, slots=True)
class Answer:
    """What is saved when a turn ends, by the owner it names. The JSON fields are encoded JSON."""

    turn_id: str
    replica: str
    attempt: int
    answer_id: str
    status: str
    content: str
    steps: bytes
    sources: bytes
    resolved: bytes
    tool_exchange: bytes
    evidence: str | None
    cited: bytes
    stopped: bool
    error_code: str | None
    error_message: str | None
    model: str
    usage: bytes
    last_seq: int


_SAVE = text("""
WITH t AS (
    UPDATE turns SET status = :status, finished_at = now(), checkpoint = NULL,
                     error_code = :error_code, answer_id = CAST(:answer_id AS uuid), last_seq = :last_seq
    WHERE id = CAST(:turn_id AS uuid) AND status = 'running' AND replica = :replica AND attempt = :attempt
    RETURNING id, conversation_id, question_id
), pieces AS (
    DELETE FROM turn_pieces p USING t WHERE p.turn_id = t.id
), replaced AS (
    DELETE FROM messages a USING t, messages q
    WHERE q.id = t.question_id AND a.conversation_id = t.conversation_id AND a.position > q.position
      AND a.role = 'assistant' AND a.error_code IS NOT NULL
    RETURNING a.id
), m AS (
    INSERT INTO messages (id, conversation_id, position, role, content, steps, sources, resolved, tool_exchange,
                          evidence, cited, stopped, error_code, error_message, model, usage, turn_id)
    SELECT CAST(:answer_id AS uuid), t.conversation_id,
           coalesce((SELECT max(position) FROM messages WHERE conversation_id = t.conversation_id), 0) + 1,
           'assistant', :content, CAST(:steps AS jsonb), CAST(:sources AS jsonb), CAST(:resolved AS jsonb),
           CAST(:tool_exchange AS jsonb), :evidence, CAST(:cited AS jsonb), :stopped, :error_code, :error_message,
           :model, CAST(:usage AS jsonb), CAST(:turn_id AS uuid)
    FROM t
    RETURNING id
), c AS (
    UPDATE conversations SET updated_at = now() FROM t WHERE conversations.id = t.conversation_id RETURNING 1
)
SELECT (SELECT count(*) FROM t) AS saved, (SELECT count(*) FROM replaced) AS replaced,
       (SELECT count(*) FROM m) AS written, (SELECT count(*) FROM c) AS touched,
       EXISTS (SELECT FROM turns WHERE id = CAST(:turn_id AS uuid)) AS there,
       EXISTS (SELECT FROM turns WHERE id = CAST(:turn_id AS uuid) AND answer_id = CAST(:answer_id AS uuid)) AS already
""")

Saved = Literal["saved", "not_ours", "gone"]
"""What came of a save: not_ours, since another process has the turn or it is over; gone with its conversation."""


async def save(database: Database, answer: Answer) -> Saved:
    """Store the answer and end the turn, together, if its owner still has it."""
    parameters: dict[str, object] = {}
    for field in Answer.__dataclass_fields__:
        value = getattr(answer, field)
        parameters[field] = value.decode() if isinstance(value, bytes) else value
    async with database.single() as connection:
        row = (await connection.execute(_SAVE, parameters)).one()
    if row.saved or row.already:  # the second: an earlier try was stored, and the word of it was lost
        return "saved"
    return "not_ours" if row.there else "gone"
