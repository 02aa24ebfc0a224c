"""Tool-control markup written as text: found while it streams, and never let out.

Some models write their private tool-call syntax into the answer. A reader must never see it, and it must never
be taken for an answer, but an answer that explains the syntax inside code must stay readable. So: markup with
the models' special bars (`<｜DSML｜…`) counts anywhere outside code; plain tags (`<tool_call>`) and `[TOOL_CALLS]`
only at a line's start. What follows markup is held with it. Nothing here parses a call out of it.

Only a tail that can still become markup is held back, and the stored text is the joined output of this very
filter, so live text and stored text can't differ (case T04). Source: DESIGN section 6, cases P10 and T04.
"""

import re

_BARS = "|｜‖¦∣"
_SPECIAL = re.compile(r"[<\[\n]")
_BACKTICKS = re.compile(r"`+|[^`]+")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})(.*)", re.DOTALL)
_LONGEST = 64

# Canonical openings: lower case, without bars and spaces, the lower-one-eighth block read as an underscore.
_WITH_BARS = (
    "<dsml",
    "<tool_calls_begin",
    "<tool_call_begin",
    "<tool_call_argument_begin",
    "<tool_calls_section_begin",
    "<tool_sep",
    "<tool_outputs_begin",
    "<python_tag",
    "<channel>",
    "<tool_calls>",
    "<tool_call>",
)
_AT_LINE_START = (
    "<tool_call>",
    "<tool_calls>",
    "<tool_use>",
    "<toolcall>",
    "<function_call>",
    "<function_calls>",
    "<function=",
    "<invokename=",
    *(f"<{space}:{tag}" for space in ("antml", "minimax") for tag in ("tool_call>", "function_calls>", "invokename=")),
    "[tool_calls]",
    "[tool_call]",
)
_OPENINGS = _AT_LINE_START + _WITH_BARS


class _Line:
    """What is known of the current line: enough to tell its start from its middle, and code from prose."""

    __slots__ = ("blank", "fence", "run", "span")

    def __init__(self) -> None:
        self.blank = True  # only spaces and bars so far
        self.fence: str | None = ""  # all of it, while it can still be a fence
        self.span = 0  # how many backticks opened the code span that is open
        self.run = 0  # backticks at the end of what was added

    def add(self, text: str) -> None:
        if self.blank and text.strip(_BARS + " \t"):
            self.blank = False
        if self.fence is not None:
            self.fence += text
            if self.fence.lstrip()[:1] not in ("", "`", "~"):
                self.fence = None
        if self.run or "`" in text:
            for piece in _BACKTICKS.findall(text):
                if piece[0] == "`":
                    self.run += len(piece)
                else:
                    self.end_run()

    def end_run(self) -> None:
        """A run of backticks is over: it opens a code span, or closes the one that as many opened."""
        if self.run and self.span in (0, self.run):
            self.span = 0 if self.span else self.run
        self.run = 0


class AnswerFilter:
    """The filter of one model turn's text. Implements turn.hooks.TextFilter.

    Also drops blanks before the first visible character, so that a model turn of blanks publishes nothing.
    """

    def __init__(self) -> None:
        self._pending = ""  # a tail that may yet be markup
        self._line = _Line()
        self._fence = ""  # the fence that is open, "" outside of one
        self._begun = False
        self._found = False

    @property
    def found_markup(self) -> bool:
        return self._found

    def feed(self, text: str) -> str:
        if self._found:
            return ""
        if not self._begun:
            text = text.lstrip()
            if not text:
                return ""
            self._begun = True
        if not self._pending and _SPECIAL.search(text) is None:
            self._line.add(text)
            return text
        text = self._pending + text
        self._pending = ""
        return self._scan(text)

    def finish(self) -> str:
        """The tail that was held and is no markup after all; empty when markup was found."""
        rest, self._pending = self._pending, ""
        return rest

    def _scan(self, text: str) -> str:
        done = 0
        for match in _SPECIAL.finditer(text):
            start = match.start()
            if start < done:
                continue
            self._line.add(text[done:start])
            done = start
            if match.group() == "\n":
                self._end_line()
                done = start + 1
            elif match.group() in "<[" and not self._in_code():
                verdict = self._judge(text[start : start + _LONGEST])
                if verdict is None:
                    self._pending = text[start:]
                    return text[:start]
                if verdict:
                    self._found = True
                    return text[:start]
        self._line.add(text[done:])
        return text

    def _in_code(self) -> bool:
        self._line.end_run()  # what is judged next is no backtick
        return bool(self._fence or self._line.span)

    def _end_line(self) -> None:
        """Opens or closes a fence, by CommonMark 4.5: as long as the opening one, and nothing after it."""
        fence = _FENCE.fullmatch(self._line.fence or "")
        if fence is not None:
            mark, info = fence.group(1), fence.group(2)
            if not self._fence:
                self._fence = mark if mark[0] == "~" or "`" not in info else ""
            elif mark.startswith(self._fence) and not info.strip():
                self._fence = ""
        self._line = _Line()

    def _judge(self, candidate: str) -> bool | None:
        """Whether the text from a `<` or `[` on opens markup; None while it still may.

        One character after the other decides, so the verdict can't depend on how the text was cut (case T04).
        """
        at_start = self._line.blank
        openings = _OPENINGS if at_start else _WITH_BARS
        canonical, barred = "", False
        for char in candidate:
            if char.isspace():
                continue
            if char not in _BARS:
                canonical += "_" if char == "▁" else char.lower()
            elif not canonical.endswith(">"):
                barred = True
            if (at_start and canonical in _AT_LINE_START) or (barred and canonical in _WITH_BARS):
                return True
            if not any(opening.startswith(canonical) for opening in openings):
                return False
        return None if len(candidate) < _LONGEST else False
