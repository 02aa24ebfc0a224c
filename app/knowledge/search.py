"""A question into the passages of a base that fit it: words, vectors where there are some, fusion, excerpts.

Decides what a question is searched by, how the two rankings become one (reciprocal rank, decision 0011) and when the
net for typos is cast. How words rank is decided in app/store/chunks.py; what a model reads of it in
app/tools/search_chunks.py.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from app.knowledge.chunking import sentences
from app.knowledge.nearest import Nearest
from app.knowledge.segment import Query, parse_query, segment, term
from app.store import chunks
from app.store.chunks import ChunkRecord, FoundChunk, SearchTerms
from app.store.engine import Database
from app.text import boundary, clean, cut

SearchOutcome = Literal["found", "near", "alike", "nothing", "no_searchable_words"]

FUSION_K = 60
"""Softens the first places' advantage. Source: Cormack, Clarke and Buettcher, Reciprocal Rank Fusion, SIGIR 2009."""

FUSED_DEPTH = 30
"""As many passages of each ranking take part."""

_ALIKE_CHARS = 200
_ASKED_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class SearchHits:
    """What a search gave, best first.

    found: by the question's words, and by vectors where there are some. near: by vectors only, no word was found.
    alike: by titles, file names and headings that look like the question, because nothing else was found. `query`
    is what was searched for.
    """

    outcome: SearchOutcome
    hits: tuple[FoundChunk, ...]
    query: Query


async def search(
    database: Database, base_id: str, question: str, *, limit: int = 6, nearest: Nearest | None = None
) -> SearchHits:
    """The passages that fit a question best. Any text is a question (case K03); work is bounded.

    One statement for the words, while the question's vector is had; another for the nearest vectors, and one for
    what is alike only where nothing was found.

    Raises:
        StoreUnavailable: the database did not answer. Never means that nothing was found.
    """
    asked = clean(question)
    query = parse_query(asked)
    if not query.words:
        return SearchHits("no_searchable_words", (), query)
    terms = SearchTerms([term(word) for word in query.words], query.phrase, query.all_words)
    if nearest is None:
        found, near = await chunks.search(database, base_id, terms, limit=limit), list[ChunkRecord]()
    else:
        asking = asyncio.create_task(nearest.find(base_id, asked[:_ASKED_CHARS], limit=FUSED_DEPTH), name="nearest")
        try:
            found = await chunks.search(database, base_id, terms, limit=max(limit, FUSED_DEPTH))
            near = await asking
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
    if found or near:
        return SearchHits("found" if found else "near", tuple(fuse(found, near)[:limit]), query)
    alike = await chunks.search_alike(database, base_id, asked.strip()[:_ALIKE_CHARS], limit=limit)
    return SearchHits("alike" if alike else "nothing", tuple(alike), query)


def fuse(found: Sequence[FoundChunk], near: Sequence[ChunkRecord]) -> list[FoundChunk]:
    """Both rankings as one: each place gives 1 / (FUSION_K + place), and who is in both gets both.

    Without `near` the order of `found`; of equals, what holds the words comes first.
    """
    chosen = {hit.chunk.id: hit for hit in found}
    scores = {hit.chunk.id: 1 / (FUSION_K + place) for place, hit in enumerate(found, 1)}
    for place, chunk in enumerate(near, 1):
        chosen.setdefault(chunk.id, FoundChunk(chunk, phrase=False, all_words=False, weight=0.0, density=0.0))
        scores[chunk.id] = scores.get(chunk.id, 0.0) + 1 / (FUSION_K + place)
    return sorted(chosen.values(), key=lambda hit: -scores[hit.chunk.id])


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
