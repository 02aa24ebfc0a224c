"""The tests of a comparison, against published values and against counting everything. Source: issue 8 item 2."""

import itertools
import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.harness.statistics import (
    holm,
    pairs_for_amounts,
    pairs_for_rates,
    sign_flip,
    signed_ranks,
    smallest_p,
    wilson,
)


@pytest.mark.parametrize(
    ("count", "n", "low", "high"),
    [
        (1, 12, 0.0149, 0.3539),  # seed 001: 1 of 12 skipped
        (3, 36, 0.0287, 0.2183),
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (81, 263, 0.2553, 0.3662),  # Newcombe 1998, table I, method 3
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (0, 0, 0.0, 1.0),
    ],
)
def test_an_interval_of_a_rate_is_wilsons(count: int, n: int, low: float, high: float) -> None:
    """Newcombe, Statistics in Medicine 17 (1998), gives the same to four digits."""
    rate = wilson(count, n)
    assert (round(rate.low, 4), round(rate.high, 4)) == (low, high)


def test_more_than_there_are_is_no_rate() -> None:
    """A count above n is a mistake of the caller."""
    with pytest.raises(ValueError, match="3 of 2 is no rate"):
        wilson(3, 2)


@pytest.mark.parametrize(
    ("one_way", "other_way", "p"),
    [(0, 0, 1.0), (1, 0, 1.0), (5, 0, 0.0625), (6, 0, 0.03125), (9, 1, 22 / 1024), (8, 2, 112 / 1024), (5, 5, 1.0)],
)
def test_single_turns_are_judged_by_mcnemars_exact_test(one_way: int, other_way: int, p: float) -> None:
    """Of n pairs that differ, as unequal a split or a more unequal one, by the binomial of one half."""
    assert sign_flip([1] * one_way + [-1] * other_way + [0] * 7).p == pytest.approx(p)


def test_the_rank_test_gives_the_textbooks_value() -> None:
    """Hollander and Wolfe 1973, p. 29: depression before and after; W+ is 40, the two-sided exact p 0.0390625."""
    before = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30]
    after = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29]
    tested = signed_ranks([x - y for x, y in zip(before, after, strict=True)])
    assert (tested.p, tested.lean) == (pytest.approx(0.0390625), 70)  # twice (40 - 5)


def counted(ranks: Sequence[float], seen: float) -> float:
    """The p by going through every pattern of signs."""
    sums = [
        abs(sum(s * r for s, r in zip(signs, ranks, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(ranks))
    ]
    return sum(total >= seen - 1e-9 for total in sums) / len(sums)


@given(st.lists(st.integers(-4, 4), max_size=9))
def test_adding_up_gives_what_counting_every_pattern_gives(differences: list[int]) -> None:
    """Both tests are exact, with ties and noughts."""
    moved = [abs(d) for d in differences if d]
    assert sign_flip(differences).p == pytest.approx(counted(moved, abs(sum(differences))))
    ordered = sorted(moved)
    ranks = [(ordered.index(size) + 1 + len(ordered) - ordered[::-1].index(size)) / 2 for size in moved]
    signs = [1 if d > 0 else -1 for d in differences if d]
    seen = abs(sum(s * r for s, r in zip(signs, ranks, strict=True)))
    assert signed_ranks(differences).p == pytest.approx(counted(ranks, seen))


def test_several_measures_are_adjusted_by_holm() -> None:
    """Holm 1979: the smallest times their number and so on, never falling, never above one."""
    adjusted = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005, "e": 0.9})
    assert adjusted == pytest.approx({"a": 0.04, "b": 0.09, "c": 0.09, "d": 0.025, "e": 0.9})


def test_how_many_pairs_a_difference_needs() -> None:
    """Connor 1987 for rates; for amounts a paired t test and a twentieth more. Nothing seen, nothing said."""
    assert pairs_for_rates(20, 10, 100) == 234
    assert pairs_for_rates(3, 3, 12) is None
    assert pairs_for_rates(0, 0, 0) is None
    one_sd = [0.0, 2.0] * 50  # mean 1, spread 1.005
    assert pairs_for_amounts(one_sd) == 9
    assert pairs_for_amounts([0.0, 0.0, 0.0]) is None
    assert pairs_for_amounts([5.0]) is None


def test_few_pairs_can_show_nothing() -> None:
    """Five pairs give 1/16 at the least, six give less than 1/20."""
    assert (smallest_p(5), smallest_p(6), smallest_p(0)) == (0.0625, 0.03125, 1.0)
    assert math.isclose(sign_flip([1] * 6).p, smallest_p(6))
