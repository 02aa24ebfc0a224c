"""turnstream harness run and list: a script's turns, in process, with a bar; and the runs that are kept."""

import asyncio
import signal
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from sqlalchemy import URL

from app.cli.report import report, table_console
from app.errors import AppError, StartError
from app.harness import files, run, sample, script, tables, told
from app.harness.arms import Asker, Parts, askers, contestants
from app.harness.hearing import StreamBroke
from app.harness.meaning import nearest_of
from app.harness.page import page
from app.harness.records import Arm, Plan, Run, TurnSeen
from app.harness.script import Script
from app.logs import configure_logging
from app.process import database_address
from app.settings import Settings, read
from app.store import harness_runs
from app.store.engine import Database
from app.tools import registry

LISTED = 30
INTERRUPTED = 130
"""The exit status of a run that was interrupted, as shells have it."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line asks of a run; `resume` names an interrupted one."""

    script: str
    models: tuple[str, ...]
    prompts: tuple[int, ...]
    base: str
    repeats: int
    at_once: int
    resume: str | None


@dataclass(frozen=True, slots=True)
class Outputs:
    """The files to write, beside what is printed."""

    json: Path | None
    html: Path | None


def run_script(wanted: Wanted, outputs: Outputs) -> int:
    """Run it; the exit status: 0 when every turn meets what is expected, 1 when one doesn't, 2 when it can't be run,
    130 when it was interrupted.
    """
    with report():
        asked = script.load(script.find(wanted.script))
        for path in (outputs.json, outputs.html):
            files.check(path)
        settings = read()
        configure_logging("error")
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as Ctrl-C does: in order, and resumable
        try:
            with database_address(settings) as url:
                done = asyncio.run(_run(settings, url, asked, wanted))
        except KeyboardInterrupt:
            return INTERRUPTED
        _write(done, outputs)
    console = table_console()
    console.print(tables.turns(done))
    console.print(tables.arms(done))
    console.print(told.outcome(done), highlight=False)
    console.print(f"Kept as run {done.id}.", highlight=False)
    return 1 if any(turn.unmet for turn in done.turns) else 0


def list_runs() -> int:
    """Print the stored runs, newest first."""
    with report():
        settings = read()
        configure_logging("error")
        with database_address(settings) as url:
            found = asyncio.run(_newest(settings, url))
    if not found:
        table_console().print(
            f"No run is kept yet. There are the scripts {', '.join(script.shipped())}.", highlight=False
        )
        return 0
    table_console().print(tables.runs(found))
    return 0


async def _run(settings: Settings, url: URL, asked: Script, wanted: Wanted) -> Run:
    database = Database(url, pooler=settings.database_pooler)
    field = contestants(settings, wanted.models, wanted.prompts)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    try:
        with Progress(*columns, console=Console(stderr=True)) as progress:
            base = await _base(database, wanted.base, progress)
            parts = Parts(base, registry.load(settings.tools), settings.embedding_model)
            plan = run.plan_of(asked, parts, arms=[c.arm for c in field], repeats=wanted.repeats)
            if wanted.resume is None:
                begun = await run.begin(database, plan)
            else:
                begun = await run.go_on(database, wanted.resume, plan)
            with _resumable(begun.id, progress.console):
                async with (
                    nearest_of(settings, database, base.id) as nearest,
                    askers(settings, database, parts, field, nearest=nearest) as by_arm,
                ):
                    performer = _performer(database, by_arm, parts, _bar(progress, begun))
                    done = await performer.perform(begun, run.left_to_do(begun, asked), at_once=wanted.at_once)
            return await run.finish(database, done, asked)
    finally:
        await database.aclose()


async def _base(database: Database, name: str, progress: Progress) -> sample.BaseReady:
    """The base to ask; how far the sample is in is shown where it must be taken in."""
    reading = progress.add_task("reading the sample", total=None, visible=False)
    try:
        return await sample.ready(
            database,
            name,
            on_file=lambda done, total: progress.update(reading, completed=done, total=total, visible=True),
        )
    finally:
        progress.remove_task(reading)


def _bar(progress: Progress, begun: Run) -> Callable[[TurnSeen], None]:
    """What moves the run's bar by a turn."""
    plan = begun.plan
    total = plan.turns * plan.repeats * len(plan.arms)
    bar = progress.add_task(plan.script, total=total, completed=len(begun.turns))
    return lambda turn: progress.update(bar, advance=1, description=f"{plan.script}: {turn.conversation}")


def _performer(
    database: Database, by_arm: Mapping[Arm, Asker], parts: Parts, on_turn: Callable[[TurnSeen], None]
) -> run.Runner:
    terminals = frozenset(name for name in parts.registry.names() if parts.registry.is_terminal(name))
    return run.Runner(database, by_arm, terminals=terminals, on_turn=on_turn)


@contextmanager
def _resumable(run_id: str, console: Console) -> Generator[None, None, None]:
    """Says how to go on with a run that is ended early, by a person or by a fault."""
    try:
        yield
    except (AppError, StreamBroke) as error:
        raise StartError(f"{error}; go on with --resume {run_id}") from error
    except asyncio.CancelledError:
        console.print(f"Interrupted; go on with --resume {run_id}", highlight=False)
        raise


async def _newest(settings: Settings, url: URL) -> list[tuple[harness_runs.RunRecord, Plan]]:
    database = Database(url, pooler=settings.database_pooler)
    try:
        found = await harness_runs.newest(database, limit=LISTED)
    finally:
        await database.aclose()
    return [(record, msgspec.json.decode(record.plan, type=Plan)) for record in found]


def _write(done: Run, outputs: Outputs) -> None:
    if outputs.json is not None:
        files.write(outputs.json, files.as_json(done))
    if outputs.html is not None:
        files.write(outputs.html, page(done).encode())
