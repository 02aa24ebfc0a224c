"""Passages of an observation cut into sentences, and the ones that answer a question best.

Reads the shape that app/tools/passage.py writes: a line `[n] title › heading (document …)`, then lines that
begin with a bar. Decides what a sentence is, how well it fits, and which are kept. Knows no messages.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from app.llm.dates import FoundDate, first_date
from app.llm.words import (
    Intent,
    Language,
    content_terms,
    intent,
    question_terms,
    subject,
    text_language,
)
from app.text import clean, cut

MAX_SENTENCES = 6
MAX_DATED_LINES = 12
MAX_SENTENCE_CHARS = 420
MAX_BLOCK_CHARS = 4_000

_STATUS = re.compile(r"\A(?:OK|EMPTY|ERROR): ?")
_HEAD = re.compile(r"\[(\d{1,6})\] (.*)")
_DOCUMENT = re.compile(r" \(document [^()]*\)\Z")
_HEADING = re.compile(r"#{1,6}\s+")
_LIST_ITEM = re.compile(r"(?:[-*+•·]|\d{1,3}[.)、])\s+")
_RULE = re.compile(r"[\s|:=_*~`-]*")
_CITATION = re.compile(r"\s*[\[［【〔]\s*\d[\d\s,，、;；–-]*[\]］】〕]")
_SPACE_BEFORE = re.compile(r" (?=[.,;:!?)。，；：！？）、])")
_BRACKETS = str.maketrans("[]［］【】〔〕", "()()()()")
_CONTROL = re.compile(r"</?\s*(?:think|tool_call)[^<>]*>|<[|｜][^<>]*>", re.IGNORECASE)
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*\)")
_EMPHASIS = re.compile(r"\*\*|`+")
_BREAK = re.compile(r"[。！？][”’」』）)]*|(?<![.!?])[.!?]++[\"”’)\]]*(?=\s+[\"“‘(\[]?[A-Z0-9\u4e00-\u9fff])")
_ABBREVIATION = re.compile(
    r"(?:\b(?:[A-Z]|Inc|Mr|Mrs|Ms|Dr|Prof|St|No|vs|Jr|Sr|Co|Corp|Ltd|approx|e\.g|i\.e)|\b[A-Z]\.[A-Z])\.\Z"
)
_ENDS = re.compile(r"[.!?。！？:：;；][\"”’」』）)\]]*\Z")
_NAME = re.compile(r"\b[A-Z][\w'’-]+(?: [A-Z][\w'’-]*)+|[\u4e00-\u9fff]+·[\u4e00-\u9fff·]+")
_PRONOUN = re.compile(r"(?:He|She|It|They|His|Her|Its|Their|This|These|Those)\b|[他她它]|这[一家个次些]?|该|此")
_CJK_EDGE = re.compile(r"[\u3000-\u9fff\uff00-\uffef]\Z")


@dataclass(frozen=True, slots=True)
class Passage:
    """A numbered passage of an observation; `heading` is its title and place, `lines` its text as written."""

    n: int
    heading: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence or list item that can be quoted. `rank` is its passage's place in the result, best first."""

    n: int
    rank: int
    position: int
    text: str
    terms: frozenset[str]
    heading_terms: frozenset[str]
    date: FoundDate | None
    dated: bool
    """Whether it begins with its date, as an entry of a timeline does."""
    language: Language


@dataclass(frozen=True, slots=True)
class Selection:
    """The sentences to quote, and how much of the question the best of them covers, from 0 to 1."""

    sentences: tuple[Sentence, ...]
    coverage: float


def passages_of(observation: str) -> list[Passage]:
    """The passages of one tool result, in order; text outside of them is left out."""
    found: list[tuple[int, str, list[str]]] = []
    for line in _STATUS.sub("", observation, count=1).split("\n"):
        if line.startswith("|"):
            if found:
                found[-1][2].append(line[1:].removeprefix(" "))
        elif head := _HEAD.match(line):
            found.append((int(head[1]), _DOCUMENT.sub("", head[2].rstrip()), []))
    return [Passage(n, heading, tuple(lines)) for n, heading, lines in found]


def sentences_of(passages: Sequence[Passage]) -> list[Sentence]:
    """Every sentence of the passages once, in the order of the passages."""
    found: list[Sentence] = []
    seen: set[str] = set()
    for rank, passage in enumerate(passages):
        heading = content_terms(passage.heading)
        for position, (text, under) in enumerate(_blocks(passage.lines)):
            key = "".join(text.split()).casefold()
            if key in seen:
                continue
            seen.add(key)
            date = first_date(text)
            found.append(
                Sentence(
                    n=passage.n,
                    rank=rank,
                    position=position,
                    text=text,
                    terms=content_terms(text),
                    heading_terms=heading | content_terms(under) if under else heading,
                    date=date[0] if date else None,
                    dated=date is not None and date[1] <= 3,
                    language=text_language(text),
                )
            )
    return found


def best_sentences(question: str, passages: Sequence[Passage], *, language: Language) -> Selection:
    """The sentences that answer the question, at most MAX_SENTENCES, or MAX_DATED_LINES for a timeline.

    Sentences in `language` go before others. A timeline is in order of time; anything else keeps the
    sentences of a passage together, the passage with the best sentence first.
    """
    sentences = sentences_of(passages)
    weights = _weights(question_terms(question), sentences)
    if Intent.TIMELINE in intent(question):
        selection = _timeline(question, sentences, language)
        if len(selection.sentences) > 1:
            return selection
    chosen = _choose(_scored(intent(question), sentences, weights, language), MAX_SENTENCES)
    first_of: dict[int, int] = {}
    for i, sentence in enumerate(chosen):
        first_of.setdefault(sentence.n, i)
    ordered = sorted(chosen, key=lambda s: (first_of[s.n], s.position))
    return Selection(tuple(ordered), max((_coverage(s, weights, 1.0) for s in chosen), default=0.0))


def split_sentences(text: str) -> list[str]:
    """A paragraph cut into sentences; abbreviations and initials don't end one."""
    found: list[str] = []
    start = 0
    for match in _BREAK.finditer(text):
        piece = text[start : match.end()]
        if _ABBREVIATION.search(piece[-12:]):
            continue
        found.append(piece.strip())
        start = match.end()
    found.append(text[start:].strip())
    return [piece for piece in found if piece]


def quotable(text: str) -> str:
    """Text fit to stand in an answer: no markup, no bracketed numbers that would read as citations."""
    text = _EMPHASIS.sub("", _LINK.sub(r"\1", " ".join(clean(text).split())))
    text = _SPACE_BEFORE.sub("", " ".join(_CITATION.sub(" ", _CONTROL.sub(" ", text)).split()))
    if _CONTROL.search(text):  # what was taken out had kept the ends of another tag apart
        text = text.replace("<", "‹")
    if _CITATION.search(text):
        text = text.translate(_BRACKETS)
    return text.strip()


def _blocks(lines: Sequence[str]) -> Iterable[tuple[str, str]]:
    """Each sentence of a passage with the heading inside the passage it stands under."""
    under = ""
    open_line = ""
    for line in [*(raw.strip() for raw in lines), ""]:
        heading = _HEADING.match(line)
        fresh = not line or heading or _LIST_ITEM.match(line) or line.startswith("|") or _starts_dated(line)
        fresh = fresh or len(open_line) > MAX_BLOCK_CHARS or _stands_alone(open_line, line)
        if open_line and (fresh or _ENDS.search(open_line[-8:])):
            yield from ((text, under) for text in _sentences(open_line))
            open_line = ""
        if heading:
            under = cut(quotable(line[heading.end() :]), MAX_SENTENCE_CHARS)
        elif line and not _RULE.fullmatch(line):
            open_line = _join(open_line, line)


def _starts_dated(line: str) -> bool:
    found = first_date(line[:40])
    return found is not None and found[1] == 0


def _stands_alone(above: str, line: str) -> bool:
    """Whether a line without an end is a title or an entry: shorter than wrapped text, and no sentence goes on."""
    return len(above) < 40 and not line[:1].islower()


def _join(left: str, right: str) -> str:
    if not left:
        return right
    return left + right if _CJK_EDGE.search(left) else f"{left} {right}"


def _sentences(block: str) -> list[str]:
    """A block's sentences, fit to quote. A list entry that begins with a date stays whole if it isn't long."""
    item = _LIST_ITEM.match(block)
    text = block[item.end() :] if item else block
    if text.startswith("|"):
        text = " · ".join(cell.strip() for cell in text.strip("|").split("|") if cell.strip())
    text = quotable(text)
    entry = first_date(text[:40]) if item else None
    whole = entry is not None and entry[1] == 0 and len(text) <= MAX_SENTENCE_CHARS
    pieces = [text] if whole else split_sentences(text)
    return [cut(piece, MAX_SENTENCE_CHARS) for piece in pieces if any(c.isalnum() for c in piece)]


def _weights(wanted: frozenset[str], sentences: Sequence[Sentence]) -> dict[str, float]:
    """How telling each term is among these sentences, in parts of 1; headings count for what is under them."""
    seen = Counter(t for s in sentences for t in wanted if t in s.terms or t in s.heading_terms)
    count = len(sentences)
    idf = {t: math.log(1 + (count - seen[t] + 0.5) / (seen[t] + 0.5)) + 0.1 for t in sorted(wanted)}
    total = sum(idf.values())
    return {t: weight / total for t, weight in idf.items()}


def _coverage(sentence: Sentence, weights: Mapping[str, float], above: float) -> float:
    """The part of the question that a sentence covers; a term only in its headings counts `above`."""
    return sum(
        weight if t in sentence.terms else above * weight if t in sentence.heading_terms else 0.0
        for t, weight in weights.items()
    )


def _scored(
    wanted: Intent, sentences: Sequence[Sentence], weights: Mapping[str, float], language: Language
) -> list[tuple[float, Sentence]]:
    """Sentences that share a term with the question, with their scores, best first; ties keep their order."""
    found: list[tuple[float, Sentence]] = []
    for sentence in sentences:
        score = _coverage(sentence, weights, 0.7) * _fitness(sentence, wanted)
        if score > 0:
            score *= 1.0 if sentence.language == language else 0.3
            found.append((score / (1 + 0.05 * sentence.rank), sentence))
    return sorted(found, key=lambda pair: -pair[0])


def _fitness(sentence: Sentence, wanted: Intent) -> float:
    """How far a sentence has the form of what is asked for: dates, names, a length that says something."""
    factor = 1.0
    if (Intent.WHEN in wanted or Intent.TIMELINE in wanted) and sentence.date:
        factor += 0.1 + 0.1 * sentence.date.precision
    if Intent.WHO in wanted:
        factor += 0.12 * min(len(set(_NAME.findall(sentence.text))), 5)
    if len(sentence.terms) < 3:
        factor *= 0.6
    if _PRONOUN.match(sentence.text):  # says who is meant only in the sentence before
        factor *= 0.75
    return factor


def _choose(scored: Sequence[tuple[float, Sentence]], limit: int) -> list[Sentence]:
    """The best sentences that don't repeat one another and aren't far behind the best one."""
    chosen: list[Sentence] = []
    if not scored:
        return chosen
    floor = scored[0][0] * 0.5
    for score, sentence in scored:
        if score < floor or len(chosen) == limit:
            break
        if not any(_alike(sentence, other) > 0.6 for other in chosen):
            chosen.append(sentence)
    return chosen


def _alike(a: Sentence, b: Sentence) -> float:
    """Shared terms as a part of the shorter sentence's; languages apart never count as alike."""
    smaller = min(len(a.terms), len(b.terms))
    return len(a.terms & b.terms) / smaller if smaller else 0.0


def _timeline(question: str, sentences: Sequence[Sentence], language: Language) -> Selection:
    """Dated lines about the question's subject, in order of time; each year gets a line before any gets two."""
    dated = [s for s in sentences if s.date]
    entries = [s for s in dated if s.dated]
    dated = entries if len(entries) > 2 else dated
    weights = _weights(question_terms(" ".join(subject(question))), sentences)
    about = {id(s): _coverage(s, weights, 0.7) for s in dated}
    best = max(about.values(), default=0.0)
    dated = [s for s in dated if about[id(s)] >= best * 0.6]
    own = [s for s in dated if s.language == language]
    dated = own if len(own) > 2 else dated
    common = Counter(t for s in sentences for t in s.terms)
    score = {id(s): about[id(s)] + _standing(s, common) for s in dated}
    by_year: dict[int, list[Sentence]] = {}
    for sentence in sorted(dated, key=lambda s: -score[id(s)]):
        year = by_year.setdefault(sentence.date.year if sentence.date else 0, [])
        if not any(_same_event(sentence, other) for other in year):
            year.append(sentence)
    order = sorted(
        ((turn, -score[id(s)], s) for year in by_year.values() for turn, s in enumerate(year)),
        key=lambda entry: entry[:2],
    )
    kept = [s for _, _, s in order[:MAX_DATED_LINES]]
    kept.sort(key=lambda s: (s.date or FoundDate(0, 0, 0), s.rank, s.position))
    return Selection(tuple(kept), best if weights else 1.0)


def _standing(sentence: Sentence, common: Counter[str]) -> float:
    """How much a dated line stands out: the precision of its date, and words that other sentences share."""
    precision = sentence.date.precision if sentence.date else 0
    words = [t for t in sentence.terms if len(t) > 1]
    shared = sum(math.log(common[t]) for t in words) / (1 + len(words)) ** 0.33
    return 0.1 * precision + min(shared * 0.05, 0.8) - 0.02 * sentence.rank


def _same_event(a: Sentence, b: Sentence) -> bool:
    return a.date == b.date and _alike(a, b) > 0.5
