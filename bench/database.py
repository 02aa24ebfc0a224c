"""What a turn asks of Postgres: statements per turn, and finished turns per second in one worker on embedded Postgres.

Statements are counted where they arrive, in Postgres's own log with log_statement = all, over turns of one tool round
that run one after the other; what arrives while nothing runs (leases, jobs) is taken off at its rate. Not a statement
here: BEGIN, COMMIT, ROLLBACK and the pool's ping, counted apart. Turns per second: short turns, one tool round and 20
tokens, so many at once that the worker is never idle, with log_statement off.
"""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import text

from app.store.embedded import EmbeddedConfig, EmbeddedPostgres
from app.store.engine import Database
from bench.rows import Row, main, percentile
from bench.servers import BenchFailed, Server, data_folder, turnstream, upstream
from bench.tabs import open_tab, question, script

TOKENS = 20
AT_ONCE = 16
_ENTRY = re.compile(rb"^\S+ \S+ \S+ \[\d+\] (?=[A-Z]+: )", re.MULTILINE)
_STATEMENT = re.compile(rb"LOG:  (?:statement|execute [^:]*): (.*)", re.DOTALL)
_CONTROL = re.compile(r"(BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE|;)")
_CHECKPOINT = "WITH d AS ( SELECT * FROM unnest"


async def log_statements(folder: Path, level: str) -> None:
    """Have the server that runs on this folder log statements from now on: none or all."""
    postgres = EmbeddedPostgres.start(EmbeddedConfig(folder))
    try:
        database = Database(postgres.url)
        async with database.apart() as connection:
            await connection.execute(text(f"ALTER SYSTEM SET log_statement = '{level}'"))
            await connection.execute(text("SELECT pg_reload_conf()"))
        await database.aclose()
    finally:
        postgres.stop()
    await asyncio.sleep(0.5)  # the sessions hear of it with their next statement


def statements(log: bytes) -> Counter[str]:
    """How often each statement stands in a piece of the server's log."""
    found = (_STATEMENT.match(entry) for entry in _ENTRY.split(log))
    return Counter(" ".join(match[1].decode().split()) for match in found if match)


async def asked(server: Server, turns: int) -> None:
    """So many turns, one after the other."""
    for _ in range(turns):
        tab = await open_tab(question(script(tokens=TOKENS)), server.port)
        await tab.ended


async def per_turn(server: Server, folder: Path, turns: int) -> dict[str, float]:
    """Each statement and how often it arrives per turn."""
    log = folder / "postgres" / "server.log"
    await asked(server, 20)
    await log_statements(folder, "all")
    start = log.stat().st_size
    quiet_began = time.monotonic()
    await asyncio.sleep(10)
    quiet_s, middle = time.monotonic() - quiet_began, log.stat().st_size
    began = time.monotonic()
    await asked(server, turns)
    took_s, end = time.monotonic() - began, log.stat().st_size
    await log_statements(folder, "none")
    said = log.read_bytes()
    idle, busy = statements(said[start:middle]), statements(said[middle:end])
    return {one: (count - idle[one] / quiet_s * took_s) / turns for one, count in busy.items()}


def counted(found: dict[str, float]) -> tuple[float, float, float]:
    """Statements per turn, checkpoints per turn, and transaction control and pings per turn."""
    control = sum(count for one, count in found.items() if _CONTROL.match(one))
    checkpoints = sum(count for one, count in found.items() if one.startswith(_CHECKPOINT))
    rest = sum(count for count in found.values() if count > 0)
    return rest - checkpoints - control, checkpoints, control


async def finished(server: Server, seconds: float) -> list[float]:
    """Seconds that each turn took which finished in the time."""
    took: list[float] = []
    end = time.monotonic() + seconds

    async def one_after_the_other() -> None:
        while time.monotonic() < end:
            began = time.monotonic()
            tab = await open_tab(question(script(tokens=TOKENS)), server.port)
            await tab.ended
            if b"event: done" not in tab.body:
                raise BenchFailed(f"a turn did not finish: {tab.body[-300:]!r}")
            if time.monotonic() < end:
                took.append(time.monotonic() - began)

    await asyncio.gather(*(one_after_the_other() for _ in range(AT_ONCE)))
    return took


def measure(*, quick: bool) -> Iterator[Row]:
    """Statements, then turns per second."""
    with upstream() as endpoint, data_folder() as folder, turnstream(endpoint, folder) as server:
        found = asyncio.run(per_turn(server, folder, 30 if quick else 100))
        rest, checkpoints, control = counted(found)
        texts = {one[:80]: round(count, 2) for one, count in sorted(found.items(), key=lambda x: -x[1]) if count > 0.05}
        detail = {
            "checkpoints": round(checkpoints, 2),
            "transaction_control_and_pings": round(control, 2),
            "each": texts,
        }
        yield Row("Statements per turn, beside checkpoints", round(rest, 2), "statements", 8, detail=detail)
        seconds = 5 if quick else 20
        asyncio.run(finished(server, 2))
        before = server.cpu_s
        took = asyncio.run(finished(server, seconds))
        detail = {
            "at_once": AT_ONCE,
            "p50_ms": round(percentile(took, 0.5) * 1000, 1),
            "p99_ms": round(percentile(took, 0.99) * 1000, 1),
            "cpu_ms_per_turn": round((server.cpu_s - before) / len(took) * 1000, 2),
        }
        rate = round(len(took) / seconds, 1)
        yield Row("Finished turns per second, one worker", rate, "turns/s", 50, "at least", detail=detail)


if __name__ == "__main__":
    main(measure, __doc__)
