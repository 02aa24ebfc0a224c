"""Which differences are larger than noise, and when no winner may be called. Source: issue 8 item 2, seed 001."""

import msgspec
import pytest

from app.errors import StartError
from app.harness import told
from app.harness.compare import Comparison, chosen, compare
from app.harness.records import Run, TurnSeen
from tests.harness_runs.made import A, B, run, skip, turn


def twelve(skips: int, *, repeat: int = 1, **given: object) -> list[TurnSeen]:
    """Twelve fresh data questions of which so many are skipped."""
    return [(skip if n < skips else turn)(conversation=f"q{n:02}", repeat=repeat, **given) for n in range(12)]


def compared(left: Run, right: Run) -> Comparison:
    return compare(chosen(left, "left", None), chosen(right, "right", None))


def skipped(found: Comparison) -> tuple[object, ...]:
    """The skip rate's line: pairs, both shares, p, adjusted p, better."""
    (one,) = [d for d in found.differences if d.measure == "skipped"]
    return one.n, one.a, one.b, one.p, one.adjusted, one.better


def test_the_seeds_wrong_winner_is_not_called_one() -> None:
    """Seed 001: three skips before a rebase and one after it are no proof; nor is a model with none beside three."""
    found = compared(run(A, twelve(3)), run(B, twelve(1)))
    assert skipped(found) == (12, 3 / 12, 1 / 12, 0.5, 1.0, None)
    assert found.winner is None
    assert told.conclusion(found).startswith("No difference is larger than noise, so neither side is called better")
    assert skipped(compared(run(A, twelve(3)), run(B, twelve(0))))[3:] == (0.25, 1.0, None)


def test_how_many_repeats_would_tell_is_said() -> None:
    """Two of twelve pairs differ, both one way: by Connor 76 such pairs at the first of nine measures' alpha."""
    found = compared(run(A, twelve(3)), run(B, twelve(1)))
    assert {d.measure: d.repeats for d in found.differences} == {
        "skipped": 7,
        "uncited": 7,
        "invented": None,
        "unmet": None,
        "failed": None,
        "first_token_ms": None,
        "total_ms": None,
        "completion_tokens": None,
        "requests": None,
    }


def test_a_difference_larger_than_noise_is_called() -> None:
    """Twelve of twelve against none, over as many conversations."""
    found = compared(run(A, twelve(12)), run(B, twelve(0)))
    assert skipped(found) == (12, 1.0, 0.0, pytest.approx(2**-11), pytest.approx(9 * 2**-11), "B")
    assert (found.winner, found.contested) == ("B", False)
    assert told.conclusion(found).startswith("Larger than noise, all for right#model-b@2: data questions answered")


def test_differences_for_both_sides_make_no_winner() -> None:
    """One skips, the other is slow: both is said, neither is called better."""
    found = compared(run(A, twelve(12, total_ms=100)), run(B, twelve(0, total_ms=900)))
    assert (found.winner, found.contested) == (None, True)
    assert "Larger than noise, for both sides" in told.conclusion(found)


def test_turns_of_one_conversation_are_not_counted_as_independent() -> None:
    """Twelve turns that differ alike in one conversation are one observation."""
    left = [skip(conversation="long", turn=n) for n in range(1, 13)]
    right = [turn(conversation="long", turn=n) for n in range(1, 13)]
    found = compared(run(A, left), run(B, right))
    assert (found.pairs, found.conversations) == (12, 1)
    assert skipped(found) == (12, 1.0, 0.0, 1.0, 1.0, None)
    assert found.notes[-1] == "1 conversations are too few to show any difference; from 9 on one can be."


def test_only_turns_that_stand_on_both_sides_are_paired() -> None:
    """A second repeat on one side counts for nothing and is told."""
    left = run(A, [*twelve(0), *twelve(0, repeat=2)], repeats=2)
    found = compared(left, run(B, twelve(0)))
    assert (found.pairs, found.unpaired) == (12, 12)


def test_other_scripts_are_not_compared() -> None:
    """A script whose words changed is another one."""
    with pytest.raises(StartError, match="only runs of the same script can be compared"):
        compared(run(A, twelve(0)), run(B, twelve(0), script_hash="other"))
    with pytest.raises(StartError, match="have no turn in common"):
        compared(run(A, twelve(0)), run(B, [turn(conversation="elsewhere")]))


def test_a_run_of_several_arms_wants_one_to_be_named() -> None:
    """By model and prompt, or by the model alone where that is enough."""
    both = msgspec.structs.replace(run(A, twelve(0)), plan=run(A, twelve(0), arms=(A, B)).plan)
    assert chosen(both, "r", "model-b@2").arm == chosen(both, "r", "model-b").arm == B
    with pytest.raises(StartError, match="r holds several arms; allowed is one of r#model-a@2, r#model-b@2"):
        chosen(both, "r", None)
    with pytest.raises(StartError, match="r has no single arm 'model-c'; allowed is one of"):
        chosen(both, "r", "model-c")


def test_what_else_was_different_is_noted() -> None:
    """Base, tools, prompts and version are tied to a run, so a comparison says when they aren't the same."""
    found = compared(
        run(A, twelve(0)), run(B, twelve(0), base_hash="other", tools_hash="other", embedding_model="e5", version="2")
    )
    assert found.notes == (
        "The bases held different things; a difference may be theirs.",
        "The tools were different.",
        "The embedding models were different: none and e5.",
        "The prompts were different: 2 and 2.",
        "The versions of turnstream were different: 1 and 2.",
    )
