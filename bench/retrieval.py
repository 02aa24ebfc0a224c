"""How well, how fast and how much: the gold set over sample/, then a large base taken in and searched. Prints JSON.

    python -m bench.retrieval [--chunks 100000] [--searches 420] [--vectors 0]

The large base is half English, half Chinese made of 20,000 words by frequency (bench/knowledge_search.py makes it).
Rates are chunks per second from submit to searchable; CPU is of this process and of the database's, per chunk, so that
a busy machine shows. `--vectors N` also fills in random vectors of N numbers and measures the search with them. A
throw-away embedded Postgres.
"""

import argparse
import asyncio
import json
import logging
import os
import random
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import structlog
from sqlalchemy import URL

from app.knowledge.backfill import Backfill, BackfillLimits
from app.knowledge.bulk import ingest_paths
from app.knowledge.embedder import TextKind
from app.knowledge.ingest import Ingest
from app.knowledge.nearest import Nearest
from app.knowledge.search import search
from app.store import bases, migrate
from app.store.chunks import ChunkRecord
from app.store.embedded import EmbeddedConfig, EmbeddedPostgres
from app.store.engine import Database
from bench import gold, knowledge_search

TICKS = os.sysconf("SC_CLK_TCK")
Report = dict[str, Any]


class RandomVectors:
    """An embedder that costs nothing: vectors around 200 centres, by the text's hash."""

    def __init__(self, dimensions: int) -> None:
        made = random.Random(1)
        self._made = made
        self._centres = [[made.gauss(0, 1) for _ in range(dimensions)] for _ in range(200)]

    @property
    def model(self) -> str:
        return "random"

    def for_model(self, model: str) -> "RandomVectors":
        """There is only one."""
        del model
        return self

    async def embed(self, texts: list[str], *, kind: TextKind) -> list[list[float]]:
        """A vector near a random centre for each text."""
        del kind
        return [[x + self._made.gauss(0, 0.5) for x in self._made.choice(self._centres)] for _ in texts]


async def quality(database: Database) -> Report:
    """Recall and MRR on the gold set, full text alone."""
    base_id = (await bases.ensure_default(database)).id
    ingest = Ingest(database)
    async with ingest.running():
        failed = [result.error async for result in ingest_paths(ingest, base_id, [gold.SAMPLE]) if result.error]
    if failed:
        raise RuntimeError(f"the sample could not be read: {failed}")

    async def find(question: str) -> list[ChunkRecord]:
        return [hit.chunk for hit in (await search(database, base_id, question, limit=gold.DEPTH)).hits]

    found = await gold.places(find)
    return {name: asdict(part) for name, part in gold.parts(found).items()} | {
        "not_found": [one.question.id for one in found if one.place is None]
    }


async def take_in(database: Database, base_id: str, chunks: int, postgres: Callable[[], float]) -> Report:
    """Documents made, submitted, read and stored."""
    count = chunks * knowledge_search.CHARS_PER_PASSAGE // knowledge_search.DOCUMENT_CHARS
    texts = [knowledge_search.document(n).encode() for n in range(count)]
    ingest = Ingest(database)
    begun, own, theirs = time.perf_counter(), time.process_time(), postgres()
    async with ingest.running():
        for n, content in enumerate(texts):
            await ingest.submit(base_id, f"d{n}.md", content)
        await ingest.drain()
    took = time.perf_counter() - begun
    stored = await bases.get(database, "large")
    total = stored.chunk_count if stored is not None else 0
    return {
        "chunks": total,
        "seconds": round(took, 1),
        "chunks_per_s": round(total / took),
        "cpu_ms_per_chunk": {
            "reading": round((time.process_time() - own) / total * 1e3, 2),
            "postgres": round((postgres() - theirs) / total * 1e3, 2),
        },
        "load_average": os.getloadavg()[0],
    }


async def latency(run: Callable[[str], Awaitable[object]], count: int) -> Report:
    """Percentiles in ms over questions of every kind, after a warm-up."""
    asked = list(knowledge_search.queries())[:count]
    for _, question in asked[:40]:
        await run(question)
    times: dict[str, list[float]] = {"all": []}
    for kind, question in asked:
        begun = time.perf_counter()
        await run(question)
        took = (time.perf_counter() - begun) * 1e3
        times["all"].append(took)
        times.setdefault(kind, []).append(took)
    return {kind: percentiles(taken) for kind, taken in times.items()} | {"load_average": os.getloadavg()[0]}


def percentiles(taken: list[float]) -> dict[str, float]:
    """p50 and p95."""
    ordered = sorted(taken)
    return {
        "p50": round(ordered[len(ordered) // 2], 1),
        "p95": round(ordered[min(int(len(ordered) * 0.95), len(ordered) - 1)], 1),
    }


def cpu_of_postgres(data_dir: Path) -> Callable[[], float]:
    """Seconds of CPU that the server below this folder has used, with its processes that ended."""

    def used() -> float:
        pid = (data_dir / "postgres" / "data" / "postmaster.pid").read_text().split()[0]
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        fields = [Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split() for one in (pid, *children)]
        own = sum(int(stat[11]) + int(stat[12]) for stat in fields)
        return (own + int(fields[0][13]) + int(fields[0][14])) / TICKS

    return used


async def measure(url: URL, data_dir: Path, asked: argparse.Namespace) -> Report:
    """Everything, one after the other."""
    database = Database(url)
    report: Report = {}
    try:
        report["gold"] = await quality(database)
        if asked.chunks:
            base = await bases.create(database, "large")
            if base is None:
                raise RuntimeError("the base is there already")
            base_id = base.id
            report["ingest"] = await take_in(database, base_id, asked.chunks, cpu_of_postgres(data_dir))
            async with database.begin() as connection:
                await connection.exec_driver_sql("ANALYZE")
            report["search_ms"] = [
                await latency(lambda question: search(database, base_id, question), asked.searches) for _ in range(2)
            ]
            if asked.vectors:
                report["hybrid_ms"] = await hybrid(database, base_id, asked)
    finally:
        await database.aclose()
    return report


async def hybrid(database: Database, base_id: str, asked: argparse.Namespace) -> Report:
    """The search with vectors, which cost nothing to have here."""
    vectors = RandomVectors(asked.vectors)
    begun = time.perf_counter()
    await Backfill(database, vectors, BackfillLimits(batch=500)).fill()
    filled_s = time.perf_counter() - begun
    nearest = Nearest(database, vectors)
    found = await latency(lambda question: search(database, base_id, question, nearest=nearest), asked.searches)
    return {"filled_and_indexed_s": round(filled_s, 1)} | found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--searches", type=int, default=420)
    parser.add_argument("--vectors", type=int, default=0)
    asked = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    folder = Path(tempfile.mkdtemp(prefix="turnstream-bench-"))
    server = EmbeddedPostgres.start(EmbeddedConfig(folder))
    try:
        migrate.upgrade(server.url)
        print(json.dumps(asyncio.run(measure(server.url, folder, asked)), indent=1))
    finally:
        server.stop()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
