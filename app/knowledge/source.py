"""A file on its way in: its name as it is stored, its hash, and its bytes in pieces."""

import asyncio
import hashlib
import io
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from app.text import clean

Source = bytes | Path | BinaryIO
"""Where a file's bytes are; an open file is read from its beginning and left open."""

PART_BYTES = 1024 * 1024
"""A file is read and stored in pieces of this size, so that an upload never stands in memory whole."""

MAX_NAME_CHARS = 512


def file_name(name: str) -> str:
    """A name as it is stored: one line, forward slashes, no way out of its folder; "" where nothing is left."""
    parts = PurePosixPath(" ".join(clean(name).replace("\\", "/").split())).parts
    kept = "/".join(part for part in parts if part not in {"/", "..", "."})
    return kept if len(kept) <= MAX_NAME_CHARS else kept[-MAX_NAME_CHARS:]


@contextmanager
def _opened(source: Source) -> Generator[BinaryIO, None, None]:
    if isinstance(source, bytes):
        yield io.BytesIO(source)
    elif isinstance(source, Path):
        with source.open("rb") as file:
            yield file
    else:
        source.seek(0)
        yield source


def measure(source: Source) -> tuple[str, int, bytes]:
    """The SHA-256 in hex, the size, and the first bytes. Blocking."""
    digest, size, head = hashlib.sha256(), 0, b""
    with _opened(source) as file:
        while piece := file.read(PART_BYTES):
            head = head or piece[:1024]
            digest.update(piece)
            size += len(piece)
    return digest.hexdigest(), size, head


async def pieces(source: Source) -> AsyncGenerator[bytes, None]:
    """The bytes, read in a thread."""
    with _opened(source) as file:
        while piece := await asyncio.to_thread(file.read, PART_BYTES):
            yield piece
