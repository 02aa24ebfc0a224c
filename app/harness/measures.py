"""What is measured of a turn, and summed up of an arm. Pure.

Decides which turns a measure is about and which way is better. Source: issue 8 item 2, seed 001.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from app.harness.records import TurnSeen
from app.harness.statistics import Rate, wilson

Amount = Callable[[TurnSeen], int | None]


@dataclass(frozen=True, slots=True)
class YesNo:
    """A measure that a turn shows or doesn't; showing it is bad. `counts` says which turns it is about."""

    name: str
    told: str
    shown: Callable[[TurnSeen], bool]
    counts: Callable[[TurnSeen], bool]


@dataclass(frozen=True, slots=True)
class HowMuch:
    """A measure that a turn has an amount of; less is better. None: the turn has no such amount."""

    name: str
    told: str
    amount: Amount


def _every(turn: TurnSeen) -> bool:
    del turn
    return True


def _about_the_base(turn: TurnSeen) -> bool:
    return turn.about == "base"


def _answered_about_the_base(turn: TurnSeen) -> bool:
    return turn.about == "base" and turn.terminal == "done"


YES_NO: tuple[YesNo, ...] = (
    YesNo("skipped", "data questions answered without looking", lambda t: t.skipped, _about_the_base),
    YesNo("uncited", "answers to data questions that cite nothing", lambda t: not t.cited, _answered_about_the_base),
    YesNo("invented", "turns that cite a number on no list", lambda t: bool(t.invented), _every),
    YesNo("unmet", "turns that miss an expectation", lambda t: bool(t.unmet), _every),
    YesNo("failed", "turns that end in an error", lambda t: t.terminal == "error", _every),
)

HOW_MUCH: tuple[HowMuch, ...] = (
    HowMuch("first_token_ms", "time to the first token, ms", lambda t: t.first_token_ms),
    HowMuch("total_ms", "time to the end, ms", lambda t: t.total_ms),
    HowMuch("completion_tokens", "tokens written", lambda t: t.tokens.completion),
    HowMuch("requests", "model requests", lambda t: t.wire.requests),
)


@dataclass(frozen=True, slots=True)
class Summary:
    """An arm in numbers. `rates` and `medians` are by measure; `verdicts` count evidence, errors as `error`."""

    turns: int
    base_turns: int
    rates: Mapping[str, Rate]
    medians: Mapping[str, float | None]
    reached: int
    turned_back: int
    fallbacks: int
    retries: int
    asked_again: int
    failed_calls: int
    verdicts: Mapping[str, int]
    prompt_tokens: int | None
    completion_tokens: int | None


def summary(turns: Sequence[TurnSeen]) -> Summary:
    """The numbers of these turns. `reached` and `turned_back` are of data questions."""
    base = [turn for turn in turns if turn.about == "base"]
    return Summary(
        turns=len(turns),
        base_turns=len(base),
        rates={measure.name: rate_of(measure, turns) for measure in YES_NO},
        medians={measure.name: _median(measure.amount, turns) for measure in HOW_MUCH},
        reached=sum(turn.reached for turn in base),
        turned_back=sum(turn.turned_back for turn in base),
        fallbacks=sum(turn.fallback for turn in turns),
        retries=sum(turn.wire.retries for turn in turns),
        asked_again=sum(turn.wire.asked_again for turn in turns),
        failed_calls=sum(len(turn.failed_calls) for turn in turns),
        verdicts=dict(Counter(_verdict(turn) for turn in turns)),
        prompt_tokens=_sum(lambda t: t.tokens.prompt, turns),
        completion_tokens=_sum(lambda t: t.tokens.completion, turns),
    )


def _verdict(turn: TurnSeen) -> str:
    return turn.evidence if turn.terminal == "done" and turn.evidence else "error"


def rate_of(measure: YesNo, turns: Sequence[TurnSeen]) -> Rate:
    """How often the turns that the measure is about show it."""
    counted = [turn for turn in turns if measure.counts(turn)]
    return wilson(sum(measure.shown(turn) for turn in counted), len(counted))


def _median(amount: Amount, turns: Sequence[TurnSeen]) -> float | None:
    known = [value for turn in turns if (value := amount(turn)) is not None]
    return median(known) if known else None


def _sum(amount: Amount, turns: Sequence[TurnSeen]) -> int | None:
    known = [value for turn in turns if (value := amount(turn)) is not None]
    return sum(known) if known else None
