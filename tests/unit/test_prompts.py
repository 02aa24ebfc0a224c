"""The prompts: versions side by side, none changed once it was measured. Source: issue 8 item 6, seed 001."""

from dataclasses import fields

import pytest

from app.errors import StartError
from app.settings import Settings, read
from app.turn import prompts
from app.turn.prompts import VERSIONS

HASHES = {
    1: "c0848b4a520e304ce059cfdd603c12bf73b4f3aea026b03eb6a9e5425daae718",
    2: "98683925e17de7434c8acf5645f26a53fb9b0a6f63310efcf6c3c8523437788e",
}
"""Runs are kept under these. A change of words is a new version with the next number, not a new hash here."""


def test_no_version_was_changed_after_it_was_measured() -> None:
    """Every version has the hash under which its runs are kept, and a new one is added here."""
    assert {version: wording.hash for version, wording in VERSIONS.items()} == HASHES


def test_the_newest_version_is_used_unless_told_otherwise() -> None:
    """Versions count from 1 without gaps."""
    assert list(VERSIONS) == list(range(1, len(VERSIONS) + 1))
    assert prompts.LATEST is VERSIONS[max(VERSIONS)]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_says_what_a_model_tends_to_forget(version: int) -> None:
    """Seed 001: what the base holds is unknown until looked at, general knowledge is no reason; the answer's language."""
    system = VERSIONS[version].system
    assert "What the base holds is unknown to you until you look" in system
    assert "General knowledge is no reason to skip the tools" in system
    assert "Answer in the language of the question" in system


@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_is_whole(version: int) -> None:
    """Every text is there, and a repair for every fault that an answer request can show."""
    wording = VERSIONS[version]
    assert [f.name for f in fields(wording) if not getattr(wording, f.name)] == []
    assert set(wording.repair) == {"empty", "markup", "calls", "length"}


def test_a_version_that_is_not_there_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line: the variable, what was given, what is allowed."""
    monkeypatch.setenv("TURNSTREAM_PROMPT_VERSION", "9")
    with pytest.raises(StartError, match=r"^TURNSTREAM_PROMPT_VERSION: '9' was given; allowed is one of 1, 2$"):
        read()
    assert Settings.model_fields["prompt_version"].default is None
