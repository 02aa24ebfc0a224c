"""What a hostile file may cost: pages, passages, memory; each with a reason. Source: issue 9 item 2, case K07.

Zip bombs: test_parse_files.py. The clock, and a reader that dies: tests/behaviour/test_documents.py.
"""

import pytest

from app.knowledge import read
from app.knowledge.blocks import FailureReason
from app.knowledge.formats import pdf as pdf_format
from app.knowledge.read import ReadDocument, ReadFailure
from app.knowledge.reader import ReaderLimits, read_file
from tests.harness.files import pdf, pdf_bomb

WORDS = "Some words that make a page worth being read, and a few more of them."


def test_a_pdf_of_too_many_pages_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says how many there are and how many are allowed."""
    monkeypatch.setattr(pdf_format, "MAX_PAGES", 3)
    assert isinstance(read.read(pdf([WORDS] * 3), name="a.pdf"), ReadDocument)
    assert read.read(pdf([WORDS] * 4), name="a.pdf") == ReadFailure(
        FailureReason.TOO_LARGE, "The PDF has 4 pages; 3 are allowed. Divide it and upload the parts."
    )


def test_a_document_of_too_many_passages_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Headings alone can make a million rows of a few megabytes."""
    monkeypatch.setattr(read, "MAX_CHUNKS", 2)
    assert isinstance(read.read(b"# a\n\nx\n\n# b\n\ny\n", name="a.md"), ReadDocument)
    assert read.read(b"# a\n\nx\n\n# b\n\ny\n\n# c\n\nz\n", name="a.md") == ReadFailure(
        FailureReason.TOO_LARGE, "The document has 3 passages; 2 are allowed. Divide it and upload the parts."
    )


async def test_a_file_that_needs_too_much_memory_is_refused_and_only_its_reader_is_hurt() -> None:
    """The child's own limit ends the work, and the child still says why."""
    told = await read_file(
        b"word word word word\n\n" * 300_000, name="a.md", media_type="", limits=ReaderLimits(memory_mb=100)
    )
    assert isinstance(told, ReadFailure)
    assert (told.reason, told.message) == (
        FailureReason.TOO_LARGE,
        "Reading the file needs more memory than the server allows for one file.",
    )


async def test_a_page_that_unpacks_to_hundreds_of_megabytes_is_given_up_within_the_limits() -> None:
    """Three hundred thousand bytes of a PDF; its reader ends with an answer."""
    told = await read_file(
        pdf_bomb(300_000_000), name="a.pdf", media_type="", limits=ReaderLimits(memory_mb=400, time_s=20)
    )
    assert isinstance(told, ReadFailure)
    assert told.reason in {FailureReason.BROKEN, FailureReason.UNREADABLE, FailureReason.TOO_LARGE}
