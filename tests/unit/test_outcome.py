"""The tables of how a turn can end are complete."""

import pytest

from app.errors import STATUS, AppError, RefusalCode, TurnErrorCode
from app.llm import failures
from app.llm.failures import ModelFailure
from app.turn.outcome import RETRYABLE, Answered, Broke, Outcome, Stopped, TurnStatus, status_of


def test_the_closed_list_of_codes_is_the_design_s() -> None:
    """DESIGN 6: every code, and no other."""
    listed = """
        no_chat_model answer_running turn_not_running model_unreachable model_unavailable model_rate_limited
        model_out_of_credit model_rejected model_interrupted context_too_long answer_empty answer_tool_text
        answer_too_long answer_not_saved turn_interrupted internal
    """
    assert " ".join(TurnErrorCode) == " ".join(listed.split())


def test_every_code_says_whether_asking_again_may_help() -> None:
    """A code without an entry could not become a terminal frame."""
    assert set(RETRYABLE) == set(TurnErrorCode)


def test_every_refusal_has_a_status_of_its_own() -> None:
    """A refusal code without a status could not become a response."""
    assert set(RefusalCode) <= set(STATUS)
    assert all(400 <= status < 600 for status in STATUS.values())
    assert AppError(RefusalCode.DRAINING, "later", retry_after_s=2).status == 503


def test_every_model_failure_has_a_code_of_the_list() -> None:
    """What the wire raises can always be told to a reader; what is transient is also retryable."""
    kinds = [kind for kind in vars(failures).values() if isinstance(kind, type) and issubclass(kind, ModelFailure)]
    concrete = [kind for kind in kinds if kind is not ModelFailure]
    assert len(concrete) == 8
    assert all(kind.code in RETRYABLE for kind in concrete)
    assert [kind for kind in concrete if kind.transient and not RETRYABLE[kind.code]] == []


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (Answered(), "done"),
        (Answered(truncated=True), "done"),
        (Stopped(), "stopped"),
        (Broke(TurnErrorCode.INTERNAL, "x"), "failed"),
    ],
)
def test_every_outcome_has_a_stored_status(outcome: Outcome, status: TurnStatus) -> None:
    """DESIGN 8: done, stopped or failed."""
    assert status_of(outcome) == status
