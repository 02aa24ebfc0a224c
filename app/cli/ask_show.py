"""How a turn is shown by `turnstream ask`: as text with steps and sources, or as JSON lines.

The answer and its sources go to stdout, everything about them to stderr, so that a pipe gets the answer alone. What
models and documents say is shown without control characters: a terminal would obey them.
"""

import json
import sys
import unicodedata
from typing import Any, Protocol, TextIO

from rich.console import Console
from rich.text import Text as Styled

from app.cli.ask_frames import Shown

ANSWERED = 0
FAILED = 1
STOPPED = 130

_MARK = {"ok": "green", "empty": "yellow", "error": "red"}
_VERDICT = {
    "uncited": "The answer cites none of these sources.",
    "skipped": "The answer needed no evidence.",
    "none": "The answer rests on no source.",
}
_KEPT = "\n\t"
_TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


class Show(Protocol):
    """Takes a turn's frames in order; `status` is the exit status that they amount to."""

    status: int

    def take(self, frame: Shown) -> None: ...


def printable(text: str) -> str:
    """The text without what would steer a terminal: control characters but line feed and tab, and turned direction."""
    return "".join(c for c in text if c in _KEPT or not (unicodedata.category(c) == "Cc" or c in _TURNING))


def status_of(frame: Shown) -> int:
    """The exit status that a terminal frame stands for."""
    if frame.event == "error":
        return FAILED
    return STOPPED if frame.data["stopped"] else ANSWERED


class JsonLines:
    """Each frame as a line of JSON: `{"id", "event", "data"}`."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self.status = FAILED

    def take(self, frame: Shown) -> None:
        line = json.dumps({"id": frame.id, "event": frame.event, "data": frame.data})
        self._out.write(f"{line}\n")
        self._out.flush()
        if frame.event in ("done", "error"):
            self.status = status_of(frame)


class Text:
    """The answer as it comes, with its steps before it and its sources after it."""

    def __init__(self, out: Console, aside: Console) -> None:
        self._out = out
        self._aside = aside
        self._answer = ""
        self._line_open = False
        self._steps = 0
        self._sources: list[dict[str, Any]] = []
        self._conversation = ""
        self.status = FAILED

    @classmethod
    def of_process(cls) -> "Text":
        """On this process's stdout and stderr, with colours where they are terminals."""
        return cls(
            *(Console(file=file, highlight=False, markup=False, emoji=False) for file in (sys.stdout, sys.stderr))
        )

    def take(self, frame: Shown) -> None:
        data = frame.data
        match frame.event:
            case "conversation":
                self._conversation = data["id"]
            case "step":
                self._step(data)
            case "sources":
                self._sources = data
            case "delta":
                self._say(data["text"])
            case "snapshot":
                self._instead(data)
            case "done":
                self._end(frame)
            case "error":
                self._line()
                self._tell(f"{data['code']}: {data['message']}", "red")
                self._goodbye(frame)
            case _:
                pass  # a frame of a later version

    def _say(self, text: str) -> None:
        self._answer += text
        shown = printable(text)
        self._line_open = not shown.endswith("\n") if shown else self._line_open
        self._out.file.write(shown)
        self._out.file.flush()

    def _instead(self, data: dict[str, Any]) -> None:
        for step in data["steps"][self._steps :]:
            self._step(step)
        self._sources = data["sources"]
        if data["content"].startswith(self._answer):
            self._say(data["content"][len(self._answer) :])
            return
        self._line()
        self._tell("The answer was begun again.", "yellow")
        self._answer = ""
        self._say(data["content"])

    def _step(self, step: dict[str, Any]) -> None:
        self._steps = step["n"]
        self._line()
        told = Styled("● ", style=_MARK.get(step["status"], ""))
        told.append(printable(f"{step['tool'] or step['kind']} {step['label']}".strip()))
        told.append(printable(f"  {step['detail'] or step['status']}, {step['ms']} ms"), style="dim")
        self._aside.print(told, soft_wrap=True)

    def _end(self, frame: Shown) -> None:
        data = frame.data
        self._line()
        if self._sources and self._answer:
            self._out.print()
            for source in self._sources:
                cited = source["n"] in data["cited"]
                told = " · ".join(part for part in (source["title"], source["locator"]) if part)
                line = Styled(printable(f"[{source['n']}] {told}"), style="" if cited else "dim")
                self._out.print(line, soft_wrap=True)
        if (verdict := _VERDICT.get(data["evidence"])) is not None and self._answer:
            self._tell(verdict, "yellow")
        if data["stopped"]:
            self._tell("The answer was stopped.", "yellow")
        self._goodbye(frame)

    def _goodbye(self, frame: Shown) -> None:
        self.status = status_of(frame)
        self._tell(f"To go on: --conversation {self._conversation}", "dim")

    def _tell(self, sentence: str, style: str) -> None:
        self._aside.print(Styled(printable(sentence), style=style), soft_wrap=True)

    def _line(self) -> None:
        """What follows begins on a line of its own."""
        if self._line_open:
            self._line_open = False
            self._out.file.write("\n")
            self._out.file.flush()
