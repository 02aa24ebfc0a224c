"""What the page reads of a base beside its lists: a document's passages, and the graph counted. Source: issue 6 item 3."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from app.api import facts as fact_routes
from app.api import overview as overview_routes
from app.api import passages as passage_routes
from app.api import refusals
from app.api.access import Access
from app.knowledge.bulk import ingest_paths
from app.knowledge.ingest import Ingest
from app.store import bases, proposals
from app.store.engine import Database
from app.store.ids import new_id
from app.store.proposals import NewProposal

PARAGRAPH = "The words of section {n} are many enough that a section stands for itself in the base. " * 12
LONG = "# A long document\n\n" + "\n\n".join(f"## Section {n}\n\n{PARAGRAPH.format(n=n)}" for n in range(7))


@dataclass(frozen=True, slots=True)
class Read:
    """A base and the routes over it."""

    http: httpx.AsyncClient
    database: Database
    base_id: str

    async def get(self, path: str, **parameters: int) -> Any:
        answer = await self.http.get(path, params=parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def ingest(self, path: Path) -> str:
        """The id of the document, once it is ready."""
        ingest = Ingest(self.database)
        async with ingest.running():
            (result,) = [one async for one in ingest_paths(ingest, self.base_id, (path,))]
        assert result.error is None
        assert result.document is not None
        return result.document.id

    async def fact(self, **row: str) -> str:
        """Records a fact; gives its id."""
        answer = await self.http.post("/facts", json=row)
        assert answer.json()["added"] == 1, answer.text
        listed = await self.get("/facts")
        return listed["facts"][-1]["id"]


@pytest.fixture
async def read(database: Database) -> AsyncGenerator[Read]:
    """An empty base."""
    app = FastAPI()
    refusals.install(app)
    app.add_middleware(Access, gate=None, database=database)
    for routes in (passage_routes, overview_routes, fact_routes):
        app.include_router(routes.router(database))
    name = f"read-{new_id()}"
    made = await bases.create(database, name)
    assert made is not None
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url=f"http://test/api/bases/{name}") as http:
        yield Read(http, database, made.id)
    await bases.delete(database, name)


async def test_a_document_is_read_in_its_order_page_by_page(read: Read, tmp_path: Path) -> None:
    """Pages joined are the whole list, and what was written stands in it from the first section to the last."""
    path = tmp_path / "long.md"
    path.write_text(LONG)
    document = await read.ingest(path)
    whole = await read.get(f"/documents/{document}/chunks")
    assert whole["total"] == len(whole["passages"]) > 3
    assert [passage["position"] for passage in whole["passages"]] == list(range(whole["total"]))
    assert {passage["document_id"] for passage in whole["passages"]} == {document}
    written = "\n".join(passage["text"] for passage in whole["passages"])
    places = [written.index(f"section {n} ") for n in range(7)]
    assert places == sorted(places)
    pages = [
        passage
        for offset in range(0, whole["total"] + 2, 2)
        for passage in (await read.get(f"/documents/{document}/chunks", limit=2, offset=offset))["passages"]
    ]
    assert pages == whole["passages"]


async def test_beyond_the_last_passage_there_is_an_empty_page_with_the_total(read: Read, tmp_path: Path) -> None:
    """So that a page that was loaded while the document shrank says so."""
    path = tmp_path / "short.md"
    path.write_text("# Short\n\nOne sentence is all that stands in this document.")
    document = await read.ingest(path)
    assert await read.get(f"/documents/{document}/chunks", offset=50) == {"passages": [], "total": 1}


@pytest.mark.parametrize(
    ("document", "refusal"), [(new_id(), (404, "not_found")), ("not-an-id", (422, "invalid"))], ids=["none", "no id"]
)
async def test_the_passages_of_no_document_are_refused(read: Read, document: str, refusal: tuple[int, str]) -> None:
    """An id that names nothing, and what is no id."""
    answer = await read.http.get(f"/documents/{document}/chunks")
    assert (answer.status_code, answer.json()["error"]["code"]) == refusal


async def test_a_document_of_another_base_has_no_passages_here(read: Read, database: Database, tmp_path: Path) -> None:
    """Though its id is right."""
    path = tmp_path / "theirs.md"
    path.write_text(f"# Theirs\n\nA sentence of another base, {new_id()}.")
    other = await bases.create(database, f"other-{new_id()}")
    assert other is not None
    document = await Read(read.http, database, other.id).ingest(path)
    answer = await read.http.get(f"/documents/{document}/chunks")
    await bases.delete(database, other.name)
    assert answer.status_code == 404


async def test_an_empty_base_is_counted_as_nothing(read: Read) -> None:
    """And not refused: a new base has no graph yet."""
    assert await read.get("/overview") == {
        "entities": 0,
        "facts": 0,
        "pending_proposals": 0,
        "types": [],
        "leaders": [],
    }


async def test_the_graph_is_counted_as_it_is_believed_now(read: Read) -> None:
    """An entity counts once for a fact, at either end; a rejected fact counts for nothing."""
    await read.fact(subject="Ada", subject_type="person", predicate="founded", object="Acme", object_type="company")
    await read.fact(subject="Ada", subject_type="person", predicate="born", value="1990")
    wrong = await read.fact(subject="Acme", subject_type="company", predicate="owned by", object="Bob")
    assert (await read.http.post(f"/facts/{wrong}/reject")).status_code == 200
    waiting = NewProposal({"subject": "Ada"}, "A sentence.", "remember", "local", new_id())
    await proposals.propose(read.database, read.base_id, [waiting])
    counted = await read.get("/overview")
    leaders = [(leader["name"], leader["type"], leader["fact_count"]) for leader in counted["leaders"]]
    assert leaders == [("Ada", "person", 2), ("Acme", "company", 1)]
    assert {name: counted[name] for name in ("entities", "facts", "pending_proposals", "types")} == {
        "entities": 2,
        "facts": 2,
        "pending_proposals": 1,
        "types": [{"type": "company", "entities": 1}, {"type": "person", "entities": 1}],
    }
    first = await read.get("/overview", leaders=1)
    assert first == {**counted, "leaders": counted["leaders"][:1]}
