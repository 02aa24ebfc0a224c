"""pgbouncer in transaction mode before a database of the tests: few connections to the server, many clients.

It refuses to run as root; started by root it becomes `nobody`, as the embedded server does, so that it may use the
server's socket.
"""

import os
import shutil
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from sqlalchemy import URL

from app.store.embedded.account import DEFAULT_ACCOUNT
from tests.harness.programs import installed, listening
from tests.harness.replica import free_port

SERVER_CONNECTIONS = 2


@asynccontextmanager
async def pooled(url: URL) -> AsyncGenerator[URL, None]:
    """The URL of the database behind a pgbouncer of the test's own."""
    program = installed("pgbouncer")
    folder = Path(tempfile.mkdtemp(prefix="turnstream-pgbouncer-"))
    port = free_port()
    config = folder / "pgbouncer.ini"
    config.write_text(_config(url, port), encoding="utf-8")
    argv = [program, str(config)]
    if os.geteuid() == 0:
        argv[1:1] = ["--user", DEFAULT_ACCOUNT]
        for path in (folder, config):
            shutil.chown(path, DEFAULT_ACCOUNT)
    try:
        async with listening(argv, port, folder / "log"):
            yield URL.create("postgresql", "anybody", host="127.0.0.1", port=port, database=url.database)
    finally:
        shutil.rmtree(folder)


def _config(url: URL, port: int) -> str:
    server = {
        "host": url.host or str(url.query["host"]),
        "port": url.port or url.query.get("port", 5432),
        "user": url.username,
        "password": url.password,
        "dbname": url.database,
    }
    words = " ".join(f"{name}={_quoted(str(value))}" for name, value in server.items() if value is not None)
    return f"""
[databases]
{url.database} = {words}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {SERVER_CONNECTIONS}
"""


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
