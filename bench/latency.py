"""What turnstream adds to a token's way, from the endpoint's write to the client's read, and how soon a turn begins.

Every fifth token carries the monotonic time at which the endpoint wrote it; the client notes when it read it; both
clocks are the same. Turns begin a few at once, and only the time in which all of them stream counts.
"""

import asyncio
import time
from collections.abc import Coroutine, Iterator
from dataclasses import asdict, dataclass

from bench.rows import Row, main, percentile
from bench.servers import BenchFailed, Server, turnstream, upstream
from bench.tabs import Tab, open_tab, question, script

STAMP_EVERY = 5
PER_S = 30
"""Tokens per second and turn."""
BEGIN_AT_ONCE = 5
BEGIN_EVERY_S = 0.15
"""So many turns begin so long after those before them were admitted; how many could begin is another question."""
WATCH_EVERY_S = 0.02
ENDLESS = 1_000_000
"""Tokens of a turn that is left before its end."""
SETTLE_S = 1.0
"""How long after the last turn's first token the measured time begins."""
GRACE_S = 3.0
"""How long tokens that were written in the measured time may still come."""


@dataclass(frozen=True, slots=True)
class Delays:
    """How long tokens were on their way, in milliseconds. Two halves that differ say that a backlog grew; a client that
    lags says that the machine had too little CPU for the clients, and its lag is part of the delays.
    """

    p50_ms: float
    p99_ms: float
    max_ms: float
    p50_ms_first_half: float
    p50_ms_second_half: float
    stamped_tokens: int
    share_of_rate: float
    server_cpu: float
    client_lag_p99_ms: float


@dataclass(frozen=True, slots=True)
class Seen:
    """What tabs brought, between which moments it counts, and the server's CPU seconds between them."""

    tabs: list[Tab]
    start_ns: int
    end_ns: int
    cpu_s: float


def streaming(endpoint: str, turns: int, seconds: float) -> Delays:
    """The delays while so many turns stream for so long."""
    with turnstream(endpoint) as server:  # one of its own: turns that are left behind end with it
        seen, lags = asyncio.run(_watched(_stream(server, turns, seconds)))
    written_at = sorted(
        (written, delay / 1e6)
        for tab in seen.tabs
        for written, delay in tab.delays()
        if seen.start_ns <= written <= seen.end_ns
    )
    if not written_at:
        raise BenchFailed("no token came while all turns streamed")
    ms = [delay for _, delay in written_at]
    half = len(ms) // 2
    return Delays(
        p50_ms=round(percentile(ms, 0.5), 3),
        p99_ms=round(percentile(ms, 0.99), 3),
        max_ms=round(max(ms), 1),
        p50_ms_first_half=round(percentile(ms[:half], 0.5), 3),
        p50_ms_second_half=round(percentile(ms[half:], 0.5), 3),
        stamped_tokens=len(ms),
        share_of_rate=round(len(ms) * STAMP_EVERY / (seconds * turns * PER_S), 3),
        server_cpu=round(seen.cpu_s / seconds, 2),
        client_lag_p99_ms=round(percentile(lags, 0.99), 2),
    )


async def _stream(server: Server, turns: int, seconds: float) -> Seen:
    """Begin the turns, a few at once, and when all stream read them for so long."""
    ask = script(tokens=ENDLESS, pace_ms=1000 / PER_S, stamp_every=STAMP_EVERY)

    async def begin() -> Tab:
        tab = await open_tab(question(ask), server.port)
        await tab.until(b"event: conversation")
        return tab

    tabs: list[Tab] = []
    while len(tabs) < turns:
        tabs += await asyncio.gather(*(begin() for _ in range(BEGIN_AT_ONCE)))
        await asyncio.sleep(BEGIN_EVERY_S)
    for tab in tabs:
        await tab.until(b"event: delta")
    await asyncio.sleep(SETTLE_S)
    start_ns, before = time.monotonic_ns(), server.cpu_s
    await asyncio.sleep(seconds)
    end_ns, spent = time.monotonic_ns(), server.cpu_s - before
    await asyncio.sleep(GRACE_S)
    for tab in tabs:
        tab.close()
    return Seen(tabs, start_ns, end_ns, spent)


async def _watched(reading: Coroutine[None, None, Seen]) -> tuple[Seen, list[float]]:
    """Run this, and watch by how many milliseconds this client's own timers are late meanwhile."""
    lags: list[float] = []

    async def watch() -> None:
        while True:
            due = time.monotonic() + WATCH_EVERY_S
            await asyncio.sleep(WATCH_EVERY_S)
            lags.append((time.monotonic() - due) * 1000)

    watching = asyncio.create_task(watch(), name="client lag")
    try:
        return await reading, lags
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


def first_frames(server: Server, turns: int) -> list[float]:
    """Milliseconds from the POST to the `conversation` frame, of turns one after the other."""

    async def ask() -> list[float]:
        found: list[float] = []
        for _ in range(turns):
            tab = await open_tab(question(script(tokens=1)), server.port)
            await tab.ended
            found.append((tab.arrived_ns(b"event: conversation\n") - tab.asked_ns) / 1e6)
        return found

    return asyncio.run(ask())


def measure(*, quick: bool) -> Iterator[Row]:
    """Delays at 100 and at 500 turns, and the first frame."""
    with upstream() as endpoint:
        with turnstream(endpoint) as server:
            first_frames(server, 50)
            first = first_frames(server, 50 if quick else 300)
        detail = {"p99_ms": round(percentile(first, 0.99), 2), "turns": len(first)}
        yield Row("First byte: POST to `conversation`", round(percentile(first, 0.5), 2), "ms p50", 5, detail=detail)
        few = streaming(endpoint, 100, 5 if quick else 20)
        name = "Added latency per token, {} turns of 30 tokens/s"
        yield Row(name.format(100), few.p50_ms, "ms p50", 1, detail=asdict(few))
        yield Row(name.format(100), few.p99_ms, "ms p99", 10)
        many = streaming(endpoint, 500, 5 if quick else 20)
        yield Row(name.format(500), many.p99_ms, "ms p99", 250, detail=asdict(many))
        yield Row("Rate kept up by 500 turns of 30 tokens/s", many.share_of_rate, "of it", 0.98, "at least")


if __name__ == "__main__":
    main(measure, __doc__)
