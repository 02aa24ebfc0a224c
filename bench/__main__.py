"""All measurements, one after the other: a table, a file of figures and two plots in bench/results/.

Then how well and how fast the base is searched (bench/retrieval.py), in lines of its own. About 20 minutes; `--quick`
takes about five, with rough figures. One measurement by itself: `python -m bench.turn`, `python -m bench.latency`, …
"""

import argparse
import sys

from rich.console import Console

from bench import (
    asgi_servers,
    attach,
    database,
    frameworks,
    latency,
    linear,
    memory,
    report,
    retrieval,
    sse_response,
    start,
    turn,
)
from bench.rows import Measure, Row, end_orderly
from bench.servers import BenchFailed
from bench.tabs import TabFailed

MEASUREMENTS: dict[str, Measure] = {
    "turn": turn.measure,
    "frameworks": frameworks.measure,
    "latency": latency.measure,
    "attach": attach.measure,
    "memory": memory.measure,
    "database": database.measure,
    "linear": linear.measure,
    "start": start.measure,
    "sse_response": sse_response.measure,
    "asgi_servers": asgi_servers.measure,
}


def run(names: list[str], *, quick: bool) -> int:
    """Measure, show and keep; the exit status: 1 where a measurement gave no figure."""
    console = Console(width=max(Console().width, 120))
    found: dict[str, list[Row]] = {}
    failed: dict[str, str] = {}
    for name in names:
        console.print(f"measuring: {name}", style="dim")
        rows = found[name] = []
        try:
            for row in MEASUREMENTS[name](quick=quick):
                rows.append(row)
                console.print(report.line(row))
        except (BenchFailed, TabFailed) as error:
            failed[name] = str(error)
            console.print(f"no figure: {error}", style="red")
    console.print(report.table(found))
    for path in report.keep(found, failed, quick=quick):
        console.print(f"written: {path}")
    return 1 if failed else 0


def main() -> None:
    """Everything, or what is named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="name", help=f"what to measure: {', '.join(MEASUREMENTS)}; all")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter runs: rough figures")
    given = parser.parse_args()
    unknown = set(given.names) - set(MEASUREMENTS)
    if unknown:
        parser.error(f"no such measurement: {', '.join(sorted(unknown))}; there are {', '.join(MEASUREMENTS)}")
    end_orderly()
    status = run(given.names or list(MEASUREMENTS), quick=given.quick)
    if not given.names and not given.quick:
        sys.argv[1:] = []  # it reads the command line itself
        retrieval.main()
    sys.exit(status)


if __name__ == "__main__":
    main()
