"""A run as a JSON file: everything that was seen, and the numbers of each arm. Read back by `harness compare`.

The shape: {"id", "created_at", "finished_at", "plan": {...}, "turns": [{"question", "tools", "sources", "evidence",
"terminal", ...}], "arms": [{"model", "prompt", ...}]}. Source: issue 8.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from app.errors import StartError
from app.harness.measures import Summary, summary
from app.harness.records import Arm, Run
from app.harness.statistics import Rate

MAX_BYTES = 200_000_000


def as_json(run: Run) -> bytes:
    """The file's bytes."""
    content: dict[str, Any] = msgspec.to_builtins(run)
    content["arms"] = [_arm(arm, summary(run.of(arm))) for arm in run.plan.arms]
    return msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n"


def check(path: Path | None) -> None:
    """Say before a long run, not after it, that its report can't be put there. Raises StartError."""
    if path is not None and not path.resolve().parent.is_dir():
        raise StartError(f"{path} can't be written: there is no folder {path.parent}")


def write(path: Path, data: bytes) -> None:
    """Put the bytes into a file. Blocking. Raises StartError."""
    try:
        path.write_bytes(data)
    except OSError as error:
        raise StartError(f"{path} can't be written: {error.strerror or error}") from error


def read(path: Path) -> Run:
    """The run in a file that `as_json` made. Blocking. Raises StartError."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise StartError(f"{path} is larger than {MAX_BYTES} bytes, which no report is")
        return msgspec.json.decode(path.read_bytes(), type=Run)
    except OSError as error:
        raise StartError(f"{path} can't be read: {error.strerror or error}") from error
    except msgspec.MsgspecError as error:
        raise StartError(f"{path} is no report of the harness: {error}") from error


def _arm(arm: Arm, numbers: Summary) -> dict[str, Any]:
    out = asdict(numbers)
    out["rates"] = {name: _rate(rate) for name, rate in numbers.rates.items()}
    return {"model": arm.model, "prompt": arm.prompt, **out}


def _rate(rate: Rate) -> dict[str, Any]:
    return {"count": rate.count, "n": rate.n, "share": rate.value, "low": rate.low, "high": rate.high}
