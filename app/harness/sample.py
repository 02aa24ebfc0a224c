"""The base that a run asks: found, and where it is empty filled with the sample that the scripts are about."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from app.errors import StartError
from app.knowledge.bulk import ingest_files, list_files
from app.knowledge.facts_import import facts_files, import_file
from app.knowledge.ingest import Ingest, IngestLimits
from app.store import bases, harness_runs
from app.store.engine import Database
from app.store.harness_runs import BaseContents

SAMPLE_BASE = "sample"
"""What the harness asks unless told otherwise: a base of its own, so that nobody else's documents change the result."""


@dataclass(frozen=True, slots=True)
class BaseReady:
    """The base, ready to be asked. `loaded` is how many documents were taken in just now."""

    name: str
    id: str
    contents: BaseContents
    loaded: int


def sample_folder() -> Path:
    """sample/: inside the installed package in a wheel, beside it in the source tree."""
    package = Path(__file__).resolve().parents[1]
    shipped = package / "_shipped" / "sample"
    return shipped if shipped.is_dir() else package.parent / "sample"


async def ready(database: Database, name: str, *, on_file: Callable[[int, int], None]) -> BaseReady:
    """The base of that name; `sample` is made where it is missing, and an empty base gets the sample.

    `on_file` is told how many files of how many are in. Taking in what is there already changes nothing, so a load of
    `sample` that was interrupted, or an older version's sample, is made whole.

    Raises:
        StartError: there is no base of that name, or the sample could not be taken in.
    """
    if name == SAMPLE_BASE:
        await bases.create(database, name, description="The documents and facts that come with turnstream.")
    base_id = await bases.find_id(database, name)
    if base_id is None:
        raise StartError(f"there is no base named {name!r}; allowed is one that is there, or {SAMPLE_BASE}")
    before = await harness_runs.contents(database, base_id)
    loaded = 0
    if before.documents == 0 or name == SAMPLE_BASE:
        loaded = await _load(database, base_id, on_file)
    return BaseReady(name, base_id, await harness_runs.contents(database, base_id), loaded)


async def _load(database: Database, base_id: str, on_file: Callable[[int, int], None]) -> int:
    folder = sample_folder()
    files = list_files([folder])
    ingest = Ingest(database, IngestLimits())
    loaded = done = 0
    async with ingest.running():
        async for result in ingest_files(ingest, base_id, files):
            if result.error is not None:
                raise StartError(f"the sample can't be taken in: {result.path.name}: {result.error}")
            done += 1
            loaded += result.outcome != "known"
            on_file(done, len(files))
    facts = (await harness_runs.contents(database, base_id)).facts
    if loaded or not facts:
        for path in facts_files([folder]):
            report = await import_file(database, base_id, path)
            if report.failed_count:
                raise StartError(f"the sample can't be taken in: {path.name}: {report.failed[0].error}")
    return loaded
