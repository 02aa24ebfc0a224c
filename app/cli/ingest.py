"""turnstream ingest: files and folders into a base, with a bar, and a sentence for each that failed."""

import asyncio
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from sqlalchemy import URL

from app.cli.report import report
from app.knowledge.bulk import FileResult, ingest_files, list_files
from app.knowledge.ingest import Ingest, IngestLimits
from app.logs import configure_logging
from app.process import database_address
from app.settings import Settings, read
from app.store import bases
from app.store.engine import Database


def run(paths: tuple[Path, ...], base: str) -> int:
    """Take the files in; the exit status: 0 when all went in, 1 when one failed, 2 when nothing could begin."""
    with report():
        settings = read()
        configure_logging("error")
        with database_address(settings) as url:
            return asyncio.run(_ingest(settings, url, paths, base))


async def _ingest(settings: Settings, url: URL, paths: tuple[Path, ...], base: str) -> int:
    console = Console(stderr=True)
    database = Database(url, pooler=settings.database_pooler)
    try:
        base_id = await bases.find_id(database, base)
        if base_id is None:
            console.print(f"There is no base named {base!r}.", style="red", highlight=False)
            return 2
        files = list_files(paths)
        if not files:
            console.print("There is nothing to read there.", style="red")
            return 2
        ingest = Ingest(database, IngestLimits(max_bytes=settings.max_upload_bytes))
        failed: list[FileResult] = []
        counts = Counter[str]()
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        async with ingest.running():
            with Progress(*columns, console=console) as progress:
                bar = progress.add_task("reading", total=len(files))
                async for result in ingest_files(ingest, base_id, files):
                    counts[result.outcome] += 1
                    progress.advance(bar)
                    if result.error is not None:
                        failed.append(result)
    finally:
        await database.aclose()
    for result in failed:
        console.print(f"{result.path}: {result.error}", style="red", highlight=False, markup=False, soft_wrap=True)
    told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    console.print(f"{len(files)} files: {told}.", highlight=False)
    return 1 if failed else 0
