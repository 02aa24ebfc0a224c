"""The product's own manual, searched in memory: a few dozen sections, read once and kept.

Sections are cut at the pages' headings. The pages are docs/manual of the source tree, or their copy inside
an installed package.
"""

import math
import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from pathlib import Path

import app
from app.knowledge.formats.markdown import parse_markdown
from app.knowledge.segment import parse_query, segment

HEADING_WEIGHT = 3
"""How much more a word in a section's headings counts than one in its text."""

_NOT_IN_ANCHOR = re.compile(r"[^\w\- ]")


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page. `id` is `page#anchor`; `heading` is the path below the page's title, "" for its beginning."""

    id: str
    title: str
    heading: str
    text: str
    words: Counter[str]


class Manual:
    """Sections that can be searched. Immutable; safe in threads."""

    def __init__(self, sections: tuple[Section, ...]) -> None:
        self.sections = sections
        self._held = Counter(word for section in sections for word in section.words)

    def search(self, question: str, *, limit: int) -> list[Section] | None:
        """The sections that hold most of the question's words, best first; None where it has no words.

        A section that holds all words comes before one that doesn't; then the rarer words decide.
        """
        query = parse_query(question)
        if not query.words:
            return None
        scored: list[tuple[bool, float, Section]] = []
        for section in self.sections:
            weights = [self._weight(word, section) for word in query.words if word in section.words]
            if weights:
                scored.append((len(weights) == len(query.words), sum(weights), section))
        scored.sort(key=lambda entry: (not entry[0], -entry[1], entry[2].id))
        return [section for _, _, section in scored[:limit]]

    def _weight(self, word: str, section: Section) -> float:
        rarity = math.log(1 + len(self.sections) / self._held[word])
        return rarity * (1 + math.log(section.words[word]))


@lru_cache(maxsize=1)
def manual() -> Manual:
    """The manual of this installation. Blocking at the first call; empty where none was shipped."""
    return load(manual_folder())


def manual_folder() -> Path:
    """Where the pages are: inside the installed package, or in the source tree beside it."""
    package = Path(app.__path__[0])
    shipped = package / "_shipped" / "manual"
    return shipped if shipped.is_dir() else package.parent / "docs" / "manual"


def load(folder: Path) -> Manual:
    """The manual of a folder's pages. Blocking."""
    sections: list[Section] = []
    for page in sorted(folder.glob("*.md")):
        parsed = parse_markdown(page.read_text(encoding="utf-8"), fallback=page.stem)
        for path, blocks in groupby(parsed.blocks, key=lambda block: block.path):
            text = "\n\n".join(block.text for block in blocks)
            heading = " › ".join(path)
            words = Counter(word for word, _ in segment(text))
            for word, _ in segment(f"{parsed.title}\n{heading}"):
                words[word] += HEADING_WEIGHT
            sections.append(
                Section(f"{page.stem}#{_anchor((parsed.title, *path)[-1])}", parsed.title, heading, text, words)
            )
    return Manual(tuple(sections))


def _anchor(heading: str) -> str:
    """The heading's anchor as GitHub makes it."""
    return _NOT_IN_ANCHOR.sub("", heading.lower()).replace(" ", "-")
