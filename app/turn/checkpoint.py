"""What a running turn writes down, so that another process can go on from it: the state after its last finished call.

Text published since then isn't kept: the model request that wrote it is made again. The text itself is stored beside
the checkpoint, whole. Source: DESIGN section 8, decision 0015.
"""

from dataclasses import dataclass, field, replace

import msgspec

from app.live.frames import Step, TurnUsage
from app.llm.shape import from_stored, to_stored
from app.tools.tool import Entity, NumberedSource
from app.turn.context import complete_exchange
from app.turn.policy import Ledger
from app.turn.publish import Draft


@dataclass(frozen=True, slots=True)
class Kept:
    """A turn as it stood when a call had ended: all of it that another run goes on from. By default, nothing yet."""

    draft: Draft = field(default_factory=Draft)
    ledger: Ledger = field(default_factory=Ledger)
    skipped: bool = False
    """Whether the terminal that says no evidence is needed has run."""


class _Stored(msgspec.Struct, frozen=True):
    kept_chars: int = 0
    steps: tuple[Step, ...] = ()
    sources: tuple[NumberedSource, ...] = ()
    resolved: tuple[Entity, ...] = ()
    tool_exchange: tuple[dict[str, object], ...] = ()
    usage: TurnUsage = TurnUsage()
    skipped: bool = False
    ledger: Ledger | None = None


class Unreadable(Exception):
    """The checkpoint isn't one of this version's."""


def encode(kept: Kept) -> bytes:
    """The checkpoint's JSON."""
    draft = kept.draft
    return msgspec.json.encode(
        _Stored(
            kept_chars=len(draft.content),
            steps=draft.steps,
            sources=draft.sources,
            resolved=draft.resolved,
            tool_exchange=tuple(to_stored(m) for m in complete_exchange(draft.exchange)),
            usage=draft.usage,
            skipped=kept.skipped,
            ledger=kept.ledger,
        )
    )


def decode(stored: bytes | None, content: str) -> Kept:
    """What can be gone on from; `content` is the whole text that was stored beside the checkpoint.

    Calls that were let through and had not ended are forgotten: they may be made again.

    Raises:
        Unreadable: another version wrote it.
    """
    try:
        found = msgspec.json.decode(stored, type=_Stored) if stored else _Stored()
        exchange = tuple(from_stored(m) for m in found.tool_exchange)
    except (msgspec.DecodeError, ValueError) as error:
        raise Unreadable from error
    ledger = found.ledger or Ledger()
    ended = replace(ledger, past=[call for call in ledger.past if call.status is not None])
    draft = Draft(content[: found.kept_chars], found.steps, found.sources, found.resolved, exchange, usage=found.usage)
    return Kept(draft, ended, found.skipped)
