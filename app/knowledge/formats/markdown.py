"""Markdown and plain text into blocks. Text stays as it was written; only headings are taken out of it.

Headings are ATX (`## x`) and setext (underlined) ones outside of fenced and indented code and of HTML
comments, after CommonMark 0.31; a front matter block gives the title. Paragraphs end at blank lines, a
fence is one block.
"""

import re
from dataclasses import dataclass, field

from app.knowledge.blocks import BlockBuilder, Parsed

_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*")
_SETEXT = re.compile(r" {0,3}(=+|-+)[ \t]*")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_RULE = re.compile(r" {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})")
_NO_PARAGRAPH = re.compile(r" {0,3}(?:>|[-+*](?:[ \t]|$)|\d{1,9}[.)](?:[ \t]|$)|<|\|)")
_INDENTED = re.compile(r" {4}|\t")
_FRONT_TITLE = re.compile(r"title[ \t]*:[ \t]*(.+?)[ \t]*", re.IGNORECASE)
_FRONT_MATTER_LINES = 200


def parse_markdown(text: str, encoding: str | None = None, *, fallback: str = "") -> Parsed:
    """The blocks of a markdown text. Never fails: any text is markdown."""
    lines = _lines(text)
    title, front, start = _front_matter(lines)
    scan = _Scan()
    scan.builder.text("\n".join(front))
    for line in lines[start:]:
        scan.take(line)
    scan.end_block()
    return scan.builder.build(title=title, fallback=fallback, encoding=encoding)


def parse_plain(text: str, encoding: str | None = None, *, fallback: str = "") -> Parsed:
    """The paragraphs of a plain text; it has no headings."""
    builder = BlockBuilder()
    paragraph: list[str] = []
    for line in [*_lines(text), ""]:
        if line.strip():
            paragraph.append(line)
        else:
            builder.text("\n".join(paragraph))
            paragraph.clear()
    return builder.build(fallback=fallback, encoding=encoding)


@dataclass(slots=True)
class _Scan:
    """Where the scanner is: the block so far, and the fence or comment it is in."""

    builder: BlockBuilder = field(default_factory=BlockBuilder)
    block: list[str] = field(default_factory=list[str])
    fence: str = ""
    in_comment: bool = False

    def take(self, line: str) -> None:
        if self.fence or self.in_comment:
            self._inside(line)
            return
        fence = _FENCE.fullmatch(line)
        if fence is not None and not (fence[1][0] == "`" and "`" in fence[2]):
            self.fence = fence[1]
            self.block.append(line)
            return
        if not line.strip():
            self.end_block()
            return
        atx = _ATX.fullmatch(line)
        if atx is not None:
            self.end_block()
            self.builder.heading(len(atx[1]), atx[2] or "")
            return
        setext = _SETEXT.fullmatch(line)
        if setext is not None and self._end_in_heading(1 if setext[1][0] == "=" else 2):
            return
        if _RULE.fullmatch(line):
            self.end_block()
            return
        self.block.append(line)
        if line.lstrip().startswith("<!--") and "-->" not in line:
            self.in_comment = True

    def end_block(self) -> None:
        self.builder.text("\n".join(self.block))
        self.block.clear()

    def _end_in_heading(self, level: int) -> bool:
        """Takes the paragraph just read as an underlined heading; False where it is a list, a quote or code."""
        code = next((n for n, line in enumerate(self.block) if not _INDENTED.match(line)), len(self.block))
        heading = self.block[code:]
        if not heading or any(map(_NO_PARAGRAPH.match, heading)):
            return False
        del self.block[code:]
        self.end_block()
        self.builder.heading(level, " ".join(heading))
        return True

    def _inside(self, line: str) -> None:
        self.block.append(line)
        if self.in_comment:
            self.in_comment = "-->" not in line
            return
        close = _FENCE.fullmatch(line)
        if close is not None and close[1].startswith(self.fence) and not close[2].strip():
            self.fence = ""
            self.end_block()


def _front_matter(lines: list[str]) -> tuple[str, list[str], int]:
    """The title a YAML front matter names, its lines, and where the text after it begins."""
    if not lines or lines[0].rstrip() != "---":
        return "", [], 0
    title = ""
    for n, line in enumerate(lines[1:_FRONT_MATTER_LINES], 1):
        if line.rstrip() in {"---", "..."}:
            return title, lines[1:n], n + 1
        if not line.strip():
            break
        match = _FRONT_TITLE.fullmatch(line)
        if match is not None:
            title = match[1].strip("\"'")
    return "", [], 0


def _lines(text: str) -> list[str]:
    """Lines as an editor shows them: only CR, LF and CRLF end one."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
