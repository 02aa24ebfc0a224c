"""turnstream harness compare: do two runs differ by more than noise? Two files need neither database nor server."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from app.cli.report import report, table_console
from app.errors import AppError, StartError
from app.harness import files, tables, told
from app.harness.compare import Contender, chosen, compare
from app.harness.records import Run
from app.settings import read
from app.store.engine import Database
from app.store.ids import is_id


def run(first: str, second: str) -> int:
    """Print how the two differ; the exit status is 0 whatever came out, 2 when they can't be compared."""
    with report():
        a, b = _sides((first, second))
        found = compare(a, b)
    console = table_console()
    console.print(tables.comparison(found))
    counted = f"{found.pairs} pairs of turns in {found.conversations} conversations of {found.script}"
    console.print(f"{counted}; {found.unpaired} turns stand on one side only.", highlight=False)
    for note in found.notes:
        console.print(note, style="yellow", highlight=False, markup=False)
    console.print(told.conclusion(found), highlight=False, markup=False)
    return 0


def _sides(names: Sequence[str]) -> list[Contender]:
    """The two sides; the database is asked only where a name is no file."""
    split = [name.partition("#")[::2] for name in names]
    paths = {what: files.read(Path(what)) for what, _ in split if Path(what).is_file()}
    missing = [what for what, _ in split if what not in paths]
    for what in missing:
        if not is_id(what):
            raise StartError(f"{what} is neither a file nor a run's id; `turnstream harness list` names the runs")
    if missing:
        paths |= _stored(missing)
    return [chosen(paths[what], what, label or None) for what, label in split]


def _stored(run_ids: Sequence[str]) -> dict[str, Run]:
    """The runs that are kept under these ids."""
    from app.harness import run  # the server's parts, which two files can do without
    from app.logs import configure_logging
    from app.process import database_address

    settings = read()
    configure_logging("error")
    with database_address(settings) as url:
        database = Database(url, pooler=settings.database_pooler)

        async def load() -> dict[str, Run]:
            try:
                return {run_id: await run.load(database, run_id) for run_id in run_ids}
            finally:
                await database.aclose()

        try:
            return asyncio.run(load())
        except AppError as error:
            raise StartError(str(error)) from error
