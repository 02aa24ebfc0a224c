"""PDF files into blocks, page by page by pypdf; the bookmarks give the headings.

Pages are read in windows after which the reader's store of resolved objects is emptied: memory follows the
window, not the page count (case K07). A file whose text layer is missing or garbled is refused with that
reason, never indexed as success (case K04). A single damaged page is said to be one, in its place.
"""

import io
import logging
import re
from collections.abc import Iterator
from typing import cast

from pypdf import PasswordType, PdfReader
from pypdf.errors import PyPdfError
from pypdf.generic import Destination

from app.knowledge.blocks import BlockBuilder, FailureReason, Parsed, ParseFailure
from app.knowledge.decode import unreadable

PAGES_PER_WINDOW = 25
"""Pages after which resolved objects are dropped."""

MAX_PAGES = 20_000
"""A PDF of more pages isn't begun: it would take longer than a file may."""

MAX_OUTLINE_DEPTH = 4
"""Bookmarks below this depth are no headings."""

_DAMAGED_PAGE = "[This page of the PDF could not be read.]"
_POOR_PAGE_CHARS = 8
_HYPHENATED = re.compile(r"(?<=[a-z]{2})-\n(?=[a-z]{2})")
_JUNK_TITLE = re.compile(
    r"untitled|^\W*$|^\W?anonymous|^microsoft (?:word|powerpoint)|\.(?:docx?|pdf|tex|dvi|indd|rtf|html?)$",
    re.IGNORECASE,
)
_log = logging.getLogger(__name__)

Heading = tuple[int, str]


def parse_pdf(data: bytes, *, fallback: str = "") -> Parsed:
    """The blocks of a PDF: one per page, more where a bookmark's heading divides it.

    Raises:
        ParseFailure: password_protected, too_large, unreadable, broken.
    """
    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and reader.decrypt("") == PasswordType.NOT_DECRYPTED:
            raise ParseFailure(
                FailureReason.PASSWORD_PROTECTED,
                "The PDF is protected by a password. Save it without one and upload it again.",
            )
        if (pages := len(reader.pages)) > MAX_PAGES:
            message = f"The PDF has {pages} pages; {MAX_PAGES} are allowed. Divide it and upload the parts."
            raise ParseFailure(FailureReason.TOO_LARGE, message)
        title = str((reader.metadata and reader.metadata.title) or "")
        outline = _outline(reader)
        texts = list(_texts(reader))
    except PyPdfError as error:
        raise ParseFailure(FailureReason.BROKEN, "The PDF is damaged and can't be read.") from error
    _refuse_unreadable(texts)
    builder = BlockBuilder()
    for n, text in enumerate(texts):
        _add_page(builder, text, page=n + 1, headings=outline.get(n, []))
    return builder.build(fallback=fallback if _JUNK_TITLE.search(title) else title)


def _texts(reader: PdfReader) -> Iterator[str]:
    damaged = 0
    for n, page in enumerate(reader.pages):
        try:
            text = _HYPHENATED.sub("", page.extract_text())
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001  pypdf says that broken files may raise anything
            _log.warning("page %d could not be read", n + 1, exc_info=True)
            damaged += 1
            text = _DAMAGED_PAGE
        yield text
        if n % PAGES_PER_WINDOW == PAGES_PER_WINDOW - 1:
            reader.resolved_objects.clear()
    if damaged and damaged * 2 >= len(reader.pages):
        raise ParseFailure(FailureReason.BROKEN, f"The PDF is damaged: {damaged} of its pages can't be read.")


def _outline(reader: PdfReader) -> dict[int, list[Heading]]:
    """The bookmarks' (level, title) by page index, in order. Bookmarks are a help: broken ones are none."""
    found: dict[int, list[Heading]] = {}
    try:
        stack: list[tuple[int, Iterator[object]]] = [(1, iter(reader.outline))]
        while stack:
            level, items = stack[-1]
            for item in items:
                if isinstance(item, list):
                    stack.append((level + 1, iter(cast("list[object]", item))))
                    break
                if not isinstance(item, Destination):
                    continue
                page = reader.get_destination_page_number(item)
                if page is not None and level <= MAX_OUTLINE_DEPTH and item.title:
                    found.setdefault(page, []).append((level, item.title))
            else:
                stack.pop()
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001  as above
        _log.warning("the PDF's bookmarks could not be read", exc_info=True)
        return {}
    return found


def _refuse_unreadable(texts: list[str]) -> None:
    joined = "\n".join(texts)
    if unreadable(joined):
        raise ParseFailure(
            FailureReason.UNREADABLE,
            "The PDF's text layer can't be read: its letters have no known meaning. Run text recognition (OCR) on it.",
        )
    letters = sum(map(str.isalnum, joined))
    if letters < _POOR_PAGE_CHARS * len(texts) and letters < 200:
        raise ParseFailure(
            FailureReason.UNREADABLE,
            "The PDF holds pictures of pages but hardly any text. Run text recognition (OCR) on it.",
        )


def _add_page(builder: BlockBuilder, text: str, *, page: int, headings: list[Heading]) -> None:
    """The page's text, divided where a line is a bookmark's title; a title not found opens the page."""
    lines = text.split("\n")
    at = 0
    for level, title in headings:
        found = next((n for n in range(at, len(lines)) if _same(lines[n], title)), None)
        if found is not None:
            builder.text("\n".join(lines[at:found]), page)
            at = found + 1
        builder.heading(level, title, page)
    builder.text("\n".join(lines[at:]), page)


def _same(line: str, title: str) -> bool:
    return "".join(line.split()).casefold() == "".join(title.split()).casefold()
