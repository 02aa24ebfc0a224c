"""The tests' own rule for programs of the system: a test is skipped where one is missing, and in CI it fails."""

import pytest

from tests.harness.programs import installed


def test_a_test_whose_program_is_missing_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason says what to install."""
    monkeypatch.delenv("TURNSTREAM_CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no-such-program is not installed; on Debian: apt-get install"):
        installed("no-such-program")


def test_in_ci_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is skipped there unseen."""
    monkeypatch.setenv("TURNSTREAM_CI", "1")
    with pytest.raises(pytest.fail.Exception, match="TURNSTREAM_CI=1 promises that it is"):
        installed("no-such-program")
