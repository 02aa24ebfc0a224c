"""One-shot retrieval: the search a turn makes for itself when the endpoint can't be had to call tools.

Used when an endpoint refuses tools, and when it answers with text twice though a tool was required. The
answer is then asked for with the passages as evidence. Source: DESIGN section 6.
"""

from app.turn.hooks import Gather

SEARCH_TOOL = "search_chunks"


def one_shot(question: str) -> Gather:
    """A search for the question itself."""
    return Gather("gathered_0", SEARCH_TOOL, {"query": question})
