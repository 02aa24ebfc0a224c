"""Payloads of one reply -> deltas and, at its end, the model turn or the failure. No I/O.

Decides what each field of a chunk means: which text is the answer's, which is reasoning, when the reply is
complete. A reply is complete with a finish reason or with [DONE]; with neither it was cut (cases P05, P06).
Called by app/llm/openai_chat.py. Hot path: about 1.5 us a chunk with its decoding; no object is made per token.
"""

from collections.abc import Callable, Collection, Sequence

import msgspec

from app.llm.assemble import CallAssembly
from app.llm.chunk import (
    REFUSED,
    Choice,
    Chunk,
    Delta,
    decode,
    decode_odd,
    details_of,
    model_of,
    parts_of,
    whole_number,
)
from app.llm.failures import ContentFiltered, Interrupted, ModelFailure, Unreachable
from app.llm.model import Finish, ModelTurn, Reasoning, ReasoningDelta, TextDelta, Usage
from app.llm.visible import Joined, VisibleText

_DONE = b"[DONE]"
_FINISH = {
    "stop": Finish.STOP,
    "eos": Finish.STOP,
    "end_turn": Finish.STOP,
    "stop_sequence": Finish.STOP,
    "length": Finish.LENGTH,
    "max_tokens": Finish.LENGTH,
    "model_length": Finish.LENGTH,
    "tool_calls": Finish.TOOL_CALLS,
    "tool_use": Finish.TOOL_CALLS,
    "function_call": Finish.TOOL_CALLS,
}
_FILTERED = frozenset({"content_filter", "content_filtered", "sensitive", "safety", "prohibited_content"})
"""Finish reasons of a provider's filter. Source: OpenAI, Zhipu, Gemini-compatible endpoints."""
_BROKEN = frozenset({"error", "network_error", "insufficient_system_resource", "abort"})
"""Finish reasons of a reply that is not whole. Source: Mistral, OpenRouter, Zhipu, DeepSeek, SGLang."""


class Reply:
    """One reply while it is read. Feed it payloads, `flush` once at the end, then ask for the `turn`.

    `failure_of` types an error object that came inside the reply; `tools` are the offered names; `origin` is
    the endpoint and model that reasoning and extra fields of calls belong to.
    """

    def __init__(self, *, tools: Collection[str], origin: str, failure_of: Callable[[bytes], ModelFailure]) -> None:
        self._origin = origin
        self._failure_of = failure_of
        self._visible = VisibleText()
        self._thoughts = Joined()
        self._calls = CallAssembly(tools, origin=origin)
        self._run: list[str] = []
        self._run_is_thought = False
        self._out: list[TextDelta | ReasoningDelta] = []
        self._texts: list[str] = []
        self._reasoning: list[str] = []
        self._reasoning_field: str | None = None
        self._tagged: list[str] = []
        self._finish: str | None = None
        self._usage: dict[str, object] | None = None
        self._model: str | None = None
        self._whole = False
        self._done = False
        self.failure: ModelFailure | None = None
        self.progressed = False
        self.junk = 0

    @property
    def finished(self) -> bool:
        """Whether nothing that matters can still come: only usage and [DONE] follow a finish reason."""
        return self._finish is not None or self._done

    @property
    def ended(self) -> bool:
        """Whether reading on is pointless."""
        return self._done or self.failure is not None

    def feed(self, payloads: Sequence[bytes]) -> list[TextDelta | ReasoningDelta]:
        """Take the payloads of one read: the deltas they amount to, neighbours joined.

        Sets `progressed` to whether a choice's delta was among them, and `failure` at an error object, after
        which nothing more is taken.
        """
        self.progressed = False
        for payload in payloads:
            try:
                chunk = decode(payload)
            except REFUSED:
                self._take_odd(payload)
            else:
                self._take(chunk, payload)
            if self.ended:
                break
        return self._emitted()

    def feed_whole(self, body: bytes) -> list[TextDelta | ReasoningDelta]:
        """Take a body that isn't a stream: one JSON object that is the whole reply.

        Raises:
            Unreachable: the body is no reply.
        """
        try:
            chunks = [decode(body)]
        except REFUSED:
            chunks = decode_odd(body)
        for chunk in chunks[:1]:
            if chunk.choices is not None or chunk.is_error:
                self._whole = True
                self._take(chunk, body)
                return self._emitted()
        raise Unreachable("The endpoint answered with JSON that is no reply of a model.", transient=False)

    def flush(self) -> list[TextDelta | ReasoningDelta]:
        """The deltas that were only held back; called once, when nothing more comes."""
        self._close_run()
        self._show(self._visible.flush())
        rest = self._thoughts.flush()
        if rest:
            self._reasoning.append(rest)
            self._out.append(ReasoningDelta(rest))
        return self._emitted()

    def turn(self, broke: ModelFailure | None = None) -> ModelTurn:
        """What the reply amounted to. `broke` is why reading ended early, if it did.

        Raises:
            ModelFailure: an error came in the reply, the provider's filter stopped it, or it was cut.
        """
        if self.failure is not None:
            raise self.failure
        reason = (self._finish or "").lower()
        text = "".join(self._texts)
        if reason in _FILTERED:
            raise ContentFiltered("The provider's content filter stopped the answer.")
        if reason in _BROKEN:
            raise Interrupted(f"The model's reply ended with {reason!r} after {len(text)} characters.")
        if not (self.finished or self._whole):
            raise broke or Interrupted(f"The model's reply was cut after {len(text)} characters.")
        return ModelTurn(
            text=text,
            tool_calls=self._calls.calls(),
            finish=_FINISH.get(reason, Finish.OTHER) if reason else None,
            usage=_usage(self._usage),
            reasoning=self._kept_reasoning(),
            model=self._model,
        )

    def _take_odd(self, payload: bytes) -> None:
        bare = payload.strip()
        if bare == _DONE:
            self._done = True
            return
        chunks = decode_odd(payload)
        if not chunks and bare:
            self.junk += 1
        for chunk in chunks:
            self._take(chunk, payload)

    def _take(self, chunk: Chunk, payload: bytes) -> None:
        if chunk.usage is not None:
            self._usage = chunk.usage
            if self._model is None:  # looked for once, where a count came: not in every chunk
                self._model = model_of(payload)
        for choice in chunk.choices or ():
            if not choice.index:
                self._take_choice(choice)
            if choice.error:
                self.failure = self._failure_of(payload)
        if chunk.is_error:
            self.failure = self._failure_of(payload)

    def _take_choice(self, choice: Choice) -> None:
        delta = choice.delta if choice.delta is not None else choice.message
        if delta is not None:
            self.progressed = True
            content = delta.content
            if delta.reasoning_content or delta.reasoning or delta.reasoning_details:
                self._take_reasoning(delta)
            if content:
                if isinstance(content, str):
                    self._add(content, thought=False)
                else:
                    self._take_parts(content)
            if delta.refusal:
                self._add(delta.refusal, thought=False)
            if delta.tool_calls:
                take = self._calls.add if choice.delta is not None else self._calls.add_whole
                take(delta.tool_calls)
            if delta.function_call:
                self._calls.add_legacy(delta.function_call)
        if choice.finish_reason:
            self._finish = choice.finish_reason
        if choice.usage is not None:
            self._usage = choice.usage

    def _take_reasoning(self, delta: Delta) -> None:
        """Reasoning, once: some gateways mirror the same text in several fields of a delta (case P09)."""
        said = {"reasoning_content": delta.reasoning_content, "reasoning": delta.reasoning}
        if self._reasoning_field is None or not said.get(self._reasoning_field):
            named = next((name for name, text in said.items() if text), None)
            text = said[named] if named is not None else details_of(delta.reasoning_details or [])
            self._reasoning_field = self._reasoning_field or (named if named or not text else "reasoning")
        else:
            text = said[self._reasoning_field]
        if text:
            self._add(text, thought=True)

    def _take_parts(self, content: list[object]) -> None:
        text, thought = parts_of(content)
        if thought:
            self._reasoning_field = self._reasoning_field or "content"
            self._add(thought, thought=True)
        if text:
            self._add(text, thought=False)

    def _add(self, piece: str, *, thought: bool) -> None:
        if thought is not self._run_is_thought:
            self._close_run()
            self._run_is_thought = thought
        self._run.append(piece)

    def _close_run(self) -> None:
        """Turn the neighbouring pieces of one kind into one delta."""
        if not self._run:
            return
        joined = "".join(self._run)
        self._run.clear()
        if not self._run_is_thought:
            self._show(self._visible.feed(joined))
            return
        thought = self._thoughts.feed(joined)
        if thought:
            self._reasoning.append(thought)
            self._out.append(ReasoningDelta(thought))

    def _show(self, text: str) -> None:
        thought = self._visible.take_thought()
        if thought:
            self._tagged.append(thought)
            self._out.append(ReasoningDelta(thought))
        if text:
            self._texts.append(text)
            self._out.append(TextDelta(text))

    def _emitted(self) -> list[TextDelta | ReasoningDelta]:
        self._close_run()
        out, self._out = self._out, []
        return out

    def _kept_reasoning(self) -> Reasoning | None:
        """Reasoning that came in a field of its own is kept for its endpoint; else what think tags held."""
        if self._reasoning:
            return Reasoning(self._reasoning_field or "reasoning", "".join(self._reasoning), self._origin)
        if self._tagged:
            return Reasoning("content", "".join(self._tagged), self._origin)
        return None


def _usage(usage: dict[str, object] | None) -> Usage:
    """The counts that a provider gave, under the names it uses. Source: OpenAI, DeepSeek (prompt_cache_hit_tokens)."""
    if usage is None:
        return Usage()
    cached = _inner(usage, "prompt_tokens_details", "cached_tokens")
    return Usage(
        prompt_tokens=whole_number(usage.get("prompt_tokens")),
        completion_tokens=whole_number(usage.get("completion_tokens")),
        cached_tokens=cached if cached is not None else whole_number(usage.get("prompt_cache_hit_tokens")),
        reasoning_tokens=_inner(usage, "completion_tokens_details", "reasoning_tokens"),
    )


def _inner(usage: dict[str, object], group: str, name: str) -> int | None:
    try:
        fields = msgspec.convert(usage.get(group), dict[str, object])
    except msgspec.ValidationError:
        return None
    return whole_number(fields.get(name))
