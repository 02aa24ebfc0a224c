"""Stored messages -> what a turn goes on from: earlier questions with their answers, entities, numbered sources.

Pure. What of it fits into a request is app/turn/context.py's. Source: DESIGN section 6.
"""

import msgspec

from app.llm.shape import from_stored
from app.store.conversations import PastMessage
from app.tools.tool import Entity, NumberedSource
from app.turn.context import PastTurn, complete_exchange
from app.turn.prompts import Wording


def past_turns(past: list[PastMessage], words: Wording) -> list[PastTurn]:
    """Stored messages as questions with their answers, oldest first.

    A question whose answer failed without text is left out; a stopped or broken answer is shown as unfinished.
    """
    out: list[PastTurn] = []
    question: str | None = None
    for message in past:
        if message.role == "user":
            question = message.content
            continue
        if question is None or not message.content.strip():
            question = None
            continue
        content = message.content
        if message.stopped or message.error_code:
            note = words.unfinished_stopped if message.stopped else words.unfinished_broken
            content = f"{content}\n\n{note}"
        exchange = complete_exchange([from_stored(m) for m in message.tool_exchange])
        out.append(PastTurn(question, exchange, content))
        question = None
    return out


def known_entities(past: list[PastMessage]) -> tuple[Entity, ...]:
    """Entities identified earlier, each once, in the order they were first met."""
    seen: dict[str, Entity] = {}
    for message in past:
        for entity in message.resolved:
            seen.setdefault(str(entity["id"]), msgspec.convert(entity, Entity))
    return tuple(seen.values())


def previous_sources(past: list[PastMessage]) -> tuple[NumberedSource, ...]:
    """The sources of the latest answer, whose numbers a turn that only rewords it keeps."""
    if not past or past[-1].role != "assistant":
        return ()
    return tuple(msgspec.convert(s, NumberedSource) for s in past[-1].sources)
