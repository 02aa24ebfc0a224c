"""What was heard of a turn and what was stored of it become one record. Pure.

Source: issue 8 item 2, DESIGN section 5 (which numbers count as cited).
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal, cast

import msgspec

from app.harness.hearing import Heard
from app.harness.judge import Ids, judge
from app.harness.records import Arm, SourceSeen, TokensSeen, TurnSeen, Wire
from app.harness.script import Evidence, Turn
from app.harness.spellings import language
from app.store.conversations import MessageRecord
from app.turn.answer import cited_numbers
from app.turn.gather import one_shot

GATHERED = one_shot("").call_id
"""The call id of a search that the turn made for itself."""

_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a turn stands in its run."""

    arm: Arm
    repeat: int
    conversation: str
    turn: int


@dataclass(frozen=True, slots=True)
class Evidences:
    """All that a turn left: frames, the stored answer (None where none was saved), the count of its requests."""

    heard: Heard
    stored: MessageRecord | None
    wire: Wire
    conversation_id: str
    turn_id: str


def record(
    place: Place, asked: Turn, left: Evidences, *, terminals: Collection[str], before: Iterable[Ids]
) -> tuple[TurnSeen, Ids]:
    """The turn as it is kept, judged; and its ids, for the turns after it.

    `terminals` are the tools that say no evidence is needed; `before` are the ids of the turns before it.
    """
    heard, stored = left.heard, left.stored
    calls = [(str(step["tool"]), str(step["status"])) for step in heard.steps if step["tool"]]
    ran = tuple(tool for tool, status in calls if status != "error")
    sources = tuple(SourceSeen(s["n"], s["kind"], s["title"], s["locator"]) for s in heard.sources)
    known = {source.n for source in sources}
    cited = cited_numbers(heard.content)
    reached = [n for n, tool in enumerate(ran) if tool in terminals]
    looked = [n for n, tool in enumerate(ran) if tool not in terminals]
    done = heard.terminal == "done"
    seen = TurnSeen(
        model=place.arm.model,
        prompt=place.arm.prompt,
        repeat=place.repeat,
        conversation=place.conversation,
        turn=place.turn,
        question=asked.question,
        about=asked.about,
        tools=ran,
        failed_calls=tuple(tool for tool, status in calls if status == "error"),
        sources=sources,
        evidence=cast("Evidence | None", heard.ending.get("evidence")),
        terminal=cast("Literal['done', 'error']", heard.terminal),
        error_code=None if done else str(heard.ending["code"]),
        stopped=bool(heard.ending.get("stopped", False)),
        answer=heard.content,
        language=language(heard.content),
        cited=tuple(n for n in cited if n in known),
        invented=tuple(n for n in cited if n not in known),
        skipped=bool(reached) and not looked,
        reached=bool(reached),
        turned_back=bool(reached) and any(n > reached[0] for n in looked),
        fallback=any(step["call_id"] == GATHERED for step in heard.steps),
        wire=left.wire,
        tokens=_tokens(stored),
        first_token_ms=None if heard.first_token is None else round(heard.first_token * 1000),
        total_ms=round(heard.total * 1000),
        stored=stored is not None and stored.content == heard.content,
        unmet=(),
        conversation_id=left.conversation_id,
        turn_id=left.turn_id,
    )
    ids = Ids(_found(stored), _named(stored))
    return msgspec.structs.replace(seen, unmet=judge(asked.expect, seen, (*before, ids))), ids


def _tokens(stored: MessageRecord | None) -> TokensSeen:
    usage = (stored.usage if stored is not None else None) or {}
    return TokensSeen(
        usage.get("prompt_tokens"),
        usage.get("completion_tokens"),
        usage.get("reasoning_tokens"),
        usage.get("cached_tokens"),
    )


def _found(stored: MessageRecord | None) -> frozenset[str]:
    return frozenset(str(entity["id"]) for entity in stored.resolved) if stored is not None else frozenset()


def _named(stored: MessageRecord | None) -> frozenset[str]:
    """Every id in the arguments of the turn's calls."""
    if stored is None:
        return frozenset()
    calls = [call for message in stored.tool_exchange for call in message.get("tool_calls") or ()]
    return frozenset(found for call in calls for found in _UUID.findall(str(call["function"]["arguments"])))
