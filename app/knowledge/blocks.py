"""What a document is once it has been parsed: blocks of text, each under its headings, or why it has none.

Every parser gives a `Parsed`; the chunker takes it. `BlockBuilder` keeps the heading stack so that parsers
only say "heading of level 2" and "text". Also the closed list of reasons for which a document is refused.
"""

import re
from enum import StrEnum

import msgspec

from app.text import clean, cut

MAX_HEADING_CHARS = 200
"""A longer heading is text that was marked up as one."""


class FailureReason(StrEnum):
    """Why a document has no text. Stored beside a sentence for a person."""

    EMPTY = "empty"
    UNREADABLE = "unreadable"
    PASSWORD_PROTECTED = "password_protected"  # noqa: S105  a reason, not a secret
    TOO_LARGE = "too_large"
    UNSUPPORTED_TYPE = "unsupported_type"
    BROKEN = "broken"
    TOO_SLOW = "too_slow"


class ParseFailure(Exception):
    """A document that can't be read. `message` is a sentence for the person who gave it."""

    def __init__(self, reason: FailureReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class Block(msgspec.Struct, frozen=True):
    """A paragraph, list, table or code block. `path` holds the headings above it, `page` counts from 1.

    `text` may have line breaks and never begins or ends with one.
    """

    text: str
    path: tuple[str, ...] = ()
    page: int | None = None


class Parsed(msgspec.Struct, frozen=True):
    """A document as text. `encoding` is what the bytes were decoded with, None where the format says it."""

    title: str
    blocks: tuple[Block, ...]
    encoding: str | None = None

    @property
    def content(self) -> str:
        """The whole text, with the headings as lines of their own."""
        out: list[str] = []
        above: tuple[str, ...] = ()
        for block in self.blocks:
            new = block.path[len(common_path([above, block.path])) :]
            out += (*new, block.text)
            above = block.path
        return "\n\n".join(out)


def common_path(paths: list[tuple[str, ...]]) -> tuple[str, ...]:
    """The headings that all of the paths begin with."""
    first, last = min(paths), max(paths)
    n = 0
    while n < len(first) and n < len(last) and first[n] == last[n]:
        n += 1
    return first[:n]


class BlockBuilder:
    """Collects blocks in reading order and knows the headings above the next one."""

    def __init__(self) -> None:
        self._blocks: list[Block] = []
        self._stack: list[tuple[int, str]] = []
        self._bare: Block | None = None  # the last heading, while nothing stands under it
        self._levels: list[int] = []

    def heading(self, level: int, text: str, page: int | None = None) -> None:
        """A heading; those of its own level and below end here. Blank ones are ignored."""
        title = " ".join(clean(text).split())
        if not title:
            return
        if len(title) > MAX_HEADING_CHARS:
            self.text(title, page)
            return
        if self._stack and self._stack[-1][0] >= level:
            self._keep_bare()
        while self._stack and self._stack[-1][0] >= level:
            self._stack.pop()
        self._bare = Block(title, self._path(), page)
        self._stack.append((level, title))
        self._levels.append(level)

    def text(self, text: str, page: int | None = None) -> None:
        """A block of text under the current headings."""
        cleaned = _tidy(text)
        if cleaned:
            self._bare = None
            self._blocks.append(Block(cleaned, self._path(), page))

    def build(self, *, title: str = "", fallback: str = "", encoding: str | None = None) -> Parsed:
        """The document, titled `title`, else by the single top heading that opens it, else `fallback`.

        A top heading that is the title is no part of the paths.
        """
        self._keep_bare()
        blocks = tuple(self._blocks)
        top = self._title_heading(blocks)
        title = title or top or fallback
        if top and title == top:
            blocks = tuple(Block(block.text, block.path[1:], block.page) for block in blocks)
        return Parsed(cut(" ".join(clean(title).split()), MAX_HEADING_CHARS), blocks, encoding)

    def _title_heading(self, blocks: tuple[Block, ...]) -> str:
        if not self._levels or self._levels[0] != min(self._levels) or self._levels.count(self._levels[0]) > 1:
            return ""
        heads = {block.path[0] for block in blocks if block.path}
        return heads.pop() if len(heads) == 1 else ""

    def _path(self) -> tuple[str, ...]:
        return tuple(title for _, title in self._stack)

    def _keep_bare(self) -> None:
        """A heading with nothing below it would be lost: it becomes text of the section above."""
        if self._bare is not None:
            self._blocks.append(self._bare)
            self._bare = None


_BLANK_EDGES = re.compile(r"\A(?:[ \t]*\n)+|\s+\Z")


def _tidy(text: str) -> str:
    """Clean text with LF line ends, without blank lines at its edges; indentation stays."""
    return _BLANK_EDGES.sub("", clean(text).replace("\r\n", "\n").replace("\r", "\n").replace("\f", "\n"))
