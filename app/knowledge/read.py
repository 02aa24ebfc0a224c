"""A file's bytes into what is stored: parse, cut into chunks, make each chunk's search vector.

Pure and blocking, the same wherever it runs: app/knowledge/reader.py calls it in a thread for small text
and in a child process for everything else.
"""

import msgspec

from app.knowledge.blocks import FailureReason, ParseFailure
from app.knowledge.chunking import chunk
from app.knowledge.parse import parse
from app.knowledge.segment import SEGMENTER_VERSION, to_tsvector_literal

MAX_CHUNKS = 100_000
"""What a document may be cut into: 90 million characters of running text. What was packed small, or is all headings,
ends here, in the child, before its server has it in memory and its base in tables."""


class ReadChunk(msgspec.Struct, frozen=True):
    """A chunk ready to be stored; `tsv` is a tsvector literal."""

    heading: str
    page: int | None
    text: str
    tsv: str


class ReadDocument(msgspec.Struct, frozen=True, tag="document"):
    """A document ready to be stored. `content` is its whole text; `segmenter` made the vectors."""

    title: str
    encoding: str | None
    content: str
    chunks: list[ReadChunk]
    segmenter: int


class ReadFailure(msgspec.Struct, frozen=True, tag="failure"):
    """Why there is no document: a reason and a sentence for a person."""

    reason: FailureReason
    message: str


def read(data: bytes, *, name: str, media_type: str = "") -> ReadDocument | ReadFailure:
    """The document, or why there is none. Never raises for what is in the file."""
    try:
        parsed = parse(data, name=name, media_type=media_type)
        passages = chunk(parsed.blocks)
        if len(passages) > MAX_CHUNKS:
            return ReadFailure(
                FailureReason.TOO_LARGE,
                f"The document has {len(passages)} passages; {MAX_CHUNKS} are allowed. Divide it and upload the parts.",
            )
        chunks = [
            ReadChunk(
                piece.heading,
                piece.page,
                piece.text,
                vector(name=name, title=parsed.title, heading=piece.heading, text=piece.text),
            )
            for piece in passages
        ]
    except ParseFailure as failure:
        return ReadFailure(failure.reason, failure.message)
    except MemoryError:
        return ReadFailure(
            FailureReason.TOO_LARGE, "Reading the file needs more memory than the server allows for one file."
        )
    return ReadDocument(parsed.title, parsed.encoding, parsed.content, chunks, SEGMENTER_VERSION)


def vector(*, name: str, title: str, heading: str, text: str) -> str:
    """A chunk's search vector: what it is called in its document, and its text."""
    return to_tsvector_literal(text, heading=f"{name}\n{title}\n{heading}")
