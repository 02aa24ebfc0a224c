"""The embedded server as its users see it: start, url, stop. Processes share one server per data folder.

Two locks in the cluster's folder decide who does what. `start.lock` is held alone while somebody starts or
stops the server. `users.lock` is held together by all who use it, for as long as they live; whoever leaves
and could hold it alone was the last one, and stops the server. The kernel frees both on any kind of death.
"""

import atexit
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from sqlalchemy import URL

from app.store.embedded.cluster import START_TIMEOUT_S, bring_up
from app.store.embedded.config import EmbeddedConfig, EmbeddedError
from app.store.embedded.locks import FileLock, exclusive
from app.store.embedded.place import Place, settle
from app.store.embedded.postmaster import DATABASE, PORT, ROLE, end

_LOCK_TIMEOUT_S = 2 * START_TIMEOUT_S
_STOP_TIMEOUT_S = 30.0


class EmbeddedPostgres:
    """This process's share in the server of one data folder. Made by `start`, given back by `stop`."""

    def __init__(self, place: Place, url: URL, users: FileLock) -> None:
        self._place = place
        self._url = url
        self._users: FileLock | None = users
        self._guard = threading.Lock()
        self._pid = os.getpid()

    @classmethod
    def start(cls, config: EmbeddedConfig) -> Self:
        """A server that accepts logins: the one that runs already, else a new one.

        Blocks for about 0 s, 0.2 s, or 1 s where the cluster is made. Raises EmbeddedError.
        """
        with _plainly(config.data_dir):
            place = settle(config)
            with exclusive(place.start_lock, timeout_s=_LOCK_TIMEOUT_S) as lock:
                users = FileLock(place.users_lock)
                try:
                    users.share()
                    url = _url(bring_up(place, config, lock), place)
                except BaseException:
                    users.close()
                    raise
            server = cls(place, url, users)
            atexit.register(server.stop)  # for a program that ends without stop, by an error or an exit
            return server

    @property
    def url(self) -> URL:
        """For SQLAlchemy with asyncpg, over the unix socket, with the password."""
        return self._url

    def stop(self) -> None:
        """Give the share back; the last one out stops the server. A second call does nothing.

        Blocks for about 0.02 s, at most 30 s; raises EmbeddedError when the server does not end.
        """
        with self._guard:
            if self._users is None or os.getpid() != self._pid:  # a forked child has no share of its own
                return
            users, self._users = self._users, None
            atexit.unregister(self.stop)
            try:
                with (
                    _plainly(self._place.folder),
                    exclusive(self._place.start_lock, timeout_s=_LOCK_TIMEOUT_S),
                ):
                    if users.try_exclusive():
                        end(self._place.data, timeout_s=_STOP_TIMEOUT_S)
            finally:
                users.close()


def _url(socket_dir: Path, place: Place) -> URL:
    password = place.password.read_text(encoding="utf-8")
    query = {"host": str(socket_dir), "port": str(PORT)}
    return URL.create("postgresql+asyncpg", ROLE, password, database=DATABASE, query=query)


@contextmanager
def _plainly(folder: Path) -> Generator[None]:
    """What the operating system refuses, as the one exception of this package."""
    try:
        yield
    except OSError as failure:
        where = f" ({failure.filename})" if failure.filename else ""
        raise EmbeddedError(
            f"Postgres cannot use the data folder {folder}: {failure.strerror or failure}{where}; "
            "mend that, or choose another TURNSTREAM_DATA_DIR"
        ) from failure
