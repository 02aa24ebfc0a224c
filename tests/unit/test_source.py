"""A file on its way in: its name, its hash, its bytes."""

import hashlib
import io
from pathlib import Path

import pytest

from app.knowledge.source import PART_BYTES, Source, file_name, measure, pieces


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("board.md", "board.md"),
        ("part/board.md", "part/board.md"),
        ("C:\\docs\\board.md", "C:/docs/board.md"),
        ("/etc/../../board.md", "etc/board.md"),
        (" a\n b\t.md ", "a b .md"),
        ("a\x00b\ud83d.md", "ab\ufffd.md"),
        ("x" * 600 + ".md", "x" * 509 + ".md"),
        ("报告.txt", "报告.txt"),
        ("", ""),
        ("..", ""),
        ("/", ""),
        (" \x00", ""),
    ],
)
def test_a_name_is_one_clean_line_below_its_folder(given: str, kept: str) -> None:
    """Case D01: a name is cleaned once; it is a label and never a path."""
    assert file_name(given) == kept


@pytest.mark.parametrize("kind", ["bytes", "path", "file"])
async def test_a_source_gives_its_bytes_in_pieces(kind: str, tmp_path: Path) -> None:
    """Bytes, a path and an open file that was read before are the same to the rest."""
    data = b"ab" * PART_BYTES
    (tmp_path / "f").write_bytes(data)
    opened = io.BytesIO(data)
    opened.read()
    sources: dict[str, Source] = {"bytes": data, "path": tmp_path / "f", "file": opened}
    assert measure(sources[kind]) == (hashlib.sha256(data).hexdigest(), len(data), data[:1024])
    assert [len(piece) async for piece in pieces(sources[kind])] == [PART_BYTES, PART_BYTES]
