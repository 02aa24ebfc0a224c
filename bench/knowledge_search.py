"""Taking in 20,000 passages and searching them: rate, latency, and whether two-character words are found.

    python -m bench.knowledge_search [passages]

Half English sentences of Python's own help topics, half Chinese made of 20,000 words by frequency; 200 words that
occur nowhere else are planted in some documents each. A throw-away embedded Postgres, one process.
"""

import asyncio
import itertools
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from pydoc_data.topics import topics

from sqlalchemy import URL

from app.knowledge.ingest import Ingest, IngestLimits
from app.knowledge.read import ReadDocument, read
from app.knowledge.search import search
from app.store import bases, migrate
from app.store.embedded import EmbeddedConfig, EmbeddedPostgres
from app.store.engine import Database

PLANTED = 200
CHARS_PER_PASSAGE = 800
DOCUMENT_CHARS = 10_000

random.seed(20_000)
HAN = [bytes((high, low)).decode("gb2312") for high in range(0xB0, 0xD7) for low in range(0xA1, 0xFE)]
PLANTED_HAN, WORD_HAN = HAN[: 2 * PLANTED], HAN[2 * PLANTED :]
WORDS = ["".join(random.choices(WORD_HAN, k=random.choice((1, 2, 2, 2, 2, 3, 4)))) for _ in range(20_000)]
BY_FREQUENCY = list(itertools.accumulate(1 / (rank + 5) for rank in range(len(WORDS))))
SENTENCES = [s.strip() + "." for text in topics.values() for s in text.split(".") if 30 < len(s) < 300]
NEEDLES = [PLANTED_HAN[2 * n] + PLANTED_HAN[2 * n + 1] for n in range(PLANTED)]


def chinese_sentence() -> str:
    return "".join(random.choices(WORDS, cum_weights=BY_FREQUENCY, k=random.randint(6, 14))) + "。"


def needle_of(n: int) -> str:
    return NEEDLES[n // 2 % PLANTED]


def document(n: int) -> str:
    """A markdown document; the n-th holds the planted word of its turn in one of its paragraphs."""
    out = [f"# Document {n}"]
    size = 0
    while size < DOCUMENT_CHARS:
        english = n % 2 == 0
        some = random.choices(SENTENCES, k=4) if english else [chinese_sentence() for _ in range(12)]
        out.append((" " if english else "").join(some))
        size += len(out[-1])
    out[random.randrange(1, len(out))] += f" 这里提到{needle_of(n)}。"
    return "\n\n".join(out)


def queries() -> Iterator[tuple[str, str]]:
    """(kind, question) as people ask: words, phrases, whole questions."""
    for _ in range(60):
        english, chinese = random.choice(SENTENCES).split(), chinese_sentence()
        yield "en word", random.choice(english)
        yield "en phrase", " ".join(english[:3])
        yield "en question", f"How do I use {' '.join(english[2:5])} with {random.choice(SENTENCES).split()[0]}?"
        yield "zh 2", chinese[2:4]
        yield "zh 6", chinese[:6]
        yield "zh question", f"什么是{chinese[:3]}的{chinese[5:8]}？"
        yield "mixed", f"{chinese[:4]} {english[1]} {english[2]}"


async def measure(database: Database, passages: int) -> None:
    base = await bases.ensure_default(database)
    texts = [document(n).encode() for n in range(passages * CHARS_PER_PASSAGE // DOCUMENT_CHARS)]
    start = time.perf_counter()
    sample = [read(text, name="a.md") for text in texts[:100]]
    chunks = sum(len(one.chunks) for one in sample if isinstance(one, ReadDocument))
    print(f"reading alone (parse, cut, segment): {chunks / (time.perf_counter() - start):,.0f} passages/s")
    ingest = Ingest(database, IngestLimits(concurrency=2))
    start = time.perf_counter()
    async with ingest.running():
        for n, text in enumerate(texts):
            await ingest.submit(base.id, f"d{n}.md", text)
        await ingest.drain()
    took = time.perf_counter() - start
    total = (await bases.ensure_default(database)).chunk_count
    print(f"submitted, read and stored: {total:,} passages in {took:.0f} s, {total / took:,.0f}/s")
    async with database.begin() as connection:
        await connection.exec_driver_sql("ANALYZE")
    await ask(lambda text: found(database, base.id, text))
    held = Counter(needle_of(n) for n in range(len(texts)))
    recalled = [await recall(database, base.id, needle, times) for needle, times in held.items()]
    print(f"planted two-character words: recall@10 {sum(recalled) / len(recalled):.3f}")


async def ask(run: Callable[[str], Awaitable[int]]) -> None:
    asked = list(queries())
    for _, text in asked[:50]:
        await run(text)
    taken: dict[str, list[float]] = {}
    for kind, text in asked:
        start = time.perf_counter()
        await run(text)
        taken.setdefault(kind, []).append((time.perf_counter() - start) * 1_000)
    taken["all"] = list(itertools.chain.from_iterable(taken.values()))
    for kind, times in taken.items():
        ordered = sorted(times)
        print(f"{kind:12} p50 {ordered[len(ordered) // 2]:6.1f} ms   p95 {ordered[int(len(ordered) * 0.95)]:6.1f} ms")


async def found(database: Database, base_id: str, text: str) -> int:
    return len((await search(database, base_id, text)).hits)


async def recall(database: Database, base_id: str, needle: str, held: int) -> float:
    """Which part of the passages that hold the planted word is among the first ten found."""
    hits = (await search(database, base_id, needle, limit=10)).hits
    return sum(needle in hit.chunk.text for hit in hits) / min(held, 10)


def main() -> None:
    passages = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    folder = Path(tempfile.mkdtemp(prefix="turnstream-bench-"))
    server = EmbeddedPostgres.start(EmbeddedConfig(folder))
    try:
        migrate.upgrade(server.url)
        asyncio.run(run(server.url, passages))
    finally:
        server.stop()
        shutil.rmtree(folder)


async def run(url: URL, passages: int) -> None:
    database = Database(url)
    try:
        await measure(database, passages)
    finally:
        await database.aclose()


if __name__ == "__main__":
    main()
