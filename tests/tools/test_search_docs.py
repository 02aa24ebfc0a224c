"""search_docs: the product's manual, from its own pages, without a database."""

from pathlib import Path

import pytest

from app.knowledge.manual import load, manual
from app.store.engine import Database
from app.tools.search_docs import TOOL, Arguments
from app.tools.tool import Citations, Step, ToolContext, ToolResult


@pytest.fixture
def context() -> ToolContext:
    """No server answers this address: the tool asks none."""
    return ToolContext(Database("postgresql://nobody@localhost:1/none"), "base", "question", Citations())


async def test_a_setting_is_found_in_the_manual(context: ToolContext) -> None:
    """The sections that hold the words, numbered as sources of kind manual."""
    result = await TOOL.run(context, Arguments(query="TURNSTREAM_MAX_UPLOAD_BYTES"))
    assert result.status == "ok"
    assert "TURNSTREAM_MAX_UPLOAD_BYTES" in result.text
    first = context.citations.sources[0]
    assert (first.n, first.kind, first.document_id) == (1, "manual", None)
    assert first.id.partition("#")[1] == "#"
    assert result.step == Step("manual", "TURNSTREAM_MAX_UPLOAD_BYTES", result.text.partition(" of the manual")[0])


@pytest.mark.parametrize(
    ("query", "page"),
    [
        ("configure a chat model", "07-configuring-a-model"),
        ("which files can be read", "05-documents-and-bases"),
        ("What does evidence verdict cited mean?", "04-evidence-and-sources"),
    ],
)
async def test_a_question_about_the_product_finds_its_page(context: ToolContext, query: str, page: str) -> None:
    """The best section is of the page that is about it."""
    await TOOL.run(context, Arguments(query=query))
    assert context.citations.sources[0].id.startswith(f"{page}#")


@pytest.mark.parametrize(
    ("query", "status", "begins"),
    [
        ("", "error", "`query` is blank"),
        ("  \n", "error", "`query` is blank"),
        ("!?", "empty", "no searchable words"),
        ("quetzalcoatl", "empty", "the manual holds none"),
    ],
)
async def test_what_cannot_be_looked_up_is_told(context: ToolContext, query: str, status: str, begins: str) -> None:
    """Blank is an error that names the field; nothing found is EMPTY."""
    result = await TOOL.run(context, Arguments(query=query))
    assert result.status == status
    assert result.text.startswith(begins)


async def test_sections_are_cut_at_headings(tmp_path: Path, context: ToolContext) -> None:
    """A section's id is its page and its heading's anchor."""
    (tmp_path / "a-page.md").write_text("# A page\n\nIntro.\n\n## Ways in & out\n\nDoors.\n", encoding="utf-8")
    sections = load(tmp_path).sections
    assert [(one.id, one.title, one.heading, one.text) for one in sections] == [
        ("a-page#a-page", "A page", "", "Intro."),
        ("a-page#ways-in--out", "A page", "Ways in & out", "Doors."),
    ]


def test_every_section_of_the_manual_has_an_id_of_its_own() -> None:
    """A source can be opened."""
    ids = [section.id for section in manual().sections]
    assert len(ids) == len(set(ids))
    assert len(ids) > 20


def test_the_tools_result_is_complete() -> None:
    """Nothing but what a ToolResult has."""
    assert ToolResult("empty", "x", Step("manual", "x")).structured == {}
