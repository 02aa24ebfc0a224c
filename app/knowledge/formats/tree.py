# pyright: reportMissingTypeStubs=false, reportAttributeAccessIssue=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportArgumentType=false
"""HTML into blocks: headings, paragraphs, lists, tables and code, in reading order.

Shared by HTML (its own tags, or those trafilatura gives) and by Word documents (the HTML mammoth gives).
Walks without recursion, so that no nesting exhausts the stack. Lists and tables stay one block, an item
or a row a line. The only module that touches lxml, which brings no types.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol, cast

from lxml import etree, html

from app.knowledge.blocks import BlockBuilder


class Element(Protocol):
    """What is used of an lxml element."""

    @property
    def tag(self) -> str: ...
    @property
    def text(self) -> str | None: ...
    @property
    def tail(self) -> str | None: ...
    def get(self, key: str) -> str | None: ...
    def find(self, path: str) -> "Element | None": ...
    def findtext(self, path: str) -> str | None: ...


_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_GROUPS = frozenset({"ul", "ol", "dl", "table", "list"})
_ITEMS = frozenset({"li", "item"})
_LINES = _ITEMS | {"tr", "dt", "dd", "row"}
_CELLS = frozenset({"td", "th", "cell"})
_BREAKS = frozenset({"br", "lb"})
_BLOCKS = frozenset(
    {
        *(
            "address",
            "article",
            "aside",
            "blockquote",
            "body",
            "caption",
            "center",
            "dialog",
            "details",
            "div",
        ),
        *("fieldset", "figcaption", "figure", "footer", "form", "header", "hr", "legend", "main", "nav"),
        *("noscript", "option", "p", "quote", "section", "summary", "tbody", "tfoot", "thead"),
    }
)
_UNSEEN = (
    *("script", "style", "template", "iframe", "object", "svg", "canvas", "select", "button"),
    *("nav", "footer"),
)
_SPACES = re.compile(r"[ \t\r\n\f]+")
_LONE_SPACES = re.compile(r"^ (?! )|[ \t]+$", re.MULTILINE)  # deeper indentation is code's


def parse_page(text: str) -> Element | None:
    """A whole page's tree; None where there is no element in it."""
    try:
        return cast("Element", html.document_fromstring(text))
    except etree.ParserError:
        return None


def body_of(page: Element) -> Element:
    """The part of a page that is shown."""
    body = page.find("body")
    return page if body is None else body


def parse_fragment(text: str) -> Element:
    """The tree of a piece of HTML."""
    return cast("Element", html.fragment_fromstring(text, create_parent="div"))


def parse_xml(data: bytes) -> Element | None:
    """An XML document's root, read leniently and without entities; None where there is none."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, recover=True)
    return cast("Element | None", etree.fromstring(data, parser))


def add_tree(root: Element, builder: BlockBuilder) -> None:
    """Adds what a reader would see of the tree to the builder, without what surrounds it on every page."""
    etree.strip_elements(root, *_UNSEEN, etree.Comment, etree.ProcessingInstruction, with_tail=False)
    walk = _Walk(builder)
    events = cast("Iterator[tuple[str, Element]]", etree.iterwalk(root, events=("start", "end")))
    for event, element in events:
        if event == "start":
            walk.open(element.tag, element.get("rend"))
            walk.add(element.text)
        else:
            walk.close(element.tag)
            if element is not root:
                walk.add(element.tail)
    walk.end_block()


@dataclass(slots=True)
class _Walk:
    """Where the walk is: the line so far, the lines of the block so far, and what encloses them."""

    builder: BlockBuilder
    line: list[str] = field(default_factory=list[str])
    lines: list[str] = field(default_factory=list[str])
    level: int = 0
    groups: int = 0
    cells: int = 0
    verbatim: int = 0
    code: int = 0

    def add(self, text: str | None) -> None:
        if text:
            kept = self.verbatim or (self.code and "\n" in text)
            self.line.append(text if kept else _SPACES.sub(" ", text))

    def open(self, tag: str, rend: str | None) -> None:
        if tag in _HEADINGS or tag == "head":
            self.end_block()
            self.level = _HEADINGS.get(tag) or _HEADINGS.get(rend or "", 2)
        elif tag in _LINES:
            self.end_line()
            if tag in _ITEMS:
                self.line.append("- ")
        elif tag in _CELLS:
            self.cells += 1
            row = "".join(self.line).rstrip()
            self.line = [row, " | "] if row else []
        elif tag in _BREAKS:
            self.line.append("\n")
        elif tag == "code":
            self.code += 1
        else:
            self._boundary(tag)
            self.groups += tag in _GROUPS
            self.verbatim += tag == "pre"

    def close(self, tag: str) -> None:
        if tag in _HEADINGS or tag == "head":
            self._end_heading()
        elif tag in _LINES:
            self.end_line()
        elif tag in _CELLS:
            self.cells -= 1
        elif tag == "code":
            self.code -= 1
        else:
            self._boundary(tag)
            self.groups -= tag in _GROUPS
            self.verbatim -= tag == "pre"
            if tag in _GROUPS and not self.groups:
                self.end_block()

    def end_line(self) -> None:
        text = "".join(self.line)
        self.line.clear()
        if text.strip() not in {"", "-"}:
            self.lines.append(_LONE_SPACES.sub("", text))

    def end_block(self) -> None:
        self.end_line()
        self.builder.text("\n".join(self.lines))
        self.lines.clear()

    def _boundary(self, tag: str) -> None:
        """A block inside a cell or an item is a space, inside a list a line, elsewhere a block of its own."""
        if tag not in _BLOCKS and tag not in _GROUPS and tag != "pre":
            return
        if self.cells:
            if self.line and not self.line[-1].endswith(" "):
                self.line.append(" ")
        elif self.groups:
            if "".join(self.line).strip() != "-":
                self.end_line()
        else:
            self.end_block()

    def _end_heading(self) -> None:
        text = "".join(self.line)
        self.line.clear()
        if self.cells or self.groups:  # a heading inside a table or a list heads nothing else
            self.lines.append(text.strip())
        else:
            self.builder.heading(self.level, text)
        self.level = 0
