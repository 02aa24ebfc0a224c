"""The words the model is given that aren't the user's, in versions: one file each, none changed once it was measured.

A change of words is a new version with the next number, so that it is tied to its measurement and the harness can run
it beside the one before (seed 001: two rounds of better wording did not move the rate at which a model skipped the
base). The newest is what a server uses unless TURNSTREAM_PROMPT_VERSION says otherwise.
"""

from app.turn.prompts import v1, v2
from app.turn.prompts.wording import Wording

VERSIONS: dict[int, Wording] = {wording.version: wording for wording in (v1.WORDING, v2.WORDING)}
LATEST: Wording = VERSIONS[max(VERSIONS)]

__all__ = ["LATEST", "VERSIONS", "Wording", "listed"]


def listed() -> str:
    """The numbers there are, for an error: `1, 2`."""
    return ", ".join(str(number) for number in sorted(VERSIONS))
