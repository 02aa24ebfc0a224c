"""The package as its users get it: an sdist, a wheel made of it, installed into an empty environment, and served.

    python -m tests.wheel.check        `make wheel`; CI runs it after the tests. About a minute, mostly pip's

Not a test of the suite, for what it costs. It needs the package registry, or pip's cache of it.
"""

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import venv
import zipfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.harness.replica import Replica, environment, launch

ROOT = Path(__file__).parents[2]
VERSION: str = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
NAME = f"turnstream-{VERSION}"
SHIPPED = {"migrations": "migrations", "sample": "sample", "docs/manual": "manual"}
LOADED_S = 60.0


def main() -> None:
    """Each step, with its seconds; the first that fails ends it with status 1."""
    folder = Path(tempfile.mkdtemp(prefix="turnstream-wheel-"))
    try:
        with step("build an sdist, and a wheel of it"):
            wheel = build(folder / "dist")
        with step("look into both"):
            check_contents(wheel, folder / "dist" / f"{NAME}.tar.gz")
        with step("install it into an empty environment"):
            command = install(wheel, folder / "venv")
        with step("run its command"):
            check_command(command)
        with step("serve the sample base, ask, fetch the page"):
            asyncio.run(check_server(command, folder, wheel))
    finally:
        shutil.rmtree(folder)


@contextmanager
def step(what: str) -> Generator[None, None, None]:
    print(f"wheel: {what}", end=" ", flush=True)
    began = time.monotonic()
    yield
    print(f"({time.monotonic() - began:.1f} s)", flush=True)


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """What the command says; SystemExit with all of it where it fails."""
    done = subprocess.run(
        command, cwd=cwd, env=environment(), check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def build(target: Path) -> Path:
    """The wheel, built in pip's own environment from what the sdist holds alone."""
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", target, cwd=ROOT)
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", target, target / f"{NAME}.tar.gz")
    return target / f"{NAME}-py3-none-any.whl"


def files(folder: str) -> Iterator[str]:
    """The files below a folder of the checkout, relative to it; nothing that Python makes while it runs."""
    for path in (ROOT / folder).rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(ROOT / folder).as_posix()


def check_contents(wheel: Path, sdist: Path) -> None:
    """The wheel holds what is in app/, the built page, and the shipped folders: all of it, and nothing else."""
    wanted = {f"app/{name}" for name in files("app")}
    wanted |= {f"app/_shipped/{name}/{file}" for folder, name in SHIPPED.items() for file in files(folder)}
    wanted |= {f"{NAME}.dist-info/{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt")}
    wanted.add(f"{NAME}.dist-info/licenses/LICENSE")
    with zipfile.ZipFile(wheel) as opened:
        held = set(opened.namelist())
        described = opened.read(f"{NAME}.dist-info/METADATA").decode()
    assert held == wanted, f"missing: {sorted(wanted - held)}; too much: {sorted(held - wanted)}"
    assert {"app/_page/index.html", "app/py.typed", "app/_shipped/migrations/env.py"} <= held
    assert f"\nVersion: {VERSION}\n" in described
    assert "\nLicense-Expression: Apache-2.0\n" in described
    with tarfile.open(sdist) as opened:
        sources = {name.partition("/")[2] for name in opened.getnames()}
    assert {"LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md", "web/package-lock.json"} <= sources
    assert [name for name in sources if name.startswith(("web/node_modules/", ".venv/"))] == []


def install(wheel: Path, where: Path) -> str:
    """The installed command, in an environment that holds the wheel and what pip finds that it needs."""
    venv.create(where, with_pip=True)
    run(where / "bin" / "python", "-m", "pip", "install", "--quiet", wheel)
    return str(where / "bin" / "turnstream")


def check_command(command: str) -> None:
    """Named from any folder, it says its version and its commands."""
    assert run(command, "--version", cwd=Path(os.sep)).split()[-1] == VERSION
    told = run(command, "--help", cwd=Path(os.sep))
    assert [word for word in ("serve", "ask", "ingest", "doctor", "mcp") if f"\n  {word} " not in told] == []


async def check_server(command: str, folder: Path, wheel: Path) -> None:
    """On an empty data folder, far from any checkout."""
    server = await launch(folder, {}, "--load", "sample", command=command)
    try:
        await loaded(server)
        turn = await server.ask("Who sat on the board when Sam Altman was removed?")
        assert turn.done["evidence"] == "cited", turn.done
        assert "Helen Toner" in turn.answer
        settings = (await server.http.get("/api/settings")).json()
        assert settings["version"] == VERSION
        await check_page(server, wheel)
        assert await server.end() == 0
    except BaseException:
        print(server.log.read_text(encoding="utf-8"), file=sys.stderr)
        raise
    finally:
        await server.aclose()


async def loaded(server: Replica) -> None:
    """Wait until the sample is in, documents and facts, without a warning."""
    async with asyncio.timeout(LOADED_S):
        while "documents_loaded" not in (log := server.log.read_text(encoding="utf-8")):
            await asyncio.sleep(0.1)
    assert '"level": "warning"' not in log, "the log has warnings"


async def check_page(server: Replica, wheel: Path) -> None:
    """index.html, each thing that it names, and every other asset of the wheel, byte for byte."""
    index = await server.http.get("/")
    named = set(re.findall(r'(?:src|href)="/assets/([^"]+)"', index.text))
    with zipfile.ZipFile(wheel) as opened:
        assets = {Path(name).name: opened.read(name) for name in opened.namelist() if "/_page/assets/" in name}
    assert named, index.text
    assert named <= assets.keys()
    for name, content in assets.items():
        sent = await server.http.get(f"/assets/{name}")
        assert (sent.status_code, sent.content) == (200, content), name


if __name__ == "__main__":
    main()
