"""The policy when a model request failed: what is tried again, what is done without, what ends the turn."""

import pytest

from app.errors import TurnErrorCode
from app.llm.failures import (
    ContentFiltered,
    ContextTooLong,
    Interrupted,
    ModelFailure,
    OutOfCredit,
    RateLimited,
    Rejected,
    Unavailable,
    Unreachable,
)
from app.llm.model import Feature
from app.turn.context import Prompt
from app.turn.hooks import Fail, FailureView, RequestFailed, TryAgain
from app.turn.policy import Limits, Policy
from tests.unit.policy_states import GATHER, PAST, QUESTION, judged, opened, policy, reply, sent
from tests.unit.scripted import SPECS, search


def rejected(*features: Feature, status: int = 400) -> Rejected:
    failure = Rejected("no", status=status)
    failure.refused = frozenset(features)
    return failure


def failing(hooks: Policy, failure: ModelFailure, *, shown: bool = False) -> RequestFailed:
    return hooks.request_failed(FailureView(failure, sent(hooks).request, shown))


NOW = TryAgain(0.0)


def code_of(failure: ModelFailure) -> Fail:
    return Fail(failure.code, failure.message)


@pytest.mark.parametrize(
    ("failure", "delays"),
    [
        (Unreachable("down"), [0.5, 1.0, 2.0]),
        (Unavailable("busy", status=503), [0.5, 1.0, 2.0]),
        (RateLimited("slow", status=429), [0.5, 1.0, 2.0]),
        (RateLimited("slow", status=429, retry_after_s=7), [7, 7, 7]),
        (RateLimited("slow", status=429, retry_after_s=0), [0, 0, 0]),
        (RateLimited("slow", status=429, retry_after_s=21), []),
        (Interrupted("cut"), [0.5]),
        (RateLimited("slow", status=429, transient=False), []),
        (Unavailable("gone", status=501, transient=False), []),
        (OutOfCredit("empty", status=402), []),
        (ContentFiltered("filtered", status=400), []),
        (rejected(status=401), []),
        (rejected(status=403), []),
        (rejected(status=404), []),
        (ContextTooLong("long", status=400), []),
    ],
)
def test_what_is_transient_is_tried_again_with_backoff_or_as_asked(failure: ModelFailure, delays: list[float]) -> None:
    """DESIGN 6 and case P17: 429/408/5xx and failed connects wait and go on; an empty balance never does."""
    hooks = policy()
    assert [failing(hooks, failure) for _ in delays] == [TryAgain(delay) for delay in delays]
    assert failing(hooks, failure) == code_of(failure)


@pytest.mark.parametrize("jitter", [0.0, 0.25, 0.999])
def test_a_backoff_is_spread_and_bounded(jitter: float) -> None:
    """Replicas do not come back in step, and nobody waits longer than the setting says."""
    hooks = policy(limits=Limits(retries=10, retry_max_wait_s=5), jitter=jitter)
    expected = [min(0.5 * 2**n * (0.5 + jitter), 5) for n in range(10)]
    assert [failing(hooks, Unreachable("x")) for _ in range(10)] == [TryAgain(delay) for delay in expected]


def test_a_reply_in_between_gives_the_retries_back() -> None:
    """Failures are counted in a row."""
    hooks = policy(limits=Limits(retries=1))
    assert isinstance(failing(hooks, Unreachable("x")), TryAgain)
    judged(hooks, reply("", search()))
    assert isinstance(failing(hooks, Unreachable("x")), TryAgain)
    assert isinstance(failing(hooks, Unreachable("x")), Fail)


@pytest.mark.parametrize(
    "failure",
    [
        Unreachable("x"),
        Unavailable("x"),
        RateLimited("x"),
        Interrupted("x"),
        ContextTooLong("x"),
        rejected(Feature.TOOL_CHOICE),
        rejected(),
    ],
)
def test_nothing_is_tried_again_once_a_reader_has_seen_text(failure: ModelFailure) -> None:
    """Case P06: whatever failed, a second attempt would show its text twice."""
    assert failing(policy(past=PAST), failure, shown=True) == code_of(failure)


def test_a_full_context_halves_the_history_once_per_turn() -> None:
    """Case A16: shrink once and retry once; without history there is nothing to shrink."""
    hooks = policy(past=PAST)
    failure = ContextTooLong("too long", status=400)
    before = len(sent(hooks).request.messages)
    assert failing(hooks, failure) == NOW
    assert sent(hooks).request.messages == Prompt(QUESTION, PAST[2:]).messages()
    assert len(sent(hooks).request.messages) == before - 4
    assert failing(hooks, failure) == code_of(failure)
    assert failing(policy(), failure) == code_of(failure)


@pytest.mark.parametrize("status", [400, 422])
def test_an_unnamed_refusal_drops_one_field_after_the_other_and_then_the_tools(status: int) -> None:
    """Case P16: keep tools as long as a field may have been the reason; nothing is sent twice."""
    hooks = policy()
    tried: list[frozenset[Feature]] = []
    for _ in range(2):
        tried.append(sent(hooks).request.avoid)
        assert failing(hooks, rejected(status=status)) == NOW
    tried.append(sent(hooks).request.avoid)
    assert tried == [
        frozenset(),
        frozenset({Feature.TOOL_CHOICE}),
        frozenset({Feature.TOOL_CHOICE, Feature.STREAM_OPTIONS}),
    ]
    assert failing(hooks, rejected(status=status)) == GATHER
    assert (sent(hooks).request.tools, sent(hooks).request.avoid) == ((), frozenset())
    assert failing(hooks, rejected(status=status)) == NOW
    assert sent(hooks).request.avoid == {Feature.STREAM_OPTIONS}
    assert failing(hooks, rejected(status=status)) == Fail(TurnErrorCode.MODEL_REJECTED, "no")


@pytest.mark.parametrize(
    "feature", [f for f in Feature if f is not Feature.TOOLS], ids=[f for f in Feature if f is not Feature.TOOLS]
)
def test_a_named_refusal_drops_what_it_names_once(feature: Feature) -> None:
    """DESIGN 6: resend once without the refused field; refused again, the turn fails."""
    hooks = policy()
    assert failing(hooks, rejected(feature)) == NOW
    assert sent(hooks).request.avoid == {feature}
    assert sent(hooks).request.tools == SPECS
    assert failing(hooks, rejected(feature)) == Fail(TurnErrorCode.MODEL_REJECTED, "no")


def test_refused_tools_are_answered_by_one_shot_retrieval() -> None:
    """DESIGN 6: only if tools themselves are refused; a field named beside them is dropped first."""
    assert failing(policy(), rejected(Feature.TOOLS)) == GATHER
    hooks = policy()
    assert failing(hooks, rejected(Feature.TOOLS, Feature.TOOL_CHOICE)) == NOW
    assert failing(hooks, rejected(Feature.TOOLS, Feature.TOOL_CHOICE)) == GATHER


def test_once_tools_were_accepted_an_unnamed_refusal_is_an_error() -> None:
    """DESIGN 6: only the first request with tools degrades; later a 400 is never resent unchanged (case A14)."""
    hooks = opened()
    assert failing(hooks, rejected()) == Fail(TurnErrorCode.MODEL_REJECTED, "no")
    assert failing(opened(), rejected(Feature.TOOLS)) == Fail(TurnErrorCode.MODEL_REJECTED, "no")
    hooks = opened()
    assert failing(hooks, rejected(Feature.CALL_IDS)) == NOW
    assert sent(hooks).request.avoid == {Feature.CALL_IDS}
