"""A running turn's row: whose it is and until when, what it has written down, whether somebody asked it to stop.

A lease is renewed or lapses; a turn whose lease lapsed, or whose process gave it up, is taken by exactly one other,
with a higher `attempt`. Whatever an owner writes names its replica and attempt, so that one who lost a turn changes
nothing. Clocks are Postgres', so that replicas' clocks don't matter. Rows begin and end in app/store/turns.py.
Source: DESIGN sections 5 and 8, decision 0015, cases D04 and D08.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import text

from app.store.engine import Database
from app.store.turns import LEASE_S, AdmittedTurn

TAKE_AT_ONCE = 20
"""How many lost turns one process takes per look, so that the rest is left for others."""


@dataclass(frozen=True, slots=True)
class Draft:
    """What a running turn writes down. `checkpoint` is encoded JSON, None where it hasn't changed.

    `piece` is the text that follows the first `at` characters, None for none; written again it may be longer. What an
    owner has written stands in place of all that earlier ones had, from its first piece on, were that one empty.
    """

    turn_id: str
    attempt: int
    at: int
    piece: str | None
    last_seq: int
    checkpoint: bytes | None


@dataclass(frozen=True, slots=True)
class LostTurn:
    """A turn whose owner is gone, now ours: what it is, and what its last owner had written down."""

    turn: AdmittedTurn
    checkpoint: bytes | None
    content: str
    last_seq: int
    stop_requested: bool
    deaths: int
    """How many owners died with it; handing it over is no death."""
    age_s: float


_WRITE = text("""
WITH d AS (
    SELECT * FROM unnest(CAST(:ids AS uuid[]), CAST(:attempts AS int[]), CAST(:ats AS int[]), CAST(:pieces AS text[]),
                         CAST(:seqs AS int[]), CAST(:checkpoints AS text[]))
             AS d(id, attempt, at, piece, last_seq, checkpoint)
), ours AS (
    UPDATE turns SET last_seq = d.last_seq, checkpoint = coalesce(CAST(d.checkpoint AS jsonb), turns.checkpoint)
    FROM d
    WHERE turns.id = d.id AND turns.attempt = d.attempt AND turns.replica = :replica AND turns.status = 'running'
    RETURNING turns.id
), over AS (
    DELETE FROM turn_pieces p USING turns t
    WHERE p.turn_id = ANY(CAST(:over AS uuid[])) AND t.id = p.turn_id AND t.status <> 'running'
)
INSERT INTO turn_pieces (turn_id, attempt, at, content)
SELECT d.id, d.attempt, d.at, d.piece FROM d JOIN ours USING (id) WHERE d.piece IS NOT NULL
ON CONFLICT (turn_id, attempt, at) DO UPDATE SET content = excluded.content
""")

_WRITTEN = text("""
SELECT p.turn_id, string_agg(p.content, '' ORDER BY p.at) AS content FROM turn_pieces p
WHERE p.turn_id = ANY(CAST(:ids AS uuid[]))
  AND p.attempt = (SELECT max(l.attempt) FROM turn_pieces l WHERE l.turn_id = p.turn_id)
GROUP BY p.turn_id
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
RETURNING turns.replica
""")

_TAKE = text("""
WITH lost AS (
    SELECT id FROM turns WHERE status = 'running' AND (replica IS NULL OR (lease_until < now() AND replica <> :replica))
    ORDER BY lease_until LIMIT :limit FOR UPDATE SKIP LOCKED
)
UPDATE turns t SET replica = :replica, lease_until = now() + make_interval(secs => :lease_s),
                   attempt = t.attempt + 1, deaths = t.deaths + CAST(t.replica IS NOT NULL AS int)
FROM lost, conversations c, bases b, messages q
WHERE t.id = lost.id AND c.id = t.conversation_id AND b.id = c.base_id AND q.id = t.question_id
RETURNING t.id, t.conversation_id, t.question_id, c.base_id, b.name AS base, t.owner, c.title,
          q.content AS question, t.as_of, q.position = 1 AS first, t.attempt, t.deaths, t.stop_requested, t.may_write,
          CAST(t.checkpoint AS text) AS checkpoint,
          coalesce(t.last_seq, 0) AS last_seq,
          CAST(extract(epoch FROM now() - t.created_at) AS float) AS age_s
""")

_RELEASE = text("""
UPDATE turns SET replica = NULL
WHERE id = ANY(CAST(:ids AS uuid[])) AND replica = :replica AND status = 'running'
""")

_OVER = text("""
SELECT id, owner FROM turns
WHERE id = ANY(CAST(:ids AS uuid[])) AND finished_at < now() - make_interval(secs => :since_s)
""")

_THERE = text("SELECT id FROM turns WHERE id = ANY(CAST(:ids AS uuid[]))")


async def write(database: Database, replica: str, drafts: Sequence[Draft], over: Collection[str] = ()) -> None:
    """Write down what these turns have, all in one statement; those that aren't the replica's any more stay.

    `over` are turns that may have ended while they were being written down: what their end didn't remove goes now.
    """
    parameters = {
        "replica": replica,
        "ids": [d.turn_id for d in drafts],
        "attempts": [d.attempt for d in drafts],
        "ats": [d.at for d in drafts],
        "pieces": [d.piece for d in drafts],
        "seqs": [d.last_seq for d in drafts],
        "checkpoints": [None if d.checkpoint is None else d.checkpoint.decode() for d in drafts],
        "over": list(over),
    }
    async with database.single() as connection:
        await connection.execute(_WRITE, parameters)


async def renew(database: Database, replica: str) -> tuple[frozenset[str], frozenset[str]]:
    """Renew the leases of this process's running turns; gives (running, those that somebody asked to stop)."""
    async with database.single() as connection:
        rows = (await connection.execute(_RENEW, {"replica": replica, "lease_s": LEASE_S})).all()
    return frozenset(str(r.id) for r in rows), frozenset(str(r.id) for r in rows if r.stop_requested)


async def release(database: Database, replica: str, turn_ids: Collection[str]) -> None:
    """Give these turns up: whoever looks for lost turns next takes them, without waiting for a lease to lapse."""
    async with database.single() as connection:
        await connection.execute(_RELEASE, {"ids": list(turn_ids), "replica": replica})


@dataclass(frozen=True, slots=True)
class StopMark:
    """The lasting mark was left; `replica` is the process to tell, None while nobody runs the turn."""

    replica: str | None


async def request_stop(database: Database, *, owner: str, conversation_id: str, turn_id: str) -> StopMark | None:
    """Leave a lasting mark that the running turn is to stop; None when it isn't running (case D08)."""
    parameters = {"owner": owner, "conversation_id": conversation_id, "turn_id": turn_id}
    async with database.single() as connection:
        row = (await connection.execute(_REQUEST_STOP, parameters)).one_or_none()
    return None if row is None else StopMark(row.replica)


async def take(database: Database, replica: str, *, limit: int = TAKE_AT_ONCE) -> list[LostTurn]:
    """Take turns whose owner is gone, each by exactly one process; its own it renews, however late it is."""
    parameters = {"replica": replica, "lease_s": LEASE_S, "limit": limit}
    async with database.single() as connection:
        rows = (await connection.execute(_TAKE, parameters)).all()
    if not rows:
        return []
    async with database.single() as connection:  # read by now no earlier owner can add to it
        written = (await connection.execute(_WRITTEN, {"ids": [r.id for r in rows]})).all()
    content = {str(w.turn_id): w.content for w in written}
    return [
        LostTurn(
            AdmittedTurn(
                str(r.id),
                str(r.conversation_id),
                str(r.question_id),
                str(r.base_id),
                r.base,
                r.owner,
                r.title,
                r.question,
                r.as_of,
                first=r.first,
                replica=replica,
                may_write=r.may_write,
                attempt=r.attempt,
            ),
            None if r.checkpoint is None else str(r.checkpoint).encode(),
            content.get(str(r.id), ""),
            r.last_seq,
            r.stop_requested,
            r.deaths,
            r.age_s,
        )
        for r in rows
    ]


@dataclass(frozen=True, slots=True)
class Ended:
    """Turns that somebody still waits for: those that are over, with their owners, and those that aren't there."""

    over: dict[str, str]
    gone: frozenset[str]


async def ended(database: Database, turn_ids: Collection[str], *, since_s: float) -> Ended:
    """Which of these turns ended at least `since_s` seconds ago, or were deleted."""
    async with database.read() as connection:
        over = (await connection.execute(_OVER, {"ids": list(turn_ids), "since_s": since_s})).all()
        there = (await connection.execute(_THERE, {"ids": list(turn_ids)})).scalars().all()
    return Ended({str(r.id): r.owner for r in over}, frozenset(turn_ids) - {str(i) for i in there})
