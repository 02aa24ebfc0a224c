"""How long `turnstream serve` takes until it is ready, on the embedded Postgres of an existing data folder that nobody
uses yet, and `turnstream --help` until it has ended. Medians of five, with everything in the file cache.
"""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from bench.rows import Row, main, median, rounded
from bench.servers import TURNSTREAM, data_folder, free_port, process, until_up


def until_ready(folder: Path) -> float:
    """Seconds from the start of the process to the first ready answer."""
    port = free_port()
    began = time.monotonic()
    settings = {"TURNSTREAM_DATA_DIR": str(folder), "TURNSTREAM_PORT": str(port), "TURNSTREAM_LOG_LEVEL": "warning"}
    with process((TURNSTREAM, "serve"), **settings) as started:
        until_up(f"http://127.0.0.1:{port}/readyz", started, every_s=0.005)
        return time.monotonic() - began


def until_helped() -> float:
    """Seconds that the help takes."""
    began = time.monotonic()
    subprocess.run((TURNSTREAM, "--help"), check=True, capture_output=True)
    return time.monotonic() - began


def measure(*, quick: bool) -> Iterator[Row]:
    """Both."""
    rounds = 3 if quick else 5
    with data_folder() as folder:
        until_ready(folder)
        ready = [until_ready(folder) for _ in range(rounds)]
    yield Row("`turnstream serve` to ready, warm", median(ready), "s", 2.5, detail={"rounds": rounded(ready, 2)})
    until_helped()
    helped = [until_helped() for _ in range(rounds)]
    yield Row("`turnstream --help`", median(helped, 3), "s", 0.3, detail={"rounds": rounded(helped, 3)})


if __name__ == "__main__":
    main(measure, __doc__)
