"""Files as people upload them, made in memory: PDFs by reportlab, Word documents by hand."""

import io
import zipfile
import zlib
from collections.abc import Sequence
from xml.sax.saxutils import escape

from pypdf import PdfReader, PdfWriter
from reportlab.lib.pagesizes import A4
from reportlab.pdfgen.canvas import Canvas

_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def pdf(pages: Sequence[str], *, title: str = "", bookmarks: dict[int, str] | None = None) -> bytes:
    """A PDF with the lines of each text on a page of its own; bookmarks are {page index: heading}."""
    out = io.BytesIO()
    canvas = Canvas(out, pagesize=A4, invariant=True)
    canvas.setTitle(title)
    for n, page in enumerate(pages):
        if bookmarks and n in bookmarks:
            canvas.bookmarkPage(f"b{n}")  # pyright: ignore[reportUnknownMemberType]
            canvas.addOutlineEntry(bookmarks[n], f"b{n}", level=0)  # pyright: ignore[reportUnknownMemberType]
        lines = canvas.beginText(40, 800)
        lines.setFont("Helvetica", 9)
        for line in page.split("\n"):
            lines.textLine(line)
        canvas.drawText(lines)
        canvas.showPage()
    canvas.save()
    return out.getvalue()


def locked(data: bytes, password: str) -> bytes:
    """The PDF, protected by a password."""
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(data)))
    writer.encrypt(password, algorithm="AES-256")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def docx(paragraphs: Sequence[tuple[str, str]], *, title: str = "", table: Sequence[Sequence[str]] = ()) -> bytes:
    """A Word document of (style, text) paragraphs, the style being "" or "Heading1" to "Heading6"."""
    body = "".join(_paragraph(style, text) for style, text in paragraphs)
    rows = "".join(
        "<w:tr>" + "".join(f"<w:tc>{_paragraph('', cell)}</w:tc>" for cell in row) + "</w:tr>" for row in table
    )
    body += f"<w:tbl>{rows}</w:tbl>" if rows else ""
    return zipped(
        {
            "[Content_Types].xml": _content_types(),
            "_rels/.rels": (
                f'<Relationships xmlns="{_RELATIONS}">'
                f'<Relationship Id="r1" Type="{_OFFICE}/officeDocument" Target="word/document.xml"/></Relationships>'
            ),
            "word/document.xml": f'<w:document xmlns:w="{_WORD}"><w:body>{body}</w:body></w:document>',
            "docProps/core.xml": (
                '<cp:coreProperties xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/core-properties"'
                f' xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{escape(title)}</dc:title></cp:coreProperties>'
            ),
        }
    )


def zipped(parts: dict[str, str]) -> bytes:
    """A zip container of these parts."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return out.getvalue()


def zip_bomb(unpacked_bytes: int) -> bytes:
    """A Word document of some kilobytes whose text unpacks to this size."""
    out = io.BytesIO()
    block = b" " * 1_000_000
    with (
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("word/document.xml", "w", force_zip64=True) as part,
    ):
        for _ in range(unpacked_bytes // len(block)):
            part.write(block)
    return out.getvalue()


def pdf_bomb(unpacked_bytes: int) -> bytes:
    """A PDF of some kilobytes whose one page unpacks to this size."""
    stream = zlib.compress(b"BT (x) Tj ET\n" + b" " * unpacked_bytes)
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R>>",
        b"<</Length %d/Filter/FlateDecode>>stream\n%b\nendstream" % (len(stream), stream),
    ]
    body = b"%PDF-1.7\n" + b"".join(b"%d 0 obj%b endobj\n" % (n, each) for n, each in enumerate(objects, 1))
    return body + b"trailer<</Root 1 0 R/Size 5>>\nstartxref\n0\n%%EOF"


def _paragraph(style: str, text: str) -> str:
    properties = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f'<w:p>{properties}<w:r><w:t xml:space="preserve">{escape(text)}</w:t></w:r></w:p>'


def _content_types() -> str:
    return (
        '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        '<Default Extension="xml" ContentType="application/xml"/>'
        '<Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.'
        'wordprocessingml.document.main+xml"/></Types>'
    )
