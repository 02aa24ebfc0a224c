"""Rows of facts into a base: entities found or made, quotes found in their documents, each fact recorded once.

Decides what a row that came before does: nothing. A file that is imported again doesn't bring back a fact that a
person corrected or rejected either; only a person's own word does (`again`). A batch of rows is one transaction; bad
rows are told with their line, and the good ones around them go in.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from threading import Lock

from app.knowledge.fact_rows import FactRow, ReadRow, read_rows
from app.knowledge.names import AmbiguousName, Mention, Names
from app.store import audit, entities, evidence, facts
from app.store.audit import Action, Line
from app.store.engine import Database
from app.store.facts import Claim, FactOrigin, KnownFact, NewFact, Validity
from app.store.graph_write import GraphWrite, writing
from app.store.ids import is_id, new_id

BATCH = 500
"""Rows per transaction."""

MAX_FAILED = 1_000
"""So many failed rows are kept with their reasons; `ImportReport.failed_count` counts them all."""


class SelfReference(ValueError):
    """A fact would say something about an entity and itself."""


@dataclass(frozen=True, slots=True)
class FailedRow:
    """A row that did not go in: its line, from 1, and a sentence."""

    line: int
    error: str


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What became of rows: `added` facts, those `known` before, and rows that failed.

    `rejected` counts facts that a row ended the belief in. `without_evidence` are added facts whose quote was found
    in no passage, `evidence_found` known facts that had lost their passage and have one again.
    """

    added: int = 0
    known: int = 0
    rejected: int = 0
    without_evidence: int = 0
    evidence_found: int = 0
    failed_count: int = 0
    failed: tuple[FailedRow, ...] = ()

    @property
    def rows(self) -> int:
        """All rows that were read."""
        return self.added + self.known + self.rejected + self.failed_count

    def __add__(self, other: "ImportReport") -> "ImportReport":
        return ImportReport(
            added=self.added + other.added,
            known=self.known + other.known,
            rejected=self.rejected + other.rejected,
            without_evidence=self.without_evidence + other.without_evidence,
            evidence_found=self.evidence_found + other.evidence_found,
            failed_count=self.failed_count + other.failed_count,
            failed=(self.failed + other.failed)[:MAX_FAILED],
        )


@dataclass(frozen=True, slots=True)
class Recorded:
    """What rows became: the report, and the id of the fact of each good row by its line."""

    report: ImportReport
    fact_ids: dict[int, str]


def facts_files(paths: Iterable[Path]) -> list[Path]:
    """The files of facts that belong to folders of documents: facts.jsonl and *.facts.jsonl below them. Blocking."""
    folders = (path for path in paths if path.is_dir())
    found = (file for folder in folders for file in folder.rglob("*facts.jsonl"))
    return sorted(file for file in found if file.name == "facts.jsonl" or file.name.endswith(".facts.jsonl"))


async def import_file(
    database: Database, base_id: str, path: Path, *, on_batch: Callable[[ImportReport, int], None] | None = None
) -> ImportReport:
    """Takes a .jsonl or .csv file of facts in. `on_batch` is told the report so far and the last line it covers.

    Raises:
        FactFileError: it is no file of facts at all; nothing was written.
        AppError: NOT_FOUND for the base.
        OSError: the file can't be read.
    """
    report = ImportReport()
    with closing(_Batches(path)) as batches:
        while rows := await asyncio.to_thread(batches.next):
            report += await import_rows(database, base_id, rows, origin="import")
            if on_batch is not None:
                on_batch(report, rows[-1].line)
    return report


async def import_rows(
    database: Database,
    base_id: str,
    rows: Sequence[ReadRow],
    *,
    origin: FactOrigin,
    again: bool = False,
    by: str = audit.LOCAL,
) -> ImportReport:
    """Takes rows in, BATCH of them in a transaction. With `again`, a fact that was closed is recorded anew.

    Raises:
        AppError: NOT_FOUND for the base.
    """
    report = ImportReport()
    for start in range(0, len(rows), BATCH):
        async with writing(database, base_id, by=by) as graph:
            recorded = await record(graph, rows[start : start + BATCH], origin=origin, again=again)
        report += recorded.report
    return report


async def record(graph: GraphWrite, rows: Sequence[ReadRow], *, origin: FactOrigin, again: bool) -> Recorded:
    """`import_rows` inside the caller's transaction."""
    batch = _Batch(origin, again=again)
    await batch.resolve(graph, rows)
    await batch.write(graph)
    return batch.recorded()


class _Batches:
    """The rows of a file in pieces, read in threads. Closing waits for a reading that was given up."""

    def __init__(self, path: Path) -> None:
        self._rows = read_rows(path)
        self._reading = Lock()

    def next(self) -> list[ReadRow]:
        with self._reading:
            return list(islice(self._rows, BATCH))

    def close(self) -> None:
        with self._reading:
            self._rows.close()


@dataclass(frozen=True, slots=True)
class _Resolved:
    """A good row, with its entities known."""

    line: int
    row: FactRow
    claim: Claim


class _Batch:
    """Rows on their way through one transaction."""

    def __init__(self, origin: FactOrigin, *, again: bool) -> None:
        self._origin: FactOrigin = origin
        self._again = again
        self._resolved: list[_Resolved] = []
        self._failed: list[FailedRow] = []
        self._fact_ids: dict[int, str] = {}
        self._new: dict[str, NewFact] = {}
        self._rejected: dict[str, None] = {}
        self._known_rows = 0
        self._again_found: dict[str, tuple[str, str]] = {}
        self._renewed = 0

    async def resolve(self, graph: GraphWrite, rows: Sequence[ReadRow]) -> None:
        """Finds and makes the entities, row by row."""
        mentions = [mention for row in rows if isinstance(row.row, FactRow) for mention in mentions_of(row.row)]
        names = Names(await entities.named(graph, {mention.key for mention in mentions}))
        for read in rows:
            if isinstance(read.row, str):
                self._failed.append(FailedRow(read.line, read.row))
                continue
            try:
                self._resolved.append(_Resolved(read.line, read.row, claim_of(read.row, names)))
            except (AmbiguousName, SelfReference) as error:
                self._failed.append(FailedRow(read.line, str(error)))
        await entities.save(graph, names.changed.values())

    async def write(self, graph: GraphWrite) -> None:
        """Records what is new."""
        passages = await _find_evidence(graph, [one.row for one in self._resolved])
        known = await facts.known(graph, [one.claim for one in self._resolved])
        for one, chunk_id in zip(self._resolved, passages, strict=True):
            self._decide(one, chunk_id, known)
        await facts.close(graph, self._rejected, status="rejected")
        rejected = [Line(graph.by, Action.FACT_REJECTED, graph.base_id, fact_id) for fact_id in self._rejected]
        await audit.write(graph.connection, rejected)
        await facts.add(graph, list(self._new.values()))
        self._renewed = await evidence.renew(graph, self._again_found)

    def recorded(self) -> Recorded:
        """What became of the rows."""
        report = ImportReport(
            added=len(self._new),
            known=self._known_rows,
            rejected=len(self._rejected),
            without_evidence=sum(fact.chunk_id is None for fact in self._new.values()),
            evidence_found=self._renewed,
            failed_count=len(self._failed),
            failed=tuple(self._failed[:MAX_FAILED]),
        )
        return Recorded(report, self._fact_ids)

    def _decide(self, one: _Resolved, chunk_id: str | None, known: dict[str, KnownFact]) -> None:
        """What a row does. `known` is kept up to date, so that a later row of the batch sees it."""
        key, row = one.claim.fact_key, one.row
        before = known.get(key)
        believed = before is not None and before.live
        if before is None or (not believed and self._again and row.status == "asserted"):
            fact = NewFact(
                id=new_id(),
                claim=one.claim,
                confidence=row.confidence,
                chunk_id=chunk_id,
                quote=row.quote or "",
                origin=self._origin,
                status=row.status,
            )
            self._new[fact.id] = fact
            known[key] = KnownFact(fact.id, live=row.status == "asserted")
        elif believed and row.status == "rejected":
            self._reject(before)
            known[key] = KnownFact(before.id, live=False)
        else:
            self._known_rows += 1
            if believed and chunk_id is not None:
                self._again_found[before.id] = (chunk_id, row.quote or "")
        self._fact_ids[one.line] = known[key].id

    def _reject(self, fact: KnownFact) -> None:
        if fact.id in self._new:
            self._new[fact.id] = replace(self._new[fact.id], status="rejected")
        else:
            self._rejected[fact.id] = None


def claim_of(row: FactRow, names: Names) -> Claim:
    """What a row says, with its entities found or made.

    Raises:
        AmbiguousName: a name may mean several entities.
        SelfReference: subject and object are the same entity.
    """
    mentions = mentions_of(row)
    found = [names.match(mention) for mention in mentions]  # both, before anything is made for a row that fails
    subject, *others = mentions
    if others and (_same(subject, others[0]) or (found[0] is not None and found[0] == found[1])):
        raise SelfReference("subject and object are the same entity")
    taken = [names.take(mention) for mention in mentions]
    start, start_precision = row.start
    end, end_precision = row.end
    return Claim(
        subject_id=taken[0].id,
        predicate=row.predicate,
        object_id=taken[1].id if others else None,
        value=row.value,
        validity=Validity(start, start_precision, end, end_precision),
    )


def mentions_of(row: FactRow) -> tuple[Mention, ...]:
    """The subject, and the object where it is an entity."""
    subject = Mention(row.subject, row.subject_type, row.subject_disambiguator, row.subject_aliases)
    if row.object_ is None:
        return (subject,)
    return subject, Mention(row.object_, row.object_type, row.object_disambiguator, row.object_aliases)


def _same(one: Mention, other: Mention) -> bool:
    return (
        one.key == other.key
        and (one.type == other.type or None in (one.type, other.type))
        and one.disambiguator == other.disambiguator
    )


async def _find_evidence(graph: GraphWrite, rows: Sequence[FactRow]) -> list[str | None]:
    """The passage that each row's quote stands in. A passage that is named by its id needs no quote."""
    found: list[str | None] = [None] * len(rows)
    asked: dict[int, tuple[str, str]] = {}
    for n, row in enumerate(rows):
        if row.evidence is not None and (row.quote or is_id(row.evidence)):
            asked[n] = (row.evidence.lower() if is_id(row.evidence) else row.evidence, row.quote or "")
    chunk_ids = [named for named, _ in asked.values() if is_id(named)]
    located = await evidence.locate(graph, list(asked.values()), chunk_ids=chunk_ids)
    for n, chunk_id in zip(asked, located, strict=True):
        found[n] = chunk_id
    return found
