"""HTML pages, PDFs and Word documents: what is read of them, and why one is refused."""

import pytest

from app.knowledge.blocks import Block, FailureReason, Parsed, ParseFailure
from app.knowledge.parse import parse
from tests.harness.files import docx, locked, pdf, zip_bomb, zipped

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
WORDS = "This page says something that is long enough to be read by a person."

PAGE = """<!DOCTYPE html><html><head><meta charset="{charset}"><title>Site - Board</title><style>p{{}}</style></head>
<body><nav><a href="/">Home</a><a href="/about">About us</a></nav>
<main><h1>The board</h1><p>Six people sat on the <b>board</b>, says this paragraph, which is long enough.</p>
<h2>成员</h2><ul><li>Greg Brockman, chair</li><li>Ilya Sutskever</li></ul>
<table><tr><th>name</th><th>until</th></tr><tr><td>Helen Toner</td><td>2023</td></tr></table>
<h3>Note</h3><p>董事会在十一月改组，新的成员随后加入，任期没有公布。</p>
<pre><code>def vote():
    return True</code></pre>
<p>It holds &lt;script&gt;alert(1)&lt;/script&gt; as text, and an odd payload too.</p></main>
<script>track()</script><footer>© nobody</footer></body></html>"""


@pytest.mark.parametrize(("declared", "written"), [("utf-8", "utf-8"), ("gb2312", "gb18030")])
def test_a_page_gives_its_main_text_under_its_headings(declared: str, written: str) -> None:
    """Cases K04 and K08: the declared encoding is used; markup that is text stays text, unchanged."""
    parsed = parse(PAGE.format(charset=declared).encode(written), name="board.html")
    assert parsed == Parsed(
        title="The board",
        encoding=written,
        blocks=(
            Block("Six people sat on the board, says this paragraph, which is long enough."),
            Block("- Greg Brockman, chair\n- Ilya Sutskever", ("成员",)),
            Block("name | until\nHelen Toner | 2023", ("成员",)),
            Block("董事会在十一月改组，新的成员随后加入，任期没有公布。", ("成员", "Note")),
            Block("def vote():\n    return True", ("成员", "Note")),
            Block("It holds <script>alert(1)</script> as text, and an odd payload too.", ("成员", "Note")),
        ),
    )


def test_a_page_without_a_main_text_gives_all_of_its_text() -> None:
    """What the extraction leaves out is not lost where it leaves out most."""
    rows = "".join(f"<tr><td>key {n}</td><td>value {n}</td></tr>" for n in range(30))
    parsed = parse(f"<title>Keys</title><div><h2>All</h2><table>{rows}</table></div>".encode(), name="k.htm")
    assert parsed.title in {"Keys", "All"}
    assert "key 29 | value 29" in parsed.content


@pytest.mark.parametrize(
    "page", [b"<!-- nothing -->", b"<html><body><script>x</script></body></html>", b"<div>" * 100_000]
)
def test_a_page_without_text_is_empty(page: bytes) -> None:
    """However it is built."""
    with pytest.raises(ParseFailure) as refused:
        parse(page, name="a.html")
    assert refused.value.reason is FailureReason.EMPTY


def test_a_pdf_gives_its_pages_under_its_bookmarks() -> None:
    """A page is divided where a line is a bookmark's title; words broken at a line's end are joined."""
    data = pdf(
        [f"Cover\n{WORDS}\nIntro\nhello know-\nledge", f"{WORDS}\nChapter two\nlast words"],
        title="My book",
        bookmarks={0: "Intro", 1: "Chapter two"},
    )
    assert parse(data, name="book.pdf") == Parsed(
        title="My book",
        blocks=(
            Block(f"Cover\n{WORDS}", (), 1),
            Block("hello knowledge", ("Intro",), 1),
            Block(WORDS, ("Intro",), 2),
            Block("last words", ("Chapter two",), 2),
        ),
    )


@pytest.mark.parametrize("title", ["", "untitled", "Microsoft Word - Draft 7.docx", "thesis.dvi"])
def test_a_pdf_whose_title_is_none_has_the_files_name(title: str) -> None:
    """Programs write their own name into the title."""
    assert parse(pdf([WORDS], title=title), name="report 2023.pdf").title == "report 2023"


def test_a_pdf_is_known_by_its_first_bytes() -> None:
    """Whatever it is called."""
    assert parse(pdf([WORDS]), name="scan.txt").blocks == (Block(WORDS, (), 1),)


def test_a_word_document_gives_paragraphs_and_tables_under_its_headings() -> None:
    """Its properties give the title; cells of a row are divided by a bar."""
    data = docx(
        [
            ("Heading1", "Plan"),
            ("", "Intro & more."),
            ("Heading2", "预算"),
            ("", "十欧元。"),
            ("Heading2", "Left open"),
        ],
        title="The plan",
        table=[["what", "cost"], ["paper", "10"]],
    )
    assert parse(data, name="plan.docx") == Parsed(
        title="The plan",
        blocks=(
            Block("Intro & more.", ("Plan",)),
            Block("十欧元。", ("Plan", "预算")),
            Block("what | cost\npaper | 10", ("Plan", "Left open")),
        ),
    )


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("locked.pdf", locked(pdf([WORDS]), "secret"), FailureReason.PASSWORD_PROTECTED),
        ("cut.pdf", pdf([WORDS])[:400], FailureReason.BROKEN),
        ("no.pdf", b"%PDF-1.7 and then nothing of the kind", FailureReason.BROKEN),
        ("scan.pdf", pdf(["", "", ""]), FailureReason.UNREADABLE),
        ("glyphs.pdf", pdf(["(cid:12)(cid:7)(cid:99)(cid:1)\n(cid:12)(cid:3)"]), FailureReason.UNREADABLE),
        ("cut.docx", docx([("", WORDS)])[:200], FailureReason.BROKEN),
        ("other.docx", zipped({"readme": "x"}), FailureReason.BROKEN),
        ("xml.docx", zipped({"word/document.xml": "<w:document"}), FailureReason.BROKEN),
        ("bomb.docx", zip_bomb(250_000_000), FailureReason.TOO_LARGE),
        ("nothing.docx", docx([("", " ")]), FailureReason.EMPTY),
        ("locked.docx", OLE + "EncryptedPackage".encode("utf-16-le"), FailureReason.PASSWORD_PROTECTED),
        ("old.doc", OLE + b"WordDocument", FailureReason.UNSUPPORTED_TYPE),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_file_that_cannot_be_read_is_refused_with_its_reason(name: str, data: bytes, reason: FailureReason) -> None:
    """Cases K04 and K07: damaged, locked, unreadable and exploding files each have a reason and a sentence."""
    with pytest.raises(ParseFailure) as refused:
        parse(data, name=name)
    assert refused.value.reason is reason
    assert refused.value.message.endswith(".")
