"""Numbers and names as reports tell them, in the terminal and in HTML alike."""

from collections.abc import Callable

from app.harness.compare import Comparison, Difference
from app.harness.measures import Summary
from app.harness.records import Run, TurnSeen
from app.harness.statistics import ALPHA, Rate

VERDICTS = ("cited", "uncited", "skipped", "none", "error")

COUNTS: tuple[tuple[str, Callable[[Summary], str]], ...] = (
    ("reached for the terminal, of data questions", lambda n: str(n.reached)),
    ("turned back and looked", lambda n: f"{n.turned_back} of {n.reached}"),
    ("gathered for itself (fallback)", lambda n: str(n.fallbacks)),
    ("requests tried again", lambda n: str(n.retries)),
    ("replies asked for again", lambda n: str(n.asked_again)),
    ("calls refused or broken", lambda n: str(n.failed_calls)),
)
"""What is counted of an arm beside the measures."""


def rate(value: Rate) -> str:
    """`8.3% (1 of 12, 1.5 to 35.4)`; the interval is Wilson's, of 95%."""
    if value.value is None:
        return "none counted"
    return f"{_percent(value.value)}% ({value.count} of {value.n}, {_percent(value.low)} to {_percent(value.high)})"


def number(value: float | None) -> str:
    """A count or a median; a dash where there is none."""
    return "–" if value is None else f"{value:,.0f}"


def p_value(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def tokens(turn: TurnSeen) -> str:
    """`1,204 in, 88 out`, as far as the provider counted them."""
    counts = ((turn.tokens.prompt, "in"), (turn.tokens.completion, "out"))
    return ", ".join(f"{count:,} {way}" for count, way in counts if count is not None) or "–"


def verdict(turn: TurnSeen) -> str:
    """What the answer rests on, or the code with which the turn ended."""
    return turn.error_code or "error" if turn.terminal == "error" else turn.evidence or "–"


def unmet(turn: TurnSeen) -> str:
    """What the turn misses, in a line; empty when it meets everything."""
    return "; ".join(f"{u.expectation}: expected {u.expected}, saw {u.seen}" for u in turn.unmet)


def place(turn: TurnSeen) -> str:
    """`relation-1 · 2`, with the repeat where there are several."""
    return f"{turn.conversation} · {turn.turn}"


def outcome(run: Run) -> str:
    """How many turns missed something."""
    missed = sum(bool(turn.unmet) for turn in run.turns)
    if not missed:
        return f"All {len(run.turns)} turns meet what the script expects."
    return f"{missed} of {len(run.turns)} turns miss something that the script expects."


def side(difference: Difference, value: float) -> str:
    """A side's share or median."""
    return f"{_percent(value)}%" if difference.kind == "rate" else number(value)


def conclusion(comparison: Comparison) -> str:
    """What may be said of the two sides, and no more."""
    real = [found for found in comparison.differences if found.better is not None]
    if not real:
        return (
            "No difference is larger than noise, so neither side is called better "
            f"(adjusted p of {ALPHA:g} or more for every measure)."
        )
    listed = "; ".join(
        f"{found.told}: {comparison.a if found.better == 'A' else comparison.b} has less" for found in real
    )
    if comparison.contested:
        return f"Larger than noise, for both sides: {listed}. So neither is called better."
    name = comparison.a if comparison.winner == "A" else comparison.b
    return f"Larger than noise, all for {name}: {listed}."


def needed(difference: Difference) -> str:
    """About how many repeats of the script would show what was seen."""
    return "–" if difference.repeats is None else f"about {difference.repeats:,}"


def _percent(share: float) -> str:
    return f"{share * 100:.1f}"
