"""A whole turn against the floor: CPU of the serving process per streamed token.

The turn is one tool round and 400 tokens at 20 concurrent streams, with the policy, the live log, SSE and Postgres; the
floor (bench/floor.py) passes the same tokens through. Once the endpoint paces its tokens, 10 ms apart, and once it
sends as fast as it can. Interleaved rounds, medians. The endpoint, the clients and Postgres are other processes, and
their CPU isn't counted.
"""

from collections.abc import Iterator

from bench.rows import Row, main, median, rounded
from bench.servers import BenchFailed, Server, cpu_of, turnstream, upstream, uvicorn
from bench.tabs import Tab, post, question, script

STREAMS = 20
TOKENS = 400
LOADS = (("paced", 10.0, 1.5, 1), ("as fast as it can", 0.0, 1.0, 5))
"""Name, milliseconds between tokens, the target, and how many runs are one round."""


def checked(tabs: list[Tab], tokens: int, also: bytes) -> None:
    """Hold that every stream brought all tokens, and this beside them.

    Raises:
        BenchFailed: one didn't.
    """
    for tab in tabs:
        found = tab.body.count(b"token ")
        if found != tokens or also not in tab.body:
            raise BenchFailed(f"a stream brought {found} tokens of {tokens}: {tab.body[-500:]!r}")


def us_per_token(server: Server, ask: str, make: "Asked", *, runs: int = 1, streams: int = STREAMS) -> float:
    """CPU microseconds of the server per streamed token, over so many runs one after the other."""
    spent = 0.0
    for _ in range(runs):
        tabs: list[Tab] = []

        def requests(tabs: list[Tab] = tabs) -> list[Tab]:
            tabs.extend(make.tab(ask) for _ in range(streams))
            return tabs

        spent += cpu_of(server, requests)
        checked(tabs, TOKENS, make.proof)
    return spent / (runs * streams * TOKENS) * 1e6


class Asked:
    """How a server is asked, and what its stream must hold beside the tokens."""

    proof = b""

    def tab(self, message: str) -> Tab:
        """A tab that asks this."""
        return Tab(post("/", {"message": message}))


class Turn(Asked):
    """Turnstream's own chat route."""

    proof = b"event: done"

    def tab(self, message: str) -> Tab:
        return question(message)


def measure(*, quick: bool) -> Iterator[Row]:
    """The ratio at each load."""
    with upstream() as endpoint, uvicorn("bench.floor:app", endpoint) as floor, turnstream(endpoint) as ours:
        for load, pace_ms, target, runs in LOADS:
            ask = script(tokens=TOKENS, pace_ms=pace_ms)
            floors: list[float] = []
            turns: list[float] = []
            for n in range(3 if quick else 6):
                passed = us_per_token(floor, ask, Asked(), runs=runs)
                whole = us_per_token(ours, ask, Turn(), runs=runs)
                if n:  # the first round warms both up
                    floors.append(passed)
                    turns.append(whole)
            ratio = median(turns) / median(floors)
            detail = {
                "streams": STREAMS,
                "tokens": TOKENS,
                "floor_us": median(floors),
                "turn_us": median(turns),
                "floor_rounds": rounded(floors),
                "turn_rounds": rounded(turns),
            }
            yield Row(f"CPU per token of a whole turn, {load}", round(ratio, 2), "x the floor", target, detail=detail)


if __name__ == "__main__":
    main(measure, __doc__)
