"""Many files at once: folders walked, a bounded number under way, a result per file as it is settled."""

import asyncio
import os
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from app.knowledge.ingest import Ingest
from app.knowledge.parse import SUFFIXES
from app.store.documents import DocumentRecord

IN_FLIGHT = 16
"""Files submitted and not yet settled."""

Outcome = Literal["new", "changed", "known", "failed"]


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to take in, and its name in the base: the path below the folder that was given."""

    path: Path
    name: str


@dataclass(frozen=True, slots=True)
class FileResult:
    """What became of a file. `error` is a sentence where it failed; `document` is None where nothing was stored.

    known: the base holds this content already. changed: a new version of a name it holds.
    """

    path: Path
    outcome: Outcome
    document: DocumentRecord | None
    error: str | None


def list_files(paths: Iterable[Path]) -> list[SourceFile]:
    """The files the paths stand for, each once, in order of their names.

    Folders give every readable file below them, without hidden ones and without following links; a file
    that is named itself is always taken. Blocking.
    """
    found: dict[Path, SourceFile] = {}
    for path in paths:
        for file in _below(path) if path.is_dir() else [SourceFile(path, path.name)]:
            found.setdefault(file.path.resolve(), file)
    return list(found.values())


async def ingest_paths(ingest: Ingest, base_id: str, paths: Sequence[Path]) -> AsyncGenerator[FileResult, None]:
    """`ingest_files` for files and folders."""
    files = await asyncio.to_thread(list_files, paths)
    results = ingest_files(ingest, base_id, files)
    try:
        async for result in results:
            yield result
    finally:
        await results.aclose()


async def ingest_files(ingest: Ingest, base_id: str, files: Sequence[SourceFile]) -> AsyncGenerator[FileResult, None]:
    """Takes the files in and yields what became of each, in the order in which they are settled.

    `ingest` must be running, here or in a process that shares the database. Closing the iterator leaves what
    was submitted to the worker.
    """
    waiting = iter(files)
    tasks: set[asyncio.Task[FileResult]] = set()
    try:
        while True:
            while len(tasks) < IN_FLIGHT and (file := next(waiting, None)) is not None:
                tasks.add(asyncio.create_task(_one(ingest, base_id, file), name=f"ingest {file.name}"))
            if not tasks:
                return
            done, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                yield task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _one(ingest: Ingest, base_id: str, file: SourceFile) -> FileResult:
    try:
        submitted = await ingest.submit(base_id, file.name, file.path)
    except OSError as error:
        return FileResult(file.path, "failed", None, f"The file can't be read: {error.strerror or error}.")
    settled = await ingest.wait(submitted.id)
    if settled is None:
        return FileResult(file.path, "failed", None, "The document was deleted before it was read.")
    if settled.status == "failed":
        return FileResult(file.path, "failed", settled, settled.error)
    if submitted.status == "ready":
        return FileResult(file.path, "known", settled, None)
    return FileResult(file.path, "new" if settled.version == 1 else "changed", settled, None)


def _below(folder: Path) -> Iterator[SourceFile]:
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(where, name)
            if not name.startswith(".") and path.suffix.lower() in SUFFIXES and not path.is_symlink():
                yield SourceFile(path, path.relative_to(folder).as_posix())
