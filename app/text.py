"""What text may be in this product: any Unicode but NUL and lone surrogates.

Postgres refuses U+0000 in text and JSONB, and a lone surrogate can't be encoded as UTF-8 at all. Every
door through which outside text comes (requests, provider streams, tool results, parsed documents) calls
`clean` once, before anything is counted or stored. A leaf: imports nothing of ours.
"""

import re
import unicodedata
from typing import cast

_LONGEST_CLUSTER = 32
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATE_PAIR = re.compile("([\ud800-\udbff])([\udc00-\udfff])")


def clean(text: str) -> str:
    """The text without NUL; surrogate pairs become their character and lone surrogates U+FFFD.

    Source: case D01 (one cleaning point; frames, offsets and stored text agree).
    """
    if text.isascii():
        return text.replace("\x00", "") if "\x00" in text else text
    if "\x00" in text:
        text = text.replace("\x00", "")
    if _LONE_SURROGATE.search(text) is None:
        return text
    text = _SURROGATE_PAIR.sub(_join_pair, text)
    return _LONE_SURROGATE.sub("\ufffd", text)


def clean_json(value: object) -> object:
    """`clean` applied to every string, key and value, of a JSON value."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(str(k)): clean_json(v) for k, v in cast("dict[object, object]", value).items()}
    if isinstance(value, list | tuple):
        return [clean_json(v) for v in cast("list[object]", value)]
    return value


def cut(text: str, limit: int) -> str:
    """At most `limit` characters (1 or more), ending in an ellipsis where something was cut, at a `boundary`."""
    if len(text) <= limit:
        return text
    return text[: boundary(text, limit - 1)].rstrip() + "…"


def boundary(text: str, end: int) -> int:
    """The last place up to `end` where a cut splits nothing that a reader sees as one character.

    Keeps combining marks, variation selectors, skin tones, ZWJ sequences, tags and flag pairs whole (case T06).
    `end` itself where no such place is near, so that a run of marks can't make a text vanish.
    """
    if end >= len(text):
        return len(text)
    for place in range(end, max(end - _LONGEST_CLUSTER, 0), -1):
        if not _splits(text, place):
            return place
    return end if end > _LONGEST_CLUSTER else 0


def _join_pair(match: re.Match[str]) -> str:
    high, low = ord(match.group(1)), ord(match.group(2))
    return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))


def _splits(text: str, place: int) -> bool:
    """Whether a cut before `text[place]` would split what a reader sees as one character."""
    left, right = text[place - 1], text[place]
    if _is_flag_half(left) and _is_flag_half(right):
        start = place - 1
        while start > 0 and _is_flag_half(text[start - 1]):
            start -= 1
        return (place - start) % 2 == 1
    return (
        left == "\u200d"
        or right == "\u200d"
        or unicodedata.category(right).startswith("M")
        or "\U0001f3fb" <= right <= "\U0001f3ff"
        or "\U000e0020" <= right <= "\U000e007f"
    )


def _is_flag_half(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"
