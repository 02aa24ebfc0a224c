"""Attaching: how soon a tab has the snapshot of a long running turn, and what 100 tabs on one turn cost against one.

The snapshot is that of a turn with 100,000 characters, timed from the request to the snapshot's last byte over a new
connection. The tabs attach before the first token; the CPU of the serving process counts from then to the turn's end.
"""

import asyncio
from collections.abc import Iterator

from bench.rows import Row, main, median, percentile, rounded
from bench.servers import BenchFailed, Server, turnstream, upstream
from bench.tabs import Tab, attached, open_tab, question, script

CHARS = 100_000
TOKEN_CHARS = 100
TOKENS = 400
SNAPSHOT = b"event: snapshot\n"


async def snapshots(server: Server, times: int) -> list[float]:
    """Milliseconds to the whole snapshot, so many times."""
    ask = script(tokens=CHARS // TOKEN_CHARS, chars=TOKEN_CHARS, hold=True)
    asking = await open_tab(question(ask), server.port)
    await asking.until(b"token", CHARS // TOKEN_CHARS)
    conversation, _ = asking.conversation
    found: list[float] = []
    for _ in range(times):
        tab = await open_tab(attached(conversation), server.port)
        await tab.until(b"\n\n")
        found.append((tab.arrived_ns(b"\n\n") - tab.asked_ns) / 1e6)
        if SNAPSHOT not in tab.body or len(tab.body) < CHARS:
            raise BenchFailed(f"no whole snapshot of {CHARS} characters came: {tab.body[:200]!r}")
        tab.close()
    asking.close()
    return found


async def cpu_of_tabs(server: Server, tabs: int, pace_ms: float) -> float:
    """CPU milliseconds of a turn of TOKENS tokens that this many tabs follow, the asking one among them."""
    asking = await open_tab(question(script(tokens=TOKENS, pace_ms=pace_ms, wait_ms=1000 + 40 * tabs)), server.port)
    await asking.until(b"event: sources\n")
    conversation, _ = asking.conversation
    others: list[Tab] = []
    for _ in range(tabs - 1):
        other = await open_tab(attached(conversation), server.port)
        await other.until(SNAPSHOT)
        others.append(other)
    if b"event: delta" in asking.body:
        raise BenchFailed("the first token came before all tabs were attached: the machine is too busy")
    before = server.cpu_s
    await asyncio.gather(*(tab.ended for tab in (asking, *others)))
    return (server.cpu_s - before) * 1000


def tabs_cost(server: Server, pace_ms: float, rounds: int) -> tuple[list[float], list[float]]:
    """CPU milliseconds of one tab and of 100, interleaved."""
    one: list[float] = []
    hundred: list[float] = []
    for n in range(rounds + 1):
        single = asyncio.run(cpu_of_tabs(server, 1, pace_ms))
        many = asyncio.run(cpu_of_tabs(server, 100, pace_ms))
        if n:
            one.append(single)
            hundred.append(many)
    return one, hundred


def measure(*, quick: bool) -> Iterator[Row]:
    """The snapshot's time, and the tabs' cost paced and unpaced."""
    with upstream() as endpoint, turnstream(endpoint) as server:
        times = asyncio.run(snapshots(server, 30 if quick else 200))
        detail = {"p99_ms": round(percentile(times, 0.99), 2), "attaches": len(times)}
        yield Row(
            "Attach: 100,000 characters in a snapshot", round(percentile(times, 0.5), 2), "ms p50", 5, detail=detail
        )
        for load, pace_ms in (("as fast as it can", 0.0), ("10 ms apart", 10.0)):
            one, hundred = tabs_cost(server, pace_ms, 2 if quick else 5)
            per_frame = (median(hundred) - median(one)) * 1000 / (99 * TOKENS)
            detail = {
                "one_ms": rounded(one),
                "hundred_ms": rounded(hundred),
                "us_per_further_tab_and_token": round(per_frame, 2),
            }
            ratio = round(median(hundred) / median(one), 2)
            yield Row(f"100 tabs on one turn, tokens {load}", ratio, "x the CPU of one tab", 3, detail=detail)


if __name__ == "__main__":
    main(measure, __doc__)
