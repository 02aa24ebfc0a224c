"""A turn's frames -> OpenAI's chat completion, as chunks of a stream or as one object.

Steps, sources and the verdict are in `x_turnstream`, a field that OpenAI's clients pass through unread. Text that a
client was sent can't be taken back, so a turn whose text was begun again elsewhere (decision 0015) goes on only where
it says the same; else the stream ends with an error. Pure. Source: OpenAI API reference, chat completion chunks.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import assert_never

import msgspec

from app.api import openai_errors
from app.errors import TurnErrorCode
from app.live.frames import (
    Conversation,
    Delta,
    Done,
    Failed,
    Frame,
    Snapshot,
    Source,
    Sources,
    Step,
    TurnUsage,
    decoded,
    sent,
)

DONE = b"data: [DONE]\n\n"

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Names:
    """What every chunk of a completion says about itself, and what its first one tells of the turn."""

    turn_id: str
    conversation_id: str
    question_id: str
    model: str
    ignored: tuple[str, ...]

    def head(self, kind: str) -> dict[str, object]:
        return {"id": f"chatcmpl-{self.turn_id}", "object": kind, "created": int(time.time()), "model": self.model}

    def told(self) -> dict[str, object]:
        return {
            "conversation_id": self.conversation_id,
            "turn_id": self.turn_id,
            "question_id": self.question_id,
            "ignored": self.ignored,
        }


class TakenBack(Exception):
    """Text that was sent isn't part of the answer any more."""


class _Sent:
    """The answer's text as far as it was sent, against the text as it is."""

    def __init__(self) -> None:
        self._sent: list[str] = []
        self._again: str | None = None

    def more(self, text: str) -> str:
        """What to send of text that follows. Raises TakenBack."""
        if self._again is None:
            self._sent.append(text)
            return text
        return self.instead(self._again + text)

    def instead(self, text: str) -> str:
        """What to send when this is the text so far. Raises TakenBack."""
        sent = "".join(self._sent)
        if text.startswith(sent):
            self._sent, self._again = [text], None
            return text[len(sent) :]
        if not sent.startswith(text):
            raise TakenBack
        self._again = text
        return ""

    def check_whole(self) -> None:
        """Raises TakenBack where more was sent than the answer holds."""
        if self._again is not None:
            raise TakenBack


class Chunks:
    """The chunks of one completion, made from the frames of its turn. `over`: nothing may follow."""

    def __init__(self, names: Names, *, include_usage: bool) -> None:
        self._names = names
        self._head = names.head("chat.completion.chunk") | ({"usage": None} if include_usage else {})
        self._include_usage = include_usage
        self._sent = _Sent()
        self._begun = False
        self.over = False

    def take(self, data: bytes) -> bytes:
        """The chunks for frames as a reader gives them, several joined."""
        out = b""
        for frame in map(decoded, sent(data)):
            if self.over:
                break
            try:
                out += b"".join(self._chunks(frame))
            except TakenBack:
                out += self.fail(
                    TurnErrorCode.TURN_INTERRUPTED,
                    "The answer was begun again after its process had died, and what was sent doesn't hold any more; "
                    f"it is stored in the conversation {self._names.conversation_id}.",
                )
        return out

    def fail(self, code: str, message: str) -> bytes:
        """The event that ends the stream without an answer; OpenAI's clients raise what it says."""
        self.over = True
        status = openai_errors.ENDED_STATUS.get(TurnErrorCode(code), 500) if code in _TURN_CODES else 503
        return b"data: %b\n\n" % openai_errors.body(code, message, status).model_dump_json().encode()

    def _chunks(self, frame: Frame) -> Iterator[bytes]:
        if not self._begun:
            self._begun = True
            yield self._chunk({"role": "assistant", "content": ""}, x_turnstream=self._names.told())
        match frame:
            case Conversation():
                pass
            case Step():
                yield self._chunk({}, x_turnstream={"step": frame})
            case Sources(sources):
                yield self._chunk({}, x_turnstream={"sources": sources})
            case Delta(text=text):
                if more := self._sent.more(text):
                    yield self._chunk({"content": more})
            case Snapshot():
                more = self._sent.instead(frame.content)
                told = {"steps": frame.steps, "sources": frame.sources}
                yield self._chunk({"content": more} if more else {}, x_turnstream=told)
            case Done():
                self._sent.check_whole()
                yield from self._end(frame)
            case Failed():
                yield self.fail(frame.code, frame.message)
            case _:
                assert_never(frame)

    def _end(self, done: Done) -> Iterator[bytes]:
        self.over = True
        yield self._chunk({}, finish_reason=finish_reason(done.usage), x_turnstream=verdict(done))
        if self._include_usage:
            choices: list[object] = []
            yield _event(self._head | {"choices": choices, "usage": usage(done.usage)})
        yield DONE

    def _chunk(self, delta: dict[str, object], *, finish_reason: str | None = None, **top: object) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return _event(self._head | {"choices": [choice]} | top)


@dataclass(slots=True)
class Whole:
    """A completion that is given as one object, gathered from the frames of its turn."""

    names: Names
    text: list[str] = field(default_factory=list[str])
    steps: list[Step] = field(default_factory=list[Step])
    sources: Sequence[Source] = ()
    end: Done | Failed | None = None

    def take(self, data: bytes) -> None:
        """Frames as a reader gives them, several joined."""
        for frame in map(decoded, sent(data)):
            match frame:
                case Conversation():
                    pass
                case Step():
                    self.steps.append(frame)
                case Sources(sources):
                    self.sources = sources
                case Delta(text=text):
                    self.text.append(text)
                case Snapshot():
                    self.text, self.steps, self.sources = [frame.content], list(frame.steps), frame.sources
                case Done() | Failed():
                    self.end = frame
                case _:
                    assert_never(frame)

    def encode(self, done: Done) -> bytes:
        """The completion as JSON."""
        message = {"role": "assistant", "content": "".join(self.text), "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason(done.usage)}
        gathered = {"steps": self.steps, "sources": self.sources}
        return _encode(
            self.names.head("chat.completion")
            | {
                "choices": [choice],
                "usage": usage(done.usage),
                "x_turnstream": self.names.told() | gathered | verdict(done),
            }
        )


_TURN_CODES = frozenset(str(code) for code in TurnErrorCode)


def finish_reason(used: TurnUsage) -> str:
    """`length` where a token limit cut the answer; a stopped answer is `stop`, and said in `x_turnstream`."""
    return "length" if used.truncated else "stop"


def usage(used: TurnUsage) -> dict[str, object] | None:
    """The tokens of all model requests of the turn; None where no provider said."""
    if used.prompt_tokens is None or used.completion_tokens is None:
        return None
    return {
        "prompt_tokens": used.prompt_tokens,
        "completion_tokens": used.completion_tokens,
        "total_tokens": used.prompt_tokens + used.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": used.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": used.reasoning_tokens},
    }


def verdict(done: Done) -> dict[str, object]:
    """How the turn ended, as `x_turnstream` has it."""
    return {
        "answer_id": done.message_id,
        "stopped": done.stopped,
        "evidence": done.evidence,
        "cited": done.cited,
    }


def _event(chunk: dict[str, object]) -> bytes:
    return b"data: %b\n\n" % _encode(chunk)
