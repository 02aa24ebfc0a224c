"""Text files: which encoding they are in, and markdown's headings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from app.knowledge.blocks import Block, FailureReason, Parsed, ParseFailure
from app.knowledge.decode import decode, decode_as, unreadable
from app.knowledge.formats.markdown import parse_markdown, parse_plain
from app.knowledge.parse import parse

SENTENCE = "二〇二三年十一月十七日，董事会解除了首席执行官的职务。"
TRADITIONAL = "董事會解除了執行長的職務，員工聯名要求復職。"


@pytest.mark.parametrize(
    ("text", "written", "encoding"),
    [
        ("朱镕基的报告😀", "gb18030", "gb18030"),
        (SENTENCE, "gbk", "gb18030"),
        ("The board 董事会 of OpenAI", "gb2312", "gb18030"),
        (TRADITIONAL, "big5", "big5hkscs"),
        ("董事會 hello", "utf-8-sig", "utf-8-sig"),
        ("董事會 hello", "utf-16", "utf-16"),
        ("plain English", "utf-16-le", "utf-16-le"),
        ("plain English", "utf-16-be", "utf-16-be"),
        ("Müller très élevé à Zürich, señor.", "latin-1", "cp1252"),
        ("“Quoted” — 5 €", "cp1252", "cp1252"),
        ("これは日本語のテキストです。東京都に住んでいます。", "shift_jis", "cp932"),
        ("한국어 텍스트입니다. 서울에 살고 있습니다.", "euc_kr", "cp949"),
        ("Это русский текст. Он достаточно длинный для проверки.", "cp1251", "cp1251"),
        ("Zażółć gęślą jaźń, proszę. Książka jest na półce.", "cp1250", "cp1250"),
        ("", "utf-8", "utf-8"),
    ],
)
def test_an_encoding_is_recognised(text: str, written: str, encoding: str) -> None:
    """Case K04: UTF-8 first, then marks, GB18030 for any GB verdict; the name is told."""
    assert decode(text.encode(written)) == (text, encoding)


def test_one_bad_byte_leaves_a_text_utf8() -> None:
    """Case K04: a single wrong byte doesn't turn a whole text into another encoding."""
    data = SENTENCE.encode() + b"\xff" + SENTENCE.encode()
    assert decode(data) == (f"{SENTENCE}\ufffd{SENTENCE}", "utf-8")


@given(st.binary())
def test_any_bytes_are_decoded(data: bytes) -> None:
    """Decoding judges, it doesn't fail."""
    text, encoding = decode(data)
    assert isinstance(text, str)
    assert encoding


def test_a_declared_encoding_is_believed_where_it_fits() -> None:
    """A page's own word counts; GB2312 is read as its superset; an unknown or wrong name is no answer."""
    assert decode_as("镕".encode("gb18030"), "GB2312") == ("镕", "gb18030")
    assert decode_as("é".encode("latin-1"), "utf-8") is None
    assert decode_as(b"x", "no-such-encoding") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain text", False),
        (SENTENCE, False),
        ("tabs\tand\nlines\r\n", False),
        ("\ufffd" * 4 + "abcdef", True),
        ("(cid:12)(cid:7) ok", True),
        ("PK\x03\x04\x14\x00\x06\x00binary", True),
        ("", False),
    ],
)
def test_what_is_no_text_is_noticed(text: str, expected: bool) -> None:
    """Case K04: replacement characters, glyph numbers and control characters are no text."""
    assert unreadable(text) is expected


MARKDOWN = """---
title: Front title
tags: [a, b]
---
Intro with
two lines.

# Part one #

Text of one.

```python
# not a heading

still code
```

Setext two
----------

- item
- item

### Deep
<!--
# hidden
-->
Deep text.

# Part two
"""


def test_headings_make_the_paths_and_code_makes_none() -> None:
    """Fences, comments and front matter hold no headings; a heading with nothing below it stays as text."""
    assert parse_markdown(MARKDOWN, encoding="utf-8", fallback="file") == Parsed(
        title="Front title",
        encoding="utf-8",
        blocks=(
            Block("title: Front title\ntags: [a, b]"),
            Block("Intro with\ntwo lines."),
            Block("Text of one.", ("Part one",)),
            Block("```python\n# not a heading\n\nstill code\n```", ("Part one",)),
            Block("- item\n- item", ("Part one", "Setext two")),
            Block("<!--\n# hidden\n-->\nDeep text.", ("Part one", "Setext two", "Deep")),
            Block("Part two"),
        ),
    )


def test_a_single_top_heading_is_the_title_and_in_no_path() -> None:
    """The title is shown beside the path; it needn't stand in both."""
    assert parse_markdown("# The board\n\nIntro.\n\n## Members\n\nSix.") == Parsed(
        title="The board", blocks=(Block("Intro."), Block("Six.", ("Members",)))
    )


@pytest.mark.parametrize(
    ("text", "title"),
    [("no heading", "file"), ("# One", "file"), ("# One\n\nx\n\n# Two\n\ny", "file"), ("## Low\n\nx", "Low")],
)
def test_without_a_title_of_its_own_a_text_has_the_files_name(text: str, title: str) -> None:
    """Several top headings are sections, not titles."""
    assert parse_markdown(text, fallback="file").title == title


def test_plain_text_has_paragraphs_and_no_headings() -> None:
    """A number sign in a text file is a number sign; CR and CRLF end lines as LF does."""
    assert parse_plain("# one\r\ntwo\r\n \r\nthree\rfour", fallback="notes") == Parsed(
        title="notes", blocks=(Block("# one\ntwo"), Block("three\nfour"))
    )


@given(
    st.lists(st.sampled_from(["# a", "## b", "text", "", "```", "~~~", "    # code", "x\n===", "* * *"]), max_size=12)
)
def test_headings_are_those_of_commonmark(lines: list[str]) -> None:
    """An independent parser finds the same headings. Source: CommonMark 0.31."""
    text = "\n".join(lines)
    tokens = MarkdownIt().parse(text)
    theirs = {" ".join(tokens[n + 1].content.split()) for n, token in enumerate(tokens) if token.type == "heading_open"}
    parsed = parse_markdown(text)
    ours = (
        {title for block in parsed.blocks for title in block.path}
        | {parsed.title}
        | {block.text for block in parsed.blocks}
    )
    assert theirs <= ours
    if not theirs:
        assert all(block.path == () for block in parsed.blocks)


@given(st.text())
def test_any_text_is_markdown_and_clean(text: str) -> None:
    """Case D01: NUL and lone surrogates are gone before anything is counted."""
    parsed = parse_markdown(text)
    parsed.content.encode()
    assert "\x00" not in parsed.content


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.md", b" \n\t", FailureReason.EMPTY),
        ("a.txt", b"", FailureReason.EMPTY),
        ("a.txt", bytes(range(256)) * 40, FailureReason.UNREADABLE),
        ("a.exe", b"MZ", FailureReason.UNSUPPORTED_TYPE),
        ("noending", b"text", FailureReason.UNSUPPORTED_TYPE),
    ],
)
def test_a_text_that_is_none_is_refused_with_its_reason(name: str, data: bytes, reason: FailureReason) -> None:
    """The reason is a code, the message a sentence."""
    with pytest.raises(ParseFailure) as refused:
        parse(data, name=name)
    assert refused.value.reason is reason
    assert refused.value.message.endswith(".")


def test_a_media_type_helps_where_the_name_says_nothing() -> None:
    """An upload without an ending is read by what the client says it is."""
    assert parse(b"# T\n\nx", name="noending", media_type="text/markdown; charset=utf-8").title == "T"
