"""A base with a graph, a document that its facts rest on, and a history of corrections, for the tests of graph tools."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

import pytest
from sqlalchemy import text

from app.knowledge.corrections import correct, merge, reject
from app.knowledge.fact_rows import FactRow, ReadRow, parse_row
from app.knowledge.facts_import import import_rows
from app.knowledge.ingest import Ingest
from app.knowledge.moments import show_instant
from app.store import bases
from app.store.engine import Database
from app.store.ids import new_id
from app.tools.registry import AnyTool
from app.tools.tool import Citations, ToolContext, ToolResult
from tests.harness.postgres import PostgresServer

BOARD = """# The board

Sam Altman sat on the board of OpenAI from 11 December 2015 until 17 November 2023.
Ilya Sutskever was chief scientist of OpenAI until May 2024.

# Money

Microsoft invested in OpenAI on 22 July 2019.
"""

ALTMAN = {"subject": "Sam Altman", "subject_type": "person", "subject_aliases": ["萨姆·阿尔特曼", "Samuel Altman"]}
OPENAI = {"object": "OpenAI", "object_type": "organization", "object_aliases": ["OpenAI Inc."]}
BOARD_QUOTE = "Sam Altman sat on the board of OpenAI from 11 December 2015 until 17 November 2023."
SUTSKEVER_QUOTE = "Ilya Sutskever was chief scientist of OpenAI until May 2024."
MONEY_QUOTE = "Microsoft invested in OpenAI on 22 July 2019."

ROWS: list[dict[str, object]] = [
    {**ALTMAN, **OPENAI, "predicate": "member of board of", "from": "2015-12-11", "to": "2023-11-17",
     "evidence": "board.md", "quote": BOARD_QUOTE},
    {**ALTMAN, **OPENAI, "predicate": "chief executive of", "from": "2019"},
    {"subject": "Ilya Sutskever", "subject_type": "person", **OPENAI, "predicate": "chief scientist of", "from": "2015",
     "to": "2024-05", "confidence": 0.8, "evidence": "board.md", "quote": SUTSKEVER_QUOTE},
    {"subject": "Microsoft", "subject_type": "organization", **OPENAI, "predicate": "invested in", "from": "2019-07-22",
     "to": "open", "evidence": "board.md", "quote": MONEY_QUOTE},
    {"subject": "OpenAI", "subject_type": "organization", "predicate": "headquarters", "value": "San Francisco [9]"},
    {"subject": "Satya Nadella", "subject_type": "person", "object": "Microsoft", "predicate": "chief executive of",
     "from": "2014-02-04", "to": "open"},
    {"subject": "李伟", "subject_disambiguator": "化学家", "predicate": "works at", "value": "北京的化学研究所"},
    {"subject": "李伟", "subject_disambiguator": "足球", "predicate": "plays for", "value": "上海的足球俱乐部"},
    {"subject": "Kim", "subject_disambiguator": "the poet", "predicate": "wrote", "value": "sonnets"},
    {"subject": "Kim", "subject_disambiguator": "the pilot", "predicate": "flew", "value": "gliders"},
    {"subject": "100%_sure", "predicate": "is", "value": "a brand"},
    {"subject": "Old Name", "predicate": "founded", "value": "1990", "from": "1990", "to": "1990"},
    {"subject": "New Name", "predicate": "motto", "value": "onwards"},
    {"subject": "Mistaken", "predicate": "colour", "value": "red"},
    {"subject": "Mistaken", "predicate": "size", "value": "small", "from": "2001", "to": "2002"},
]  # fmt: skip


@dataclass(slots=True)
class GraphBase:
    """The base, and the ids of its entities by name (and disambiguator)."""

    database: Database
    base_id: str
    ids: dict[str, str] = field(default_factory=dict[str, str])

    def context(self, question: str = "?", *, as_of: str | None = None, may_write: bool = False) -> ToolContext:
        return ToolContext(
            self.database,
            self.base_id,
            question,
            Citations(),
            as_of=as_of,
            may_write=may_write,
            owner="ada",
            turn_id="01900000-0000-7000-8000-00000000000a",
        )

    async def run(
        self, tool: AnyTool, question: str = "?", *, as_of: str | None = None, **arguments: object
    ) -> ToolResult:
        """One call of a tool in a turn of its own."""
        return await self.call(tool, self.context(question, as_of=as_of), **arguments)

    async def call(self, tool: AnyTool, context: ToolContext, **arguments: object) -> ToolResult:
        return await tool.run(context, tool.args.model_validate(arguments))

    async def instant(self, column: str, table: str, condition: str) -> str:
        """The latest instant of a column in the base, as `as_of` takes it."""
        async with self.database.read() as connection:
            sql = f"SELECT max({column}) FROM {table} WHERE base_id = CAST(:base_id AS uuid) AND {condition}"
            found = (await connection.execute(text(sql), {"base_id": self.base_id})).scalar_one()
        return show_instant(found)

    def named(self, words: str) -> str:
        """The text with names where ids stand, so that tests can be read."""
        for name, entity_id in self.ids.items():
            words = words.replace(entity_id, f"<{name}>")
        return words


def row(value: dict[str, object]) -> FactRow:
    parsed = parse_row(value)
    assert isinstance(parsed, FactRow), parsed
    return parsed


async def graph_in(database: Database, name: str) -> GraphBase:
    """A new base with the document and the facts; nothing was corrected yet."""
    base = await bases.create(database, name)
    assert base is not None
    ingest = Ingest(database)
    async with ingest.running():
        await ingest.submit(base.id, "board.md", BOARD.encode())
        await ingest.drain()
    rows = [ReadRow(n, row(value)) for n, value in enumerate(ROWS, 1)]
    report = await import_rows(database, base.id, rows, origin="import")
    assert report.added == len(ROWS), report
    graph = GraphBase(database, base.id)
    await _learn_ids(graph)
    return graph


async def _learn_ids(graph: GraphBase) -> None:
    async with graph.database.read() as connection:
        rows = await connection.execute(
            text("SELECT id, name, disambiguator FROM entities WHERE base_id = CAST(:base_id AS uuid)"),
            {"base_id": graph.base_id},
        )
        graph.ids = {f"{r.name} {r.disambiguator}".strip(): str(r.id) for r in rows}


async def fact_id(graph: GraphBase, predicate: str, subject: str) -> str:
    """The id of the believed fact with this predicate of this subject."""
    async with graph.database.read() as connection:
        found = await connection.execute(
            text(
                "SELECT id FROM facts WHERE subject_id = CAST(:subject AS uuid) AND predicate = :predicate"
                " AND superseded_at IS NULL"
            ),
            {"subject": graph.ids[subject], "predicate": predicate},
        )
        return str(found.scalar_one())


@pytest.fixture(scope="session")
async def graph(postgres: PostgresServer) -> AsyncGenerator[GraphBase]:
    """The base as it was imported."""
    async with postgres.new_database() as url:
        database = Database(url)
        yield await graph_in(database, f"graph-{new_id()}")
        await database.aclose()


@pytest.fixture(scope="session")
async def corrected(graph: GraphBase) -> GraphBase:
    """Another base, in which a fact was corrected, one rejected, and two entities were merged, in this order."""
    other = await graph_in(graph.database, f"corrected-{new_id()}")
    size = await fact_id(other, "size", "Mistaken")
    fixed = row({"subject": "Mistaken", "predicate": "size", "value": "large", "from": "2001", "to": "2002"})
    await correct(other.database, other.base_id, size, fixed)
    await reject(other.database, other.base_id, await fact_id(other, "colour", "Mistaken"))
    await merge(other.database, other.base_id, other.ids["Old Name"], other.ids["New Name"])
    return other
