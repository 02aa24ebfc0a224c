"""Bases and documents over HTTP, from the upload to the passage that is found: DESIGN section 4, cases D01 and K."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from app.api import bases as base_routes
from app.api import documents as document_routes
from app.api import refusals
from app.api.access import Access
from app.knowledge.bulk import FileResult, ingest_paths
from app.knowledge.ingest import Ingest, IngestLimits
from app.knowledge.reader import ReaderLimits
from app.knowledge.search import search
from app.live.memory import MemoryLog
from app.store import bases, reading
from app.store.engine import Database
from app.store.ids import new_id
from tests.harness.files import docx, locked, pdf
from tests.harness.postgres import PostgresServer

WORDS = "This page says something that is long enough to be read by a person."
LIMITS = IngestLimits(max_bytes=1_000_000, concurrency=2, poll_s=0.2)


@dataclass(frozen=True, slots=True)
class Library:
    """A base, the routes over it and the worker behind them."""

    http: httpx.AsyncClient
    ingest: Ingest
    database: Database
    base: str
    base_id: str

    async def upload(self, name: str, data: bytes, media_type: str = "application/octet-stream") -> Any:
        """The document, once it is ready or failed."""
        answer = await self.http.post(f"/api/bases/{self.base}/documents", files={"file": (name, data, media_type)})
        assert answer.status_code == 202, answer.text
        await self.ingest.wait(answer.json()["id"])
        return (await self.http.get(f"/api/bases/{self.base}/documents/{answer.json()['id']}")).json()

    async def found(self, query: str) -> list[str]:
        """The names of the documents whose passages a search finds, best first."""
        hits = (await search(self.database, self.base_id, query)).hits
        return [hit.chunk.name for hit in hits]


@pytest.fixture(scope="module")
async def database(postgres: PostgresServer) -> AsyncGenerator[Database]:
    """A database whose queue belongs to these tests."""
    async with postgres.new_database() as url:
        own = Database(url)
        yield own
        await own.aclose()


@pytest.fixture
async def library(database: Database) -> AsyncGenerator[Library]:
    """An empty base; its documents are read by a real worker."""
    ingest = Ingest(database, LIMITS)
    app = FastAPI()
    refusals.install(app)
    app.add_middleware(Access, gate=None, database=database)
    app.include_router(base_routes.router(database, MemoryLog()))
    app.include_router(document_routes.router(database, ingest))
    name = f"lib-{new_id()}"
    made = await bases.create(database, name)
    assert made is not None
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as http, ingest.running():
        yield Library(http, ingest, database, name, made.id)
        await ingest.drain()
    await bases.delete(database, name)


async def test_an_uploaded_file_is_read_and_its_passages_are_found(library: Library) -> None:
    """The whole document as it is told, but for what is made up by the server."""
    told = await library.upload("board.md", b"# The board\n\nSix people sat on it.\n")
    assert {key: told[key] for key in told if key not in {"id", "created_at", "content_hash"}} == {
        "name": "board.md",
        "title": "The board",
        "status": "ready",
        "error_code": None,
        "error": None,
        "version": 1,
        "superseded_at": None,
        "media_type": "text/markdown",
        "encoding": "utf-8",
        "size_bytes": 35,
        "chunk_count": 1,
    }
    assert await library.found("people") == ["board.md"]
    listed = (await library.http.get(f"/api/bases/{library.base}/documents")).json()
    assert listed == {"documents": [told], "total": 1}
    assert (await library.http.get(f"/api/bases/{library.base}")).json()["document_count"] == 1


async def test_a_source_can_be_opened(library: Library) -> None:
    """The passage as it was stored, by the id that a source names."""
    told = await library.upload("board.md", b"# The board\n\n## Members\n\nSix people sat on it.\n")
    (hit,) = (await search(library.database, library.base_id, "people")).hits
    answer = await library.http.get(f"/api/bases/{library.base}/chunks/{hit.chunk.id}")
    assert answer.json() == {
        "id": hit.chunk.id,
        "document_id": told["id"],
        "name": "board.md",
        "title": "The board",
        "heading": "Members",
        "page": None,
        "position": 0,
        "text": "Six people sat on it.",
        "live": True,
    }


async def test_ten_uploads_of_the_same_bytes_are_one_document(library: Library) -> None:
    """Case K05: in parallel and once more later; one reading, nothing left behind."""
    uploads = [library.upload(f"copy{n}.txt", b"the same text") for n in range(10)]
    told = await asyncio.gather(*uploads)
    later = await library.upload("later.txt", b"the same text")
    assert len({document["id"] for document in [*told, later]}) == 1
    assert len(await library.found("same text")) == 1


async def test_a_changed_file_replaces_its_old_text(library: Library) -> None:
    """A new version of the same name; the old text is found no more."""
    await library.upload("plan.md", b"We meet in Lisbon.")
    second = await library.upload("plan.md", b"We meet in Madrid.")
    assert second["version"] == 2
    assert (await library.found("Lisbon"), await library.found("Madrid")) == ([], ["plan.md"])


async def test_a_bad_file_fails_with_a_reason_and_hurts_nothing_else(library: Library) -> None:
    """Broken, empty, locked, unreadable, of no known kind: each says why; the good ones are read."""
    good = {"good.md": b"fine words", "good.pdf": pdf([WORDS]), "good.docx": docx([("", "fine paragraph")])}
    bad = {
        "broken.pdf": b"%PDF-1.7 broken",
        "broken.docx": b"PK\x03\x04 broken",
        "empty.txt": b"",
        "blank.md": b" \n ",
        "locked.pdf": locked(pdf([WORDS]), "secret"),
        "scan.pdf": pdf(["", ""]),
        "program.exe": b"MZ\x90\x00",
        "binary.txt": bytes(range(256)) * 8,
    }
    told = await asyncio.gather(*(library.upload(name, data) for name, data in {**bad, **good}.items()))
    assert {document["name"]: document["error_code"] for document in told} == {
        "broken.pdf": "broken",
        "broken.docx": "broken",
        "empty.txt": "empty",
        "blank.md": "empty",
        "locked.pdf": "password_protected",
        "scan.pdf": "unreadable",
        "program.exe": "unsupported_type",
        "binary.txt": "unreadable",
        **dict.fromkeys(good),
    }
    assert all(document["error"].endswith(".") for document in told if document["status"] == "failed")
    assert sorted(await library.found("fine")) == ["good.docx", "good.md"]


async def test_a_failed_file_can_be_uploaded_again(library: Library) -> None:
    """The same bytes are tried anew, under the same document."""
    first = await library.upload("a.pdf", b"%PDF-1.7 broken")
    again = await library.upload("b.pdf", b"%PDF-1.7 broken")
    assert (again["id"], again["name"], again["status"]) == (first["id"], "b.pdf", "failed")


async def test_a_gb18030_file_is_found_and_its_encoding_told(library: Library) -> None:
    """Case K04: with a character that GB2312 does not have."""
    told = await library.upload("报告.txt", "朱镕基总理的政府工作报告😀".encode("gb18030"))
    assert (told["name"], told["encoding"], told["status"]) == ("报告.txt", "gb18030", "ready")
    assert await library.found("镕基") == ["报告.txt"]


async def test_nul_and_half_pairs_never_fail_a_document(library: Library) -> None:
    """Case D01: in a heading and in the text."""
    told = await library.upload("a.md", b"# He\x00ad\n\nte\x00xt \xed\xa0\xbd end of the line here.\n")
    assert (told["status"], told["name"], told["title"]) == ("ready", "a.md", "Head")
    assert await library.found("text") == ["a.md"]


async def test_markup_in_a_document_is_stored_as_it_is(library: Library) -> None:
    """Case K08: escaping belongs to display."""
    payload = 'Look <img src=x onerror="alert(1)"> and ![s](https://collector.invalid/p.png?q=1).'
    await library.upload("x.md", f"# <script>alert(1)</script>\n\n{payload}\n".encode())
    (hit,) = (await search(library.database, library.base_id, "onerror")).hits
    assert (hit.chunk.title, hit.chunk.text) == ("<script>alert(1)</script>", payload)


async def test_an_upload_is_cut_off_where_it_is_too_large(library: Library) -> None:
    """Case K07: with a declared length at once, without one after the limit's worth of bytes."""
    address = f"/api/bases/{library.base}/documents"
    declared = await library.http.post(address, files={"file": ("big.txt", b"x" * 2_000_000)})
    sent = 0

    async def body() -> AsyncGenerator[bytes]:
        nonlocal sent
        yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="big.txt"\r\n\r\n'
        for _ in range(600):
            sent += 1
            yield b"x" * 100_000

    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    streamed = await library.http.post(address, content=body(), headers=headers)
    for answer in (declared, streamed):
        assert answer.status_code == 413
        assert answer.json()["error"]["code"] == "too_large"
    assert sent < 20
    assert (await library.http.get(address)).json()["total"] == 0


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ({"content": b"{}", "headers": {"Content-Type": "application/json"}}, 400),
        ({"content": b"no form", "headers": {"Content-Type": "multipart/form-data"}}, 400),
        ({"content": b"no form", "headers": {"Content-Type": "multipart/form-data; boundary=b"}}, 400),
        ({"files": {"other": ("a.md", b"x")}}, 422),
        ({"files": {"file": (None, b"x")}}, 422),
        ({"files": {"file": (" ", b"x")}}, 422),
        ({"files": [("file", ("a.md", b"x")), ("file", ("b.md", b"y"))]}, 400),
    ],
)
async def test_a_form_that_is_none_is_refused(library: Library, request_: dict[str, Any], status: int) -> None:
    """Before anything is stored."""
    answer = await library.http.post(f"/api/bases/{library.base}/documents", **request_)
    assert (answer.status_code, set(answer.json())) == (status, {"error"})


async def test_what_is_not_there_is_404_and_what_is_no_id_is_422(library: Library) -> None:
    """Also for a document of another base."""
    told = await library.upload("a.md", b"some text")
    base = f"/api/bases/{library.base}"
    statuses = [
        (await library.http.get(address)).status_code
        for address in (
            f"{base}/documents/{new_id()}",
            f"{base}/chunks/{new_id()}",
            f"/api/bases/default/documents/{told['id']}",
            "/api/bases/none/documents",
            "/api/bases/n%00ne/documents",
            f"{base}/documents/not-an-id",
            f"{base}/chunks/7",
            f"{base}/documents?limit=0",
        )
    ]
    assert statuses == [404, 404, 404, 404, 404, 422, 422, 422]
    assert (await library.http.delete(f"{base}/documents/{new_id()}")).status_code == 404


async def test_a_deleted_document_is_found_no_more(library: Library) -> None:
    """With all that was made of it."""
    told = await library.upload("a.md", b"ephemeral words")
    address = f"/api/bases/{library.base}/documents/{told['id']}"
    assert (await library.http.delete(address)).status_code == 204
    assert (await library.http.get(address)).status_code == 404
    assert await library.found("ephemeral") == []


async def test_bases_are_made_listed_described_renamed_and_deleted(library: Library) -> None:
    """`default` keeps its name and stays."""
    name, other = f"n{new_id()}", f"m{new_id()}"
    http = library.http
    made = await http.post("/api/bases", json={"name": name, "description": " What for\x00 "})
    assert (made.status_code, made.json()["description"]) == (201, "What for")
    assert made.json() in (await http.get("/api/bases")).json()["bases"]
    assert (await http.post("/api/bases", json={"name": name})).status_code == 409
    changed = await http.patch(f"/api/bases/{name}", json={"name": other})
    assert (changed.status_code, changed.json()["description"]) == (200, "What for")
    assert (await http.patch(f"/api/bases/{other}", json={"name": library.base})).status_code == 409
    assert (await http.delete(f"/api/bases/{other}")).status_code == 204
    assert (await http.delete(f"/api/bases/{other}")).status_code == 404
    assert (await http.delete("/api/bases/default")).status_code == 409
    assert (await http.patch("/api/bases/default", json={"name": "else"})).status_code == 409
    assert (await http.get("/api/bases/default")).status_code == 200


@pytest.mark.parametrize("name", ["", "Upper", "-x", "a b", "x" * 64, "名", "a/b"])
async def test_a_base_with_a_bad_name_is_refused(library: Library, name: str) -> None:
    """422 with what is allowed."""
    answer = await library.http.post("/api/bases", json={"name": name})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid")


async def test_two_hundred_files_and_a_long_pdf_are_read(library: Library, tmp_path: Path) -> None:
    """A folder with subfolders, hidden files and others; every file has its result, and a second time none is new."""
    for n in range(200):
        folder = tmp_path / f"part{n % 5}"
        folder.mkdir(exist_ok=True)
        text = f"# Page {n}\n\nThe number is zq{n}. 第{n}号文件讲的是缓存{'穿透' if n % 2 else '雪崩'}。\n"
        (folder / f"page{n}.md").write_text(text, encoding="utf-8")
    (tmp_path / ".hidden.md").write_text("hidden", encoding="utf-8")
    (tmp_path / "program.exe").write_bytes(b"MZ")
    lines = "\n".join(f"Line {n} of page %d tells of the turbine in plain words." for n in range(40))
    (tmp_path / "long.pdf").write_bytes(pdf([lines.replace("%d", f"qx{n}") for n in range(300)]))
    results = [result async for result in ingest_paths(library.ingest, library.base_id, [tmp_path])]
    assert [result.error for result in results] == [None] * 201
    assert {result.outcome for result in results} == {"new"}
    assert await library.found("zq123") == ["part3/page123.md"]
    assert len(await library.found("雪崩")) == 6
    (hit, *_) = (await search(library.database, library.base_id, "qx287")).hits
    assert (hit.chunk.name, hit.chunk.page) == ("long.pdf", 288)
    again = [result async for result in ingest_paths(library.ingest, library.base_id, [tmp_path])]
    assert {result.outcome for result in again} == {"known"}


async def test_a_path_that_is_named_is_always_taken(library: Library, tmp_path: Path) -> None:
    """What is missing or can't be read has a sentence, and the others are read."""
    (tmp_path / "program.exe").write_bytes(b"MZ")
    (tmp_path / "a.md").write_text("some text", encoding="utf-8")
    paths = [tmp_path / "program.exe", tmp_path / "missing.md", tmp_path / "a.md", tmp_path / "a.md"]
    results: dict[str, FileResult] = {}
    async for result in ingest_paths(library.ingest, library.base_id, paths):
        results[result.path.name] = result
    assert {name: result.outcome for name, result in results.items()} == {
        "program.exe": "failed",
        "missing.md": "failed",
        "a.md": "new",
    }
    assert results["missing.md"].error == "The file can't be read: No such file or directory."
    (tmp_path / "a.md").write_text("other text", encoding="utf-8")
    (changed,) = [result async for result in ingest_paths(library.ingest, library.base_id, [tmp_path / "a.md"])]
    assert changed.outcome == "changed"


async def test_what_waited_when_a_process_ended_is_read_by_the_next(database: Database) -> None:
    """What was pending, and what was being read once its lease is over."""
    made = await bases.create(database, f"crash-{new_id()}")
    assert made is not None
    dead = Ingest(database, LIMITS)
    first = await dead.submit(made.id, "a.md", b"first words")
    assert await reading.claim(database, lease_s=-1) is not None
    second = await dead.submit(made.id, "b.md", b"second words")
    heir = Ingest(database, LIMITS)
    async with heir.running():
        assert heir.healthy
        settled = [await heir.wait(first.id), await heir.wait(second.id)]
    assert not heir.healthy
    assert [document.status for document in settled if document is not None] == ["ready", "ready"]


async def test_a_shutdown_gives_back_what_is_being_read(database: Database) -> None:
    """It waits again, uncounted, and its reader is gone."""
    made = await bases.create(database, f"stop-{new_id()}")
    assert made is not None
    ingest = Ingest(database, LIMITS)
    lines = "\n".join(f"Line {n} of page %d tells of the turbine." for n in range(60))
    data = pdf([lines.replace("%d", str(n)) for n in range(200)])
    stored = await ingest.submit(made.id, "long.pdf", data)
    async with ingest.running(), asyncio.timeout(10):
        while await reading.unread(database) and not await being_read(database):
            await asyncio.sleep(0.01)
    claimed = await reading.claim(database, lease_s=60)
    assert claimed is not None
    assert (claimed.document.id, claimed.attempt) == (stored.id, 1)
    await reading.give_back(database, claimed, counted=False)
    async with ingest.running():
        settled = await ingest.wait(stored.id)
    assert settled is not None
    assert settled.status == "ready"


async def being_read(database: Database) -> bool:
    async with database.read() as connection:
        rows = await connection.exec_driver_sql("SELECT count(*) FROM documents WHERE status = 'reading'")
        return bool(rows.scalar_one())


async def test_a_file_that_ends_its_reader_twice_has_failed(database: Database) -> None:
    """Case K07: no loop of restarts; other files are read meanwhile."""
    made = await bases.create(database, f"kill-{new_id()}")
    assert made is not None
    limits = IngestLimits(poll_s=0.2, reader=ReaderLimits(memory_mb=1))  # not enough to load a parser
    ingest = Ingest(database, limits)
    async with ingest.running():
        deadly = await ingest.submit(made.id, "deadly.pdf", pdf([WORDS]))
        good = await ingest.submit(made.id, "good.md", b"fine words")
        settled = [await ingest.wait(deadly.id), await ingest.wait(good.id)]
    assert [(document.status, document.error_code) for document in settled if document is not None] == [
        ("failed", "broken"),
        ("ready", None),
    ]
    assert settled[0] is not None
    assert "2 times" in (settled[0].error or "")


async def test_a_file_that_takes_too_long_has_failed(database: Database) -> None:
    """Case K07: the clock is the server's; the reader is ended."""
    made = await bases.create(database, f"slow-{new_id()}")
    assert made is not None
    ingest = Ingest(database, IngestLimits(poll_s=0.2, reader=ReaderLimits(time_s=0.05)))
    async with ingest.running():
        stored = await ingest.submit(made.id, "slow.pdf", pdf([WORDS]))
        settled = await ingest.wait(stored.id)
    assert settled is not None
    assert settled.error_code == "too_slow"


async def test_chunks_of_an_older_segmentation_get_new_vectors(database: Database) -> None:
    """At the next start, in the background; the text needn't be read again."""
    made = await bases.create(database, f"old-{new_id()}")
    assert made is not None
    ingest = Ingest(database, LIMITS)
    async with ingest.running():
        stored = await ingest.submit(made.id, "a.md", "缓存穿透 words".encode())
        await ingest.wait(stored.id)
    async with database.begin() as connection:
        await connection.exec_driver_sql("UPDATE chunks SET tsv = '', segmenter = 0")
    assert (await search(database, made.id, "words")).outcome == "nothing"
    async with ingest.running(), asyncio.timeout(10):
        while (await search(database, made.id, "穿透")).outcome != "found":
            await asyncio.sleep(0.01)


async def test_the_schema_of_the_routes_is_complete(library: Library) -> None:
    """Every route names its answer; the upload names its field."""
    app = FastAPI()
    app.include_router(base_routes.router(library.database, MemoryLog()))
    app.include_router(document_routes.router(library.database, library.ingest))
    paths = app.openapi()["paths"]
    upload = paths["/api/bases/{base}/documents"]["post"]
    assert upload["requestBody"]["content"]["multipart/form-data"]["schema"]["required"] == ["file"]
    for methods in paths.values():
        for route in methods.values():
            good = next(answer for status, answer in route["responses"].items() if status.startswith("2"))
            assert "content" in good or "204" in route["responses"]
