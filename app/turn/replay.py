"""A stored turn as the frames that a late reader is sent: a snapshot of its answer, and its terminal frame."""

import msgspec

from app.errors import TurnErrorCode
from app.live.frames import Done, Failed, Snapshot, Source, Step, TurnUsage
from app.live.log import Stored
from app.store import conversations
from app.store.conversations import FinishedTurn
from app.store.engine import Database
from app.turn.outcome import Broke, failed_frame


async def stored_turn(database: Database, owner: str, turn_id: str) -> Stored | None:
    """The frames of the owner's finished turn; None while it runs, and when it isn't there."""
    finished = await conversations.finished_turn(database, owner, turn_id)
    return None if finished is None else _frames(turn_id, finished)


def _frames(turn_id: str, finished: FinishedTurn) -> Stored:
    answer = finished.answer
    snapshot = Snapshot(
        turn_id,
        answer.content,
        msgspec.convert(answer.steps, tuple[Step, ...]),
        msgspec.convert(answer.sources, tuple[Source, ...]),
    )
    terminal: Done | Failed
    if answer.error_code is not None:
        terminal = failed_frame(Broke(TurnErrorCode(answer.error_code), answer.error_message or ""))
    else:
        usage = msgspec.convert(answer.usage or {}, TurnUsage)
        terminal = Done(answer.id, answer.stopped, answer.evidence or "none", tuple(answer.cited), usage)
    return Stored(snapshot, terminal, finished.last_seq)
