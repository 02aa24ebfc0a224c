"""Taking files in: what is refused at once, what waits, and the worker that reads what waits.

Decides how many files are read at a time, how often a file may end its reader, and what a person is told.
`submit` returns as soon as the bytes are safe in the database; `running` owns the worker. A crash loses
nothing: what waited still waits, what was being read is read again once its lease has run out.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

import structlog

from app.errors import AppError, RefusalCode
from app.knowledge.blocks import FailureReason
from app.knowledge.parse import MEDIA_TYPES, SUFFIXES, kind_of
from app.knowledge.read import ReadDocument, ReadFailure, vector
from app.knowledge.reader import ReaderDied, ReaderLimits, read_file
from app.knowledge.segment import SEGMENTER_VERSION
from app.knowledge.source import Source, file_name, measure, pieces
from app.store import audit, chunks, documents, reading
from app.store.chunks import NewChunk
from app.store.documents import DocumentRecord, Failure, NewDocument
from app.store.engine import Database, StoreUnavailable
from app.store.reading import Claim, Content
from app.text import clean, cut

_REINDEX_BATCH = 200
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class IngestLimits:
    """`max_bytes` per file; `concurrency` readings at a time; a reading is renewed within `lease_s`.

    `poll_s` is how long what another process left may wait. A file that ends its reader `attempts` times has
    failed.
    """

    max_bytes: int = 50 * 1024 * 1024
    concurrency: int = 2
    attempts: int = 2
    lease_s: float = 30.0
    poll_s: float = 10.0
    reader: ReaderLimits = field(default_factory=ReaderLimits)


class Ingest:
    """The way into a base. One per process, made by main.py; `running` is its lifetime."""

    def __init__(self, database: Database, limits: IngestLimits | None = None) -> None:
        self.limits = limits or IngestLimits()
        self._database = database
        self._work = asyncio.Event()  # something may wait: set by submit
        self._settled = WeakValueDictionary[str, asyncio.Event]()  # by document id, held by who waits for it
        self._untidy = False  # whether chunks were stored since the index was last put in order
        self._worker: asyncio.Task[None] | None = None

    @property
    def healthy(self) -> bool:
        """Whether the worker runs."""
        return self._worker is not None and not self._worker.done()

    async def submit(
        self, base_id: str, name: str, source: Source, *, media_type: str = "", by: str = audit.LOCAL
    ) -> DocumentRecord:
        """The document of these bytes: new and waiting, failed at once (empty, too large, of no known kind), or the
        one that holds the same content already.

        Raises:
            AppError: NOT_FOUND for the base, INVALID for a name that is blank.
            OSError: the path can't be read.
        """
        label = file_name(name)
        if not label:
            raise AppError(RefusalCode.INVALID, "The file needs a name.")
        digest, size, head = await asyncio.to_thread(measure, source)
        kind = kind_of(label, media_type, head)
        document = NewDocument(
            base_id=base_id,
            name=label,
            content_hash=digest,
            media_type=MEDIA_TYPES[kind] if kind is not None else cut(clean(media_type), 100),
            size_bytes=size,
        )
        failure = self._refusal(label, size, known=kind is not None)
        stored = await documents.add(self._database, document, failure or pieces(source), by=by)
        if stored is None:
            raise AppError(RefusalCode.NOT_FOUND, "There is no such base.")
        self._work.set()
        return stored

    async def wait(self, document_id: str) -> DocumentRecord | None:
        """The document once it is ready or failed, whichever process reads it; None once it is deleted."""
        while True:
            settled = self._settled.setdefault(document_id, asyncio.Event())
            found = (await documents.get_many(self._database, [document_id])).get(document_id)
            if found is None or found.status in ("ready", "failed"):
                return found
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await settled.wait()

    async def drain(self) -> None:
        """Returns once no document of any base waits or is being read."""
        while await reading.unread(self._database):  # noqa: ASYNC110  other processes read too
            await asyncio.sleep(0.05)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        """Reads what waits until the block ends; what is being read then is given back."""
        self._worker = worker = asyncio.create_task(self.run(), name="ingest")
        try:
            yield
        finally:
            worker.cancel()
            (ended,) = await asyncio.gather(worker, return_exceptions=True)
            if isinstance(ended, Exception):
                _log.error("ingest_worker_failed", exc_info=ended)
            with suppress(StoreUnavailable):  # the server will tidy by itself
                await self._tidy()

    async def run(self) -> None:
        """Reads what waits, for ever. Cancelling it gives the current readings back."""
        slots = asyncio.Semaphore(self.limits.concurrency)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._reindex(), name="reindex")
            while True:
                await slots.acquire()
                claim = await self._next()
                tasks.create_task(self._handle(claim, slots), name=f"read {claim.document.id}")

    async def _next(self) -> Claim:
        """The next document to read, as soon as there is one."""
        while True:
            self._work.clear()
            try:
                claim = await reading.claim(self._database, lease_s=self.limits.lease_s)
                if claim is not None:
                    return claim
                await self._tidy()
            except StoreUnavailable:
                _log.warning("ingest_waits_for_the_database", exc_info=True)
            with suppress(TimeoutError):
                async with asyncio.timeout(self.limits.poll_s):
                    await self._work.wait()

    async def _handle(self, claim: Claim, slots: asyncio.Semaphore) -> None:
        keeper = asyncio.create_task(self._keep(claim), name=f"lease {claim.document.id}")
        try:
            await self._read(claim)
        except asyncio.CancelledError:
            await self._give_back(claim, counted=False)
            raise
        except Exception:  # noqa: BLE001  a document's own boundary: no fault of one ends the reading of the others
            _log.exception("document_not_read", document=claim.document.id, attempt=claim.attempt)
            await self._give_back(claim, counted=True)
        finally:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)
            slots.release()
            settled = self._settled.pop(claim.document.id, None)
            if settled is not None:
                settled.set()

    async def _read(self, claim: Claim) -> None:
        document = claim.document
        if claim.attempt > self.limits.attempts:
            await reading.fail(self._database, claim, _ended_its_reader(self.limits.attempts))
            return
        data = await reading.data(self._database, document.id)
        try:
            outcome = await read_file(
                data, name=document.name, media_type=document.media_type, limits=self.limits.reader
            )
        except ReaderDied as died:
            _log.warning("reader_died", document=document.id, attempt=claim.attempt, status=died.status)
            _log.debug("reader_said", document=document.id, detail=died.detail)
            if claim.attempt >= self.limits.attempts:
                await reading.fail(self._database, claim, _ended_its_reader(claim.attempt))
            else:
                await reading.give_back(self._database, claim, counted=True)
                self._work.set()
            return
        if isinstance(outcome, ReadFailure):
            await reading.fail(self._database, claim, Failure(outcome.reason, outcome.message))
            _log.info("document_failed", document=document.id, reason=outcome.reason)
            return
        stored = await reading.finish(self._database, claim, _content(outcome))
        if stored is not None:
            self._untidy = True
            _log.info("document_ready", document=stored.id, chunks=stored.chunk_count, version=stored.version)

    async def _keep(self, claim: Claim) -> None:
        """Renews the lease until it is lost; a reading whose lease is lost stores nothing."""
        while True:
            await asyncio.sleep(self.limits.lease_s / 3)
            try:
                if not await reading.renew(self._database, claim, lease_s=self.limits.lease_s):
                    return
            except StoreUnavailable:
                _log.warning("lease_not_renewed", document=claim.document.id)

    async def _tidy(self) -> None:
        if self._untidy:
            self._untidy = False
            await chunks.tidy_index(self._database)

    async def _give_back(self, claim: Claim, *, counted: bool) -> None:
        try:
            await reading.give_back(self._database, claim, counted=counted)
        except StoreUnavailable:
            _log.warning("claim_left_to_its_lease", document=claim.document.id)

    async def _reindex(self) -> None:
        """Makes new vectors for chunks of an older segmentation, in small steps; ends when there are none."""
        while True:
            try:
                old = await chunks.outdated(self._database, SEGMENTER_VERSION, limit=_REINDEX_BATCH)
                if not old:
                    return
                vectors = await asyncio.to_thread(
                    lambda: {
                        chunk.id: vector(name=chunk.name, title=chunk.title, heading=chunk.heading, text=chunk.text)
                        for chunk in old  # noqa: B023  the thread ends before the next round
                    }
                )
                await chunks.replace_vectors(self._database, vectors, segmenter=SEGMENTER_VERSION)
            except StoreUnavailable:
                await asyncio.sleep(self.limits.poll_s)

    def _refusal(self, name: str, size: int, *, known: bool) -> Failure | None:
        """Why a file needn't be read at all."""
        if size == 0:
            return Failure(FailureReason.EMPTY, "The file is empty.")
        if size > self.limits.max_bytes:
            return Failure(
                FailureReason.TOO_LARGE,
                f"The file has {_megabytes(size)}; {_megabytes(self.limits.max_bytes)} are allowed.",
            )
        if not known:
            return Failure(
                FailureReason.UNSUPPORTED_TYPE,
                f"Files like {name!r} can't be read. Readable are: {', '.join(sorted(SUFFIXES))}.",
            )
        return None


def _content(read: ReadDocument) -> Content:
    return Content(
        title=read.title,
        encoding=read.encoding,
        text=read.content,
        chunks=[NewChunk(piece.heading, piece.page, piece.text, piece.tsv) for piece in read.chunks],
        segmenter=read.segmenter,
    )


def _ended_its_reader(attempts: int) -> Failure:
    return Failure(
        FailureReason.BROKEN,
        f"Reading the file ended the reader {attempts} times, so it was given up. It is probably damaged.",
    )


def _megabytes(size: int) -> str:
    return f"{size / 1_048_576:.1f} MB"
