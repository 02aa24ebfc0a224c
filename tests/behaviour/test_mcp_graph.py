"""The knowledge graph asked over MCP: ids from one call go into the next, numbers and record time hold, notes wait."""

import uuid
from typing import Any

import pytest
from mcp import Client, types

from app.knowledge.fact_rows import FactRow, ReadRow, parse_row
from app.knowledge.facts_import import import_rows
from app.store import bases
from tests.harness.app import App

QUOTE = "Sam Altman sat on the board of OpenAI from 11 December 2015 until 17 November 2023."
ROWS: list[dict[str, object]] = [
    {
        "subject": "Sam Altman",
        "subject_type": "person",
        "object": "OpenAI",
        "object_type": "organization",
        "predicate": "member of board of",
        "from": "2015-12-11",
        "to": "2023-11-17",
        "evidence": "board.md",
        "quote": QUOTE,
    },
    {"subject": "Sam Altman", "subject_type": "person", "predicate": "residence", "value": "San Francisco"},
]


@pytest.fixture(scope="module")
async def base(app: App) -> str:
    """A base with two facts, one of which rests on a document; by its name."""
    name = f"graph-{uuid.uuid4().hex[:8]}"
    assert (await app.http.post("/api/bases", json={"name": name})).status_code == 201
    await app.upload("board.md", f"# The board\n\n{QUOTE}\n".encode(), base=name)
    base_id = await bases.find_id(app.parts.database, name)
    assert base_id is not None
    report = await import_rows(
        app.parts.database, base_id, [ReadRow(n, row(r)) for n, r in enumerate(ROWS, 1)], origin="import"
    )
    assert report.added == len(ROWS), report
    return name


def row(value: dict[str, object]) -> FactRow:
    parsed = parse_row(value)
    assert isinstance(parsed, FactRow), parsed
    return parsed


def text_of(result: types.CallToolResult) -> str:
    [block] = result.content
    assert isinstance(block, types.TextContent)
    return block.text


def content(result: types.CallToolResult) -> dict[str, Any]:
    return result.structured_content


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_an_id_that_was_found_is_asked_about(app: App, base: str, era: str) -> None:
    """The found entity stands in `resolved`; its fact ends with the number of the source that quotes it."""
    async with Client(f"{app.url}/mcp?base={base}", mode=era) as mcp:
        found = await mcp.call_tool("find_entities", {"name": "altman"})
        [entity] = content(found)["resolved"]
        assert (entity["name"], entity["type"]) == ("Sam Altman", "person")
        told = await mcp.call_tool("entity_facts", {"entity_id": entity["id"], "predicate": "board"})
    [source] = content(told)["sources"]
    assert (source["n"], source["kind"], source["title"]) == (1, "chunk", "The board")
    assert QUOTE in source["excerpt"]
    [line] = [line for line in text_of(told).splitlines() if "OpenAI" in line]
    assert line.endswith("[1]")
    assert content(told)["status"] == "ok"
    assert content(told)["data"]["facts"] != []


async def test_the_record_time_of_a_call_holds_for_the_graph(app: App, base: str) -> None:
    """What was not recorded yet is not there: EMPTY, which is no error (M9)."""
    async with Client(f"{app.url}/mcp?base={base}") as mcp:
        now = await mcp.call_tool("find_entities", {"name": "Sam Altman"})
        then = await mcp.call_tool("find_entities", {"name": "Sam Altman"}, meta={"turnstream/as_of": "2001"})
        [entity] = content(now)["resolved"]
        facts = await mcp.call_tool("entity_facts", {"entity_id": entity["id"]}, meta={"turnstream/as_of": "2001"})
    assert text_of(now).startswith("OK: ")
    assert (text_of(then)[:7], then.is_error) == ("EMPTY: ", False)
    assert "member of board of" not in text_of(facts)


async def test_what_is_to_be_remembered_waits_for_a_nod(app: App, base: str) -> None:
    """Said twice, it is proposed once; it is not in the graph."""
    fact = {"subject": "Sam Altman", "predicate": "favourite colour", "value": "teal"}
    arguments = {"text": "Sam Altman likes teal.", "facts": [fact]}
    async with Client(f"{app.url}/mcp?base={base}") as mcp:
        kept = [await mcp.call_tool("remember", arguments) for _ in range(2)]
        asked = await mcp.call_tool("entity_facts", {"entity_id": "Sam Altman"})
    assert [result.is_error for result in kept] == [False, False]
    assert "teal" not in text_of(asked)
    pending = await app.rows(
        "SELECT p.status, p.proposed_by FROM proposals p JOIN bases b ON b.id = p.base_id WHERE b.name = :base",
        base=base,
    )
    assert [tuple(proposal) for proposal in pending] == [("pending", "local")]
