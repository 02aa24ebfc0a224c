"""Where the CPU of a token goes: the serving process sampled by py-spy while it streams, by layer and by function.

A sample belongs to the layer of its innermost frame that has one, so that what the standard library does counts for
whoever called it. Microseconds are shares of the CPU per token that was measured right before, without the sampler.
Needs the right to trace processes (root, or ptrace_scope 0), and the peers' venv, which brings py-spy.
"""

import re
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from bench.frameworks import VENV, install
from bench.rows import Row, main
from bench.servers import Server, turnstream, upstream
from bench.tabs import script
from bench.turn import LOADS, TOKENS, Turn, us_per_token

LAYERS = (
    ("the reader's socket and requests (uvicorn)", ("uvicorn/",)),
    ("route and response (FastAPI, Starlette, app/api)", ("fastapi/", "starlette/", "app/api/", "sse_starlette/")),
    ("the endpoint's reply (app/llm, httpx)", ("app/llm/", "httpx/", "httpcore/", "h11/", "anyio/")),
    ("runner, policy, publisher (app/turn)", ("app/turn/",)),
    ("live log (app/live)", ("app/live/",)),
    ("tools and search (app/tools, app/knowledge)", ("app/tools/", "app/knowledge/")),
    ("database (app/store, SQLAlchemy, asyncpg)", ("app/store/", "sqlalchemy/", "asyncpg/")),
    ("jobs (procrastinate, psycopg)", ("procrastinate/", "psycopg/", "psycopg_pool/")),
    ("the event loop in C: polling, reading, calling back", ("asyncio/runners.py",)),
)
_FRAME = re.compile(r"(?P<function>.+) \((?P<file>[^()]+?)(?::\d+)?\)$")
_SERVING = "app/serve.py"
"""A file on every stack of the thread that serves; the sampler takes other threads that wait for busy ones."""


def samples(server: Server, ask: str, runs: int) -> Counter[tuple[str, ...]]:
    """Stacks, outermost frame first, and how often each was seen while so many runs streamed."""
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder) / "stacks"
        command = (VENV / "bin" / "py-spy", "record", "--pid", str(server.pid), "--format", "raw", "--function")
        with subprocess.Popen(
            (*command, "--rate", "500", "--duration", "3600", "--output", raw), stdout=subprocess.DEVNULL
        ) as spying:
            time.sleep(1)
            us_per_token(server, ask, Turn(), runs=runs)
            spying.send_signal(signal.SIGINT)
        found: Counter[tuple[str, ...]] = Counter()
        for line in raw.read_text(encoding="utf-8").splitlines():
            stack, _, count = line.rpartition(" ")
            if _SERVING in stack:
                found[tuple(stack.split(";"))] += int(count)
        return found


def layer_of(stack: tuple[str, ...]) -> str:
    """The layer of the innermost frame that belongs to one."""
    for frame in reversed(stack):
        found = _FRAME.match(frame)
        file = found["file"] if found else ""
        for layer, places in LAYERS:
            if any(file.startswith(place) or f"/{place}" in file for place in places):
                return layer
    return "other"


def measure(*, quick: bool) -> Iterator[Row]:
    """For each load its CPU per token, what of it each layer takes, and the functions with the most of their own."""
    install()
    with upstream() as endpoint, turnstream(endpoint) as server:
        for load, pace_ms, _, runs in LOADS:
            ask = script(tokens=TOKENS, pace_ms=pace_ms)
            us_per_token(server, ask, Turn())
            whole = us_per_token(server, ask, Turn(), runs=runs * 2)
            stacks = samples(server, ask, runs * (2 if quick else 6))
            total = sum(stacks.values())
            layers: Counter[str] = Counter()
            functions: Counter[str] = Counter()
            for stack, count in stacks.items():
                layers[layer_of(stack)] += count
                functions[stack[-1]] += count
            detail = {
                "us_by_layer": {name: round(count / total * whole, 1) for name, count in layers.most_common()},
                "us_of_its_own": {name: round(count / total * whole, 1) for name, count in functions.most_common(15)},
            }
            yield Row(f"CPU per token of a turn, {load}", round(whole, 1), "us", detail=detail)


if __name__ == "__main__":
    main(measure, __doc__)
