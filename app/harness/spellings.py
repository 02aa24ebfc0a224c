"""Whether a fact appears in an answer, and in which language the answer is. Pure.

A fact is a slot with several spellings; both sides are brought to one form first, so that full-width digits, thousands
separators, blanks inside a Chinese date, typographic quotes and emphasis don't matter. Source: issue 8 item 1.
"""

import re
import unicodedata
from collections.abc import Sequence
from typing import Literal

Language = Literal["zh", "en", "other", "none"]

_SIGNS = str.maketrans({
    "’": "'", "‘": "'", "ʼ": "'", "＇": "'", "´": "'",
    "“": '"', "”": '"',
    "–": "-", "—": "-", "‑": "-", "−": "-", "‐": "-",
    "•": "·", "・": "·", "‧": "·",
})  # fmt: skip
_EMPHASIS = re.compile(r"[*`]+")
_NARROW = re.compile("(?<=[0-9])[\u00a0\u2009\u202f](?=[0-9]{3}(?![0-9]))")
_GROUPED = re.compile(r"(?<![0-9.,])[0-9]{1,3}(?:([,'_])[0-9]{3})(?:\1[0-9]{3})*(?![0-9])")
_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_BESIDE_HAN = re.compile(f"(?<=[{_HAN}])\\s+|\\s+(?=[{_HAN}])")
_BLANKS = re.compile(r"\s+")
_LETTER = "a-z0-9\u00e0-\u024f"

_HAN_CHAR = re.compile(f"[{_HAN}]")
_PLAIN_WORD = re.compile("(?<![A-Za-z\u00c0-\u024f'-])[a-z\u00e0-\u024f]{2,}(?![A-Za-z\u00c0-\u024f])")
_LATIN = re.compile("[A-Za-z\u00c0-\u024f]")
_ASIDE = re.compile(r"\([^()]*\)")
_LETTERS = re.compile(r"[^\W\d_]")
_KANA = re.compile("[\u3040-\u30ff]")


def normal(text: str) -> str:
    """The one form: NFKC, case folded, plain quotes and dashes, numbers without separators, blanks made one.

    Blanks beside a Chinese character are dropped. A plain space doesn't separate thousands: "in 2023 700 people".
    """
    text = _NARROW.sub(",", text)
    text = unicodedata.normalize("NFKC", text.translate(_SIGNS)).casefold()
    text = _EMPHASIS.sub("", text.translate(_SIGNS))
    text = _GROUPED.sub(lambda match: match[0].replace(match[1], ""), text)
    return _BLANKS.sub(" ", _BESIDE_HAN.sub("", text)).strip()


def appears(spelling: str, in_normal: str) -> bool:
    """Whether a spelling stands in a text that is already `normal`, as whole words and whole numbers."""
    wanted = normal(spelling)
    if not wanted:
        return False
    before = f"(?<![{_LETTER}])(?<![0-9][.])" if re.match(f"[{_LETTER}]", wanted) else ""
    after = f"(?![{_LETTER}])" if re.search(f"[{_LETTER}]\\Z", wanted) else ""
    if wanted[-1].isdigit():
        after += "(?![.][0-9])"
    return re.search(f"{before}{re.escape(wanted)}{after}", in_normal) is not None


def missing(slots: Sequence[Sequence[str]], answer: str) -> tuple[str, ...]:
    """The first spelling of each slot that no spelling of appears."""
    text = normal(answer)
    return tuple(slot[0] for slot in slots if not any(appears(spelling, text) for spelling in slot))


def language(text: str) -> Language:
    """In which script the running text is: names don't count.

    A Chinese answer is full of Latin names and an English one may give Chinese ones; so what stands in brackets is
    left out, and Chinese characters, two to a word, are weighed against words that begin in lower case, which names
    don't. Letters of any other script, where they are more than either, are `other` (seed 001: a Chinese question was
    answered in Thai). By script only: French is `en`.
    """
    text = unicodedata.normalize("NFKC", text)
    text = _ASIDE.sub(" ", text) if _LETTERS.search(_ASIDE.sub(" ", text)) else text
    han, plain = len(_HAN_CHAR.findall(text)), len(_PLAIN_WORD.findall(text))
    latin = len(_LATIN.findall(text))
    letters = sum(character.isalpha() for character in text)
    other = letters - han - latin
    if len(_KANA.findall(text)) * 5 > han > 0 or (other > han and other > latin):
        return "other"
    if not han and not latin:
        return "none"
    return "zh" if han > 2 * plain else "en"
