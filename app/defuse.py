"""Strangers' text as a model may read it: nothing in it that a person can't see, and nothing a tokenizer obeys.

Documents, tool results and models' own answers pass here on their way into a request; what is stored, shown and cited
stays as it is. Two ways in are closed. Hidden characters (tags, zero-width and direction marks, stray variation
selectors) carry instructions that nobody who read the document has seen. Role markers (`<|im_start|>`, `[INST]` and
kin) are control tokens to many endpoints wherever they stand, so that no delimiter around them helps; a blank after
their first sign takes that away and leaves them readable. A leaf: imports nothing of ours. Source: case K11.
"""

import re
from dataclasses import dataclass
from functools import cache

_FLAG = "\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{3,6}\U000e007f"  # England, Scotland, Wales
_HIDDEN = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff"
    "\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
)
_CONTROLS = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f"
_JOINERS = "\u200c\u200d"
_SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
_BAR = "[|｜¦∣]"
_MARKER = rf"""
      (?<=[<＜])(?={_BAR}[^<>＜＞\s]{{1,60}}{_BAR}[>＞])       # ChatML, Llama 3, Harmony, DeepSeek, GLM
    | (?<=[<＜])(?=/?(?:start_of_turn|end_of_turn|s|bos|eos|sop|eop|pad|unk
          |system|user|assistant|developer|tool|tool_call|tool_calls|tool_response|tool_result|tool_results
          |function_call|function_calls|function_results|think|thinking)[>＞])
    | (?<=<)(?=</?SYS>>)                                   # Llama 2
    | (?<=\[)(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|gMASK)\])
"""


@dataclass(frozen=True, slots=True)
class _Patterns:
    """`run`: more than a script or an emoji needs, which is one, or a selector and a joiner."""

    suspect: re.Pattern[str]
    unseen: re.Pattern[str]
    run: re.Pattern[str]
    marker: re.Pattern[str]


@cache
def _patterns() -> _Patterns:
    """Made when they are first wanted: milliseconds, and a start wants none."""
    return _Patterns(
        suspect=re.compile(f"[{_HIDDEN}{_CONTROLS}{_JOINERS}{_SELECTORS}]"),
        unseen=re.compile(rf"({_FLAG})|[{_HIDDEN}{_CONTROLS}]+"),
        run=re.compile(rf"[{_JOINERS}{_SELECTORS}]{{3,}}"),
        marker=re.compile(_MARKER, re.VERBOSE | re.IGNORECASE),
    )


def defused(text: str) -> str:
    """The text without what can't be seen, its role markers broken. Text without either comes back as it is."""
    patterns = _patterns()
    if patterns.suspect.search(text) is not None:
        text = patterns.run.sub("", patterns.unseen.sub(lambda found: found.group(1) or "", text))
    if "<" in text or "[" in text or "＜" in text:
        text = patterns.marker.sub(" ", text)
    return text
