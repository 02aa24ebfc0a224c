"""A whole turn against the floor: CPU of the serving process per streamed token.

The turn is one tool round and TOKENS tokens, with the policy, the live log, SSE and Postgres; the floor
(bench/floor.py) passes the same tokens through. Interleaved runs, medians. Upstream, clients and Postgres are
other processes, and their CPU isn't counted.
"""

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx

ROOT = Path(__file__).parents[1]
TICKS = os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def cpu_s(pid: int) -> float:
    """User and system time of a process so far, all threads, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@contextmanager
def process(*command: str, **environment: str) -> Generator[subprocess.Popen[bytes], None, None]:
    """A process for the block."""
    log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
    started = subprocess.Popen(command, env=os.environ | environment, cwd=ROOT, stdout=log, stderr=log)
    try:
        yield started
    finally:
        started.terminate()
        started.wait(30)
        log.close()


def until_up(url: str) -> None:
    """Wait until something answers there."""
    for _ in range(500):
        try:
            httpx.get(url, timeout=5, trust_env=False)
        except httpx.TransportError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError(f"{url} does not answer")


async def read_all(url: str, streams: int, body: dict[str, str]) -> int:
    """Open the streams at once and read them to their ends; the bytes that came."""

    async def one() -> int:
        address = urlsplit(url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        data = json.dumps(body).encode()
        path = address.path
        head = (
            f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        writer.write(head.encode() + data)
        total = 0
        tail = b""
        while piece := await reader.read(65536):
            total += len(piece)
            tail = (tail + piece)[-5:]
            if tail == b"0\r\n\r\n":
                break
        writer.close()
        return total

    return sum(await asyncio.gather(*(one() for _ in range(streams))))


def measure(pid: int, url: str, streams: int, tokens: int, body: dict[str, str]) -> float:
    """CPU microseconds per token of one run."""
    before = cpu_s(pid)
    asyncio.run(read_all(url, streams, body))
    return (cpu_s(pid) - before) / (streams * tokens) * 1e6


def run(*, streams: int, tokens: int, pace_s: float, rounds: int) -> dict[str, object]:
    """Start everything, interleave the runs, give the medians."""
    upstream_port, floor_port, ours_port = free_port(), free_port(), free_port()
    upstream = f"http://127.0.0.1:{upstream_port}/v1"
    python = sys.executable
    data = tempfile.mkdtemp(prefix="turnstream-bench-")
    uvicorn = (python, "-m", "uvicorn", "bench.floor:app", "--port", str(floor_port), "--log-level", "error")
    serve = (str(Path(python).with_name("turnstream")), "serve", "--load", "sample")
    settings = {
        "TURNSTREAM_DATA_DIR": data,
        "TURNSTREAM_PORT": str(ours_port),
        "TURNSTREAM_LLM_BASE_URL": upstream,
        "TURNSTREAM_LLM_MODEL": "m",
        "TURNSTREAM_LOG_LEVEL": "warning",
    }
    with (
        process(python, "-m", "bench.upstream", str(upstream_port), str(tokens), str(pace_s)),
        process(*uvicorn, BENCH_UPSTREAM=upstream) as floor,
        process(*serve, **settings) as ours,
    ):
        until_up(f"http://127.0.0.1:{ours_port}/healthz")
        until_up(f"http://127.0.0.1:{floor_port}/")
        floor_url, chat_url = f"http://127.0.0.1:{floor_port}/x", f"http://127.0.0.1:{ours_port}/api/chat"
        found: dict[str, list[float]] = {"floor": [], "turn": []}
        measure(ours.pid, chat_url, 2, tokens, {"message": "warm up"})
        for _ in range(rounds):
            found["floor"].append(measure(floor.pid, floor_url, streams, tokens, {}))
            found["turn"].append(measure(ours.pid, chat_url, streams, tokens, {"message": "How many board members?"}))
    medians = {name: round(statistics.median(values), 1) for name, values in found.items()}
    return {
        "streams": streams,
        "tokens": tokens,
        "pace_ms": pace_s * 1000,
        "us_per_token": medians,
        "ratio": round(medians["turn"] / medians["floor"], 2),
    }


def main() -> None:
    """Print one line per load."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    for streams, tokens, pace_s in ((20, 400, 0.01), (20, 400, 0.0)):
        print(json.dumps(run(streams=streams, tokens=tokens, pace_s=pace_s, rounds=given.rounds)), flush=True)


if __name__ == "__main__":
    main()
