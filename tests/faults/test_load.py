"""A process under load: nothing refused, one outcome for each turn, and nothing left of them. Issue 9 item 7.

`make soak` runs it as the issue says, three hundred turns at a time for a minute; the suite runs a smaller one. Model,
people and application share one process here, so that its tasks and connections can be counted.
"""
# pyright: reportPrivateUsage=false

import asyncio
import os
import random
import re
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from statistics import linear_regression

import pytest
from sqlalchemy import URL

from app.live.memory import MemoryLog
from app.llm.direct import KEPT
from app.llm.http1 import Connection
from app.llm.openai_chat import OpenAIChat
from tests.behaviour.conftest import BOARD
from tests.harness.alive import allocated, keep_briefly, ours_alive, tasks_alive, until
from tests.harness.app import App, running_app
from tests.harness.load import WORDS, Load
from tests.harness.scripted_endpoint import ScriptedEndpoint

WHOLE = os.environ.get("SOAK") == "1"
PEOPLE = 300 if WHOLE else 40
SECONDS = 60.0 if WHOLE else 3.0
PACE_S = 1.5 if WHOLE else 0.05
"""From word to word. Three hundred turns of eighteen seconds are seventeen a second, a third of a core."""
SEED = "TURNSTREAM_LOAD_SEED"
MB = 1024 * 1024
GROWTH_S = 30
GROWTH = 8 * MB
"""How much the process may grow in the last GROWTH_S seconds of the load, by the slope of its size."""

Sizes = list[tuple[float, float]]


@asynccontextmanager
async def watched(load: Load) -> AsyncGenerator[Sizes]:
    """The process's size over the block, as (seconds, bytes), a few times a second."""
    sizes: Sizes = []
    clock = asyncio.get_running_loop()
    began = clock.time()

    async def watch() -> None:
        while True:
            load.forget()
            sizes.append((clock.time() - began, allocated()[1]))
            await asyncio.sleep(0.25)

    watching = asyncio.create_task(watch(), name="watch sizes")
    try:
        yield sizes
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


def growth(sizes: Sizes, until_s: float) -> float:
    """Bytes in GROWTH_S seconds, by the slope over as many before `until_s`."""
    times, held = zip(*(size for size in sizes if until_s - GROWTH_S <= size[0] <= until_s), strict=True)
    return linear_regression(times, held).slope * GROWTH_S


def files_open() -> Counter[str]:
    """Open files and connections of this process, by kind."""
    kinds: Counter[str] = Counter()
    for link in Path("/proc/self/fd").iterdir():
        try:
            kinds[re.split(r"[:/]", link.readlink().as_posix().lstrip("/"))[0]] += 1
        except FileNotFoundError:
            continue  # the listing's own
    return kinds


async def turns_counted(app: App) -> float:
    """How many turns ended, whatever their outcome, by the process's own count."""
    text = (await app.http.get("/metrics")).text
    return sum(float(n) for n in re.findall(r"^turnstream_turns_total\{.*\} (\S+)$", text, re.MULTILINE))


async def at_rest(app: App, load: Load) -> None:
    """Wait until no turn runs or is kept, no connection of the database is out, no stream to the model is open."""
    log, model = app.parts.live, app.parts.model
    assert isinstance(log, MemoryLog)
    assert isinstance(model, OpenAIChat)

    def nothing_held() -> bool:
        return not (
            app.parts.supervisor.running_turns
            or log._turns
            or log.attached_readers
            or app.parts.database.connections_used
            or model._connections.open_streams
            or len(app.server.server_state.connections) > 1  # the test's own
        )

    await until(nothing_held)
    load.forget()


@pytest.mark.timeout(240)
async def test_every_turn_has_one_outcome_and_nothing_is_left_of_it(
    new_database: Callable[[], AbstractAsyncContextManager[URL]],
) -> None:
    """With readers that leave, stops, and a model that fails: nothing is refused; tasks, connections, memory are given back."""
    seed = int(os.environ.get(SEED) or random.SystemRandom().randrange(10**6))
    print(f"{SEED}={seed}")
    async with new_database() as url, ScriptedEndpoint() as endpoint, running_app(url, llm=endpoint.base_url) as app:
        await app.upload("board.md", BOARD.encode())
        keep_briefly(app)
        load = Load(app, endpoint, seed=seed)
        await load.run(people=PEOPLE // 4, seconds=0.2, pace_s=0.01)  # what is made once is there
        await at_rest(app, load)
        objects, tasks, files = ours_alive(), tasks_alive(), files_open()
        async with watched(load) as sizes:
            await load.run(people=PEOPLE, seconds=SECONDS, pace_s=PACE_S)
        await at_rest(app, load)
        asked, grown = sum(load.asked.values()), growth(sizes, WORDS * PACE_S + SECONDS)
        print(f"{asked} turns, at most {load.most_at_once} at once: {dict(load.asked)}")
        print(f"{sizes[-1][1] / MB:.0f} MB, {grown / MB:+.2f} MB in {GROWTH_S} s")
        assert load.refused.keys() <= {"409 turn_not_running"}  # a stop that came too late
        await load.check_stored()
        assert await turns_counted(app) == asked
        # connections to the model stay open for a while, a bounded number of them
        assert (ours_alive() - objects).keys() <= {f"{Connection.__module__}.{Connection.__qualname__}"}
        assert (tasks_alive() - tasks).keys() <= {"scripted"}
        assert (files_open() - files).keys() <= {"socket"}
        assert (files_open() - files).total() <= 2 * KEPT
        if WHOLE:
            assert load.most_at_once > 0.9 * PEOPLE
            assert grown < GROWTH
