"""Who runs the server. Postgres refuses to run as root, so root hands it to an account without rights.

Decides the account and runs programs as it. Nothing of the caller's environment reaches them: a model's API
key has no business in a process of another account.
"""

import errno
import os
import pwd
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from app.store.embedded.config import EmbeddedError

DEFAULT_ACCOUNT = "nobody"
_KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "TZ")


@dataclass(frozen=True, slots=True)
class Account:
    """Who owns the cluster's files and runs the server. `switched`: root starts it as somebody else."""

    name: str
    uid: int
    gid: int
    switched: bool

    def run(
        self, argv: Sequence[str], *, timeout_s: float, pass_fds: Sequence[int] = ()
    ) -> subprocess.CompletedProcess[str]:
        """The finished program, stdout and stderr together in `stdout`.

        Raises PermissionError where the account may not run it, subprocess.TimeoutExpired after `timeout_s`,
        EmbeddedError where root lacks the right to become the account.
        """
        try:
            return self._run(argv, timeout_s, pass_fds)
        except PermissionError as failure:
            if failure.errno == errno.EPERM and self.switched:  # a program that may not be run is EACCES
                raise EmbeddedError(
                    f"root may not become {self.name} here, and Postgres refuses to run as root: "
                    "run as an ordinary user, or set TURNSTREAM_DATABASE_URL"
                ) from failure
            raise

    def _run(self, argv: Sequence[str], timeout_s: float, pass_fds: Sequence[int]) -> subprocess.CompletedProcess[str]:
        kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
        return subprocess.run(  # noqa: S603 - the programs are Postgres' own, the arguments are built here
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            env={**kept, "LC_ALL": "C"},
            cwd="/",  # the caller's folder may be closed to the account
            timeout=timeout_s,
            check=False,
            pass_fds=pass_fds,
            user=self.uid if self.switched else None,
            group=self.gid if self.switched else None,
            extra_groups=[] if self.switched else None,
        )

    def can_enter(self, folder: Path) -> bool:
        """Whether every folder on the way lets the account through. The kernel is asked, so ACLs count."""
        return self.run(["/bin/sh", "-c", 'cd -- "$1"', "sh", str(folder)], timeout_s=10).returncode == 0

    def give(self, path: Path, *, mode: int) -> None:
        """Make the account the owner. Only for files and folders that this package has just made."""
        if self.switched:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)
        path.chmod(mode)


def make_enterable(folder: Path) -> None:
    """Make the folder, if it is missing, so that every account can pass through it, whatever the umask.

    One that exists stays as it is. Raises OSError where it is not a folder or can't be made.
    """
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        if not folder.is_dir():
            raise
        return
    folder.chmod(0o711)


def choose_account(named: str | None, cluster_owner: int | None) -> Account:
    """The account that runs the server: the setting's, else the owner of an existing cluster, else `nobody`.

    Raises EmbeddedError where the account is unknown, is root, owns no part of an existing cluster, or can't
    be chosen because the caller is not root.
    """
    me = os.geteuid()
    if me != 0:
        return _myself(me, named)
    if cluster_owner == 0:
        raise EmbeddedError("the Postgres cluster belongs to root, under which Postgres refuses to run: chown it")
    if named is None and cluster_owner is not None:
        entry = _by_uid(cluster_owner)
    else:
        entry = _by_name(named or DEFAULT_ACCOUNT)
    if entry.pw_uid == 0:
        raise EmbeddedError(f"Postgres refuses to run as {entry.pw_name}: name an account without rights")
    if cluster_owner is not None and cluster_owner != entry.pw_uid:
        raise EmbeddedError(
            f"the account {entry.pw_name} was asked for, but the Postgres cluster belongs to "
            f"{_by_uid(cluster_owner).pw_name}: name that account, or chown the cluster"
        )
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, switched=True)


def _myself(uid: int, named: str | None) -> Account:
    entry = _by_uid(uid)
    if named is not None and named != entry.pw_name:
        raise EmbeddedError(
            f"only root can run Postgres as {named}, and this is {entry.pw_name}: leave the account unset"
        )
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, switched=False)


def _by_name(name: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        raise EmbeddedError(f"there is no account {name} on this system: name one that exists") from None


def _by_uid(uid: int) -> pwd.struct_passwd:
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        raise EmbeddedError(
            f"user id {uid} has no entry in the system's user list, which Postgres needs: "
            "add one, or set TURNSTREAM_DATABASE_URL"
        ) from None
