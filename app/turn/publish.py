"""Run events become frames: the only writer of a turn's live log, and the one place where offsets are counted.

Holds what the turn amounts to so far (text, steps, sources, exchange), which is also what is checkpointed and
saved: the stored answer is the joined deltas because both are this object's text. Source: DESIGN section 5.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from app.live.frames import Conversation, Delta, Frame, Snapshot, Source, Sources, Step, TurnUsage
from app.live.log import Writer
from app.llm.model import Message, Usage
from app.text import cut
from app.tools.tool import Entity, NumberedSource
from app.turn.hooks import Accept, Fail
from app.turn.outcome import Answered, Broke, Outcome
from app.turn.runner import (
    Called,
    CallEnded,
    Ended,
    ModelAnswered,
    Reasoned,
    RoundEnded,
    RunEvent,
    Text,
    TextBegan,
)
from app.turn.utf16 import units

PARAGRAPH = "\n\n"
"""What separates the texts of two model turns of one answer."""


REASONING_LABEL_CHARS = 80
REASONING_CHARS = 4_000


class AnswerTooLong(Exception):
    """The answer passed the limit; what was published before stands."""


@dataclass(frozen=True, slots=True)
class Draft:
    """The turn so far: text, frames' data, entities, the exchange with the model, and what it cost."""

    content: str = ""
    steps: tuple[Step, ...] = ()
    sources: tuple[NumberedSource, ...] = ()
    resolved: tuple[Entity, ...] = ()
    exchange: tuple[Message, ...] = ()
    usage: TurnUsage = field(default_factory=TurnUsage)


class Publisher:
    """Publishes one turn. `gathered` and `resolved` tell what the turn's tools have brought so far.

    `draft` is what an earlier owner of the turn had published and this one goes on from.
    """

    def __init__(
        self,
        writer: Writer,
        *,
        gathered: Callable[[], Sequence[NumberedSource]],
        resolved: Callable[[], Sequence[Entity]],
        max_chars: int,
        show_reasoning: bool = False,
        draft: Draft | None = None,
    ) -> None:
        self._writer = writer
        self._gathered = gathered
        self._resolved = resolved
        self._max_chars = max_chars
        self._show_reasoning = show_reasoning
        before = draft or Draft()
        self._parts: list[str] = [before.content]
        self._at = units(before.content)
        self._chars = len(before.content)
        self._separator = ""
        self._steps: list[Step] = list(before.steps)
        self._sources: tuple[NumberedSource, ...] = before.sources
        self._exchange: list[Message] = list(before.exchange)
        self._usage = before.usage
        self.first_text_at: float | None = None
        """When this process published its first text, by time.perf_counter."""
        self.outcome: Outcome | None = None
        """How the run ended by itself; None while it runs, and when it was cancelled."""

    def begin(self, conversation: Conversation) -> None:
        self._writer.append(conversation)

    def go_on(self, turn_id: str) -> None:
        """Publish what stands of an earlier owner's work, in place of all that a reader had."""
        self._writer.append(Snapshot(turn_id, self.content, self.steps, self.frame_sources))

    def take(self, event: RunEvent) -> None:
        """Publish what the event means to a reader.

        Raises:
            AnswerTooLong: the text would pass the limit.
        """
        match event:
            case Text():
                self._text(event.text)
            case TextBegan():
                self._separator = self._gap()
            case CallEnded():
                self._step(event)
            case Called():
                self._exchange.append(event.message)
            case Reasoned():
                if self._show_reasoning:
                    self._reasoning(event)
            case ModelAnswered():
                self._count(event.usage)
            case Ended():
                self.outcome = _outcome(event.ending)
            case RoundEnded():
                pass

    def _text(self, text: str) -> None:
        if self._separator:
            text = self._separator + text
            self._separator = ""
        if self._chars + len(text) > self._max_chars:
            raise AnswerTooLong
        if self.first_text_at is None:
            self.first_text_at = time.perf_counter()
        self._writer.append(Delta(self._at, text))
        self._parts.append(text)
        self._chars += len(text)
        self._at += units(text)

    def _gap(self) -> str:
        """What is missing to a paragraph break after the text so far."""
        if not self._chars:
            return ""
        last = "".join(self._parts[-len(PARAGRAPH) :])
        return PARAGRAPH[min(len(last) - len(last.rstrip("\n")), len(PARAGRAPH)) :]

    def _step(self, event: CallEnded) -> None:
        outcome = event.outcome
        step = Step(
            n=len(self._steps) + 1,
            at=self._at,
            call_id=event.call_id,
            tool=event.tool,
            kind=outcome.kind,
            label=outcome.label,
            detail=outcome.detail,
            status=outcome.status,
            ms=event.ms,
        )
        self._add_step(step)
        self.set_sources(self._gathered())
        if event.result is not None:
            self._exchange.append(event.result)

    def _reasoning(self, event: Reasoned) -> None:
        """A step of kind reasoning, for those who want to see it; it belongs to no tool call."""
        label, detail = cut(" ".join(event.text.split()), REASONING_LABEL_CHARS), cut(event.text, REASONING_CHARS)
        step = Step(len(self._steps) + 1, self._at, "", "", "reasoning", label, detail, "ok", event.ms)
        self._add_step(step)

    def _add_step(self, step: Step) -> None:
        self._steps.append(step)
        self._writer.append(step)

    def set_sources(self, sources: Sequence[NumberedSource]) -> None:
        """Publish the list of sources if it changed."""
        if tuple(sources) != self._sources:
            self._sources = tuple(sources)
            self._writer.append(Sources(self.frame_sources))

    def _count(self, usage: Usage) -> None:
        seen = self._usage
        self._usage = TurnUsage(
            prompt_tokens=_add(seen.prompt_tokens, usage.prompt_tokens),
            completion_tokens=_add(seen.completion_tokens, usage.completion_tokens),
            reasoning_tokens=_add(seen.reasoning_tokens, usage.reasoning_tokens),
            cached_tokens=_add(seen.cached_tokens, usage.cached_tokens),
            requests=seen.requests + 1,
        )

    @property
    def content(self) -> str:
        """The text published so far, joined."""
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0]

    def text_after(self, chars: int) -> str:
        """The text published after its first so many characters. Costs what is new, however long the text is."""
        start, at = len(self._parts), self._chars
        while at > chars:
            start -= 1
            at -= len(self._parts[start])
        if start == len(self._parts):
            return ""
        new = "".join(self._parts[start:])
        self._parts[start:] = [new]
        return new[chars - at :]

    @property
    def chars(self) -> int:
        """Characters published so far."""
        return self._chars

    @property
    def sources(self) -> tuple[NumberedSource, ...]:
        return self._sources

    @property
    def frame_sources(self) -> tuple[Source, ...]:
        return tuple(Source(s.n, s.kind, s.id, s.document_id, s.title, s.locator, s.excerpt) for s in self._sources)

    @property
    def steps(self) -> tuple[Step, ...]:
        return tuple(self._steps)

    def usage(self, *, truncated: bool) -> TurnUsage:
        return msgspec.structs.replace(self._usage, truncated=truncated)

    def draft(self) -> Draft:
        """All of it as it stands."""
        resolved, exchange = tuple(self._resolved()), tuple(self._exchange)
        return Draft(self.content, self.steps, self._sources, resolved, exchange, usage=self._usage)

    def end(self, frame: Frame) -> None:
        """Publish the terminal frame."""
        self._writer.append(frame)

    @property
    def next_seq(self) -> int:
        return self._writer.next_seq


def _outcome(ending: Accept | Fail) -> Outcome:
    if isinstance(ending, Accept):
        return Answered(truncated=ending.truncated)
    return Broke(ending.code, ending.message)


def _add(left: int | None, right: int | None) -> int | None:
    if left is None or right is None:
        return right if left is None else left
    return left + right
