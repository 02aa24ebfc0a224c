"""A `turnstream` process of its own, as a user starts it: killed by pid, ended by signal, asked over HTTP."""

import asyncio
import os
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import httpx

from tests.harness.app import Turn, check_contract
from tests.harness.forked import forked
from tests.harness.sse_reader import frames_of

COMMAND = str(Path(sys.executable).with_name("turnstream"))
READY_S = 30


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def environment(**given: str) -> dict[str, str]:
    """The environment without any setting of ours but the given ones."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TURNSTREAM_")}
    return inherited | {f"TURNSTREAM_{name.upper()}": value for name, value in given.items()}


async def run(*arguments: str, **given: str) -> tuple[int, str]:
    """Run a command to its end; its exit status and what it said on both outputs."""
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder) / "said"
        process = await forked(*arguments, env=environment(**given), out=said)
        try:
            status = await process.wait()
        finally:
            process.kill()
        return status, said.read_text()


class Process(Protocol):
    """Of asyncio.subprocess.Process, what is used."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | None: ...
    async def wait(self) -> int: ...
    def send_signal(self, number: int, /) -> None: ...
    def kill(self) -> None: ...


class Replica:
    """A serving process. `http` speaks to it."""

    def __init__(self, process: Process, port: int, log: Path) -> None:
        self.process = process
        self.port = port
        self.log = log
        self.http = httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30, trust_env=False)

    async def ready(self) -> None:
        """Wait until it can take questions."""
        said = "nothing"
        try:
            async with asyncio.timeout(READY_S):
                while True:
                    if self.process.returncode is not None:
                        raise RuntimeError(f"the process ended: {self.log.read_text()}")
                    try:
                        answer = await self.http.get("/readyz")
                    except httpx.TransportError:
                        pass
                    else:
                        if answer.status_code == 200:
                            return
                        said = answer.text
                    await asyncio.sleep(0.02)
        except TimeoutError:
            lines = self.log.read_text().splitlines()
            deaths = [line[:2000] for line in lines if '"critical"' in line]
            raise TimeoutError("\n".join((f"not ready, it says {said}", *deaths, *lines[-20:]))) from None

    async def ask(self, message: str, **body: object) -> Turn:
        async with self.http.stream("POST", "/api/chat", json={"message": message, **body}) as response:
            assert response.status_code == 200, await response.aread()
            turn = Turn([frame async for frame in frames_of(response)])
        check_contract(turn)
        return turn

    async def kill(self) -> None:
        """End it as kill -9 does."""
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()

    async def end(self) -> int:
        """SIGTERM; the exit status."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
        return await self.process.wait()

    async def aclose(self) -> None:
        """End it, if it still runs, and what speaks to it."""
        await self.http.aclose()
        await self.end()


async def launch(
    folder: Path,
    settings: Mapping[str, str],
    *arguments: str,
    extra: Mapping[str, str] | None = None,
    command: str | None = None,
) -> Replica:
    """Start `turnstream serve` on a data folder and wait until it is ready.

    `extra`: of the environment, as it is. `command`: what is started, from nothing; else a process is forked.
    """
    port = int(settings.get("port", "0")) or free_port()
    log = folder / f"serve-{port}.log"
    env = environment(**{**settings, "data_dir": str(folder), "port": str(port)}) | dict(extra or {})
    if command is None and not extra:
        process: Process = await forked("serve", *arguments, env=env, out=log)
    else:
        process = await _started(command or COMMAND, "serve", *arguments, env=env, out=log)
    started = Replica(process, port, log)
    try:
        await started.ready()
    except BaseException:
        await started.http.aclose()
        await started.kill()
        raise
    return started


async def _started(*command: str, env: Mapping[str, str], out: Path) -> Process:
    with out.open("ab") as said:
        return await asyncio.create_subprocess_exec(
            *command, env=env, stdout=said, stderr=asyncio.subprocess.STDOUT, cwd=os.sep
        )


@asynccontextmanager
async def replica(folder: Path, *arguments: str, **given: str) -> AsyncGenerator[Replica, None]:
    """`turnstream serve` on a data folder, ready; ended by SIGTERM when the block ends."""
    async with _ended(await launch(folder, given, *arguments)) as started:
        yield started


@asynccontextmanager
async def installed_replica(folder: Path, *arguments: str, **given: str) -> AsyncGenerator[Replica, None]:
    """The same by the installed command, from nothing."""
    async with _ended(await launch(folder, given, *arguments, command=COMMAND)) as started:
        yield started


@asynccontextmanager
async def _ended(started: Replica) -> AsyncGenerator[Replica, None]:
    try:
        yield started
    finally:
        await started.aclose()
