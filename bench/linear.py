"""Ten times the tokens, the readers, the turns: how many times the CPU. More than ten would mean that something grows.

CPU of the serving process from the request to the end, medians of interleaved runs. The tokens are paced, so that each
is a frame of its own at both sizes; nothing is won by joining them.
"""

import asyncio
from collections.abc import Callable, Iterator

from bench.attach import cpu_of_tabs
from bench.rows import Row, main, median, rounded
from bench.servers import Server, cpu_of, turnstream, upstream
from bench.tabs import question, script

TARGET = 11
"""What ten times the work may cost."""


def turns_ms(server: Server, *, turns: int, tokens: int, pace_ms: float) -> float:
    """CPU milliseconds of so many turns at once."""
    ask = script(tokens=tokens, pace_ms=pace_ms)
    return cpu_of(server, lambda: [question(ask) for _ in range(turns)]) * 1000


def ratio(one: Callable[[], float], ten: Callable[[], float], rounds: int) -> tuple[float, dict[str, list[float]]]:
    """What the tenfold work costs against the single one."""
    ones: list[float] = []
    tens: list[float] = []
    one()
    for _ in range(rounds):
        ones.append(one())
        tens.append(ten())
    return round(median(tens) / median(ones), 2), {"once_ms": rounded(ones), "tenfold_ms": rounded(tens)}


def measure(*, quick: bool) -> Iterator[Row]:
    """Tokens, readers, turns."""
    rounds = 1 if quick else 3
    with upstream() as endpoint, turnstream(endpoint) as server:
        value, detail = ratio(
            lambda: turns_ms(server, turns=5, tokens=800, pace_ms=2),
            lambda: turns_ms(server, turns=5, tokens=8000, pace_ms=2),
            rounds,
        )
        yield Row("Ten times the tokens, 800 and 8,000", value, "x the CPU", TARGET, detail=detail)
        value, detail = ratio(
            lambda: asyncio.run(cpu_of_tabs(server, 10, 10)),
            lambda: asyncio.run(cpu_of_tabs(server, 100, 10)),
            rounds,
        )
        yield Row("Ten times the readers, 10 and 100 of one turn", value, "x the CPU", TARGET, detail=detail)
        value, detail = ratio(
            lambda: turns_ms(server, turns=10, tokens=200, pace_ms=33),
            lambda: turns_ms(server, turns=100, tokens=200, pace_ms=33),
            rounds,
        )
        yield Row("Ten times the turns, 10 and 100 at once", value, "x the CPU", TARGET, detail=detail)


if __name__ == "__main__":
    main(measure, __doc__)
