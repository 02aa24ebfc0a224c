"""turnstream facts import: rows of facts into a base, with a bar, and a sentence for each that failed."""

import asyncio
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from sqlalchemy import URL

from app.cli.report import report
from app.errors import AppError, StartError
from app.knowledge.fact_rows import FactFileError, count_lines
from app.knowledge.facts_import import ImportReport, import_file
from app.logs import configure_logging
from app.process import database_address
from app.settings import Settings, read
from app.store import bases
from app.store.engine import Database


def run(path: Path, base: str) -> int:
    """Take the facts in; the exit status: 0 when all rows went in, 1 when one failed, 2 when nothing could begin."""
    with report():
        settings = read()
        configure_logging("error")
        with database_address(settings) as url:
            return asyncio.run(_import(settings, url, path, base))


async def _import(settings: Settings, url: URL, path: Path, base: str) -> int:
    console = Console(stderr=True)
    database = Database(url, pooler=settings.database_pooler)
    try:
        base_id = await bases.find_id(database, base)
        if base_id is None:
            raise StartError(f"there is no base named {base!r}")
        try:
            done = await _with_bar(database, base_id, path, console)
        except (FactFileError, AppError) as error:
            raise StartError(str(error)) from error
        except OSError as error:
            raise StartError(f"{path} can't be read: {error.strerror or error}") from error
    finally:
        await database.aclose()
    for failed in done.failed:
        console.print(
            f"{path}:{failed.line}: {failed.error}", style="red", highlight=False, markup=False, soft_wrap=True
        )
    if done.failed_count > len(done.failed):
        console.print(f"… and {done.failed_count - len(done.failed)} more rows that failed.", style="red")
    console.print(_told(done), highlight=False)
    return 1 if done.failed_count else 0


async def _with_bar(database: Database, base_id: str, path: Path, console: Console) -> ImportReport:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    lines = await asyncio.to_thread(count_lines, path)
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("importing", total=lines)
        done = await import_file(database, base_id, path, on_batch=lambda _, line: progress.update(bar, completed=line))
        progress.update(bar, completed=lines)
    return done


def _told(done: ImportReport) -> str:
    told = f"{done.rows} {'row' if done.rows == 1 else 'rows'}: {done.added} added, {done.known} known"
    if done.rejected:
        told += f", {done.rejected} rejected"
    if done.failed_count:
        told += f", {done.failed_count} failed"
    if done.without_evidence:
        told += f"; {done.without_evidence} without evidence"
    if done.evidence_found:
        told += f"; evidence found again for {done.evidence_found}"
    return f"{told}."
