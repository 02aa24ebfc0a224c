"""What the embedded server says when it can't start: one plain sentence, what was wrong and what to do."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from app.store.embedded import EmbeddedConfig, EmbeddedError, EmbeddedPostgres
from tests.harness.embedded_child import Child, Runner, ordinary_runner

from_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else")


@contextmanager
def new_config() -> Generator[EmbeddedConfig]:
    room = Path(tempfile.mkdtemp(prefix="turnstream-room-")).resolve()
    room.chmod(0o711)
    try:
        yield EmbeddedConfig(room / "data", durable=False, system_dir=room / "system")
    finally:
        shutil.rmtree(room)


@pytest.fixture
def config() -> Generator[EmbeddedConfig]:
    """A data folder that does not exist yet, in a folder that every account can pass."""
    with new_config() as made:
        yield made


@pytest.fixture(scope="module")
def used_config() -> Generator[EmbeddedConfig]:
    """A data folder with a cluster, whose server is down; to be copied, not changed."""
    with new_config() as made:
        EmbeddedPostgres.start(made).stop()
        yield made


@pytest.fixture
def cluster(config: EmbeddedConfig, used_config: EmbeddedConfig) -> Path:
    """The cluster's folder of `config`, after a start and a stop."""
    subprocess.run(["cp", "-a", used_config.data_dir, config.data_dir], check=True)
    return config.data_dir / "postgres"


def refusal(config: EmbeddedConfig) -> str:
    with pytest.raises(EmbeddedError) as raised:
        EmbeddedPostgres.start(config)
    return str(raised.value)


def test_a_folder_without_programs(config: EmbeddedConfig) -> None:
    """Names the folder and the missing programs."""
    empty = config.data_dir.parent
    assert refusal(replace(config, bin_dir=empty)) == (
        f"no initdb or pg_ctl or postgres in {empty}: name a folder that holds PostgreSQL's programs, "
        "or set TURNSTREAM_DATABASE_URL"
    )


def test_a_cluster_of_another_major_version(config: EmbeddedConfig, cluster: Path) -> None:
    """Postgres can't read it; nothing is changed."""
    (cluster / "data" / "PG_VERSION").write_text("17\n")
    assert refusal(config) == (
        f"the cluster in {cluster} was made by PostgreSQL 17, but the programs are those of 18: "
        "use those of 17, or dump with 17 and restore into a new data folder"
    )


def test_a_lost_password_file(config: EmbeddedConfig, cluster: Path) -> None:
    """The server is not started without it."""
    (cluster / "password").unlink()
    assert refusal(config) == (
        f"the Postgres password file {cluster / 'password'} is missing: restore it from a backup"
    )


def test_a_file_where_the_data_folder_should_be(config: EmbeddedConfig) -> None:
    """The operating system's word for it, and the setting."""
    config.data_dir.write_text("")
    assert refusal(config) == (
        f"Postgres cannot use the data folder {config.data_dir}: File exists ({config.data_dir}); "
        "mend that, or choose another TURNSTREAM_DATA_DIR"
    )


def test_a_configuration_that_the_server_refuses(config: EmbeddedConfig, cluster: Path) -> None:
    """The server's own reason, and where its log is."""
    with (cluster / "data" / "postgresql.conf").open("a") as file:
        file.write("shared_buffers = 'much'\n")
    said = refusal(config)
    assert said.startswith("the Postgres server did not start: ")
    assert said.endswith(f"(see {cluster / 'server.log'})")
    assert "contains errors" in said


@pytest.mark.parametrize("character", ['"', "$", "`", "\\", "\n"])
def test_a_path_that_a_shell_would_read(config: EmbeddedConfig, character: str) -> None:
    """pg_ctl passes paths through a shell; they are refused, not run."""
    odd = config.data_dir.parent / f"a{character}b"
    assert refusal(replace(config, data_dir=odd)) == (
        f'the path {odd / "postgres"} holds one of the characters " $ ` \\ or a line break: choose another'
    )


@from_root
@pytest.mark.parametrize(
    ("account", "sentence"),
    [
        ("no-such-account", "there is no account no-such-account on this system: name one that exists"),
        ("root", "Postgres refuses to run as root: name an account without rights"),
    ],
)
def test_an_account_that_cannot_run_it(config: EmbeddedConfig, account: str, sentence: str) -> None:
    """Unknown, or root."""
    assert refusal(replace(config, account=account)) == sentence


@from_root
def test_a_cluster_of_another_user(config: EmbeddedConfig, cluster: Path) -> None:
    """Not even root uses somebody else's folder."""
    shutil.chown(cluster, "daemon")
    assert refusal(config) == (
        f"the Postgres folder {cluster} belongs to daemon: run as daemon, or choose another TURNSTREAM_DATA_DIR"
    )


@from_root
def test_programs_that_the_account_cannot_run(config: EmbeddedConfig) -> None:
    """A folder named by the setting is not copied; the wheel's would be."""
    closed = config.data_dir.parent / "closed"
    closed.mkdir(mode=0o700)
    for name in ("initdb", "pg_ctl", "postgres"):
        (closed / name).touch(0o755)
    assert refusal(replace(config, bin_dir=closed)) == (
        f"the account nobody cannot run the programs in {closed}: name a folder that it can enter, or another account"
    )


@pytest.fixture
def ordinary(config: EmbeddedConfig) -> Runner:
    """An ordinary user whose home is the folder above the data folder."""
    return ordinary_runner(config.data_dir.parent)


def test_a_folder_that_an_ordinary_user_may_not_write(config: EmbeddedConfig, ordinary: Runner) -> None:
    """Names the folder and the setting."""
    os.chown(config.data_dir.parent, 0, 0)
    config.data_dir.parent.chmod(0o755)
    child = Child.begin(config, runner=ordinary)
    assert child.error() == (
        f"Postgres cannot use the data folder {config.data_dir}: Permission denied ({config.data_dir}); "
        "mend that, or choose another TURNSTREAM_DATA_DIR"
    )


def test_an_account_that_only_root_could_choose(config: EmbeddedConfig, ordinary: Runner) -> None:
    """An ordinary user runs the server as itself."""
    child = Child.begin(replace(config, account="daemon"), runner=ordinary)
    assert child.error() == "only root can run Postgres as daemon, and this is nobody: leave the account unset"


def test_a_user_id_without_a_name(config: EmbeddedConfig, ordinary: Runner) -> None:
    """As with `docker run --user 54321`: initdb looks its user up."""
    room = config.data_dir.parent
    os.chown(room, 54321, 54321)
    nameless = replace(ordinary, user=pwd.struct_passwd(("", "", 54321, 54321, "", "", "")))
    child = Child.begin(config, runner=nameless)
    assert child.error() == (
        "user id 54321 has no entry in the system's user list, which Postgres needs: "
        "add one, or set TURNSTREAM_DATABASE_URL"
    )
