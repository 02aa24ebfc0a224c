"""Word documents into blocks: mammoth turns the document into HTML, whose tree is walked.

A file that expands beyond what it may is refused by what its zip directory says, before anything is
unpacked; Python's zipfile never yields more than that directory declares (case K07).
"""

import io
import zipfile
from collections.abc import Callable
from typing import Protocol, cast

import mammoth  # pyright: ignore[reportMissingTypeStubs]

from app.knowledge.blocks import BlockBuilder, FailureReason, Parsed, ParseFailure
from app.knowledge.formats.tree import add_tree, parse_fragment, parse_xml

MAX_UNPACKED_BYTES = 200 * 1024 * 1024
MAX_PARTS = 10_000

_OLE_MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED_PART = "EncryptedPackage".encode("utf-16-le")
_TITLE = "{http://purl.org/dc/elements/1.1/}title"


class _Conversion(Protocol):
    @property
    def value(self) -> str: ...


def parse_docx(data: bytes, *, fallback: str = "") -> Parsed:
    """The blocks of a Word document (.docx); it has no pages.

    Raises:
        ParseFailure: password_protected, unsupported_type (the old .doc), too_large, broken.
    """
    if data.startswith(_OLE_MAGIC):
        raise _old_or_locked(data)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            title = _check(archive)
        convert = cast("Callable[..., _Conversion]", mammoth.convert_to_html)  # pyright: ignore[reportUnknownMemberType]
        converted = convert(io.BytesIO(data), convert_image=_no_image, external_file_access=False)
    except zipfile.BadZipFile:
        raise ParseFailure(
            FailureReason.BROKEN, "The Word document is damaged: its zip container can't be read."
        ) from None
    builder = BlockBuilder()
    if converted.value:
        add_tree(parse_fragment(converted.value), builder)
    return builder.build(title=title, fallback=fallback)


def _check(archive: zipfile.ZipFile) -> str:
    """The title the document's properties name, once the container is known to be harmless."""
    parts = archive.infolist()
    unpacked = sum(part.file_size for part in parts)
    if len(parts) > MAX_PARTS or unpacked > MAX_UNPACKED_BYTES:
        raise ParseFailure(
            FailureReason.TOO_LARGE,
            f"The Word document unpacks to {unpacked // 1_000_000} MB in {len(parts)} parts; "
            f"{MAX_UNPACKED_BYTES // 1_000_000} MB in {MAX_PARTS} parts are allowed.",
        )
    names = archive.namelist()
    if "word/document.xml" not in names and not any(name.startswith("word/") for name in names):
        raise ParseFailure(FailureReason.BROKEN, "The file is a zip container, but no Word document is in it.")
    if "docProps/core.xml" not in names:
        return ""
    root = parse_xml(archive.read("docProps/core.xml"))
    return ((root.findtext(_TITLE) if root is not None else None) or "").strip()


def _old_or_locked(data: bytes) -> ParseFailure:
    if _ENCRYPTED_PART in data:
        return ParseFailure(
            FailureReason.PASSWORD_PROTECTED,
            "The Word document is protected by a password. Save it without one and upload it again.",
        )
    return ParseFailure(
        FailureReason.UNSUPPORTED_TYPE,
        "The file is in Word's old .doc format. Save it as .docx and upload it again.",
    )


def _no_image(_image: object) -> list[object]:
    """Pictures hold no text for the index."""
    return []
