"""The processes that are measured, the scripted endpoint beside them, and what each has used.

Linux only: CPU time comes from the process's own clock, memory from /proc. Servers are started as a user would start
them, each with a data folder of its own that is removed afterwards.
"""

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from bench.tabs import Tab, read_to_end

ROOT = Path(__file__).parents[1]
TURNSTREAM = str(Path(sys.executable).with_name("turnstream"))


class BenchFailed(Exception):
    """What was to be measured did not happen, so there is no figure."""


@dataclass(frozen=True, slots=True)
class Server:
    """A process that serves HTTP on loopback."""

    pid: int
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def cpu_s(self) -> float:
        """User and system time so far, all threads, also those that have ended.

        Source: Linux's MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED), what clock_getcpuclockid(3) gives.
        """
        return time.clock_gettime((~self.pid << 3) | 2)

    @property
    def rss_kib(self) -> int:
        """Resident memory in KiB."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")))


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def process(command: Sequence[str], **environment: str) -> Generator[subprocess.Popen[bytes], None, None]:
    """A process for the block; what it printed is shown when the block fails."""
    with tempfile.TemporaryFile() as log:
        started = subprocess.Popen(command, env=os.environ | environment, cwd=ROOT, stdout=log, stderr=log)
        try:
            yield started
        except BaseException:
            log.seek(0)
            sys.stderr.write(log.read()[-2000:].decode(errors="replace"))
            raise
        finally:
            started.terminate()
            started.wait(60)


def until_up(url: str, started: subprocess.Popen[bytes], *, every_s: float = 0.05, within_s: float = 60) -> None:
    """Wait until something answers there with a success.

    Raises:
        BenchFailed: the process ended, or the time is over.
    """
    deadline = time.monotonic() + within_s
    with httpx.Client(trust_env=False, timeout=5) as client:
        while time.monotonic() < deadline:
            try:
                if client.get(url).is_success:
                    return
            except httpx.TransportError:
                if started.poll() is not None:
                    raise BenchFailed(f"{started.args!r} ended with status {started.returncode}") from None
            time.sleep(every_s)
    raise BenchFailed(f"{url} does not answer")


@contextmanager
def upstream() -> Generator[str, None, None]:
    """The scripted endpoint (bench/upstream.py); its base URL."""
    port = free_port()
    with process((sys.executable, "-m", "bench.upstream", str(port))) as started:
        until_up(f"http://127.0.0.1:{port}/", started)
        yield f"http://127.0.0.1:{port}/v1"


@contextmanager
def uvicorn(app: str, endpoint: str, python: str = sys.executable) -> Generator[Server, None, None]:
    """An ASGI application under one uvicorn worker; it answers GET / when it is up."""
    port = free_port()
    command = (python, "-m", "uvicorn", app, "--port", str(port), "--log-level", "error", "--no-access-log")
    with process(command, BENCH_UPSTREAM=endpoint) as started:
        until_up(f"http://127.0.0.1:{port}/", started)
        yield Server(started.pid, port)


@contextmanager
def data_folder() -> Generator[Path, None, None]:
    """A data folder whose default base holds sample/, removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="turnstream-bench-"))
    try:
        with process((TURNSTREAM, "ingest", "sample"), TURNSTREAM_DATA_DIR=str(folder)) as loading:
            if loading.wait(300):
                raise BenchFailed("turnstream ingest sample failed")
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def turnstream(endpoint: str, folder: Path | None = None, **settings: str) -> Generator[Server, None, None]:
    """`turnstream serve` on embedded Postgres, ready; without a folder on one of its own."""
    if folder is None:
        with data_folder() as made, turnstream(endpoint, made, **settings) as server:
            yield server
        return
    port = free_port()
    environment = {
        "TURNSTREAM_DATA_DIR": str(folder),
        "TURNSTREAM_PORT": str(port),
        "TURNSTREAM_LLM_BASE_URL": endpoint,
        "TURNSTREAM_LLM_MODEL": "m",
        "TURNSTREAM_LOG_LEVEL": "warning",
        "TURNSTREAM_DRAIN_S": "0",
    } | settings
    with process((TURNSTREAM, "serve"), **environment) as started:
        until_up(f"http://127.0.0.1:{port}/readyz", started)
        yield Server(started.pid, port)


def cpu_of(server: Server, requests: Callable[[], Sequence[Tab]]) -> float:
    """CPU seconds of the server while these requests are made at once and read to their ends."""
    before = server.cpu_s

    async def read() -> None:
        await read_to_end(requests(), server.port)

    asyncio.run(read())
    return server.cpu_s - before
