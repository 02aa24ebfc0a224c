"""Runs of the harness: begun, added to a conversation at a time, read back. Plans and records are encoded JSON.

A conversation's turns are stored together when it is over, so that an interrupted run has whole conversations only and
goes on with those it hasn't.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row, text

from app.store.engine import Database

OWNER = "harness"
"""Whose the harness's conversations are: nobody sees them in a list, and verdicts in production leave them out."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A stored run; `turns` is how many turns were seen."""

    id: str
    script: str
    plan: bytes
    created_at: datetime
    finished_at: datetime | None
    turns: int


@dataclass(frozen=True, slots=True)
class TurnRow:
    """A turn to store: where in the run it stands, and its record."""

    model: str
    prompt: int
    repeat: int
    conversation: str
    turn: int
    record: bytes


@dataclass(frozen=True, slots=True)
class BaseContents:
    """What a base holds, in short: a hash over its documents' contents, and how many facts it believes."""

    documents: int
    content_hash: str
    facts: int


_INSERT_RUN = text("""
INSERT INTO harness_runs (id, script, plan) VALUES (CAST(:id AS uuid), :script, CAST(:plan AS jsonb))
RETURNING created_at
""")

_INSERT_TURN = text("""
INSERT INTO harness_turns (run_id, model, prompt, repeat, conversation, turn, record)
VALUES (CAST(:run_id AS uuid), :model, :prompt, :repeat, :conversation, :turn, CAST(:record AS jsonb))
""")

_FINISH = text("UPDATE harness_runs SET finished_at = now() WHERE id = CAST(:id AS uuid) RETURNING finished_at")

_SELECT = """
SELECT r.id, r.script, CAST(r.plan AS text) AS plan, r.created_at, r.finished_at,
       (SELECT count(*) FROM harness_turns t WHERE t.run_id = r.id) AS turns
FROM harness_runs r
"""

_ONE = text(f"{_SELECT} WHERE r.id = CAST(:id AS uuid)")
_NEWEST = text(f"{_SELECT} ORDER BY r.created_at DESC, r.id DESC LIMIT :limit")

_TURNS = text("SELECT CAST(record AS text) AS record FROM harness_turns WHERE run_id = CAST(:id AS uuid)")

_CONTENTS = text("""
SELECT count(*) AS documents,
       encode(sha256(convert_to(coalesce(string_agg(content_hash, ' ' ORDER BY content_hash), ''), 'UTF8')), 'hex')
           AS content_hash,
       (SELECT count(*) FROM facts f WHERE f.base_id = CAST(:base_id AS uuid) AND f.superseded_at IS NULL) AS facts
FROM documents d
WHERE d.base_id = CAST(:base_id AS uuid) AND d.status = 'ready' AND d.superseded_at IS NULL
""")


async def begin(database: Database, run_id: str, script: str, plan: bytes) -> datetime:
    """Store a new run; gives when it began."""
    async with database.begin() as connection:
        parameters = {"id": run_id, "script": script, "plan": plan.decode()}
        return (await connection.execute(_INSERT_RUN, parameters)).scalar_one()


async def add_conversation(database: Database, run_id: str, turns: Sequence[TurnRow]) -> None:
    """Store all turns of a conversation that is over, together."""
    rows = [
        {
            "run_id": run_id,
            "model": t.model,
            "prompt": t.prompt,
            "repeat": t.repeat,
            "conversation": t.conversation,
            "turn": t.turn,
            "record": t.record.decode(),
        }
        for t in turns
    ]
    async with database.begin() as connection:
        await connection.execute(_INSERT_TURN, rows)


async def finish(database: Database, run_id: str) -> datetime:
    """Mark the run as over; gives when."""
    async with database.begin() as connection:
        return (await connection.execute(_FINISH, {"id": run_id})).scalar_one()


async def get(database: Database, run_id: str) -> RunRecord | None:
    """The run of this id, which must be a UUID."""
    async with database.read() as connection:
        row = (await connection.execute(_ONE, {"id": run_id})).one_or_none()
    return None if row is None else _record(row)


async def newest(database: Database, *, limit: int) -> list[RunRecord]:
    """The latest runs, newest first."""
    async with database.read() as connection:
        return [_record(row) for row in await connection.execute(_NEWEST, {"limit": limit})]


async def turns(database: Database, run_id: str) -> list[bytes]:
    """The records of a run's turns, in no order."""
    async with database.read() as connection:
        return [row.record.encode() for row in await connection.execute(_TURNS, {"id": run_id})]


async def contents(database: Database, base_id: str) -> BaseContents:
    """What the base holds now."""
    async with database.read() as connection:
        row = (await connection.execute(_CONTENTS, {"base_id": base_id})).one()
    return BaseContents(row.documents, row.content_hash, row.facts)


def _record(row: Row[Any]) -> RunRecord:
    return RunRecord(str(row.id), row.script, row.plan.encode(), row.created_at, row.finished_at, row.turns)
