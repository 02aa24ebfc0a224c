"""Text into words for search: the one segmentation that index and queries share.

Decides what a searchable word is. A run of a script written without spaces (Han, kana, hangul, Thai and
kin) gives overlapping pairs and single characters, each at the position of its first character (the index holds only
the pairs and a run's last character: a question of one character asks for what begins with it); a Latin word gives
its stem; numbers and code-like tokens (`v2.1`, `foo_bar`, `C++`) give the whole token and its
parts. Nothing is parsed by Postgres: `to_tsvector_literal` writes the vector that is cast as it is.
Does not decide how matches are ranked (app/store/chunks.py). Pure; safe in threads.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import Protocol

import snowballstemmer  # pyright: ignore[reportMissingTypeStubs]

SEGMENTER_VERSION = 2
"""Stored with each chunk; raise it whenever the words of any text change, then re-index."""

MAX_POSITION = 16_383
"""The largest position a tsvector holds; later words keep this one. Source: PostgreSQL manual, 12.11."""

MAX_WORD_CHARS = 128
"""A longer token is cut: 128 characters are at most 512 bytes, well below a lexeme's 2,046."""

_HAN_KANA = (
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u303b\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U0003fffd"
)
_OTHER_UNSPACED = "\u0e01-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\ua960-\ua97f\uac00-\ud7ff"
_UNSPACED = _HAN_KANA + _OTHER_UNSPACED
_LETTER = rf"[^\W_{_UNSPACED}]"
_MARK = "[\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0dff]"
_WORD = rf"{_LETTER}+(?:{_MARK}+{_LETTER}*)*"
_JOINER = r"['’._\-/:@&+]"
_TOKEN = re.compile(rf"([{_UNSPACED}]+)|({_WORD}(?:{_JOINER}{_WORD})*(?:\+\+|#)?)")
_BETWEEN_PARTS = re.compile(rf"{_JOINER}|\+\+$|#$")
_WRAPPED = re.compile(rf"(?<=[{_HAN_KANA}])[ \t]*\n[ \t]*(?=[{_HAN_KANA}])")
_ONE_UNSPACED = re.compile(f"[{_UNSPACED}]")
_COMBINING = re.compile("[\u0300-\u036f]+")
_EDGES = re.compile("^[的是]+|[吗呢吧么]+$")
FUNCTION_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a about after all also am an and any are as at be been before being both but by can could did do doe doing"
        " else ever for from get give go had has have he her him his how i if in into is it its just many may me more"
        " most much my no not of on one or our out over she should so some than that the their them then there these"
        " they this those to too two up us was we were what when where whether which while who whom whose why will"
        " with would you your",
    )
)
_HEADING_GAP = 8
_LONGEST_STEMMED = 40


class _Stemmer(Protocol):
    def stemWord(self, word: str) -> str: ...  # noqa: N802  the library's name


_stemmer: _Stemmer = snowballstemmer.stemmer("english")  # pyright: ignore[reportUnknownMemberType]
_stemmer_lock = Lock()  # a stemmer keeps the word it works on in itself; ingest runs in threads


@dataclass(frozen=True, slots=True)
class Query:
    """A question's searchable words, distinct, in order of appearance.

    `phrase` is a tsquery of the whole text with `<N>` distances, `all_words` the AND of each run's own
    phrase; both are valid for any input, and empty exactly where there are no words.
    """

    words: tuple[str, ...]
    phrase: str
    all_words: str


def segment(text: str) -> Iterator[tuple[str, int]]:
    """Yields (word, position), positions counting from 1."""
    return _segment(text, singles=True)


def _segment(text: str, *, singles: bool) -> Iterator[tuple[str, int]]:
    """`singles` False leaves out the characters that begin a pair: a prefix finds them, at half the index's size."""
    position = 1
    for unspaced, token in _tokens(text):
        if unspaced:
            for at in range(0 if singles else len(token) - 1, len(token)):
                yield token[at], position + at
            for at in range(len(token) - 1):
                yield token[at : at + 2], position + at
            position += len(token)
        else:
            parts, whole = _parts(token)
            if whole is not None:
                yield whole, position
            for part in parts:
                yield part, position
                position += 1


def content_words(text: str) -> frozenset[str]:
    """A text's words for comparing what is said, not for searching: stems, and each character of unspaced scripts."""
    found: set[str] = set()
    for unspaced, token in _tokens(text):
        found.update(token if unspaced else _parts(token)[0])
    return frozenset(found)


def to_tsvector_literal(text: str, *, heading: str = "") -> str:
    """The text as a tsvector literal, its heading's words first and with weight B.

    Quotes and backslashes are escaped, so that any text gives a literal that casts. Meant for chunks: a
    tsvector holds at most 1 MB.
    """
    out: list[str] = []
    offset = 0
    for word, position in _segment(heading, singles=False):
        offset = position + _HEADING_GAP
        out.append(f"{quote(word)}:{min(position, MAX_POSITION)}B")
    for word, position in _segment(text, singles=False):
        at = position + offset
        out.append(f"{quote(word)}:{min(at, MAX_POSITION)}")
    return " ".join(out)


def parse_query(text: str, *, max_chars: int = 2_000, max_words: int = 64) -> Query:
    """A question as data: no character of it is syntax (case K03). The two limits bound all later work.

    Function words count only in `phrase`, unless nothing else is asked for.
    """
    placed: list[tuple[str, int]] = []
    asked: list[tuple[list[str], str | None]] = []
    position = 1
    for unspaced, token in _tokens(text[:max_chars]):
        room = max_words - len(placed)
        if room <= 0:
            break
        if unspaced:
            run, whole = _pairs(token)[:room], None
            core = _pairs(_EDGES.sub("", token) or token)[:room]
        else:
            parts, whole = _parts(token)
            run = core = parts[:room]
        placed += [(word, at) for at, word in enumerate(run, position)]
        asked.append((core, whole))
        position += len(token) if unspaced else len(run)
    asked = [run for run in asked if not FUNCTION_WORDS.issuperset(run[0])] or asked
    words = dict.fromkeys(word for core, whole in asked for word in (*core, whole) if word is not None)
    all_words = " & ".join(f"({' <1> '.join(map(term, core))})" for core, _ in asked)
    return Query(tuple(words), _phrase(placed), all_words)


def term(word: str) -> str:
    """A word as it is asked for in a tsquery: one character of an unspaced script stands for what begins with it."""
    return f"{quote(word)}:*" if len(word) == 1 and _ONE_UNSPACED.match(word) else quote(word)


def quote(word: str) -> str:
    """A word as a lexeme of a tsvector or tsquery literal."""
    if "'" in word or "\\" in word:
        word = word.replace("\\", "\\\\").replace("'", "''")
    return f"'{word}'"


def _tokens(text: str) -> Iterator[tuple[bool, str]]:
    """Yields (written without spaces, token) in order."""
    if text.isascii():
        text = text.lower()
    else:
        text = unicodedata.normalize("NFKC", text).lower()
        text = _WRAPPED.sub("", text)  # a line break inside a Chinese sentence separates nothing
    for match in _TOKEN.finditer(text):
        run = match.group(1)
        yield (True, run) if run is not None else (False, match.group(2))


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)] or [run]


@lru_cache(maxsize=1 << 16)
def _parts(token: str) -> tuple[list[str], str | None]:
    """A word's searchable parts, and the whole of a token that has several parts or a sign of its own."""
    if token.endswith(("'s", "’s")):
        token = token[:-2]
    if token.isalnum() or _BETWEEN_PARTS.search(token) is None:
        return [_stem(token)], None
    parts = [_stem(part) for part in _BETWEEN_PARTS.split(token) if part]
    whole = _fold(token).replace("’", "'")
    return parts, whole if len(whole) <= MAX_WORD_CHARS else None


def _stem(word: str) -> str:
    word = _fold(word)
    if len(word) > _LONGEST_STEMMED:
        return word[:MAX_WORD_CHARS]
    if not word.isascii() or not word.isalpha():
        return word
    with _stemmer_lock:
        return _stemmer.stemWord(word)


def _fold(word: str) -> str:
    """The word without Latin accents, so that `Zürich` and `Zurich` are one word."""
    return word if word.isascii() else _COMBINING.sub("", unicodedata.normalize("NFKD", word))


def _phrase(placed: list[tuple[str, int]]) -> str:
    """Words at their distances, as a tsquery."""
    out: list[str] = []
    for n, (word, position) in enumerate(placed):
        if n:
            out.append(f"<{position - placed[n - 1][1]}>")
        out.append(term(word))
    return " ".join(out)
