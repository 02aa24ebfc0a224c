"""What the model is shown: system prompt, history window, entity block, question; and the fresh answer request.

Pure. Decides the order of messages and what is left out when there is too much. Knows the neutral message
shape only; how an endpoint wants it is app/llm/shape.py's affair. Source: DESIGN section 6, ORIGIN 3.1, 3.11.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.defuse import defused
from app.llm.model import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from app.tools.tool import Entity, NumberedSource
from app.turn.prompts import LATEST, Wording

HISTORY_MESSAGES = 20
HISTORY_CHARS = 32_000
ENTITY_LIMIT = 20


@dataclass(frozen=True, slots=True)
class PastTurn:
    """An earlier question, the tool exchange that led to its answer (only the latest turn's is kept), the answer."""

    question: str
    exchange: tuple[Message, ...]
    answer: str

    @property
    def chars(self) -> int:
        return len(self.question) + len(self.answer) + exchange_chars(self.exchange)


@dataclass(frozen=True, slots=True)
class Observation:
    """What one call returned, as evidence for the answer request."""

    tool: str
    arguments: dict[str, object]
    status: str
    result: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """All that precedes the work of this turn. `past` is oldest first and already fits the window."""

    question: str
    past: tuple[PastTurn, ...] = ()
    entities: tuple[Entity, ...] = ()
    words: Wording = LATEST

    def messages(self) -> tuple[Message, ...]:
        """System prompt, history, entity block, question. The block is a system message: as a user message
        the model would answer it (seed 003).
        """
        out: list[Message] = [SystemMessage(self.words.system)]
        for turn in self.past:
            out += [UserMessage(turn.question), *turn.exchange, AssistantMessage(defused(turn.answer))]
        if self.entities:
            out.append(SystemMessage(entity_block(self.entities, self.words.entities)))
        out.append(UserMessage(self.question))
        return tuple(out)

    def halved(self) -> "Prompt | None":
        """With at most half of the history, or None when there is nothing left to drop."""
        if not self.past:
            return None
        return replace(self, past=window(self.past, sum(turn.chars for turn in self.past) // 2))

    def answer_messages(
        self,
        observations: Sequence[Observation],
        sources: Sequence[NumberedSource],
        resolved: Sequence[Entity],
        repair: str | None,
    ) -> tuple[Message, ...]:
        """The fresh answer request: a system prompt of its own and one user message of JSON, no tool messages."""
        system = self.words.answer if repair is None else f"{self.words.answer}\n\n{self.words.repair[repair]}"
        background = [
            {"speaker": speaker, "text": text}
            for turn in self.past
            for speaker, text in (("user", turn.question), ("assistant", defused(turn.answer)))
        ]
        data = {
            "question": self.question,
            "background": background,
            "evidence": [
                {"tool": o.tool, "arguments": o.arguments, "status": o.status, "result": o.result} for o in observations
            ],
            "sources": [{"n": s.n, "title": defused(s.title), "locator": defused(s.locator)} for s in sources],
            "resolved": [{"id": e.id, "name": defused(e.name), "type": e.type} for e in resolved],
        }
        return SystemMessage(system), UserMessage(json.dumps(data, ensure_ascii=False))


def exchange_chars(messages: Sequence[Message]) -> int:
    """The length of messages as far as a window counts it: contents, call names and arguments."""
    total = 0
    for message in messages:
        total += len(message.content or "")
        if isinstance(message, AssistantMessage):
            total += sum(len(call.name) + len(call.arguments) for call in message.tool_calls)
    return total


def window(past: Sequence[PastTurn], limit_chars: int) -> tuple[PastTurn, ...]:
    """The newest turns that fit, oldest first. Whole turns are dropped, oldest first; an answer is never cut.

    The tool exchange of the newest turn goes only where it can't fit beside its own question and answer.
    """
    kept: list[PastTurn] = []
    left = limit_chars
    for turn in reversed(past):
        fitting = turn
        if turn.chars > left and not kept:
            fitting = replace(turn, exchange=())
        if fitting.chars > left:
            break
        kept.append(fitting)
        left -= fitting.chars
    return tuple(reversed(kept))


def complete_exchange(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The exchange with only those calls that have a result, per assistant message (cases A08, A09).

    Ids may repeat over rounds, so results are matched within their round.
    """
    out: list[Message] = []
    index = 0
    while index < len(messages):
        message = messages[index]
        index += 1
        if not isinstance(message, AssistantMessage):
            continue
        results: dict[str, ToolMessage] = {}
        while index < len(messages) and isinstance(result := messages[index], ToolMessage):
            results[result.tool_call_id] = result
            index += 1
        calls = tuple(call for call in message.tool_calls if call.id in results)
        if calls:
            out.append(replace(message, tool_calls=calls))
            out += [results[call.id] for call in calls]
    return tuple(out)


def entity_block(entities: Sequence[Entity], heading: str) -> str:
    """The entity lines under the heading; bars and line breaks inside names can't forge another field."""
    lines = (" | ".join(_field(part) for part in (e.id, e.name, e.type or "")) for e in entities[:ENTITY_LIMIT])
    return "\n".join([heading, *lines])


def _field(text: str) -> str:
    return " ".join(defused(text).replace("|", "/").split())
