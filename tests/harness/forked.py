"""Processes of the program that cost no import: forked from one that has imported it, which waits for orders.

As real as a started one in all that tests do to it: its own pid, signals, sockets, files and environment. Starting
the installed command takes two seconds of a core, and the suite needs a hundred of them; what the command itself
does at its start is tested on few (`installed_replica` of tests/harness/replica.py).
"""

import asyncio
import multiprocessing
import os
import signal
import sys
from collections.abc import Mapping
from multiprocessing.context import ForkServerProcess
from pathlib import Path

PRELOADED = [
    "app.serve",
    "app.cli.doctor",
    "app.cli.facts",
    "app.cli.facts_extract",
    "app.cli.harness",
    "app.cli.token",
]

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(PRELOADED)


class Forked:
    """What the tests use of asyncio.subprocess.Process."""

    def __init__(self, process: ForkServerProcess) -> None:
        self._process = process
        assert process.pid is not None
        self.pid = process.pid

    @property
    def returncode(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        return self._process.exitcode

    async def wait(self) -> int:
        """Wait for its end; the exit status."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        sentinel = os.dup(self._process.sentinel)  # several may wait
        loop.add_reader(sentinel, ended.set)
        try:
            while (status := self._process.exitcode) is None:
                await ended.wait()
        finally:
            loop.remove_reader(sentinel)
            os.close(sentinel)
        return status

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


async def forked(*arguments: str, env: Mapping[str, str], out: Path) -> Forked:
    """The command with these arguments; what it says on both outputs is appended to a file."""
    process = _context.Process(target=_become, args=(arguments, dict(env), str(out)))
    await asyncio.to_thread(process.start)
    return Forked(process)


def _become(arguments: tuple[str, ...], env: dict[str, str], out: str) -> None:
    """In the new process: what the shell and the console script would do."""
    said = os.open(out, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(said, 1)
    os.dup2(said, 2)
    os.close(said)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(os.sep)
    sys.argv = ["turnstream", *arguments]
    from app.cli import main  # noqa: PLC0415  the tests' own process needn't know it

    main()
