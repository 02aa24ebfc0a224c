"""Proposals: facts that somebody read out of a sentence and that wait for a person's nod.

Decides that the same proposal of the same turn or chunk is made once, and that a proposal is decided once. What a
nod makes of it is app/knowledge/corrections.py. Source: DESIGN section 7 (`remember`), issue 4 items 2 and 3.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.audit import Action
from app.store.engine import Database
from app.store.ids import new_id

ProposalStatus = Literal["pending", "accepted", "refused"]
ProposalOrigin = Literal["remember", "extraction"]


@dataclass(frozen=True, slots=True)
class NewProposal:
    """What is proposed. `fact` is a row as `facts import` takes it; `sentence` is what it was read from.

    `idempotency_key` names it within its base: the same key again is the same proposal.
    """

    fact: dict[str, object]
    sentence: str
    origin: ProposalOrigin
    proposed_by: str
    idempotency_key: str
    chunk_id: str | None = None
    turn_id: str | None = None


@dataclass(frozen=True, slots=True)
class ProposalRecord:
    """A stored proposal. `fact_id` is the fact that a nod made, or found recorded already."""

    id: str
    base_id: str
    fact: dict[str, object]
    sentence: str
    chunk_id: str | None
    origin: ProposalOrigin
    proposed_by: str
    turn_id: str | None
    status: ProposalStatus
    decided_by: str | None
    decided_at: datetime | None
    fact_id: str | None
    created_at: datetime


_COLUMNS = """p.id, p.base_id, p.fact, p.sentence, p.chunk_id, p.origin, p.proposed_by, p.turn_id, p.status,
    p.decided_by, p.decided_at, p.fact_id, p.created_at"""

# what a person has the model remember is a write of theirs; what a model reads out of a passage is none
_ADD = text(f"""
WITH made AS (
INSERT INTO proposals (id, base_id, fact, sentence, chunk_id, origin, proposed_by, turn_id, idempotency_key)
SELECT n.id, CAST(:base_id AS uuid), CAST(n.fact AS jsonb), n.sentence, n.chunk_id, n.origin, n.proposed_by,
       n.turn_id, n.idempotency_key
FROM unnest(CAST(:ids AS uuid[]), CAST(:facts AS text[]), CAST(:sentences AS text[]), CAST(:chunk_ids AS uuid[]),
            CAST(:origins AS text[]), CAST(:proposers AS text[]), CAST(:turn_ids AS uuid[]), CAST(:keys AS text[]))
     AS n (id, fact, sentence, chunk_id, origin, proposed_by, turn_id, idempotency_key)
ORDER BY n.idempotency_key
ON CONFLICT (base_id, idempotency_key) DO NOTHING
RETURNING id, base_id, origin, proposed_by, turn_id
)
INSERT INTO audit (who, action, base_id, base, object, detail)
SELECT m.proposed_by, '{Action.PROPOSAL_REMEMBERED}', b.id, b.name, CAST(m.id AS text),
       jsonb_strip_nulls(jsonb_build_object('turn', m.turn_id))
FROM made m JOIN bases b ON b.id = m.base_id WHERE m.origin = 'remember'
""")  # noqa: S608 - only constants of this module are put together

_OF_KEYS = text(f"""
SELECT {_COLUMNS}, p.idempotency_key FROM proposals p
WHERE p.base_id = CAST(:base_id AS uuid) AND p.idempotency_key = ANY(CAST(:keys AS text[]))
""")  # noqa: S608 - only constants of this module are put together

_MATCHES = """p.base_id = CAST(:base_id AS uuid)
    AND (CAST(:status AS text) IS NULL OR p.status = CAST(:status AS text))"""

_LIST = text(f"""
SELECT {_COLUMNS}, count(*) OVER () AS total FROM proposals p
WHERE {_MATCHES} ORDER BY p.created_at, p.id LIMIT :limit OFFSET :offset
""")  # noqa: S608

_COUNT = text(f"SELECT count(*) FROM proposals p WHERE {_MATCHES}")  # noqa: S608

_GET = text(f"""
SELECT {_COLUMNS} FROM proposals p WHERE p.base_id = CAST(:base_id AS uuid) AND p.id = CAST(:id AS uuid) FOR UPDATE
""")  # noqa: S608

_DECIDE = text(f"""
UPDATE proposals p SET status = :status, decided_by = :decided_by, decided_at = now(), fact_id = CAST(:fact_id AS uuid)
WHERE p.base_id = CAST(:base_id AS uuid) AND p.id = CAST(:id AS uuid) AND p.status = 'pending'
RETURNING {_COLUMNS}
""")  # noqa: S608


async def propose(database: Database, base_id: str, proposals: Sequence[NewProposal]) -> list[ProposalRecord]:
    """The proposals as they are stored, in the given order: new ones, and those that were made before."""
    async with database.begin() as connection:
        return await add(connection, base_id, proposals)


async def add(connection: AsyncConnection, base_id: str, proposals: Sequence[NewProposal]) -> list[ProposalRecord]:
    """`propose` inside the caller's transaction."""
    if not proposals:
        return []
    keys = [proposal.idempotency_key for proposal in proposals]
    values = {
        "base_id": base_id,
        "ids": [new_id() for _ in proposals],
        "facts": [json.dumps(proposal.fact, ensure_ascii=False) for proposal in proposals],
        "sentences": [proposal.sentence for proposal in proposals],
        "chunk_ids": [proposal.chunk_id for proposal in proposals],
        "origins": [proposal.origin for proposal in proposals],
        "proposers": [proposal.proposed_by for proposal in proposals],
        "turn_ids": [proposal.turn_id for proposal in proposals],
        "keys": keys,
    }
    await connection.execute(_ADD, values)
    rows = await connection.execute(_OF_KEYS, {"base_id": base_id, "keys": keys})
    stored = {row.idempotency_key: record(row) for row in rows}
    return [stored[key] for key in keys]


async def find(
    database: Database, base_id: str, *, status: ProposalStatus | None, limit: int, offset: int
) -> tuple[list[ProposalRecord], int]:
    """A base's proposals, oldest first, and how many there are."""
    parameters = {"base_id": base_id, "status": status, "limit": limit, "offset": offset}
    async with database.read() as connection:
        rows = (await connection.execute(_LIST, parameters)).all()
        total = rows[0].total if rows else (await connection.execute(_COUNT, parameters)).scalar_one()
    return [record(row) for row in rows], total


async def get(connection: AsyncConnection, base_id: str, proposal_id: str) -> ProposalRecord | None:
    """A proposal of the base, its row locked until the transaction ends."""
    row = (await connection.execute(_GET, {"base_id": base_id, "id": proposal_id})).one_or_none()
    return None if row is None else record(row)


async def decide(
    connection: AsyncConnection,
    proposal: ProposalRecord,
    *,
    status: Literal["accepted", "refused"],
    decided_by: str,
    fact_id: str | None = None,
) -> ProposalRecord | None:
    """The proposal once it is decided; None where it was decided before."""
    values = {
        "base_id": proposal.base_id,
        "id": proposal.id,
        "status": status,
        "decided_by": decided_by,
        "fact_id": fact_id,
    }
    row = (await connection.execute(_DECIDE, values)).one_or_none()
    return None if row is None else record(row)


def record(row: Row[tuple[object, ...]]) -> ProposalRecord:
    """The record of a row with the columns of a proposal."""
    return ProposalRecord(
        id=str(row.id),
        base_id=str(row.base_id),
        fact=row.fact,
        sentence=row.sentence,
        chunk_id=None if row.chunk_id is None else str(row.chunk_id),
        origin=row.origin,
        proposed_by=row.proposed_by,
        turn_id=None if row.turn_id is None else str(row.turn_id),
        status=row.status,
        decided_by=row.decided_by,
        decided_at=row.decided_at,
        fact_id=None if row.fact_id is None else str(row.fact_id),
        created_at=row.created_at,
    )
