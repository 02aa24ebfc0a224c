"""A turn whose owner is gone: what its next owner makes of it. Goes on from what was kept, or ends it.

Ends it when it was stopped meanwhile, when too many owners died with it (it may be what kills them), when it is too
old to be waited for, and when what was kept can't be read. Source: issue 4 item 3 of the first plan, decision 0015.
"""

from dataclasses import replace

import structlog

from app.errors import TurnErrorCode
from app.store.leases import LostTurn
from app.turn import checkpoint
from app.turn.checkpoint import Kept, Unreadable
from app.turn.outcome import Broke, Outcome, Stopped

DEATHS = 2
"""How many owners may die with a turn and it still goes on."""
AGE_S = 600
"""The oldest turn that still goes on."""

_log = structlog.get_logger(__name__)

_DIED = "The process that answered ended before the answer was complete."
_TOO_OFTEN = "The processes that answered ended three times before the answer was complete."


def judge(lost: LostTurn) -> tuple[Kept, Outcome | None]:
    """What the turn is gone on with, and how it ends at once; None when it goes on.

    A turn that ends keeps all the text that was written down; one that goes on only the finished calls' part.
    """
    try:
        kept = checkpoint.decode(lost.checkpoint, lost.content)
    except Unreadable as error:
        _log.warning("checkpoint_unreadable", turn_id=lost.turn.turn_id, exc_info=error)
        kept, outcome = Kept(), Broke(TurnErrorCode.TURN_INTERRUPTED, _DIED)
    else:
        outcome = _ending(lost)
    if outcome is not None:
        kept = replace(kept, draft=replace(kept.draft, content=lost.content))
    return kept, outcome


def _ending(lost: LostTurn) -> Outcome | None:
    if lost.stop_requested:
        return Stopped()
    if lost.deaths > DEATHS:
        return Broke(TurnErrorCode.TURN_INTERRUPTED, _TOO_OFTEN)
    if lost.age_s > AGE_S:
        return Broke(TurnErrorCode.TURN_INTERRUPTED, _DIED)
    return None
