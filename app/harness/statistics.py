"""The few exact tests that a comparison of two runs needs. Pure; every function is held to known values by tests.

Wilson 1927 (interval of a rate), the sign-flip test of paired differences (with single-turn conversations it is
McNemar's exact test), Wilcoxon 1945 (signed ranks, exact also with ties), Holm 1979 (many measures), Connor 1987 (how
many pairs a difference of rates needs).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev

CONFIDENCE = 0.95
ALPHA = 0.05
POWER = 0.8

_Z = NormalDist()


@dataclass(frozen=True, slots=True)
class Rate:
    """`count` of `n`, with Wilson's interval; without any n the interval is everything."""

    count: int
    n: int
    low: float
    high: float

    @property
    def value(self) -> float | None:
        return self.count / self.n if self.n else None


def wilson(count: int, n: int, confidence: float = CONFIDENCE) -> Rate:
    """The rate with its score interval, which stays inside 0 to 1 and is right for few trials and rare events."""
    if not 0 <= count <= n:
        raise ValueError(f"{count} of {n} is no rate")
    if n == 0:
        return Rate(0, 0, 0.0, 1.0)
    z = _Z.inv_cdf(0.5 + confidence / 2)
    share = count / n
    scale = 1 + z * z / n
    middle = (share + z * z / (2 * n)) / scale
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / scale
    return Rate(count, n, 0.0 if count == 0 else middle - half, 1.0 if count == n else middle + half)


@dataclass(frozen=True, slots=True)
class Tested:
    """A two-sided p, and where the differences lean: above nought when they are mostly positive."""

    p: float
    lean: int


def sign_flip(differences: Sequence[int]) -> Tested:
    """Paired whole-number differences, if each could as well have had the other sign.

    Exact: the distribution of the sum over all sign patterns is added up, not sampled. Zeros say nothing.
    """
    total = sum(differences)
    return Tested(_two_sided([abs(d) for d in differences if d], abs(total)), total)


def signed_ranks(differences: Sequence[float]) -> Tested:
    """Wilcoxon's test of paired differences; zeros are dropped, ties share their mean rank. Exact."""
    moved = [d for d in differences if d]
    ranks = _doubled_ranks([abs(d) for d in moved])
    total = sum(rank if d > 0 else -rank for d, rank in zip(moved, ranks, strict=True))
    return Tested(_two_sided(ranks, abs(total)), total)


def holm(ps: Mapping[str, float]) -> dict[str, float]:
    """Each p adjusted for that there are several: the smallest times their number, and so on, never falling."""
    out: dict[str, float] = {}
    highest = 0.0
    for place, (name, p) in enumerate(sorted(ps.items(), key=lambda item: item[1])):
        highest = max(highest, min(1.0, p * (len(ps) - place)))
        out[name] = highest
    return out


def smallest_p(pairs: int) -> float:
    """The least p that so many independent pairs can give at all."""
    return min(1.0, 2.0 ** (1 - pairs))


def pairs_for_rates(only_first: int, only_second: int, n: int, alpha: float = ALPHA) -> int | None:
    """About how many pairs would show a difference like the one seen, in 8 of 10 attempts; None where none was seen."""
    if only_first == only_second or n == 0:
        return None
    moved, gap = (only_first + only_second) / n, abs(only_first - only_second) / n
    z_alpha, z_power = _Z.inv_cdf(1 - alpha / 2), _Z.inv_cdf(POWER)
    needed = (z_alpha * math.sqrt(moved) + z_power * math.sqrt(max(moved - gap * gap, 0.0))) ** 2 / gap**2
    return math.ceil(needed)


def pairs_for_amounts(differences: Sequence[float], alpha: float = ALPHA) -> int | None:
    """The same for amounts, from their mean and spread; a rank test wants about 5 in 100 more than a t test."""
    if len(differences) < 2 or not (mean := fmean(differences)):
        return None
    spread = stdev(differences)
    needed = ((_Z.inv_cdf(1 - alpha / 2) + _Z.inv_cdf(POWER)) * spread / mean) ** 2 * 1.05
    return max(math.ceil(needed), 2)


def _two_sided(sizes: Sequence[int], seen: int) -> float:
    """How often a sum of these sizes with random signs is at least as far from nought as `seen`."""
    if not sizes:
        return 1.0
    total = sum(sizes)
    ways = [0] * (total + 1)  # index: the sum of those with a plus
    ways[0] = 1
    reached = 0
    for size in sizes:
        reached += size
        for at in range(reached, size - 1, -1):
            ways[at] += ways[at - size]
    extreme = sum(count for plus, count in enumerate(ways) if abs(2 * plus - total) >= seen)
    return extreme / 2 ** len(sizes)


def _doubled_ranks(values: Sequence[float]) -> list[int]:
    """Twice the rank of each value, so that a tie's mean rank is whole."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    out = [0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and values[order[end + 1]] == values[order[start]]:
            end += 1
        for place in range(start, end + 1):
            out[order[place]] = start + end + 2
        start = end + 1
    return out
