"""Programs of the system that some tests start: Debian's nginx and pgbouncer, each on a port and in a folder of the test's."""

import asyncio
import os
import shutil
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

STARTED_S = 10


def installed(program: str) -> str:
    """Where the program is. Without it the test is skipped, or fails where CI promised that nothing is."""
    found = shutil.which(program, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    if found is None and os.environ.get("TURNSTREAM_CI") == "1":
        pytest.fail(f"{program} is not installed, and TURNSTREAM_CI=1 promises that it is", pytrace=False)
    if found is None:
        pytest.skip(f"{program} is not installed; on Debian: apt-get install {program}")
    return found


@asynccontextmanager
async def listening(argv: Sequence[str], port: int, log: Path) -> AsyncGenerator[None, None]:
    """The program runs and listens on that port of 127.0.0.1; ended by SIGTERM, without a trace, when the block ends."""
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(*argv, stdout=out, stderr=asyncio.subprocess.STDOUT, cwd=os.sep)
    try:
        async with asyncio.timeout(STARTED_S):
            while not await _accepts(port):
                if process.returncode is not None:
                    raise RuntimeError(f"{argv[0]} ended: {await asyncio.to_thread(log.read_text, 'utf-8')}")
                await asyncio.sleep(0.02)
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        probe.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(probe, ("127.0.0.1", port))
        except ConnectionRefusedError:
            return False
        return True
