"""The embedded server's life, with processes that are really killed. Source: DESIGN section 3, issue 2 item 1.

Every test runs twice: as the user of the tests (where that is root, the server is `nobody`'s) and, from root, as
an ordinary user.
"""

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from sqlalchemy import URL

from app.store.embedded import EmbeddedConfig
from app.store.embedded.postmaster import end, running_pid
from tests.harness.embedded_child import DEADLINE_S, Child, Runner, ordinary_runner
from tests.harness.postgres import run_sql


@dataclass(frozen=True, slots=True)
class Folder:
    """A data folder, who uses it, and the processes that did."""

    config: EmbeddedConfig
    runner: Runner
    children: list[Child] = field(default_factory=list[Child])

    @property
    def cluster(self) -> Path:
        return self.config.data_dir.resolve() / "postgres"

    def begin(self) -> Child:
        child = Child.begin(self.config, runner=self.runner)
        self.children.append(child)
        return child

    def server_pid(self) -> int | None:
        return running_pid(self.cluster / "data")


def _runner(kind: str, home: Path) -> Runner:
    if kind == "self":
        home.chmod(0o711)  # from root, the server's account has to pass
        return Runner(home)
    return ordinary_runner(home)


def _until(claim: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not claim():
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


def _home(kind: str) -> Generator[Runner]:
    home = Path(tempfile.mkdtemp(prefix="turnstream-home-"))
    try:
        yield _runner(kind, home)
    finally:
        shutil.rmtree(home)


@contextmanager
def _used(runner: Runner, name: str) -> Generator[Folder]:
    """The data folder; afterwards its processes and its server are ended."""
    system_dir = runner.home / "system"
    folder = Folder(EmbeddedConfig(runner.home / name, durable=False, system_dir=system_dir), runner)
    try:
        yield folder
    finally:
        for child in folder.children:
            child.kill()
        end(folder.cluster / "data", timeout_s=DEADLINE_S)


@pytest.fixture(scope="module", params=["self", "ordinary user"])
def runner(request: pytest.FixtureRequest) -> Generator[Runner]:
    """Who runs the processes, with a home of its own."""
    yield from _home(request.param)


@pytest.fixture
def new_folder(runner: Runner) -> Generator[Folder]:
    """A data folder that does not exist yet."""
    with _used(runner, f"new-{secrets.token_hex(4)}") as folder:
        yield folder


@pytest.fixture
def folder(runner: Runner) -> Generator[Folder]:
    """A data folder that earlier tests of the same runner have used; its server is down."""
    with _used(runner, "data") as folder:
        yield folder


async def _remember(url: URL) -> None:
    await run_sql(url, "DROP TABLE IF EXISTS kept")
    await run_sql(url, "CREATE TABLE kept AS SELECT '记住' AS word")


async def _remembered(url: URL) -> object:
    return await run_sql(url, "SELECT word FROM kept")


async def test_two_processes_share_one_server_and_the_last_one_out_stops_it(folder: Folder) -> None:
    """Whoever started it: the server ends with its last user."""
    first = folder.begin()
    await _remember(first.url())
    pid = folder.server_pid()
    second = folder.begin()
    url = second.url()
    assert folder.server_pid() == pid
    first.stop()
    assert await _remembered(url) == "记住"
    second.stop()
    assert folder.server_pid() is None


def test_eight_starters_on_a_new_folder_get_one_server(new_folder: Folder) -> None:
    """One initdb, one postmaster, one URL; nothing runs when all are gone."""
    children = [new_folder.begin() for _ in range(8)]
    urls = {child.url() for child in children}
    assert len(urls) == 1
    assert (new_folder.cluster / "server.log").read_text().count("ready to accept connections") == 1
    for child in children:
        child.stop()
    assert new_folder.server_pid() is None


async def test_the_next_process_adopts_the_server_of_a_killed_one_and_stops_it(folder: Folder) -> None:
    """A killed process leaves no claim behind: the kernel frees its lock."""
    killed = folder.begin()
    await _remember(killed.url())
    pid = folder.server_pid()
    killed.kill()
    heir = folder.begin()
    assert await _remembered(heir.url()) == "记住"
    assert folder.server_pid() == pid
    heir.stop()
    assert folder.server_pid() is None


async def test_a_killed_postmaster_is_replaced_while_its_users_live_on(folder: Folder) -> None:
    """The next starter recovers the data; the first user's share still counts."""
    first = folder.begin()
    url = first.url()
    await _remember(url)
    killed = folder.server_pid()
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    second = folder.begin()
    assert second.url() == url
    assert await _remembered(url) == "记住"
    second.stop()
    assert folder.server_pid() not in (None, killed)
    first.stop()
    assert folder.server_pid() is None


async def test_a_folder_whose_every_process_was_killed_starts_again(folder: Folder) -> None:
    """SIGKILL to the postmaster and to its user at once loses nothing that was committed."""
    killed = folder.begin()
    await _remember(killed.url())
    postmaster = folder.server_pid()
    assert postmaster is not None
    os.kill(postmaster, signal.SIGKILL)
    killed.kill()
    heir = folder.begin()
    assert await _remembered(heir.url()) == "记住"
    heir.stop()


def test_a_process_killed_during_initdb_leaves_nothing_half_made(new_folder: Folder) -> None:
    """The draft folder of the killed initdb is thrown away, once that initdb has ended."""
    killed = new_folder.begin()
    _until((new_folder.cluster / "initdb.tmp" / "PG_VERSION").exists, "initdb never began")
    killed.kill()
    heir = new_folder.begin()
    heir.url()
    heir.stop()
    assert sorted(entry.name for entry in new_folder.cluster.iterdir()) == [
        "data",
        "password",
        "s",
        "server.log",
        "start.lock",
        "users.lock",
    ]


@contextmanager
def _stranger(owner: os.stat_result) -> Generator[subprocess.Popen[bytes]]:
    """Another program of the server's user."""
    as_root = os.geteuid() == 0
    with subprocess.Popen(
        ["sleep", "600"],
        user=owner.st_uid if as_root else None,
        group=owner.st_gid if as_root else None,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


async def test_a_pid_file_whose_pid_was_reused_harms_neither_side(folder: Folder) -> None:
    """The server starts, and the program that has the pid now goes on."""
    first = folder.begin()
    await _remember(first.url())
    pid_file = folder.cluster / "data" / "postmaster.pid"
    postmaster = folder.server_pid()
    assert postmaster is not None
    os.kill(postmaster, signal.SIGKILL)
    first.kill()
    with _stranger(pid_file.stat()) as stranger:
        stale = pid_file.read_text()
        pid_file.write_text(stale.replace(str(postmaster), str(stranger.pid), 1))
        heir = folder.begin()
        assert await _remembered(heir.url()) == "记住"
        heir.stop()
        assert stranger.poll() is None
