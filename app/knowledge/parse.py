"""Which parser reads a file, and the one door to all of them.

Decides a file's kind from its first bytes, its name and its media type, in this order. Pure and blocking:
app/knowledge/reader.py runs it beside the event loop, in a child process where a parser is needed.
"""

from collections.abc import Callable
from enum import StrEnum
from pathlib import PurePath

from app.knowledge.blocks import FailureReason, Parsed, ParseFailure
from app.knowledge.decode import decode, unreadable
from app.knowledge.formats.markdown import parse_markdown, parse_plain


class Kind(StrEnum):
    """The kinds of file that can be read. TEXT and MARKDOWN need no parser of others."""

    MARKDOWN = "markdown"
    TEXT = "text"
    HTML = "html"
    PDF = "pdf"
    DOCX = "docx"


MEDIA_TYPES = {
    Kind.MARKDOWN: "text/markdown",
    Kind.TEXT: "text/plain",
    Kind.HTML: "text/html",
    Kind.PDF: "application/pdf",
    Kind.DOCX: "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
}
"""The media type recorded for each kind."""

SUFFIXES = {
    ".md": Kind.MARKDOWN,
    ".markdown": Kind.MARKDOWN,
    ".txt": Kind.TEXT,
    ".text": Kind.TEXT,
    ".html": Kind.HTML,
    ".htm": Kind.HTML,
    ".xhtml": Kind.HTML,
    ".pdf": Kind.PDF,
    ".docx": Kind.DOCX,
    ".doc": Kind.DOCX,  # refused by its parser with the advice to save it anew
}
"""File name endings that can be read."""


def kind_of(name: str, media_type: str = "", head: bytes = b"") -> Kind | None:
    """The file's kind; None where it can't be read. `head` is its first bytes, as far as known."""
    suffix = SUFFIXES.get(PurePath(name).suffix.lower())
    if head.lstrip()[:5] == b"%PDF-":
        return Kind.PDF
    if suffix is not None:
        return suffix
    declared = media_type.partition(";")[0].strip().lower()
    if declared == "application/xhtml+xml":
        return Kind.HTML
    return next((kind for kind, known in MEDIA_TYPES.items() if known == declared), None)


def parse(data: bytes, *, name: str, media_type: str = "") -> Parsed:
    """The document's blocks.

    Raises:
        ParseFailure: it has no text, with the reason.
        MemoryError: the parser hit the process's limit.
    """
    if not data.strip():
        raise ParseFailure(FailureReason.EMPTY, "The file is empty.")
    kind = kind_of(name, media_type, data[:1024])
    if kind is None:
        raise ParseFailure(
            FailureReason.UNSUPPORTED_TYPE,
            f"Files like {PurePath(name).name!r} can't be read. Readable are: {', '.join(sorted(SUFFIXES))}.",
        )
    read = _parser(kind)
    try:
        parsed = read(data, PurePath(name).stem)
    except (ParseFailure, MemoryError):
        raise
    except Exception as error:  # a parser of others, and a file that may be hostile: any fault is the file's
        raise ParseFailure(FailureReason.BROKEN, f"The file is damaged: it can't be read as {_NAMES[kind]}.") from error
    if not parsed.blocks:
        raise ParseFailure(FailureReason.EMPTY, "The file holds no text.")
    return parsed


_NAMES = {
    Kind.MARKDOWN: "markdown",
    Kind.TEXT: "text",
    Kind.HTML: "an HTML page",
    Kind.PDF: "a PDF",
    Kind.DOCX: "a Word document",
}


def _parser(kind: Kind) -> Callable[[bytes, str], Parsed]:
    """Bytes and a title to fall back on into blocks. Imported here, so that only who reads a kind pays for it."""
    match kind:
        case Kind.MARKDOWN:
            return lambda data, title: parse_markdown(*_text(data), fallback=title)
        case Kind.TEXT:
            return lambda data, title: parse_plain(*_text(data), fallback=title)
        case Kind.HTML:
            from app.knowledge.formats.html import parse_html  # noqa: PLC0415

            return lambda data, title: parse_html(data, fallback=title)
        case Kind.PDF:
            from app.knowledge.formats.pdf import parse_pdf  # noqa: PLC0415

            return lambda data, title: parse_pdf(data, fallback=title)
        case Kind.DOCX:
            from app.knowledge.formats.docx import parse_docx  # noqa: PLC0415

            return lambda data, title: parse_docx(data, fallback=title)


def _text(data: bytes) -> tuple[str, str]:
    text, encoding = decode(data)
    if unreadable(text):
        raise ParseFailure(FailureReason.UNREADABLE, "The file isn't text, or its encoding is unknown.")
    return text, encoding
