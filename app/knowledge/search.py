"""A question into the passages of a base that fit it: words, statement, excerpts.

Decides what a question is searched by and when the net for typos is cast. How matches are ranked is
decided in app/store/chunks.py; what a model reads of it in app/tools/search_chunks.py.
"""

from dataclasses import dataclass
from typing import Literal

from app.knowledge.chunking import sentences
from app.knowledge.segment import Query, parse_query, quote, segment
from app.store import chunks
from app.store.chunks import FoundChunk, SearchTerms
from app.store.engine import Database
from app.text import boundary, clean, cut

SearchOutcome = Literal["found", "alike", "nothing", "no_searchable_words"]

_ALIKE_CHARS = 200


@dataclass(frozen=True, slots=True)
class SearchHits:
    """What a search gave, best first.

    found: by the question's words. alike: by titles, file names and headings that look like the question,
    because no word was found. `query` is what was searched for.
    """

    outcome: SearchOutcome
    hits: tuple[FoundChunk, ...]
    query: Query


async def search(database: Database, base_id: str, question: str, *, limit: int = 6) -> SearchHits:
    """The passages that fit a question best. Any text is a question (case K03); work is bounded.

    One statement, a second one only where the first finds nothing.

    Raises:
        StoreUnavailable: the database did not answer. Never means that nothing was found.
    """
    asked = clean(question)
    query = parse_query(asked)
    if not query.words:
        return SearchHits("no_searchable_words", (), query)
    terms = SearchTerms([quote(word) for word in query.words], query.phrase, query.all_words)
    found = await chunks.search(database, base_id, terms, limit=limit)
    if found:
        return SearchHits("found", tuple(found), query)
    alike = await chunks.search_alike(database, base_id, asked.strip()[:_ALIKE_CHARS], limit=limit)
    return SearchHits("alike" if alike else "nothing", tuple(alike), query)


def excerpt(text: str, query: Query, *, limit: int = 300) -> str:
    """The part of a passage that says most of what was asked, on one line, at most `limit` characters."""
    if len(text) <= limit:
        return " ".join(text.split())
    words = frozenset(query.words)
    units = [line for sentence in sentences(text) for line in sentence.splitlines(keepends=True)]
    best = max(range(len(units)), key=lambda n: (_held(words, units[n]), -n))
    start = sum(map(len, units[:best]))
    if len(units[best]) > limit:
        start += _near(units[best], query.words, before=limit // 3)
    shown = " ".join(text[start:].split())
    return cut(shown if start == 0 else f"…{shown}", limit)


def _held(words: frozenset[str], text: str) -> int:
    return len(words.intersection(word for word, _ in segment(text)))


def _near(text: str, words: tuple[str, ...], *, before: int) -> int:
    """Where to begin in a long text so that a word that was asked for is seen."""
    lowered = text.lower()
    places = [place for place in map(lowered.find, words) if place >= 0]
    return boundary(text, max(min(places, default=0) - before, 0))
