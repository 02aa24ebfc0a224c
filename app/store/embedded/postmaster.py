"""The running server, seen from outside: does it answer, which pid is it, end it.

Alive means that the socket answers. A pid is believed only where its command line names our data folder:
pids are reused, and a killed postmaster stays in the process table until somebody reaps it.
"""

import os
import signal
import socket
import struct
import subprocess
import time
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from app.store.embedded.account import Account
from app.store.embedded.config import EmbeddedError

PORT = 5432
ROLE = "turnstream"
DATABASE = "postgres"

_POLL_S = 0.01
_ANSWER_TIMEOUT_S = 2.0
_PROTOCOL_3 = 196608  # PostgreSQL manual, "Message Formats", StartupMessage
_CANNOT_CONNECT_NOW = b"C57P03\0"  # SQLSTATE field of an ErrorResponse: starting up, recovering or shutting down
_NO_SUCH_PID = 2**31 - 1  # above every system's pid limit


class Answer(Enum):
    """What the socket says: a login is possible, not now, or nobody is there."""

    READY = auto()
    NOT_NOW = auto()
    NOBODY = auto()


@dataclass(frozen=True, slots=True)
class PidFile:
    """What `postmaster.pid` says: line 1 the pid (negative: single-user mode), line 5 the socket folder.

    Line 5 is not there yet while the server starts.
    """

    pid: int
    socket_dir: Path | None


def socket_file(folder: Path) -> Path:
    return folder / f".s.PGSQL.{PORT}"


def ask(folder: Path) -> Answer:
    """Begin a login and hang up: an authentication request means READY, SQLSTATE 57P03 or silence NOT_NOW."""
    body = struct.pack("!I", _PROTOCOL_3) + f"user\0{ROLE}\0database\0{DATABASE}\0\0".encode()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
        door.settimeout(_ANSWER_TIMEOUT_S)
        try:
            door.connect(str(socket_file(folder)))
        except (FileNotFoundError, ConnectionRefusedError):
            return Answer.NOBODY
        except (BlockingIOError, TimeoutError):  # the queue of waiting connections is full
            return Answer.NOT_NOW
        try:
            door.sendall(struct.pack("!I", len(body) + 4) + body)
            reply = door.recv(4096)
        except (TimeoutError, ConnectionError):
            return Answer.NOT_NOW
    return Answer.NOT_NOW if not reply or _CANNOT_CONNECT_NOW in reply else Answer.READY


def read_pid_file(data: Path) -> PidFile | None:
    """None where there is no pid file, or one that is being written."""
    try:
        lines = (data / "postmaster.pid").read_text(encoding="utf-8", errors="surrogateescape").split("\n")
        return PidFile(int(lines[0]), Path(lines[4]) if len(lines) > 4 and lines[4] else None)
    except (FileNotFoundError, IndexError, ValueError):
        return None


def running_pid(data: Path) -> int | None:
    """The pid of the postmaster of this data folder, wherever it is in its life; None where none runs."""
    found = read_pid_file(data)
    return found.pid if found is not None and _serves(found.pid, data) else None


def clear_traces(data: Path, socket_dir: Path, account: Account) -> None:
    """Make what a killed postmaster left harmless where its pid still exists, reused or not yet reaped.

    Postgres itself refuses to start then. The socket and its lock file are deleted: that folder is this
    cluster's alone. The pid file is kept under a pid that cannot exist: its shared memory id is how Postgres
    notices backends that outlived their postmaster. The account itself writes: root must not follow names in
    somebody else's folder. Called under the start lock.
    """
    if running_pid(data) is not None:
        return
    for trace in (socket_file(socket_dir), socket_file(socket_dir).with_suffix(f".{PORT}.lock")):
        trace.unlink(missing_ok=True)
    found = read_pid_file(data)
    if found is None or found.pid <= 0 or not _exists(found.pid):
        return
    rewrite = (
        'umask 077 && cd -- "$1" && { echo "$2"; tail -n +2 postmaster.pid; } > postmaster.pid.draft '
        "&& mv -f postmaster.pid.draft postmaster.pid"
    )
    done = account.run(["/bin/sh", "-c", rewrite, "sh", str(data), str(_NO_SUCH_PID)], timeout_s=10)
    if done.returncode != 0:
        raise EmbeddedError(f"{data / 'postmaster.pid'} names a foreign process and cannot be changed: delete it")


def end(data: Path, *, timeout_s: float) -> None:
    """Fast shutdown (SIGINT: transactions are rolled back), then immediate (SIGQUIT) past half the time.

    Returns when the process is gone, at once where none runs. Raises EmbeddedError when it stays.
    """
    pid = running_pid(data)
    if pid is None:
        return
    for how in (signal.SIGINT, signal.SIGQUIT):
        _signal(pid, how)
        deadline = time.monotonic() + timeout_s / 2
        while time.monotonic() < deadline:
            if not _serves(pid, data):
                return
            time.sleep(_POLL_S)
    raise EmbeddedError(f"the Postgres server (pid {pid}) does not end: end that process by hand")


def _signal(pid: int, how: signal.Signals) -> None:
    try:
        os.kill(pid, how)
    except ProcessLookupError:
        return  # it ended on its own; the caller's wait sees that


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _serves(pid: int, data: Path) -> bool:
    """Whether the pid is a postmaster started with `-D data`. A zombie has no command line, so it is not."""
    proc = Path("/proc")
    if (proc / "self" / "cmdline").exists():
        try:
            words = (proc / str(pid) / "cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return False
        return words[0].endswith(b"postgres") and words[1:3] == [b"-D", os.fsencode(data)]
    shown = subprocess.run(  # noqa: S603 - a number that was parsed as one
        ["/bin/ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, check=False
    )
    return b"postgres -D " + os.fsencode(data) in shown.stdout
