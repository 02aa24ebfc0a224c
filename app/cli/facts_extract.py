"""turnstream facts extract: have the configured model read a base's passages, with a bar, until all are read.

The work is done here and, where one runs on the same database, by the server too. Ended early, it is started again
with the same command; a running server goes on without it.
"""

import asyncio

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from sqlalchemy import URL

from app.cli.report import report
from app.errors import AppError
from app.knowledge.jobs import ExtractionJobs
from app.logs import configure_logging
from app.parts import build_extraction, build_model
from app.process import database_address
from app.settings import Settings, read
from app.store import bases, jobs
from app.store.engine import Database

_LOOK_S = 0.2


def run(base: str) -> int:
    """Read the base; the exit status: 0 when all was read, 1 when one was given up, 2 when nothing could begin."""
    with report():
        settings = read()
        configure_logging("error")
        with database_address(settings) as url:
            return asyncio.run(_extract(settings, url, base))


async def _extract(settings: Settings, url: URL, base: str) -> int:
    console = Console(stderr=True)
    database = Database(url, pooler=settings.database_pooler)
    model = build_model(settings)
    try:
        base_id = await bases.find_id(database, base)
        if base_id is None:
            console.print(f"There is no base named {base!r}.", style="red", highlight=False)
            return 2
        extraction = build_extraction(settings, database, url, model)
        try:
            async with extraction.running():
                await extraction.start(base_id)
                end = await _watch(extraction, base_id, console)
        except AppError as refusal:
            console.print(refusal.message, style="red", highlight=False, markup=False)
            return 2
    finally:
        await model.aclose()
        await database.aclose()
    for kind in end.failures:
        told = f"{kind.chunks} passages given up ({kind.code}): {kind.message}"
        console.print(told, style="red", highlight=False, markup=False)
    told = f"{end.done} of {end.total} passages read: {end.proposed} facts proposed, {end.dropped} rows dropped."
    console.print(told, highlight=False)
    return 1 if end.failed else 0


async def _watch(extraction: ExtractionJobs, base_id: str, console: Console) -> jobs.Progress:
    """Show how far it is until nothing waits or works; how it ended."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("reading", total=None)
        while True:
            now = await extraction.progress(base_id)
            told = f"reading, {now.proposed} proposed, {now.dropped} dropped, {now.failed} failed"
            progress.update(bar, total=now.total, completed=now.done + now.failed, description=told)
            if not now.running:
                return now
            await asyncio.sleep(_LOOK_S)
