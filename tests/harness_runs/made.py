"""Turns and runs made for tests: what is given counts, the rest is plain."""

from collections.abc import Sequence
from typing import Any

import msgspec

from app.harness.records import Arm, Plan, Run, TokensSeen, TurnSeen, Wire

A, B = Arm("model-a", 2, "a" * 64), Arm("model-b", 2, "b" * 64)


def quiet(*progress: int) -> None:
    """Hears how far something is and says nothing."""


def turn(**given: Any) -> TurnSeen:
    """A data question that was looked up and cited."""
    plain: dict[str, Any] = {
        "model": "model-a",
        "prompt": 2,
        "repeat": 1,
        "conversation": "board",
        "turn": 1,
        "question": "Who sat on the board?",
        "about": "base",
        "tools": ("search_chunks",),
        "failed_calls": (),
        "sources": (),
        "evidence": "cited",
        "terminal": "done",
        "error_code": None,
        "stopped": False,
        "answer": "Helen Toner [1].",
        "language": "en",
        "cited": (1,),
        "invented": (),
        "skipped": False,
        "reached": False,
        "turned_back": False,
        "fallback": False,
        "wire": Wire(2),
        "tokens": TokensSeen(100, 10),
        "first_token_ms": 100,
        "total_ms": 200,
        "stored": True,
        "unmet": (),
        "conversation_id": "c",
        "turn_id": "t",
    }
    return TurnSeen(**plain | given)


def skip(**given: Any) -> TurnSeen:
    """A data question that was answered without looking."""
    shape: dict[str, Any] = {
        "tools": ("no_evidence_needed",),
        "evidence": "skipped",
        "cited": (),
        "skipped": True,
        "reached": True,
    }
    return turn(**shape | given)


def run(arm: Arm, turns: Sequence[TurnSeen], *, script_hash: str = "s", repeats: int = 1, **plan: Any) -> Run:
    """A run of one arm with these turns."""
    plain: dict[str, Any] = {
        "script": "twelve-en",
        "script_hash": script_hash,
        "base": "sample",
        "base_hash": "held",
        "tools_hash": "tools",
        "embedding_model": None,
        "arms": (arm,),
        "repeats": repeats,
        "turns": len(turns),
        "version": "1",
    }
    own = tuple(msgspec.structs.replace(t, model=arm.model, prompt=arm.prompt) for t in turns)
    return Run("01a0", "2026-01-01T00:00:00+00:00", "2026-01-01T00:01:00+00:00", Plan(**plain | plan), own)
