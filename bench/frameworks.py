"""A whole turn against agent frameworks: CPU of the serving process per streamed token, and the floor beside them.

Every server answers the same scripted endpoint with one tool round and 400 tokens to 10 concurrent streams, once with
10 ms between the tokens and once as fast as the endpoint can write, under one uvicorn worker with uvloop and
httptools; turnstream also stores the turn. The peers are in bench/peers, written as each framework's documentation
says, in a venv of their own that this makes from bench/peers/requirements.txt. Interleaved rounds, medians; each
stream is checked for its tokens and its tool call.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from bench.rows import Row, main, median, rounded
from bench.servers import ROOT, Server, turnstream, upstream, uvicorn
from bench.tabs import Tab, post, script
from bench.turn import TOKENS, Asked, Turn, us_per_token

STREAMS = 10
LOADS = (("paced", 10.0), ("as fast as it can", 0.0))
"""Name, and milliseconds between tokens."""
VENV = ROOT / "bench" / ".venv-peers"
REQUIREMENTS = ROOT / "bench" / "peers" / "requirements.txt"
PYTHON = VENV / "bin" / "python"


class Peer(Asked):
    """A peer whose route takes a message."""

    proof = b"search_chunks"

    def __init__(self, package: str, app: str) -> None:
        self.package = package
        self.app = f"bench.peers.{app}:app"

    def tab(self, message: str) -> Tab:
        return Tab(post("/chat", {"message": message}))


class VercelPeer(Peer):
    """pydantic-ai's UI adapter, which takes the body of the Vercel AI protocol."""

    def tab(self, message: str) -> Tab:
        said = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": message}]}
        return Tab(post("/chat", {"trigger": "submit-message", "id": "c1", "messages": [said]}))


PEERS: tuple[Peer, ...] = (
    VercelPeer("pydantic-ai-slim", "pydantic_ai_ui"),
    Peer("langgraph", "langgraph_agent"),
    Peer("openai-agents", "openai_agents_sdk"),
)


def install() -> None:
    """Make the peers' venv, or bring it to what the requirements say; safe to repeat."""
    done = VENV / ".installed"
    wanted = REQUIREMENTS.read_text(encoding="utf-8")
    if done.exists() and done.read_text(encoding="utf-8") == wanted:
        return
    subprocess.run((sys.executable, "-m", "venv", VENV), check=True)
    pip = (PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", REQUIREMENTS)
    subprocess.run(pip, check=True)
    done.write_text(wanted, encoding="utf-8")


def versions(python: Path = PYTHON) -> dict[str, str]:
    """The installed packages of a venv and their versions."""
    listed = subprocess.run(
        (python, "-m", "pip", "list", "--format", "json", "--disable-pip-version-check"),
        check=True,
        capture_output=True,
    )
    return {package["name"]: package["version"] for package in json.loads(listed.stdout)}


def measure(*, quick: bool) -> Iterator[Row]:
    """A row for the distance to the best peer, and one for each server."""
    install()
    installed = versions()
    with ExitStack() as stack:
        endpoint = stack.enter_context(upstream())
        served: dict[str, tuple[Server, Asked]] = {
            "floor": (stack.enter_context(uvicorn("bench.floor:app", endpoint)), Asked()),
            "turnstream": (stack.enter_context(turnstream(endpoint)), Turn()),
        }
        for peer in PEERS:
            name = f"{peer.package} {installed[peer.package]}"
            served[name] = (stack.enter_context(uvicorn(peer.app, endpoint, str(PYTHON))), peer)
        for load, pace_ms in LOADS:
            found = compared(served, script(tokens=TOKENS, pace_ms=pace_ms), rounds=1 if quick else 5)
            medians = {name: median(values) for name, values in found.items()}
            best = min(us for name, us in medians.items() if name not in ("floor", "turnstream"))
            ratio = round(best / medians["turnstream"], 2)
            shown = {"load": load, "us_per_token": medians, "streams": STREAMS, "tokens": TOKENS}
            yield Row(f"CPU per token, the best peer to turnstream, {load}", ratio, "x", 5, "at least", shown)
            for name, us in medians.items():
                detail = {"to_floor": round(us / medians["floor"], 2), "rounds": rounded(found[name])}
                yield Row(f"CPU per token, {load}: {name}", us, "us", detail=detail)


def compared(served: dict[str, tuple[Server, Asked]], ask: str, *, rounds: int) -> dict[str, list[float]]:
    """Microseconds per token of each server in each round, after one that warms all of them up."""
    found: dict[str, list[float]] = {name: [] for name in served}
    for n in range(rounds + 1):
        for name, (server, asked) in served.items():
            spent = us_per_token(server, ask, asked, streams=STREAMS)
            if n:
                found[name].append(spent)
    return found


if __name__ == "__main__":
    main(measure, __doc__)
