"""A cluster made and a server launched. Called under the start lock only."""

import os
import secrets
import shlex
import shutil
import subprocess
import time
from pathlib import Path

from app.store.embedded.binaries import Binaries, find_binaries
from app.store.embedded.config import EmbeddedConfig, EmbeddedError
from app.store.embedded.locks import FileLock
from app.store.embedded.place import Place, make_socket_dir, require_access
from app.store.embedded.postmaster import (
    PORT,
    ROLE,
    Answer,
    ask,
    clear_traces,
    read_pid_file,
    running_pid,
)

START_TIMEOUT_S = 60.0
_POLL_S = 0.02
_LOG_BYTES = 10_000_000
# What a launch says while an earlier server of the same folder is on its way up or down.
_PASSING = ("is still in use", 'lock file "postmaster.pid" already exists')
_NOT_DURABLE = ("fsync=off", "full_page_writes=off")  # a killed process still loses nothing
# pg_trgm follows LC_CTYPE, not the collation provider, and sees no CJK under C, the last resort.
_CHARACTER_TYPES = ("C.UTF-8", "en_US.UTF-8")


def bring_up(place: Place, config: EmbeddedConfig, lock: FileLock) -> Path:
    """The socket folder of a server that accepts logins: the running one's, else that of a new one.

    Raises EmbeddedError where it can't be started or isn't ready after START_TIMEOUT_S.
    """
    if place.data.exists() and not place.password.exists():
        raise EmbeddedError(f"the Postgres password file {place.password} is missing: restore it from a backup")
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        running = read_pid_file(place.data)
        answer = Answer.NOBODY if running is None or running.socket_dir is None else ask(running.socket_dir)
        if answer is Answer.READY and running is not None and running.socket_dir is not None:
            return running.socket_dir
        if answer is Answer.NOBODY and running_pid(place.data) is None:
            _launch(place, config, lock, deadline)
        if time.monotonic() > deadline:
            raise EmbeddedError(
                f"the Postgres server is not ready after {START_TIMEOUT_S:.0f} s: see {place.log}, then start again"
            )
        time.sleep(_POLL_S)


def _launch(place: Place, config: EmbeddedConfig, lock: FileLock, deadline: float) -> None:
    """Start the server, making its cluster where there is none. Returns too when a retry is due."""
    require_access(place)
    binaries = find_binaries(config, place.account)
    if not place.data.exists():
        _initialise(place, binaries, config, lock)
    _require_same_major(place, binaries)
    socket_dir = make_socket_dir(place)
    clear_traces(place.data, socket_dir, place.account)
    options = _options(socket_dir, durable=config.durable)
    offset = _ready_log(place)
    left_s = max(deadline - time.monotonic(), 1.0)
    start = [binaries.path("pg_ctl"), "start", "-w", "-t", f"{left_s:.0f}", "-D", str(place.data)]
    done = _run(place, [*start, "-l", str(place.log), "-o", options], timeout_s=left_s + 10)
    if done.returncode == 0:
        return
    with place.log.open("rb") as log:
        log.seek(offset)
        said = log.read().decode(errors="replace")
    if any(words in said for words in _PASSING):
        return
    raise EmbeddedError(f"the Postgres server did not start: {_last_line(said or done.stdout)} (see {place.log})")


def _initialise(place: Place, binaries: Binaries, config: EmbeddedConfig, lock: FileLock) -> None:
    """Run initdb into a draft folder, then rename once, so that a cluster is whole or absent.

    initdb inherits the start lock: were this process killed, nobody starts beside an initdb that lives on.
    """
    if place.draft.exists():  # left by a process that was killed
        shutil.rmtree(place.draft)
    place.draft.mkdir(mode=0o700)
    place.account.give(place.draft, mode=0o700)
    place.password.unlink(missing_ok=True)
    _write_secret(place.password, secrets.token_urlsafe(24))
    place.account.give(place.password, mode=0o600)
    argv = [binaries.path("initdb"), "-D", str(place.draft), "-U", ROLE, "-A", "scram-sha-256"]
    argv += [f"--pwfile={place.password}", "-E", "UTF8", "--locale=C", "--no-instructions"]
    if binaries.major >= 17:  # the first version with a collation provider that needs no system locale
        argv += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    if not config.durable:
        argv.append("--no-sync")
    done = _run_initdb(place, argv, lock)
    if done.returncode != 0:
        raise EmbeddedError(f"the Postgres cluster could not be made in {place.folder} ({_last_line(done.stdout)})")
    place.draft.rename(place.data)
    _sync(place.folder)


def _run_initdb(place: Place, argv: list[str], lock: FileLock) -> subprocess.CompletedProcess[str]:
    """The finished initdb, with the first LC_CTYPE that the system has; a wrong one is refused at once."""
    for character_type in _CHARACTER_TYPES:
        done = _run(place, [*argv, f"--lc-ctype={character_type}"], timeout_s=START_TIMEOUT_S, lock=lock)
        if "invalid locale name" not in done.stdout:
            return done
    return _run(place, argv, timeout_s=START_TIMEOUT_S, lock=lock)


def _write_secret(path: Path, secret: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(secret)
    _sync(path)


def _sync(path: Path) -> None:
    """Put a file, or a folder's names, on disk: a cluster without its password would be lost."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _require_same_major(place: Place, binaries: Binaries) -> None:
    made_by = (place.data / "PG_VERSION").read_text(encoding="utf-8").strip()
    if made_by != str(binaries.major):
        raise EmbeddedError(
            f"the cluster in {place.folder} was made by PostgreSQL {made_by}, "
            f"but the programs are those of {binaries.major}: "
            f"use those of {made_by}, or dump with {made_by} and restore into a new data folder"
        )


def _options(socket_dir: Path, *, durable: bool) -> str:
    """The server's options as a shell reads them (pg_ctl passes them through one). They overrule the file."""
    settings = [
        "listen_addresses=",
        f"port={PORT}",
        f'unix_socket_directories="{socket_dir}"',
        "unix_socket_permissions=0700",
        "logging_collector=off",
        "log_checkpoints=off",
        *(() if durable else _NOT_DURABLE),
    ]
    return " ".join(f"-c {shlex.quote(setting)}" for setting in settings)


def _ready_log(place: Place) -> int:
    """The log's size, after a full one was put aside as `server.log.1`. The account may write it."""
    if place.log.exists() and place.log.stat().st_size > _LOG_BYTES:
        place.log.replace(place.log.with_name("server.log.1"))
    os.close(os.open(place.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600))
    place.account.give(place.log, mode=0o600)
    return place.log.stat().st_size


def _run(
    place: Place, argv: list[str], *, timeout_s: float, lock: FileLock | None = None
) -> subprocess.CompletedProcess[str]:
    try:
        return place.account.run(argv, timeout_s=timeout_s, pass_fds=() if lock is None else (lock.fileno(),))
    except subprocess.TimeoutExpired:
        raise EmbeddedError(f"{Path(argv[0]).name} did not end within {timeout_s:.0f} s: see {place.log}") from None


def _last_line(text: str) -> str:
    """The line that says why: the last FATAL or error, else the last one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if "FATAL" in line or "error:" in line]
    return (telling or lines or ["it said nothing"])[-1]
