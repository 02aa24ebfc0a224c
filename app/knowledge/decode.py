"""Bytes into text: which encoding a text file is in, and whether what came out is text at all.

Order of trial (case K04): UTF-16/32 by byte order mark or by its zero bytes, UTF-8, UTF-8 with a few bad
bytes, GB18030 or Big5 where the characters are common Chinese ones, the detector's verdict (any GB
verdict is read as GB18030), then Windows-1252 or Latin-1. The chosen name is recorded with the document.
"""

import codecs
import re
from collections.abc import Callable

from charset_normalizer import from_bytes

_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_GB = frozenset({"gb2312", "gbk", "gb18030", "hz", "cp936"})
_KOREAN = frozenset({"cp949", "euc_kr", "johab"})
_WIDE_VERDICTS = ("big5", "cp932", "cp949", "cp950", "euc", "gb", "hz", "iso2022", "johab", "shift")
_SAMPLE_BYTES = 65_536
_COMMON_SHARE = 0.85
_UNREADABLE_SHARE = 0.3
_CONTROL_SHARE = 0.1

_ODD_IN_WESTERN = re.compile("[A-Za-z][¡¢£¥¦¯±²³¶¹¼½¾¿]|[¢£¥¦¯±³¶¹¼½¾][a-z]")
_CHINESE_PUNCTUATION = re.compile("[\u2010-\u2026\u3000-\u303f\uff00-\uffef]")
_CID = re.compile(r"\(cid:\d+\)")
_UNREADABLE = re.compile("[\ufffd\ue000-\uf8ff]")
_CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f]")
_SPACE = re.compile(r"\s")


def decode(data: bytes) -> tuple[str, str]:
    """The text and the name of the encoding it was read with. Never fails; see `unreadable`."""
    for mark, name in _BOMS:
        if data.startswith(mark):
            return data.decode(name, errors="replace"), name
    wide = _wide(data)
    if wide is not None:
        return data.decode(wide, errors="replace"), wide
    try:
        return data.decode(), "utf-8"
    except UnicodeDecodeError:
        pass
    nearly = data.decode(errors="replace")
    bad = nearly.count("\ufffd")
    if bad * 2 <= sum(character > "\x7f" for character in nearly) - bad:
        return nearly, "utf-8"
    for name in (*_candidates(data), "cp1252"):
        try:
            return data.decode(name), name
        except UnicodeDecodeError:
            continue
    return data.decode("latin-1"), "latin-1"


def decode_as(data: bytes, declared: str) -> tuple[str, str] | None:
    """The text read with the encoding the document declares; None where the name or the bytes are wrong."""
    try:
        name = codecs.lookup(declared).name
        name = "gb18030" if name in _GB else name
        return data.decode(name), name
    except (LookupError, UnicodeDecodeError, ValueError):
        return None


def unreadable(text: str) -> bool:
    """Whether it is no text: mostly replacement or private characters or bare glyph numbers, or full of controls."""
    size = max(len(_SPACE.sub("", text)), 1)
    controls = len(_CONTROL.findall(text))
    bad = controls + len(_UNREADABLE.findall(text)) + sum(map(len, _CID.findall(text)))
    return bad > _UNREADABLE_SHARE * size or controls > _CONTROL_SHARE * size


def _wide(data: bytes) -> str | None:
    """UTF-16 without a mark: zero bytes on one side only."""
    sample = data[: _SAMPLE_BYTES & ~1]
    if len(sample) < 4 or len(data) % 2:
        return None
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    many = max(even, odd) * 10 >= len(sample) // 2
    if not many or min(even, odd) * 20 > max(even, odd):
        return None
    return "utf-16-le" if odd > even else "utf-16-be"


def _candidates(data: bytes) -> list[str]:
    sample = data[:_SAMPLE_BYTES]
    best = from_bytes(sample).best()
    verdict = best.encoding if best is not None else ""
    common = {
        "gb18030": _common_share(sample, "gb18030", lambda lead: 0xB0 <= lead <= 0xD7, "gb2312"),
        "big5hkscs": _common_share(sample, "big5hkscs", lambda lead: 0xA4 <= lead <= 0xC6, "big5"),
    }
    chinese = max(common, key=lambda name: common[name])
    found: list[str] = []
    if common[chinese] >= _COMMON_SHARE and verdict not in _KOREAN:
        found.append(chinese)
    if verdict in _GB:
        found.append("gb18030")
    elif not verdict.startswith(_WIDE_VERDICTS) and _western(sample):
        found.append("cp1252")
    elif verdict and not verdict.startswith("utf"):
        found.append(verdict)
    return found


def _western(sample: bytes) -> bool:
    """Mostly ASCII, and what isn't reads well as Windows-1252: the detector is no help in telling those apart."""
    high = sum(byte >= 0x80 for byte in sample)
    letters = sum(map(str.isalpha, sample.decode("ascii", errors="ignore")))
    return high <= letters and _ODD_IN_WESTERN.search(sample.decode("cp1252", errors="ignore")) is None


def _common_share(sample: bytes, name: str, common: Callable[[int], bool], level_one: str) -> float:
    """Which share of the wide characters, read as `name`, is among the frequent ones of that standard."""
    try:
        text = codecs.getincrementaldecoder(name)().decode(sample)
    except UnicodeDecodeError:
        return 0.0
    wide = [character for character in text if character >= "\u0080"]
    good = 0
    for character in wide:
        if _CHINESE_PUNCTUATION.match(character):
            good += 1
        elif "\u4e00" <= character <= "\u9fff":
            encoded = character.encode(level_one, errors="ignore")
            good += len(encoded) == 2 and common(encoded[0])
    return good / len(wide) if wide else 0.0
