"""Rows as a table in the terminal, as a file of figures and as two plots in bench/results/.

`python -m bench.report [file]` prints a file of figures, by default the newest, as the table of docs/performance.md.
"""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.metadata import version
from pathlib import Path

from rich.table import Table

from bench.rows import Row, as_json
from bench.servers import ROOT

RESULTS = ROOT / "bench" / "results"
LIBRARIES = ("uvicorn", "uvloop", "httptools", "httpx", "fastapi", "starlette", "sqlalchemy", "asyncpg", "msgspec")
_LEFT, _BAR, _LINE = 420, 420, 24
"""Pixels: names, the longest bar, a line."""


def target_of(row: Row) -> str:
    """What is asked of the figure, in words."""
    return "" if row.target is None else f"{row.sense} {row.target:g}"


def verdict(row: Row) -> str:
    """Whether it was reached, in a word."""
    return {True: "yes", False: "no", None: ""}[row.reached]


def line(row: Row) -> str:
    """The row in one line."""
    asked = f" ({target_of(row)}: {verdict(row)})" if row.target is not None else ""
    return f"  {row.name}: {row.value:g} {row.unit}{asked}"


def table(found: Mapping[str, Sequence[Row]]) -> Table:
    """All rows with their targets, and the module that measures each."""
    out = Table(title="turnstream, measured")
    for column in ("what", "figure", "unit", "target", "reached", "python -m"):
        out.add_column(column, justify="right" if column == "figure" else "left")
    style = {True: "green", False: "red", None: None}
    for name, rows in found.items():
        for row in rows:
            cells = (row.name, f"{row.value:g}", row.unit, target_of(row), verdict(row), f"bench.{name}")
            out.add_row(*cells, style=style[row.reached])
    return out


def machine() -> dict[str, object]:
    """Where and with what it was measured, and how busy the machine was."""
    cpu = next(
        (one.partition(":")[2].strip() for one in _lines(Path("/proc/cpuinfo")) if one.startswith("model name")), "?"
    )
    commit = subprocess.run(
        ("git", "describe", "--always", "--dirty"), cwd=ROOT, check=False, capture_output=True, text=True
    )
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": sys.version.split()[0],
        "libraries": {name: version(name) for name in LIBRARIES},
        "commit": commit.stdout.strip(),
        "load_average_at_the_end": [round(load, 1) for load in os.getloadavg()],
    }


def keep(found: Mapping[str, Sequence[Row]], failed: Mapping[str, str], *, quick: bool) -> list[Path]:
    """Write the figures and the plots; the files."""
    RESULTS.mkdir(exist_ok=True)
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H%M%SZ")
    figures = RESULTS / f"{stamp}.json"
    rows = {name: [as_json(row) for row in measured] for name, measured in found.items()}
    content = {"at": stamp, "quick": quick, "machine": machine(), "rows": rows, "failed": dict(failed)}
    figures.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    written = [figures]
    every = [row for measured in found.values() for row in measured]
    bars = [
        (f"{server}, {row.detail['load']}", us)
        for row in every
        if "us_per_token" in row.detail
        for server, us in row.detail["us_per_token"].items()
    ]
    plots = {
        "cpu-per-token": _bars("CPU per streamed token, microseconds", bars) if bars else None,
        "targets": _bars(
            "How much of its target each figure uses (1: just reached, more: missed)",
            ((f"{row.name}, {row.unit}", round(used_share(row, row.target), 2)) for row in every if row.target),
            limit=1,
        ),
    }
    for name, svg in plots.items():
        if svg is not None:
            path = RESULTS / f"{stamp}-{name}.svg"
            path.write_text(svg, encoding="utf-8")
            written.append(path)
    return written


def used_share(row: Row, target: float) -> float:
    """How much of the target the figure uses up: more than 1 misses it."""
    if row.sense == "at most":
        return row.value / target
    return target / row.value if row.value else float("inf")


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def _bars(title: str, values: Iterable[tuple[str, float]], *, limit: float | None = None) -> str:
    """Horizontal bars as SVG; those over the limit stand out, and a line marks it."""
    bars = list(values)
    longest = max((value for _, value in bars), default=1) or 1
    if limit is not None:
        longest = min(longest, 4 * limit)  # one that misses by far would leave no room for the others
    height = (len(bars) + 2) * _LINE
    size = f'width="{_LEFT + _BAR + 80}" height="{height}"'
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="8" y="18" font-weight="bold">{escape(title)}</text>',
    ]
    for n, (name, value) in enumerate(bars, 1):
        y, width = n * _LINE + 6, max(min(value / longest, 1) * _BAR, 1)
        colour = "#b3403a" if limit is not None and value > limit else "#3a6ea5"
        out.append(f'<text x="{_LEFT - 8}" y="{y + 13}" text-anchor="end">{escape(name)}</text>')
        out.append(f'<rect x="{_LEFT}" y="{y}" width="{width:.1f}" height="{_LINE - 7}" fill="{colour}"/>')
        out.append(f'<text x="{_LEFT + width + 6:.1f}" y="{y + 13}">{value:g}</text>')
    if limit is not None:
        x = _LEFT + limit / longest * _BAR
        out.append(f'<line x1="{x:.1f}" y1="{_LINE}" x2="{x:.1f}" y2="{height - 8}" stroke="black"/>')
    return "\n".join([*out, "</svg>", ""])


def markdown(figures: Path) -> str:
    """The table of docs/performance.md: every figure with its target and the command that measures it."""
    kept = json.loads(figures.read_text(encoding="utf-8"))
    rows = {
        name: [Row(**{key: value for key, value in row.items() if key != "reached"}) for row in measured]
        for name, measured in kept["rows"].items()
    }
    out = ["| what | target | figure | reached | `python -m` |", "| --- | --- | --- | --- | --- |"]
    for name, measured in rows.items():
        out += [
            f"| {row.name} | {target_of(row)} | {row.value:g} {row.unit} | {verdict(row)} | `bench.{name}` |"
            for row in measured
        ]
    where = kept["machine"]
    versions = ", ".join(f"{library} {number}" for library, number in where["libraries"].items())
    when = f"{kept['at']}{', quick' if kept['quick'] else ''}, commit {where['commit']}"
    on = f"{where['cores']} cores of {where['cpu']}, {where['system']}, Python {where['python']}, {versions}"
    load = where["load_average_at_the_end"][-1]
    out += ["", f"{when}; {on}; load average over the last 15 minutes: {load}."]
    out += [f"No figure from `bench.{name}`: {why}" for name, why in kept["failed"].items()]
    return "\n".join(out)


def main() -> None:
    """Print a file of figures as Markdown."""
    given = [Path(name) for name in sys.argv[1:]] or sorted(RESULTS.glob("*.json"))[-1:]
    if not given:
        sys.exit(f"there is no file of figures in {RESULTS}; run python -m bench first")
    print(markdown(given[0]))


if __name__ == "__main__":
    main()
