"""Blocks into chunks: passages of about 900 characters that can be found, read and cited on their own.

A chunk never crosses a top-level section, ends at a paragraph where it can, else at a sentence (Latin or
CJK), else at a line, a space, a character; it never exceeds MAX_CHARS. Nothing of the text is lost: what
isn't blank stands in a chunk's text or in its heading path. Headings that begin inside a chunk are lines
of its text.
"""

import re
from dataclasses import dataclass, field
from itertools import groupby
from math import ceil

import msgspec

from app.knowledge.blocks import Block, common_path
from app.text import boundary

TARGET_CHARS = 1_000
"""A chunk is closed before a piece that would carry it beyond this, unless it is still short."""

MAX_CHARS = 1_600
"""No chunk's text is longer."""

SHORT_CHARS = 600
"""A shorter chunk goes on over a subsection's end."""

REST_CHARS = 200
"""A shorter chunk goes on over a page's end, and joins the one before it at the end of a section."""

_SENTENCE_END = re.compile(r"""(?<=[.!?…])["'”’)\]]*\s+|[。！？；…]+["'”’」』）】]*\s*""")
_BOUNDS = (_SENTENCE_END, re.compile(r"\n+"), re.compile(r"\s+"))


class Chunk(msgspec.Struct, frozen=True):
    """A passage. `page` is where it begins, counting from 1; its place in the list is its position."""

    text: str
    path: tuple[str, ...] = ()
    page: int | None = None

    @property
    def heading(self) -> str:
        """The heading path as one line, "" where there is none."""
        return " › ".join(self.path)


def chunk(blocks: tuple[Block, ...]) -> list[Chunk]:
    """The passages of a document, in reading order."""
    chunks: list[Chunk] = []
    for _, section in groupby(blocks, key=lambda block: block.path[:1]):
        packer = _Packer()
        for block in section:
            packer.add(block)
        chunks += packer.finish()
    return chunks


def sentences(text: str) -> list[str]:
    """The text's sentences with what separates them; their joining gives the text again."""
    return _cut_at(_SENTENCE_END, text)


def split(text: str, limit: int) -> list[str]:
    """The text in pieces of at most `limit` characters; their joining gives the text again."""
    return _split(text, limit, _BOUNDS)


@dataclass(slots=True)
class _Passage:
    """A chunk being filled: (headings, text with its glue before it) in order.

    `size` counts every heading that may become a line of the text, so it is never below the final length.
    """

    page: int | None
    parts: list[tuple[tuple[str, ...], str]] = field(default_factory=list[tuple[tuple[str, ...], str]])
    size: int = 0

    def cost(self, path: tuple[str, ...], piece: str) -> int:
        headings = 0 if self.parts and self.parts[-1][0] == path else sum(len(title) + 1 for title in path) + 1
        return headings + len(piece)

    def add(self, path: tuple[str, ...], piece: str) -> None:
        self.size += self.cost(path, piece)
        self.parts.append((path, piece))

    def chunk(self) -> Chunk:
        """The chunk under what all its parts have above them; headings below that become lines."""
        path = common_path([path for path, _ in self.parts])
        out: list[str] = []
        above = path
        for here, piece in self.parts:
            if here != above:
                new = here[len(common_path([above, here])) :]
                out += ["\n\n" if out else "", "\n".join(new), "\n", piece.lstrip("\n")]
                above = here
            else:
                out.append(piece)
        return Chunk("".join(out).strip("\n").rstrip(), path, self.page)


class _Packer:
    """Fills the chunks of one top-level section."""

    def __init__(self) -> None:
        self._passages: list[_Passage] = []
        self._path: tuple[str, ...] = ()
        self._page: int | None = None

    def add(self, block: Block) -> None:
        full = self._passages[-1].size if self._passages else 0
        new_page = block.page != self._page and full >= REST_CHARS
        new_section = block.path != self._path and full >= SHORT_CHARS
        if new_page or new_section:
            self._passages.append(_Passage(block.page))
        self._path, self._page = block.path, block.page
        for n, piece in enumerate(_even_pieces(block.text)):
            self._place(block, piece if n else "\n\n" + piece)

    def finish(self) -> list[Chunk]:
        if len(self._passages) > 1 and self._passages[-1].size < REST_CHARS:
            rest = self._passages.pop()
            last = self._passages[-1]
            if last.size + rest.size > TARGET_CHARS + REST_CHARS or last.page != rest.page:
                self._passages.append(rest)
            else:
                for path, piece in rest.parts:
                    last.add(path, piece)
        return [passage.chunk() for passage in self._passages]

    def _place(self, block: Block, piece: str) -> None:
        if self._passages:
            last = self._passages[-1]
            limit = TARGET_CHARS if last.size >= SHORT_CHARS else MAX_CHARS
            if not last.parts or last.size + last.cost(block.path, piece) <= limit:
                last.add(block.path, piece)
                return
        passage = _Passage(block.page)
        passage.add(block.path, piece)
        self._passages.append(passage)


def _even_pieces(text: str) -> list[str]:
    """A block that is too long for one chunk in pieces of about the same length."""
    if len(text) <= TARGET_CHARS:
        return [text]
    even = ceil(len(text) / ceil(len(text) / TARGET_CHARS))
    return split(text, min(TARGET_CHARS, even + REST_CHARS // 2))


def _split(text: str, limit: int, bounds: tuple[re.Pattern[str], ...]) -> list[str]:
    if len(text) <= limit:
        return [text]
    if not bounds:
        return _cut_hard(text, limit)
    pieces: list[str] = []
    current = ""
    for unit in _cut_at(bounds[0], text):
        if len(current) + len(unit) <= limit:
            current += unit
            continue
        if current:
            pieces.append(current)
        *whole, current = _split(unit, limit, bounds[1:])
        pieces += whole
    return [*pieces, current] if current else pieces


def _cut_at(bound: re.Pattern[str], text: str) -> list[str]:
    ends = [match.end() for match in bound.finditer(text)]
    starts = [0, *ends]
    return [text[start:end] for start, end in zip(starts, [*ends, len(text)], strict=True) if end > start]


def _cut_hard(text: str, limit: int) -> list[str]:
    """Pieces of a text without any bound, cut between what a reader sees as one character (case T06)."""
    pieces: list[str] = []
    start = 0
    while len(text) - start > limit:
        size = boundary(text[start : start + limit + 1], limit) or limit
        pieces.append(text[start : start + size])
        start += size
    return [*pieces, text[start:]]
