"""Facts, entities and proposals over HTTP and by the command line: issue 4 items 1 and 2."""

import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import URL

from app.api import entities as entity_routes
from app.api import facts as fact_routes
from app.api import proposals as proposal_routes
from app.api import refusals
from app.api.access import Access
from app.knowledge.bulk import ingest_paths
from app.knowledge.facts_import import ImportReport, import_file
from app.knowledge.ingest import Ingest
from app.store import bases, facts, proposals
from app.store.engine import Database
from app.store.facts import FactFilter
from app.store.ids import new_id
from app.store.proposals import NewProposal
from tests.harness.postgres import PostgresServer
from tests.harness.replica import run

SAMPLE = Path(__file__).resolve().parents[2] / "sample"

BOSS: dict[str, Any] = {
    "subject": "Sam Altman",
    "subject_type": "person",
    "subject_aliases": ["萨姆·奥尔特曼"],
    "predicate": "chief executive of",
    "object": "OpenAI",
    "object_type": "company",
    "from": "2019",
    "to": "2023-11-17",
    "confidence": 0.9,
    "quote": "He led it.",
}


@dataclass(frozen=True, slots=True)
class Graph:
    """A base and the routes over it."""

    http: httpx.AsyncClient
    database: Database
    base_id: str

    async def get(self, path: str, **parameters: str | int) -> Any:
        answer = await self.http.get(path, params=parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def post(self, path: str, body: object = None) -> Any:
        answer = await self.http.post(path, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def refused(self, method: str, path: str, body: object = None) -> tuple[int, str, str]:
        """Status, code and message of a refusal."""
        answer = await self.http.request(method, path, json=body)
        told = answer.json()["error"]
        return answer.status_code, told["code"], told["message"]

    async def propose(self, fact: dict[str, Any]) -> str:
        new = NewProposal(fact, "He led it.", "remember", "local", new_id())
        return (await proposals.propose(self.database, self.base_id, [new]))[0].id


@pytest.fixture
async def graph(database: Database) -> AsyncGenerator[Graph]:
    """An empty base."""
    app = FastAPI()
    refusals.install(app)
    app.add_middleware(Access, gate=None, database=database)
    for routes in (fact_routes, entity_routes, proposal_routes):
        app.include_router(routes.router(database))
    name = f"graph-{new_id()}"
    made = await bases.create(database, name)
    assert made is not None
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url=f"http://test/api/bases/{name}") as http:
        yield Graph(http, database, made.id)
    await bases.delete(database, name)


async def test_a_fact_is_told_with_both_clocks(graph: Graph) -> None:
    """The whole fact, but for what the server makes up; dates as precise as they came."""
    added = await graph.post("/facts", BOSS)
    assert added == {"added": 1, "known": 0, "rejected": 0, "without_evidence": 1, "failed": []}
    listed = await graph.get("/facts")
    (fact,) = listed["facts"]
    assert listed == {"facts": [fact], "total": 1, "undecided": 0}
    assert {key: fact[key] for key in fact if key not in {"id", "recorded_at"}} == {
        "subject": {"id": fact["subject"]["id"], "name": "Sam Altman", "type": "person", "disambiguator": ""},
        "predicate": "chief executive of",
        "object": {"id": fact["object"]["id"], "name": "OpenAI", "type": "company", "disambiguator": ""},
        "value": None,
        "from": "2019",
        "to": "2023-11-17",
        "confidence": 0.9,
        "status": "asserted",
        "superseded_at": None,
        "superseded_by": None,
        "evidence": None,
        "quote": "He led it.",
        "origin": "api",
    }


async def test_good_rows_go_in_and_bad_ones_are_told_by_their_place(graph: Graph) -> None:
    """One request, each row judged by itself; sending it again changes nothing."""
    body = {"rows": [BOSS, {**BOSS, "from": "soon"}, 7, BOSS]}
    failed = [
        {"line": 2, "error": "`from` is 'soon'; give it as YYYY, YYYY-MM or YYYY-MM-DD."},
        {"line": 3, "error": "a row is a JSON object"},
    ]
    told = {"added": 1, "known": 1, "rejected": 0, "without_evidence": 1, "failed": failed}
    assert await graph.post("/facts", body) == told
    assert await graph.post("/facts", body) == {**told, "added": 0, "known": 2, "without_evidence": 0}
    one_bad = await graph.post("/facts", {"subject": "x"})
    assert one_bad["failed"] == [{"line": 1, "error": "predicate: Field required"}]


@pytest.mark.parametrize(
    ("path", "body", "refusal"),
    [
        ("/facts", {"rows": {}}, (422, "invalid", "Give one row, or an object with nothing but a list `rows`.")),
        ("/facts", {"rows": [7] * 5_001}, (413, "too_large", "There are 5001 rows; 5000 are allowed at a time.")),
        ("/facts", [BOSS], (422, "invalid", "body: Input should be a valid dictionary")),
        ("/facts/not-an-id/reject", None, (422, "invalid", "")),
    ],
)
async def test_a_body_that_holds_no_rows_is_refused(
    graph: Graph, path: str, body: object, refusal: tuple[int, str, str]
) -> None:
    """Before anything is recorded."""
    status, code, message = await graph.refused("POST", path, body)
    assert (status, code) == refusal[:2]
    assert message.startswith(refusal[2])


async def test_facts_are_read_at_a_time_and_as_of_a_time(graph: Graph) -> None:
    """Issue 4 item 1: `at` filters valid time, `as_of` record time, both together work, on every read route."""
    await graph.post("/facts", BOSS)
    (old,) = (await graph.get("/facts"))["facts"]
    new = await graph.post(f"/facts/{old['id']}/correct", {**BOSS, "to": "open"})
    assert new["to"] == "open"
    before = {"as_of": new["recorded_at"]}
    assert [f["to"] for f in (await graph.get("/facts", at="2024"))["facts"]] == ["open"]
    assert (await graph.get("/facts", at="2024", **before))["facts"] == []
    (was,) = (await graph.get("/facts", at="2023", **before))["facts"]
    assert (was["id"], was["status"], was["superseded_by"]) == (old["id"], "corrected", new["id"])
    entity = f"/entities/{old['subject']['id']}"
    assert [f["id"] for f in (await graph.get(entity, at="2024"))["facts"]] == [new["id"]]
    assert (await graph.get(entity, at="2024", **before))["fact_count"] == 0
    assert [e["fact_count"] for e in (await graph.get("/entities", at="2024"))["entities"]] == [1, 1]
    assert [e["fact_count"] for e in (await graph.get("/entities", at="2024", **before))["entities"]] == [0, 0]
    assert (await graph.get("/entities", as_of="2020"))["entities"] == []
    assert (await graph.refused("GET", f"{entity}?as_of=2020"))[0] == 404
    for route in ("/facts", "/entities", entity):
        for question in ("at=soon", "as_of=2023-02-30"):
            assert (await graph.refused("GET", f"{route}?{question}"))[:2] == (422, "invalid")


async def test_facts_are_listed_by_subject_and_predicate(graph: Graph) -> None:
    """A subject by id, name or alias, a predicate however it is written; pages are bounded."""
    await graph.post("/facts", {"rows": [BOSS, {**BOSS, "predicate": "co-founder of", "from": "2015", "to": "2015"}]})
    (first, second) = (await graph.get("/facts"))["facts"]
    assert [first["predicate"], second["predicate"]] == ["co-founder of", "chief executive of"]
    for subject in ("sam altman", "萨姆·奥尔特曼", first["subject"]["id"]):
        assert (await graph.get("/facts", subject=subject))["total"] == 2
    assert (await graph.get("/facts", subject="nobody"))["total"] == 0
    assert (await graph.get("/facts", predicate="Chief_executive of"))["facts"] == [second]
    assert await graph.get("/facts", limit=1, offset=1) == {"facts": [second], "total": 2, "undecided": 0}
    assert (await graph.refused("GET", "/facts?limit=201"))[:2] == (422, "invalid")


async def test_entities_are_listed_and_merged(graph: Graph) -> None:
    """The one that was merged stands for nothing any more, but can be looked at."""
    rows = [BOSS, {"subject": "OpenAI Inc", "subject_type": "org", "predicate": "founded in", "value": "2015"}]
    await graph.post("/facts", {"rows": rows})
    listed = await graph.get("/entities", q="OPENAI")
    assert [(e["name"], e["type"], e["fact_count"]) for e in listed["entities"]] == [
        ("OpenAI", "company", 1),
        ("OpenAI Inc", "org", 1),
    ]
    assert (await graph.get("/entities", type="person"))["total"] == 1
    into, merged = listed["entities"]
    told = await graph.post(f"/entities/{merged['id']}/merge", {"into": into["id"]})
    assert told == {**into, "aliases": ["OpenAI Inc"], "fact_count": 2}
    assert (await graph.get("/entities", q="OpenAI"))["entities"] == [told]
    assert (await graph.get(f"/entities/{merged['id']}"))["merged_into"] == into["id"]
    assert (await graph.refused("POST", f"/entities/{merged['id']}/merge", {"into": into["id"]}))[:2] == (
        409,
        "conflict",
    )
    assert (await graph.refused("POST", f"/entities/{into['id']}/merge", {"into": into["id"]}))[:2] == (422, "invalid")


async def test_a_decision_is_made_once(graph: Graph) -> None:
    """Deciding again is a conflict, also about a fact; what isn't there is 404."""
    accepted = await graph.propose(BOSS)
    refused = await graph.propose({**BOSS, "to": "open"})
    assert [p["id"] for p in (await graph.get("/proposals", status="pending"))["proposals"]] == [accepted, refused]
    done = await graph.post(f"/proposals/{accepted}/accept")
    assert (done["status"], done["decided_by"], done["fact"]) == ("accepted", "local", BOSS)
    (fact,) = (await graph.get("/facts"))["facts"]
    assert (fact["id"], fact["origin"]) == (done["fact_id"], "remember")
    assert (await graph.post(f"/proposals/{refused}/refuse"))["status"] == "refused"
    for proposal in (accepted, refused):
        for decision in ("accept", "refuse"):
            answer = await graph.refused("POST", f"/proposals/{proposal}/{decision}")
            assert answer[:2] == (409, "conflict")
    assert (await graph.get("/proposals", status="pending")) == {"proposals": [], "total": 0}
    assert (await graph.get("/proposals"))["total"] == 2
    assert (await graph.post(f"/facts/{fact['id']}/reject"))["status"] == "rejected"
    assert (await graph.post("/facts", {"rows": [BOSS]}))["known"] == 1
    assert (await graph.get("/facts"))["facts"] == []
    assert (await graph.post("/facts", BOSS))["added"] == 1
    assert (await graph.refused("POST", f"/facts/{fact['id']}/reject"))[:2] == (409, "conflict")
    for path in (f"/facts/{new_id()}/reject", f"/proposals/{new_id()}/accept"):
        assert (await graph.refused("POST", path))[:2] == (404, "not_found")


async def test_a_base_that_is_not_there_has_no_graph(graph: Graph) -> None:
    """On every route."""
    for path in ("/facts", "/entities", "/proposals"):
        assert (await graph.refused("GET", f"http://test/api/bases/nowhere{path}"))[:2] == (404, "not_found")


async def test_the_command_takes_a_file_in_and_tells_what_failed(
    database_url: URL, graph: Graph, tmp_path: Path
) -> None:
    """Issue 4 item 2: `turnstream facts import`; 1 when a row failed, 0 when none did, 2 when nothing could begin."""
    base = str(graph.http.base_url).rstrip("/").rpartition("/")[2]

    async def imported(path: Path, where: str = base) -> tuple[int, str]:
        address = database_url.render_as_string(hide_password=False)
        status, said = await run("facts", "import", str(path), "--base", where, database_url=address)
        return status, " ".join(said.split())

    path = tmp_path / "facts.jsonl"
    path.write_text(json.dumps(BOSS) + "\n{}\n")
    status, told = await imported(path)
    assert status == 1
    assert "facts.jsonl:2: subject: Field required; predicate: Field required" in told
    assert "2 rows: 1 added, 0 known, 1 failed; 1 without evidence." in told
    path.write_text(json.dumps(BOSS))
    status, told = await imported(path)
    assert (status, "1 row: 0 added, 1 known." in told) == (0, True)
    (tmp_path / "facts.txt").write_text("x")
    for wrong, where in ((tmp_path / "facts.txt", base), (tmp_path / "no.csv", base), (path, "nowhere")):
        status, told = await imported(wrong, where)
        assert status == 2, told


async def test_the_sample_s_facts_all_rest_on_passages_of_its_documents(postgres: PostgresServer) -> None:
    """Issue 4 item 2: the sample base ships its facts; the question of the README has its answer in them."""
    async with postgres.new_database() as url:
        database = Database(url)
        base = await bases.ensure_default(database)
        ingest = Ingest(database)
        async with ingest.running():
            results = [result async for result in ingest_paths(ingest, base.id, (SAMPLE,))]
        assert [result.error for result in results if result.error] == []
        done = await import_file(database, base.id, SAMPLE / "facts.jsonl")
        assert done == ImportReport(added=done.added)
        assert done.added >= 170
        assert await import_file(database, base.id, SAMPLE / "facts.jsonl") == ImportReport(known=done.added)
        day = (date(2023, 11, 17), date(2023, 11, 17))
        board = FactFilter(predicate="member of the board of", at=day)
        assert {fact.subject.name for fact in (await facts.find(database, base.id, board, limit=50)).facts} == {
            "Greg Brockman",
            "Ilya Sutskever",
            "Sam Altman",
            "Adam D'Angelo",
            "Tasha McCauley",
            "Helen Toner",
        }
        await database.aclose()


async def test_a_remembered_sentence_without_a_fact_needs_one_with_the_nod(graph: Graph) -> None:
    """A nod to nothing is refused and leaves it pending; the fact that a person gives is recorded (issue 4 item 3)."""
    bare = await graph.propose({})
    assert (await graph.refused("POST", f"/proposals/{bare}/accept"))[:2] == (422, "invalid")
    done = await graph.post(f"/proposals/{bare}/accept", {"fact": BOSS})
    assert (done["status"], done["decided_by"]) == ("accepted", "local")
    assert (await graph.get("/facts"))["total"] == 1
