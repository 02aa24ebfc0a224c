"""Expectations held against a turn: pure, structural, one `Unmet` for each that fails.

Source: issue 8 items 1 and 7.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.harness.records import TurnSeen, Unmet
from app.harness.script import Expectation
from app.harness.spellings import missing

FIND = "find_entities"
"""The look-up that an id from an earlier turn spares."""


@dataclass(frozen=True, slots=True)
class Ids:
    """Entity ids of a turn: `found` by its tools, `named` in the arguments of its calls."""

    found: frozenset[str]
    named: frozenset[str]


def judge(expected: Expectation, seen: TurnSeen, ids: Sequence[Ids]) -> tuple[Unmet, ...]:
    """What the turn doesn't meet. `ids` are those of the conversation's turns up to and with this one."""
    return *_tools(expected, seen), *_answer(expected, seen), *_reuse(expected, seen, ids)


def _tools(expected: Expectation, seen: TurnSeen) -> Iterator[Unmet]:
    ran, tried = set(seen.tools), {*seen.tools, *seen.failed_calls}
    shown = _listed(seen.tools)
    if absent := [tool for tool in expected.must_run if tool not in ran]:
        yield Unmet("must_run", _listed(absent), shown)
    if expected.must_run_one_of and not ran.intersection(expected.must_run_one_of):
        yield Unmet("must_run_one_of", _listed(expected.must_run_one_of), shown)
    if present := [tool for tool in expected.must_not_run if tool in tried]:
        yield Unmet("must_not_run", _listed(expected.must_not_run), _listed(present))
    if expected.no_failed_call and seen.failed_calls:
        yield Unmet("no_failed_call", "no call ends in error", _listed(seen.failed_calls))


def _answer(expected: Expectation, seen: TurnSeen) -> Iterator[Unmet]:
    if seen.terminal != expected.terminal:
        yield Unmet("terminal", expected.terminal, f"{seen.terminal} {seen.error_code or ''}".strip())
    if not seen.stored:
        yield Unmet("stored", "the saved answer is the streamed one", "it isn't, or none was saved")
    if expected.evidence and seen.evidence not in expected.evidence:
        yield Unmet("evidence", " or ".join(expected.evidence), seen.evidence or "none was judged")
    if len(seen.sources) < expected.sources_at_least:
        yield Unmet("sources_at_least", str(expected.sources_at_least), str(len(seen.sources)))
    if absent := missing(expected.facts, seen.answer):
        yield Unmet("facts", "; ".join(slot[0] for slot in expected.facts), f"without {'; '.join(absent)}")
    if expected.language is not None and seen.language != expected.language:
        yield Unmet("language", expected.language, seen.language)


def _reuse(expected: Expectation, seen: TurnSeen, ids: Sequence[Ids]) -> Iterator[Unmet]:
    if expected.reuses_ids_of is None:
        return
    known, named = ids[expected.reuses_ids_of - 1].found, ids[-1].named
    want = f"ids that turn {expected.reuses_ids_of} found, without another look-up"
    if not known:
        yield Unmet("reuses_ids_of", want, f"turn {expected.reuses_ids_of} found no entity")
    elif FIND in {*seen.tools, *seen.failed_calls}:
        yield Unmet("reuses_ids_of", want, f"{FIND} was called again")
    elif not named:
        yield Unmet("reuses_ids_of", want, "no call named an id")
    elif strange := named - known:
        yield Unmet("reuses_ids_of", want, f"{len(strange)} of {len(named)} ids named are others")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "no tool"
