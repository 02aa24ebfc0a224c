"""What an answer cites, and on what evidence it rests. Pure; nothing here reads meaning, only brackets.

Source: DESIGN section 5 (evidence), ORIGIN section 7 (carried sources).
"""

import re
from collections.abc import Sequence
from typing import Literal

from app.tools.tool import NumberedSource

Verdict = Literal["cited", "uncited", "skipped", "none"]

# [1], [1][2], [1, 2], and the full-width brackets and commas that Chinese answers use
_CITATION = re.compile(r"[\[［【]\s*([0-9]{1,6}(?:\s*[,，、]\s*[0-9]{1,6})*)\s*[\]］】]")
_NUMBER = re.compile(r"[0-9]+")


def cited_numbers(text: str) -> tuple[int, ...]:
    """The numbers the text cites, valid or not, each once, ascending."""
    found = {int(n) for group in _CITATION.findall(text) for n in _NUMBER.findall(group)}
    return tuple(sorted(found))


def valid_citations(text: str, sources: Sequence[NumberedSource]) -> tuple[int, ...]:
    """The cited numbers that are on the list of sources; a number beyond it, or 0, doesn't count."""
    known = {source.n for source in sources}
    return tuple(n for n in cited_numbers(text) if n in known)


def verdict(cited: Sequence[int], sources: Sequence[NumberedSource], *, skipped: bool) -> Verdict:
    """On what the answer rests. `skipped`: the model said that no evidence was needed."""
    if cited:
        return "cited"
    if sources:
        return "uncited"
    return "skipped" if skipped else "none"


def carried(text: str, previous: Sequence[NumberedSource]) -> tuple[NumberedSource, ...]:
    """The previous answer's sources that an answer which gathered nothing still rests on.

    Only when every number it cites is one of theirs. Numbers stay as they are and a list of sources has no
    gaps, so the list is kept up to the highest number cited (decision 0006).
    """
    cited = cited_numbers(text)
    known = {source.n for source in previous}
    if not cited or not known.issuperset(cited):
        return ()
    return tuple(source for source in previous if source.n <= cited[-1])
