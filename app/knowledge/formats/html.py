"""HTML pages into blocks: the page's main text by trafilatura, or all of it where that finds too little.

Text is kept as it is written in the page, markup in it included: escaping belongs to whoever displays it
(case K08). A declared character set is tried before the bytes are judged.
"""

import re
from typing import cast

import trafilatura

from app.knowledge.blocks import BlockBuilder, FailureReason, Parsed, ParseFailure
from app.knowledge.decode import decode, decode_as
from app.knowledge.formats.tree import Element, add_tree, body_of, parse_page

_DECLARED = re.compile(
    rb"""<(?:meta|\?xml)[^>]{0,200}?(?:charset|encoding)\s*=\s*["']?\s*([A-Za-z0-9_.:-]+)""", re.IGNORECASE
)
_XML_DECLARATION = re.compile(r"\A\s*<\?xml[^>]*\?>")
_ENOUGH_SHARE = 0.5


def parse_html(data: bytes, *, fallback: str = "") -> Parsed:
    """The blocks of a page.

    Raises:
        ParseFailure: nothing in the page is text (empty).
    """
    declared = _DECLARED.search(data[:4096])
    known = decode_as(data, declared[1].decode("ascii")) if declared is not None else None
    text, encoding = known or decode(data)
    text = _XML_DECLARATION.sub("", text.replace("\x00", ""))
    page = parse_page(text)
    if page is None:
        raise ParseFailure(FailureReason.EMPTY, "The page holds no text.")
    fallback = " ".join((page.findtext(".//title") or "").split()) or fallback
    everything = _blocks(body_of(page), fallback=fallback, encoding=encoding)
    main = _main_text(text)
    if main is not None:
        chosen = _blocks(main, fallback=fallback, encoding=encoding)
        if _size(chosen) >= _ENOUGH_SHARE * _size(everything):
            return chosen
    return everything


def _main_text(text: str) -> Element | None:
    """What trafilatura takes for the page's main text; None where it finds none."""
    found = trafilatura.bare_extraction(text, include_comments=False, include_formatting=True, favor_recall=True)
    return cast("Element | None", getattr(found, "body", None))


def _blocks(tree: Element, *, fallback: str, encoding: str) -> Parsed:
    builder = BlockBuilder()
    add_tree(tree, builder)
    return builder.build(fallback=fallback, encoding=encoding)


def _size(parsed: Parsed) -> int:
    return sum(len(block.text) for block in parsed.blocks)
