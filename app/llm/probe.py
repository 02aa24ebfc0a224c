"""What an endpoint can do, found out with one tiny streamed tool call: for `turnstream doctor` and the settings page.

Asks for a call with every optional field, drops what is refused, one after the other, and tells what was left
standing. Never retries what is transient: a doctor reports what it sees. Costs a few tokens.
"""

from contextlib import aclosing
from dataclasses import dataclass
from typing import Literal

from app.llm.failures import ModelFailure, Rejected, Unreachable
from app.llm.model import Feature, Model, ModelRequest, ModelTurn, SystemMessage, ToolSpec, UserMessage

Verdict = Literal["ok", "missing", "unreachable", "failed"]

_TOOL = ToolSpec(
    "report_word",
    "Report the word that the user gave.",
    {
        "type": "object",
        "properties": {"word": {"type": "string", "description": "The word."}},
        "required": ["word"],
        "additionalProperties": False,
    },
)
_MESSAGES = (SystemMessage("Call report_word with the user's word."), UserMessage("pelican"))
_LADDER = (Feature.TOOL_CHOICE, Feature.STREAM_OPTIONS, Feature.TOOLS)
"""What an unnamed refusal may be about, likeliest first."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `hint` says what to do where the verdict isn't ok."""

    subject: str
    verdict: Verdict
    note: str
    hint: str = ""


async def probe(model: Model) -> list[Finding]:
    """Ask the endpoint and say what it supports: one finding when it can't be asked, else one per feature."""
    avoid: frozenset[Feature] = frozenset()
    while True:
        try:
            turn = await _ask(model, avoid)
        except Rejected as refusal:
            dropped = (refusal.refused or _next_guess(avoid, refusal)) - avoid
            if not dropped:
                return [_failed(refusal)]
            avoid |= dropped
        except ModelFailure as failure:
            return [_failed(failure)]
        else:
            return _findings(turn, avoid)


async def _ask(model: Model, avoid: frozenset[Feature]) -> ModelTurn:
    tools = () if Feature.TOOLS in avoid else (_TOOL,)
    request = ModelRequest(_MESSAGES, tools, tool_choice="required" if tools else None, avoid=avoid)
    async with aclosing(model.stream(request)) as events:
        async for event in events:
            if isinstance(event, ModelTurn):
                return event
    raise RuntimeError("a model's stream ended without a model turn")


def _next_guess(avoid: frozenset[Feature], refusal: Rejected) -> frozenset[Feature]:
    if refusal.status not in (400, 422):
        return frozenset()
    return frozenset([feature for feature in _LADDER if feature not in avoid][:1])


def _failed(failure: ModelFailure) -> Finding:
    if isinstance(failure, Unreachable):
        hint = "Check TURNSTREAM_LLM_BASE_URL, the network and the proxy settings."
        return Finding("endpoint", "unreachable", failure.message, hint)
    hints = {
        "model_rejected": "Check TURNSTREAM_LLM_API_KEY and TURNSTREAM_LLM_MODEL.",
        "model_out_of_credit": "The account has no credit left at the provider.",
        "model_rate_limited": "The provider limits requests; wait, or raise the limit there.",
    }
    hint = hints.get(failure.code, "Look at the endpoint's own log or status page.")
    return Finding("endpoint", "failed", f"{failure.code}: {failure.message}", hint)


def _findings(turn: ModelTurn, avoid: frozenset[Feature]) -> list[Finding]:
    called = [call.name for call in turn.tool_calls]
    found = [Finding("endpoint", "ok", "a streamed reply came to its end")]
    if Feature.TOOLS in avoid:
        hint = "Every turn is then answered by one-shot retrieval; choose a model with tool calling."
        found.append(Finding("tool calling", "missing", "tool calling is refused", hint))
    elif called:
        found.append(Finding("tool calling", "ok", f"called {', '.join(called)}"))
    else:
        hint = "The model answered with text; turns will be sent back once, then answered by retrieval."
        found.append(Finding("tool calling", "missing", "no call was made though one was asked for", hint))
    if Feature.TOOL_CHOICE in avoid or Feature.TOOLS in avoid:
        hint = "The gate holds without it; turns may cost one request more."
        found.append(Finding("tool_choice required", "missing", "the field is refused", hint))
    else:
        found.append(Finding("tool_choice required", "ok", "honoured" if called else "accepted, not honoured"))
    if turn.usage.prompt_tokens is None:
        hint = "Tokens of streamed answers won't be counted."
        found.append(Finding("stream usage", "missing", "no usage came with the stream", hint))
    else:
        found.append(Finding("stream usage", "ok", "counted"))
    others = sorted(avoid - {Feature.TOOLS, Feature.TOOL_CHOICE, Feature.STREAM_OPTIONS})
    found += [Finding(feature.value, "missing", "refused, so it is left out") for feature in others]
    return found
