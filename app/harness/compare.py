"""Two arms over the same questions: which differences are larger than noise. Pure.

Turns are paired by conversation, turn and repeat. Turns of one conversation depend on each other, so a conversation is
what gets a sign in the tests (decision 0016). Nothing is called better that chance would have given once in twenty
comparisons, counted over all measures; seed 001 shows a first run that two more undid.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

from app.errors import StartError
from app.harness.measures import HOW_MUCH, YES_NO, HowMuch, YesNo
from app.harness.records import Arm, Run, TurnSeen
from app.harness.statistics import (
    ALPHA,
    holm,
    pairs_for_amounts,
    pairs_for_rates,
    sign_flip,
    signed_ranks,
    smallest_p,
)

Pair = tuple[TurnSeen, TurnSeen]
Side = Literal["A", "B"]

_ALPHA_EACH = ALPHA / (len(YES_NO) + len(HOW_MUCH))
"""What the first of the measures must reach, by Holm."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One measure over the pairs. For a rate `a` and `b` are shares, for an amount medians.

    `n` is how many pairs it is about, `conversations` how many independent ones they come from. `p` is of this measure
    alone, `adjusted` for all; `lean` is above nought where A has more. `better` is None unless the difference is larger
    than noise. `repeats` is about how many repeats of the script would show it if it is real; None where none was seen.
    """

    measure: str
    told: str
    kind: Literal["rate", "amount"]
    n: int
    conversations: int
    a: float
    b: float
    p: float
    lean: int
    repeats: int | None
    adjusted: float = 1.0
    better: Side | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """All measures. `unpaired` turns stand on one side only and count for nothing."""

    a: str
    b: str
    script: str
    pairs: int
    conversations: int
    unpaired: int
    differences: tuple[Difference, ...]
    notes: tuple[str, ...]

    @property
    def winner(self) -> Side | None:
        """The side that every difference larger than noise speaks for; None without any, or where they disagree."""
        for_a = any(found.better == "A" for found in self.differences)
        for_b = any(found.better == "B" for found in self.differences)
        if for_a == for_b:
            return None
        return "A" if for_a else "B"

    @property
    def contested(self) -> bool:
        """Whether there are differences larger than noise for both sides."""
        return len({found.better for found in self.differences if found.better is not None}) > 1


@dataclass(frozen=True, slots=True)
class Contender:
    """One side of a comparison: a run and which of its arms. `name` is how the command line and reports call it."""

    name: str
    run: Run
    arm: Arm


def chosen(run: Run, name: str, label: str | None) -> Contender:
    """The arm of a run that is meant: by `model@prompt` or the model alone; the only one where none is named.

    Raises:
        StartError: the run has no such arm, or several that fit.
    """
    fitting = [arm for arm in run.plan.arms if label in (None, arm.label, arm.model)]
    if len(fitting) == 1:
        return Contender(f"{name}#{fitting[0].label}", run, fitting[0])
    listed = ", ".join(f"{name}#{arm.label}" for arm in run.plan.arms)
    said = "holds several arms" if label is None else f"has no single arm {label!r}"
    raise StartError(f"{name} {said}; allowed is one of {listed}")


def compare(a: Contender, b: Contender) -> Comparison:
    """Hold the two sides against each other.

    Raises:
        StartError: they aren't over the same script, or have no turn in common.
    """
    if a.run.plan.script_hash != b.run.plan.script_hash:
        raise StartError(
            f"{a.name} ran {a.run.plan.script} ({a.run.plan.script_hash[:12]}), {b.name} ran {b.run.plan.script} "
            f"({b.run.plan.script_hash[:12]}); only runs of the same script can be compared"
        )
    left = {turn.place: turn for turn in a.run.of(a.arm)}
    right = {turn.place: turn for turn in b.run.of(b.arm)}
    pairs = [(left[place], right[place]) for place in sorted(left.keys() & right.keys())]
    if not pairs:
        raise StartError(f"{a.name} and {b.name} have no turn in common")
    tested = [*(_rate(measure, pairs) for measure in YES_NO), *(_amount(measure, pairs) for measure in HOW_MUCH)]
    drawn = {measure.name: done for measure, done in zip((*YES_NO, *HOW_MUCH), tested, strict=True) if done is not None}
    adjusted = holm({name: done.p for name, done in drawn.items()})
    return Comparison(
        a.name,
        b.name,
        a.run.plan.script,
        len(pairs),
        len(_clusters(pairs)),
        len(left.keys() ^ right.keys()),
        tuple(_settled(done, adjusted[name]) for name, done in drawn.items()),
        tuple(_notes(a, b, len(_clusters(pairs)), len(drawn))),
    )


def _settled(found: Difference, adjusted: float) -> Difference:
    """The difference with its p over all measures, and the side it speaks for: less of anything measured is better."""
    better: Side | None = None
    if adjusted < ALPHA and found.lean:
        better = "B" if found.lean > 0 else "A"
    return replace(found, adjusted=adjusted, better=better)


def _rate(measure: YesNo, pairs: Sequence[Pair]) -> Difference | None:
    about = [(x, y) for x, y in pairs if measure.counts(x) and measure.counts(y)]
    if not about:
        return None
    shown = [(measure.shown(x), measure.shown(y)) for x, y in about]
    sums = _by_conversation(about, lambda x, y: measure.shown(x) - measure.shown(y))
    tested = sign_flip(sums)
    only_a, only_b = sum(x > y for x, y in shown), sum(x < y for x, y in shown)
    needed = pairs_for_rates(only_a, only_b, len(shown), _ALPHA_EACH)
    return Difference(
        measure.name,
        measure.told,
        "rate",
        len(about),
        len(sums),
        sum(x for x, _ in shown) / len(about),
        sum(y for _, y in shown) / len(about),
        tested.p,
        tested.lean,
        None if needed is None else math.ceil(needed * _repeats(about) / len(about)),
    )


def _amount(measure: HowMuch, pairs: Sequence[Pair]) -> Difference | None:
    known = [
        ((x, y), left, right)
        for x, y in pairs
        if (left := measure.amount(x)) is not None and (right := measure.amount(y)) is not None
    ]
    if not known:
        return None
    about = [pair for pair, _, _ in known]
    sums = _by_conversation(about, lambda x, y: (measure.amount(x) or 0) - (measure.amount(y) or 0))
    tested = signed_ranks(sums)
    needed = pairs_for_amounts(sums, _ALPHA_EACH)
    return Difference(
        measure.name,
        measure.told,
        "amount",
        len(about),
        len(sums),
        median(left for _, left, _ in known),
        median(right for _, _, right in known),
        tested.p,
        tested.lean,
        None if needed is None else math.ceil(needed * _repeats(about) / len(sums)),
    )


def _repeats(pairs: Sequence[Pair]) -> int:
    return max(1, len({turn.repeat for turn, _ in pairs}))


def _clusters(pairs: Sequence[Pair]) -> dict[tuple[str, int], list[Pair]]:
    out: dict[tuple[str, int], list[Pair]] = defaultdict(list)
    for pair in pairs:
        out[pair[0].conversation, pair[0].repeat].append(pair)
    return out


def _by_conversation(pairs: Sequence[Pair], difference: Callable[[TurnSeen, TurnSeen], int]) -> list[int]:
    return [sum(difference(x, y) for x, y in group) for group in _clusters(pairs).values()]


def _notes(a: Contender, b: Contender, conversations: int, measures: int) -> list[str]:
    """What a reader must know before believing a number."""
    plans = a.run.plan, b.run.plan
    notes: list[str] = []
    if plans[0].base_hash != plans[1].base_hash:
        notes.append("The bases held different things; a difference may be theirs.")
    if plans[0].tools_hash != plans[1].tools_hash:
        notes.append("The tools were different.")
    if plans[0].embedding_model != plans[1].embedding_model:
        models = " and ".join(plan.embedding_model or "none" for plan in plans)
        notes.append(f"The embedding models were different: {models}.")
    if a.arm.prompt_hash != b.arm.prompt_hash:
        notes.append(f"The prompts were different: {a.arm.prompt} and {b.arm.prompt}.")
    if plans[0].version != plans[1].version:
        notes.append(f"The versions of turnstream were different: {plans[0].version} and {plans[1].version}.")
    if smallest_p(conversations) * measures >= ALPHA:
        needed = math.ceil(1 + math.log2(measures / ALPHA))
        notes.append(f"{conversations} conversations are too few to show any difference; from {needed} on one can be.")
    return notes
