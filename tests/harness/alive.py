"""What a process holds: objects of the product, tasks, memory, and turns that are over."""
# pyright: reportPrivateUsage=false

import asyncio
import gc
import re
import resource
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from app.live.memory import MemoryLog
from app.live.redis_streams import RedisLog
from tests.harness.app import App

KEEP_S = 0.2
"""How long finished turns are kept where a test shortens it."""


def keep_briefly(app: App) -> MemoryLog:
    """Finished turns stay KEEP_S from now on; gives what holds the process's turns."""
    log = app.parts.live
    if isinstance(log, RedisLog):
        log._pump._keep_ms = int(KEEP_S * 1000)
        log = log._memory
    assert isinstance(log, MemoryLog)
    log._keep_s = KEEP_S
    return log


def ours_alive() -> Counter[str]:
    """How many objects of each class of the product there are."""
    gc.collect()
    names = (f"{type(found).__module__}.{type(found).__qualname__}" for found in gc.get_objects())
    return Counter(name for name in names if name.startswith("app."))


def allocated() -> tuple[int, int]:
    """Blocks that Python has given out, and the bytes of the process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return sys.getallocatedblocks(), pages * resource.getpagesize()


def tasks_alive() -> Counter[str]:
    """Tasks by what their names begin with; those of libraries have a number for a name."""
    return Counter(re.split(r"[ -]", task.get_name())[0] for task in asyncio.all_tasks())


async def until(met: Callable[[], bool]) -> None:
    """Wait for what is forgotten a moment later."""
    async with asyncio.timeout(10):
        while not met():
            await asyncio.sleep(0.02)
