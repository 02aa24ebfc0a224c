"""The one place that writes `OK: `, `EMPTY: ` or `ERROR: ` in front of what a model reads, and that cuts it.

Every path of a call ends here: a result, a refusal, an exception, a timeout. Source: seed 000, TOOLS O1-O14.
"""

import re
from dataclasses import dataclass

from app.defuse import defused
from app.text import boundary, clean
from app.tools.tool import Entity, Status, Step

OBSERVATION_CHARS = 24_000
"""How much of one observation a model is shown."""

_PREFIX = re.compile(r"\A(?:\s*(?:OK|EMPTY|ERROR):)+", re.IGNORECASE)
_LABEL: dict[Status, str] = {"ok": "OK", "empty": "EMPTY", "error": "ERROR"}
_DEFAULT: dict[Status, str] = {
    "ok": "done.",
    "empty": "nothing was found.",
    "error": "the tool gave no reason.",
}


@dataclass(frozen=True, slots=True)
class Observed:
    """A call as everybody downstream sees it: `text` begins with its prefix, exactly once."""

    status: Status
    text: str
    step: Step
    resolved: tuple[Entity, ...]
    structured: dict[str, object]


def stamp(status: Status, text: str, *, limit_chars: int = OBSERVATION_CHARS) -> str:
    """The observation: prefix by status, then the text, defused and without a prefix of its own, cut at a line's end.

    What was cut is announced, with how to get less of it, within `limit_chars` (200 or more).
    """
    body = _PREFIX.sub("", defused(clean(text)), count=1).strip() or _DEFAULT[status]
    stamped = f"{_LABEL[status]}: {body}"
    if len(stamped) <= limit_chars:
        return stamped
    room = limit_chars - len(_cut_note(limit_chars, len(stamped)))
    end = stamped.rfind("\n", 0, room)
    shown = stamped[: end if end > room // 2 else boundary(stamped, room)]
    return shown + _cut_note(len(shown), len(stamped))


def _cut_note(shown: int, total: int) -> str:
    return f"\n[cut: {shown} of {total} characters are shown; ask for something narrower]"
