"""Raw content of a stream -> what of it is answer text, and what a thinking model wrote before it.

Decides three things: NUL and lone surrogates never get through, the two halves of a pair split over deltas
are joined, and `<think>...</think>` at the start of the content is not answer text. Does not know control
markup of tools (app/turn/markup.py). The joined output is the same however the input is cut. Source: DESIGN 5,
cases D01 and P09.
"""

from enum import Enum, auto

from app.text import clean

_OPENERS = ("<think>", "<thinking>")
_CLOSERS = ("</think>", "</thinking>")
_TAGS = _OPENERS + _CLOSERS


class Joined:
    """`clean` over a text that arrives in pieces: a high surrogate waits for its other half."""

    __slots__ = ("_high",)

    def __init__(self) -> None:
        self._high = ""

    def feed(self, text: str) -> str:
        if self._high:
            text = self._high + text
            self._high = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._high = text[-1]
            text = text[:-1]
        return clean(text)

    def flush(self) -> str:
        """U+FFFD for a half whose other half never came."""
        high, self._high = self._high, ""
        return clean(high)


class _Place(Enum):
    START = auto()
    """No answer text yet: white space and tags may come."""
    THOUGHT = auto()
    """Between an opening tag and its closer."""
    TEXT = auto()
    """Answer text: tags are words like any other."""


class VisibleText:
    """The one filter of answer text. Holds back only white space at the start and what can still be a tag."""

    __slots__ = ("_held", "_joined", "_place", "_thought", "_thought_before")

    def __init__(self) -> None:
        self._joined = Joined()
        self._place = _Place.START
        self._held: str = ""
        self._thought: list[str] = []
        self._thought_before = False

    def feed(self, text: str) -> str:
        """The answer text that these characters make certain."""
        text = self._joined.feed(text)
        return text if self._place is _Place.TEXT else self._sort(text)

    def flush(self) -> str:
        """What was only held back because it could have become a tag. Nothing may be fed afterwards."""
        text = self._joined.flush()
        if self._place is not _Place.TEXT:
            text = self._sort(text)
        held, self._held = self._held, ""
        if self._place is _Place.THOUGHT:
            self._thought.append(held)
            return text
        if self._place is _Place.START and self._thought_before:
            held = held.lstrip()
        return text + held

    def take_thought(self) -> str:
        """The text inside think tags since the last call."""
        if not self._thought:
            return ""
        thought = "".join(self._thought)
        self._thought.clear()
        return thought

    def _sort(self, text: str) -> str:
        """Walk over tags until answer text begins or more input is needed."""
        text = self._held + text
        self._held = ""
        while True:
            if self._place is _Place.THOUGHT:
                end, after = _closer_in(text)
                if end < 0:
                    keep = _possible_closer(text)
                    self._thought.append(text[: len(text) - keep])
                    self._held = text[len(text) - keep :]
                    return ""
                self._thought.append(text[:end])
                self._place = _Place.START
                self._thought_before = True
                text = text[after:]
            bare = text.lstrip()
            tag = next((tag for tag in _TAGS if bare.startswith(tag)), None)
            if tag is not None:
                self._thought_before = True
                text = bare[len(tag) :]
                if tag in _OPENERS:
                    self._place = _Place.THOUGHT
                continue
            if any(tag.startswith(bare) for tag in _TAGS):
                self._held = text
                return ""
            self._place = _Place.TEXT
            return bare if self._thought_before else text


def _closer_in(text: str) -> tuple[int, int]:
    """Where the first closing tag begins and ends; (-1, -1) where there is none."""
    found = [(at, at + len(tag)) for tag in _CLOSERS if (at := text.find(tag)) >= 0]
    return min(found) if found else (-1, -1)


def _possible_closer(text: str) -> int:
    """The length of the longest end of the text that may be the beginning of a closing tag."""
    at = text.rfind("<", max(len(text) - len(_CLOSERS[-1]) + 1, 0))
    if at >= 0 and any(tag.startswith(text[at:]) for tag in _CLOSERS):
        return len(text) - at
    return 0
