"""Which server writes SSE with the least CPU: uvicorn (uvloop, httptools) or granian (uvloop), one worker each.

Both serve bench/paced.py, 400 frames 10 ms apart, to 20 readers, from the peers' venv. CPU of the server's processes
per frame, medians of interleaved rounds.
"""

import asyncio
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.frameworks import PYTHON, VENV, install, versions
from bench.paced import FRAMES
from bench.rows import Row, main, median, rounded
from bench.servers import BenchFailed, Server, free_port, process, until_up, uvicorn
from bench.tabs import Tab, post, read_to_end

READERS = 20
APP = "bench.paced:app"


@contextmanager
def granian() -> Generator[Server, None, None]:
    """The application under one granian worker, whose process does the work."""
    port = free_port()
    options = ("--interface", "asgi", "--loop", "uvloop", "--workers", "1", "--log-level", "error", "--no-ws")
    with process((str(VENV / "bin" / "granian"), *options, "--port", str(port), APP)) as started:
        until_up(f"http://127.0.0.1:{port}/", started)
        workers = Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text(encoding="ascii").split()
        if not workers:
            raise BenchFailed("granian has no worker process")
        yield Server(int(workers[-1]), port)


def us_per_frame(server: Server) -> float:
    """CPU microseconds per frame of one run."""
    before = server.cpu_s

    async def read() -> None:
        tabs = [Tab(post("/", {})) for _ in range(READERS)]
        await read_to_end(tabs, server.port)
        if any(tab.body.count(b"event: delta") != FRAMES for tab in tabs):
            raise BenchFailed("a reader missed frames")

    asyncio.run(read())
    return (server.cpu_s - before) / (READERS * FRAMES) * 1e6


def measure(*, quick: bool) -> Iterator[Row]:
    """Uvicorn against granian."""
    install()
    installed = versions()
    found: dict[str, list[float]] = {"uvicorn": [], "granian": []}
    with granian() as one, uvicorn(APP, "", str(PYTHON)) as other:
        for n in range(2 if quick else 6):
            for name, server in (("granian", one), ("uvicorn", other)):
                spent = us_per_frame(server)
                if n:
                    found[name].append(spent)
    ratio = round(median(found["uvicorn"]) / median(found["granian"]), 2)
    detail = {f"{name} {installed[name]}": {"us": median(us), "rounds": rounded(us)} for name, us in found.items()}
    yield Row("CPU per SSE frame, uvicorn to granian", ratio, "x", detail=detail)


if __name__ == "__main__":
    main(measure, __doc__)
