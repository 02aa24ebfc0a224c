"""A running turn's row: whose it is and until when, what it has written down, whether somebody asked it to stop.

Clocks are Postgres', so that replicas' clocks don't matter. Rows begin and end in app/store/turns.py. Source: DESIGN
sections 5 and 8, cases D04 and D08.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import text

from app.store.engine import Database

LEASE_S = 15
"""How long a running turn stays its process's own without a renewal."""


@dataclass(frozen=True, slots=True)
class LostTurn:
    """A turn whose process is gone; `checkpoint` is the encoded JSON of what it had, if it had written any."""

    turn_id: str
    conversation_id: str
    checkpoint: bytes | None


_CHECKPOINT = text("""
UPDATE turns SET checkpoint = CAST(draft.checkpoint AS jsonb)
FROM unnest(CAST(:ids AS uuid[]), CAST(:checkpoints AS text[])) AS draft(id, checkpoint)
WHERE turns.id = draft.id AND turns.status = 'running'
""")

_RENEW = text("""
UPDATE turns SET lease_until = now() + make_interval(secs => :lease_s)
WHERE replica = :replica AND status = 'running'
RETURNING id, stop_requested
""")

_REQUEST_STOP = text("""
UPDATE turns SET stop_requested = true FROM conversations c
WHERE turns.id = CAST(:turn_id AS uuid) AND turns.conversation_id = CAST(:conversation_id AS uuid)
  AND c.id = turns.conversation_id AND c.owner = :owner AND turns.status = 'running'
RETURNING turns.id
""")

_LOST = text("""
SELECT id, conversation_id, CAST(checkpoint AS text) AS checkpoint FROM turns
WHERE status = 'running' AND lease_until < now()
FOR UPDATE SKIP LOCKED
""")

_CLAIM = text("""
UPDATE turns SET replica = :replica, lease_until = now() + make_interval(secs => :lease_s)
WHERE id = ANY(CAST(:ids AS uuid[])) AND status = 'running'
""")

_RELEASE = text("""
UPDATE turns SET lease_until = now() - interval '1 second'
WHERE id = ANY(CAST(:ids AS uuid[])) AND status = 'running'
""")


async def checkpoint(database: Database, drafts: Sequence[tuple[str, bytes]]) -> None:
    """Write (turn id, encoded JSON) of turns that are still running, all in one statement."""
    parameters = {"ids": [turn_id for turn_id, _ in drafts], "checkpoints": [data.decode() for _, data in drafts]}
    async with database.begin() as connection:
        await connection.execute(_CHECKPOINT, parameters)


async def renew(database: Database, replica: str) -> tuple[frozenset[str], frozenset[str]]:
    """Renew the leases of this process's running turns; gives (running, those that somebody asked to stop)."""
    async with database.begin() as connection:
        rows = (await connection.execute(_RENEW, {"replica": replica, "lease_s": LEASE_S})).all()
    return frozenset(str(r.id) for r in rows), frozenset(str(r.id) for r in rows if r.stop_requested)


async def release(database: Database, turn_ids: Collection[str]) -> None:
    """End the leases of these turns now: whoever looks for lost turns next takes them."""
    async with database.begin() as connection:
        await connection.execute(_RELEASE, {"ids": list(turn_ids)})


async def request_stop(database: Database, *, owner: str, conversation_id: str, turn_id: str) -> bool:
    """Leave a lasting mark that the running turn is to stop; False when it isn't running (case D08)."""
    parameters = {"owner": owner, "conversation_id": conversation_id, "turn_id": turn_id}
    async with database.begin() as connection:
        return (await connection.execute(_REQUEST_STOP, parameters)).one_or_none() is not None


async def claim_lost(database: Database, replica: str) -> list[LostTurn]:
    """Take over the turns whose lease has lapsed, each by exactly one process."""
    async with database.begin() as connection:
        rows = (await connection.execute(_LOST)).all()
        if rows:
            claim = {"replica": replica, "ids": [r.id for r in rows], "lease_s": LEASE_S}
            await connection.execute(_CLAIM, claim)
    return [
        LostTurn(str(r.id), str(r.conversation_id), None if r.checkpoint is None else str(r.checkpoint).encode())
        for r in rows
    ]
