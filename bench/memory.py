"""What an idle tab and a running turn hold: the slope of the serving process's resident memory over 1,000 of each.

The tabs are attached to one turn that waits; the turns have streamed a few tokens and wait, each with its own
connection to the endpoint and nobody attached. Both are opened in steps in a fresh process that has served some of
them before, and the slope is that of a line through all steps, so that what is there anyway doesn't count.
"""

import asyncio
import statistics
from collections.abc import Awaitable, Callable, Iterator

from bench.rows import Row, main
from bench.servers import Server, turnstream, upstream
from bench.tabs import Tab, attached, open_tab, question, script

TOKENS = 10
CHARS = 6
AT_ONCE = 20
SETTLE_S = 2.0
WARM_UP = 20
HELD = script(tokens=TOKENS, chars=CHARS, hold=True)


async def running_turn(server: Server) -> Tab:
    """A turn whose text has come and whose end doesn't; its tab is still there."""
    tab = await open_tab(question(HELD), server.port)
    await tab.until(b"token ", TOKENS)
    return tab


async def opened(server: Server, make: Callable[[], Awaitable[Tab]], steps: list[int]) -> tuple[list[int], list[Tab]]:
    """Resident KiB after each number of them is open, and all that were opened."""
    tabs: list[Tab] = []
    sizes: list[int] = []
    for step in steps:
        while len(tabs) < step:
            tabs += await asyncio.gather(*(make() for _ in range(min(AT_ONCE, step - len(tabs)))))
        await asyncio.sleep(SETTLE_S)
        sizes.append(server.rss_kib)
    return sizes, tabs


async def slope_of_tabs(server: Server, steps: list[int]) -> tuple[float, list[int]]:
    """KiB per attached tab, and the sizes it was taken from."""
    turn = await running_turn(server)
    conversation, _ = turn.conversation

    async def attach() -> Tab:
        tab = await open_tab(attached(conversation), server.port)
        await tab.until(b"event: snapshot\n")
        return tab

    sizes, tabs = await opened(server, attach, steps)
    for tab in tabs:
        tab.close()
    turn.close()
    return _slope(steps, sizes), sizes


async def slope_of_turns(server: Server, steps: list[int]) -> tuple[float, list[int]]:
    """KiB per running turn that nobody is attached to, and the sizes it was taken from."""

    async def begin() -> Tab:
        tab = await running_turn(server)
        tab.close()
        return tab

    sizes, _ = await opened(server, begin, steps)
    return _slope(steps, sizes), sizes


def _slope(steps: list[int], sizes: list[int]) -> float:
    return round(statistics.linear_regression(steps, sizes).slope, 1)


def measure(*, quick: bool) -> Iterator[Row]:
    """KiB of each."""
    top = 200 if quick else 1000
    steps = [WARM_UP, top // 4, top // 2, top * 3 // 4, top]
    with upstream() as endpoint:
        with turnstream(endpoint) as server:
            tab_kib, sizes = asyncio.run(slope_of_tabs(server, steps))
        yield Row("Memory of an idle attached tab", tab_kib, "KiB", 40, detail={"open": steps, "rss_kib": sizes})
        with turnstream(endpoint) as server:
            turn_kib, sizes = asyncio.run(slope_of_turns(server, steps))
        yield Row("Memory of a running turn", turn_kib, "KiB", 150, detail={"open": steps, "rss_kib": sizes})


if __name__ == "__main__":
    main(measure, __doc__)
