"""Documents in the store and the queue in which they wait: one per content, versions, claims, leases."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
from sqlalchemy import text

from app.store import bases, chunks, documents, reading
from app.store.chunks import NewChunk, SearchTerms
from app.store.documents import DocumentRecord, Failure, NewDocument
from app.store.engine import Database
from app.store.ids import is_id, new_id
from app.store.reading import Claim, Content
from tests.harness.postgres import PostgresServer


@pytest.fixture(scope="module")
async def database(postgres: PostgresServer) -> AsyncGenerator[Database]:
    """A database whose queue belongs to these tests."""
    async with postgres.new_database() as url:
        own = Database(url)
        yield own
        await own.aclose()


@pytest.fixture
async def base(database: Database) -> AsyncGenerator[str]:
    """A base of the test's own; what earlier tests left in the queue is gone."""
    async with database.begin() as connection:
        await connection.execute(text("DELETE FROM documents"))
    name = f"b{new_id()}"
    made = await bases.create(database, name)
    assert made is not None
    yield made.id
    await bases.delete(database, name)


async def bytes_of(*parts: bytes) -> AsyncGenerator[bytes]:
    for part in parts:
        yield part


async def add(database: Database, base: str, name: str, content: str, failure: Failure | None = None) -> DocumentRecord:
    """A document whose content, hash and bytes are one word."""
    new = NewDocument(base, name, content, "text/plain", len(content))
    stored = await documents.add(database, new, failure or bytes_of(content.encode()))
    assert stored is not None
    return stored


async def claim(database: Database) -> Claim:
    claimed = await reading.claim(database, lease_s=60)
    assert claimed is not None
    return claimed


def content(word: str) -> Content:
    return Content(word, "utf-8", word, [NewChunk("", None, word, f"'{word}':1")], 1)


async def read(database: Database, document: DocumentRecord) -> DocumentRecord | None:
    """Claims and finishes the document that waits; it must be this one."""
    claimed = await claim(database)
    assert claimed.document.id == document.id
    return await reading.finish(database, claimed, content(document.content_hash))


async def found(database: Database, base: str, word: str) -> list[str]:
    """The texts that a search for one word finds."""
    terms = SearchTerms([f"'{word}'"], f"'{word}'", f"'{word}'")
    return [hit.chunk.text for hit in await chunks.search(database, base, terms, limit=10)]


async def parts_left(database: Database, document: DocumentRecord) -> int:
    return len(await reading.data(database, document.id))


def test_ids_are_ordered_and_of_version_7() -> None:
    """RFC 9562: each id is greater than the one before."""
    ids = [new_id() for _ in range(2_000)]
    assert ids == sorted(set(ids))
    assert all(is_id(one) and one[14] == "7" and one[19] in "89ab" for one in ids)
    assert not is_id("not-an-id")


async def test_the_same_content_is_one_document(database: Database, base: str) -> None:
    """Case K05: ten at once and one more later get the same document; another base is independent."""
    ten = await asyncio.gather(*(add(database, base, f"copy{n}.txt", "same") for n in range(10)))
    later = await add(database, base, "later.txt", "same")
    assert len({document.id for document in [*ten, later]}) == 1
    other = await bases.create(database, f"o{new_id()}")
    assert other is not None
    assert (await add(database, other.id, "copy.txt", "same")).id != later.id
    assert (await documents.find(database, base, query=None, limit=10, offset=0))[1] == 1
    async with database.read() as connection:
        orphans = await connection.scalar(text("SELECT count(DISTINCT document_id) FROM document_parts"))
    assert orphans == 2
    await bases.delete(database, other.name)


async def test_bytes_are_kept_in_pieces_until_they_are_read(database: Database, base: str) -> None:
    """What waits survives a crash, in the order in which it came."""
    new = NewDocument(base, "a.txt", "hash", "text/plain", 6)
    stored = await documents.add(database, new, bytes_of(b"one", b"two"))
    assert stored is not None
    assert await reading.data(database, stored.id) == b"onetwo"
    await read(database, stored)
    assert await reading.data(database, stored.id) == b""


async def test_a_base_that_does_not_exist_takes_nothing(database: Database, base: str) -> None:
    """Also where it was deleted a moment ago."""
    assert await documents.add(database, NewDocument(new_id(), "a", "h", "", 1), bytes_of(b"x")) is None


async def test_a_read_document_is_ready_and_found(database: Database, base: str) -> None:
    """Chunks, state and vectors appear at once."""
    stored = await add(database, base, "a.txt", "alpha")
    assert (stored.status, stored.version) == ("pending", 1)
    ready = await read(database, stored)
    assert ready == await documents.get(database, base, stored.id)
    assert ready is not None
    assert (ready.status, ready.title, ready.encoding, ready.chunk_count) == ("ready", "alpha", "utf-8", 1)
    assert await found(database, base, "alpha") == ["alpha"]


async def test_a_changed_file_becomes_a_new_version(database: Database, base: str) -> None:
    """The old one stays found until the new one is ready, then only the new one is."""
    old = await add(database, base, "a.txt", "alpha")
    await read(database, old)
    new = await add(database, base, "a.txt", "beta")
    assert (new.version, await found(database, base, "alpha")) == (2, ["alpha"])
    await read(database, new)
    assert (await found(database, base, "alpha"), await found(database, base, "beta")) == ([], ["beta"])
    shown, total = await documents.find(database, base, query=None, limit=10, offset=0)
    assert ([document.id for document in shown], total) == ([new.id], 1)
    superseded = await documents.get(database, base, old.id)
    assert superseded is not None
    assert superseded.superseded_at is not None


async def test_the_chunks_of_a_superseded_version_can_still_be_opened(database: Database, base: str) -> None:
    """Sources of earlier answers stay readable."""
    old = await add(database, base, "a.txt", "alpha")
    await read(database, old)
    (hit,) = await chunks.search(database, base, SearchTerms(["'alpha'"], "'alpha'", "'alpha'"), limit=1)
    await read(database, await add(database, base, "a.txt", "beta"))
    opened = await chunks.get(database, base, hit.chunk.id)
    assert opened is not None
    assert (opened.text, opened.live) == ("alpha", False)


async def test_a_file_that_goes_back_to_its_old_content_is_current_again(database: Database, base: str) -> None:
    """The content is known and needn't be read again."""
    old = await add(database, base, "a.txt", "alpha")
    await read(database, old)
    await read(database, await add(database, base, "a.txt", "beta"))
    again = await add(database, base, "a.txt", "alpha")
    assert (again.id, again.status, again.version, again.superseded_at) == (old.id, "ready", 3, None)
    assert (await found(database, base, "alpha"), await found(database, base, "beta")) == (["alpha"], [])


async def test_a_version_that_is_overtaken_while_it_is_read_stays_out_of_the_search(
    database: Database, base: str
) -> None:
    """Readings may end in any order; the newest version wins."""
    first = await add(database, base, "a.txt", "alpha")
    second = await add(database, base, "a.txt", "beta")
    slow, fast = await claim(database), await claim(database)
    assert (slow.document.id, fast.document.id) == (first.id, second.id)
    await reading.finish(database, fast, content("beta"))
    overtaken = await reading.finish(database, slow, content("alpha"))
    assert overtaken is not None
    assert overtaken.superseded_at is not None
    assert (await found(database, base, "alpha"), await found(database, base, "beta")) == ([], ["beta"])


async def test_a_failed_document_has_its_reason_and_may_be_tried_again(database: Database, base: str) -> None:
    """The bytes of a failed one are dropped and come anew with the next try."""
    stored = await add(database, base, "a.txt", "alpha")
    await reading.fail(database, await claim(database), Failure("broken", "It is damaged."))
    failed = await documents.get(database, base, stored.id)
    assert failed is not None
    assert (failed.status, failed.error_code, failed.error) == ("failed", "broken", "It is damaged.")
    assert await parts_left(database, stored) == 0
    again = await add(database, base, "b.txt", "alpha")
    assert (again.id, again.name, again.status, again.error) == (stored.id, "b.txt", "pending", None)
    assert await read(database, again) is not None


async def test_a_file_refused_at_the_door_is_a_failed_document(database: Database, base: str) -> None:
    """It is listed with its reason and never queued."""
    stored = await add(database, base, "a.txt", "alpha", Failure("empty", "It is empty."))
    assert (stored.status, stored.error_code, await reading.unread(database)) == ("failed", "empty", 0)


async def test_a_failed_new_version_leaves_the_old_one_in_the_search(database: Database, base: str) -> None:
    """A broken file hurts nothing else, not even itself."""
    await read(database, await add(database, base, "a.txt", "alpha"))
    await add(database, base, "a.txt", "beta")
    await reading.fail(database, await claim(database), Failure("broken", "It is damaged."))
    assert await found(database, base, "alpha") == ["alpha"]


async def test_a_document_is_claimed_by_one_reader(database: Database, base: str) -> None:
    """Two replicas never read the same one."""
    stored = await add(database, base, "a.txt", "alpha")
    claims = await asyncio.gather(*(reading.claim(database, lease_s=60) for _ in range(5)))
    assert [one.document.id for one in claims if one is not None] == [stored.id]


async def test_a_reading_whose_process_died_is_free_once_its_lease_is_over(database: Database, base: str) -> None:
    """The late one stores nothing: its token is old."""
    await add(database, base, "a.txt", "alpha")
    late = await reading.claim(database, lease_s=-1)
    assert late is not None
    heir = await claim(database)
    assert (late.attempt, heir.attempt) == (1, 2)
    assert await reading.finish(database, late, content("alpha")) is None
    assert not await reading.renew(database, late, lease_s=60)
    await reading.fail(database, late, Failure("broken", "Late."))
    await reading.give_back(database, late, counted=True)
    assert await reading.renew(database, heir, lease_s=60)
    assert await reading.finish(database, heir, content("alpha")) is not None


@pytest.mark.parametrize(("counted", "attempt"), [(True, 2), (False, 1)])
async def test_a_reading_that_is_given_back_waits_again(
    database: Database, base: str, counted: bool, attempt: int
) -> None:
    """A shutdown doesn't count as an attempt, a reader's death does."""
    await add(database, base, "a.txt", "alpha")
    await reading.give_back(database, await claim(database), counted=counted)
    assert (await claim(database)).attempt == attempt


async def test_a_document_deleted_while_it_is_read_is_gone(database: Database, base: str) -> None:
    """Its reader finds nothing to finish."""
    stored = await add(database, base, "a.txt", "alpha")
    claimed = await claim(database)
    assert await documents.delete(database, base, stored.id)
    assert await reading.finish(database, claimed, content("alpha")) is None
    assert await found(database, base, "alpha") == []


async def test_deleting_a_document_deletes_its_earlier_versions(database: Database, base: str) -> None:
    """The file is meant, not one state of it; others stay."""
    old = await add(database, base, "a.txt", "alpha")
    await read(database, old)
    new = await add(database, base, "a.txt", "beta")
    await read(database, new)
    await read(database, await add(database, base, "b.txt", "gamma"))
    assert await documents.delete(database, base, new.id)
    assert not await documents.delete(database, base, new.id)
    assert await documents.get_many(database, [old.id, new.id]) == {}
    assert await found(database, base, "gamma") == ["gamma"]


async def test_documents_are_found_by_a_part_of_their_name(database: Database, base: str) -> None:
    """Newest first, in pages; wildcards are letters."""
    for name in ("Board.md", "board 100%.md", "other.md"):
        await add(database, base, name, name)
    shown, total = await documents.find(database, base, query="BOARD", limit=1, offset=1)
    assert ([document.name for document in shown], total) == (["Board.md"], 2)
    assert (await documents.find(database, base, query="%", limit=9, offset=0))[1] == 1
    assert await documents.find(database, base, query="_", limit=9, offset=5) == ([], 0)


async def test_bases_keep_their_names_apart(database: Database) -> None:
    """Made, found by name, renamed, deleted; the second of a name is refused."""
    name, other = f"n{new_id()}", f"m{new_id()}"
    made = await bases.create(database, name, description="d")
    assert made is not None
    assert await bases.create(database, name) is None
    assert await bases.get(database, name) == made
    assert await bases.find_id(database, name) == made.id
    assert await bases.create(database, other) is not None
    assert not await bases.change(database, name, new_name=other)
    assert await bases.change(database, name, description="e")
    changed = await bases.get(database, name)
    assert changed is not None
    assert changed.description == "e"
    assert await bases.delete(database, name) is not None
    assert await bases.delete(database, name) is None
    assert await bases.delete(database, other) is not None
    assert (await bases.ensure_default(database)).name == "default"


@pytest.mark.parametrize("name", ["", "Upper", "-x", "a b", "x" * 64, "a\n", "nul\x00", "名"])
async def test_a_name_that_no_base_can_have_is_simply_not_there(database: Database, name: str) -> None:
    """Any text may be asked for."""
    assert not bases.valid_name(name)
    assert await bases.find_id(database, name) is None
