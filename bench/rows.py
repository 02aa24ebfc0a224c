"""What a measurement gives: rows, each a figure with what issue 7 asks of it; and how a module is run by itself."""

import argparse
import json
import signal
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol


@dataclass(frozen=True, slots=True)
class Row:
    """A figure. `target` is the most it may be, the least where `sense` says so; None: shown without a target."""

    name: str
    value: float
    unit: str
    target: float | None = None
    sense: Literal["at most", "at least"] = "at most"
    detail: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def reached(self) -> bool | None:
        """Whether the target was reached; None without one."""
        if self.target is None:
            return None
        return self.value <= self.target if self.sense == "at most" else self.value >= self.target


class Measure(Protocol):
    """A measurement gives its rows as they are found; a quick one is rough."""

    def __call__(self, *, quick: bool) -> Iterable[Row]: ...


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which this share of them lies, the nearest one that occurred."""
    ordered = sorted(values)
    return ordered[min(round(share * len(ordered)), len(ordered) - 1)]


def rounded(values: Iterable[float], digits: int = 1) -> list[float]:
    """Figures as they are shown beside a median."""
    return [round(value, digits) for value in values]


def median(values: Iterable[float], digits: int = 2) -> float:
    """The median, rounded."""
    return round(statistics.median(values), digits)


def as_json(row: Row) -> dict[str, Any]:
    """The row as it is printed and kept."""
    return asdict(row) | {"reached": row.reached}


def end_orderly() -> None:
    """Have SIGTERM end this process through every `finally`, so that the servers it started end with it."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


def main(measure: Measure, about: str | None) -> None:
    """Run one measurement from the command line: each row a line of JSON."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter runs: rough figures")
    end_orderly()
    for row in measure(quick=parser.parse_args().quick):
        print(json.dumps(as_json(row)), flush=True)
