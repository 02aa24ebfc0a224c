"""entity_facts: grouped, dated as precisely as known, cited; both clocks; an unknown date is no open one."""

import pytest

from app.knowledge.fact_rows import ReadRow
from app.knowledge.facts_import import import_rows
from app.knowledge.ingest import Ingest
from app.store import bases
from app.store.ids import new_id
from app.tools.entity_facts import TOOL
from app.tools.graph_sheet import SHEET_CHARS
from app.tools.search_chunks import TOOL as SEARCH
from app.tools.tool import Citations, Entity, NumberedSource, Source, Step
from tests.tools.conftest import BOARD_QUOTE, MONEY_QUOTE, SUTSKEVER_QUOTE, GraphBase, graph_in, row

HEAD = "<OpenAI> | OpenAI | organization; also called OpenAI Inc."


async def test_facts_stand_under_their_predicate_with_range_confidence_and_source(graph: GraphBase) -> None:
    """The whole observation; facts of one passage share its number, and their sentences stand in its excerpt."""
    context = graph.context()
    result = await graph.call(TOOL, context, entity_id="OpenAI")
    assert graph.named(result.text) == (
        f"{HEAD}\n"
        "headquarters:\n- San Francisco (9); date unknown\n"
        "chief executive of OpenAI:\n- Sam Altman (id <Sam Altman>); 2019 to unknown end\n"
        "chief scientist of OpenAI:\n"
        "- Ilya Sutskever (id <Ilya Sutskever>); 2015 to 2024-05; confidence 0.8 [1]\n"
        "invested in OpenAI:\n- Microsoft (id <Microsoft>); 2019-07-22 to open [2]\n"
        "member of board of OpenAI:\n- Sam Altman (id <Sam Altman>); 2015-12-11 to 2023-11-17 [1]\n"
        "5 facts."
    )
    assert result.step == Step("facts", "OpenAI", "5 facts")
    assert result.resolved == (Entity(graph.ids["OpenAI"], "OpenAI", "organization"),)
    assert [(s.n, s.kind, s.title, s.locator, s.excerpt) for s in context.citations.sources] == [
        (1, "chunk", "board", "The board", f"{SUTSKEVER_QUOTE} … {BOARD_QUOTE}"),
        (2, "chunk", "board", "Money", MONEY_QUOTE),
    ]


async def test_a_passage_found_by_search_keeps_its_number_and_shows_the_sentence(graph: GraphBase) -> None:
    """Numbers belong to the turn: search and graph share them both ways."""
    context = graph.context()
    await graph.call(SEARCH, context, query="Microsoft invested")
    before = context.citations.sources
    result = await graph.call(TOOL, context, entity_id="OpenAI", predicate="invested in")
    assert graph.named(result.text).split("\n")[2] == "- Microsoft (id <Microsoft>); 2019-07-22 to open [1]"
    assert context.citations.sources == before
    assert MONEY_QUOTE in before[0].excerpt


async def test_an_id_needs_no_look_up_and_a_name_that_is_no_name_says_what_it_was_taken_for(graph: GraphBase) -> None:
    """An id in capitals is the same id."""
    by_id = await graph.run(TOOL, entity_id=graph.ids["Satya Nadella"].upper())
    assert graph.named(by_id.text).split("\n")[0] == "<Satya Nadella> | Satya Nadella | person"
    by_part = await graph.run(TOOL, entity_id="Nadella")
    assert by_part.text == f"'Nadella' was taken for:\n{by_id.text}"


@pytest.mark.parametrize(
    ("at", "holding", "unknown"),
    [
        ("2016", ["chief scientist", "member of board"], ["headquarters"]),
        ("2015-12-10", ["chief scientist"], ["headquarters"]),
        ("2015-12-11", ["chief scientist", "member of board"], ["headquarters"]),
        ("2023-11", ["chief scientist", "invested", "member of board"], ["headquarters", "chief executive"]),
        ("2023-11-18", ["chief scientist", "invested"], ["headquarters", "chief executive"]),
        ("2024-05-31", ["chief scientist", "invested"], ["headquarters", "chief executive"]),
        ("2024-06", ["invested"], ["headquarters", "chief executive"]),
        ("2019-03", ["chief executive", "chief scientist", "member of board"], ["headquarters"]),
        ("1990", [], ["headquarters"]),
    ],
)
async def test_at_shows_what_held_and_tells_unknown_dates_apart(
    graph: GraphBase, at: str, holding: list[str], unknown: list[str]
) -> None:
    """Decision 0008: an unknown end is not an open one; what certainly didn't hold is left out."""
    result = await graph.run(TOOL, entity_id="OpenAI", at=at)
    held, _, undecided = result.text.partition(f"\ndate unknown ({len(unknown)}): not known whether these held at {at}")
    for part, expected in ((held, holding), (undecided, unknown)):
        headings = [line for line in part.split("\n")[1 if part is held else 0 :] if line.endswith(":")]
        assert [heading.split(" of OpenAI")[0].split(" in OpenAI")[0].rstrip(":") for heading in headings] == expected


async def test_a_predicate_narrows_and_none_that_fits_lists_those_there_are(graph: GraphBase) -> None:
    """A part of a predicate is enough; underscores are spaces; signs are letters."""
    some = await graph.run(TOOL, entity_id="OpenAI", predicate="Chief_Executive")
    assert some.step.detail == "1 fact"
    none = await graph.run(TOOL, entity_id="OpenAI", predicate="%")
    assert none.status == "empty"
    assert graph.named(none.text) == (
        f"{HEAD}\nno fact fits. It has facts with these predicates: chief executive of (1), chief scientist of (1), "
        "headquarters (1), invested in (1), member of board of (1)."
    )


async def test_a_name_of_several_is_an_error_that_lists_them(graph: GraphBase) -> None:
    """The model takes an id, it doesn't guess."""
    result = await graph.run(TOOL, entity_id="Kim")
    assert (result.status, result.resolved) == ("error", ())
    assert graph.named(result.text) == (
        "`entity_id` 'Kim' may mean several entities; call again with the id of one:\n"
        "<Kim the poet> | Kim (the poet) | no type | 1 fact\n<Kim the pilot> | Kim (the pilot) | no type | 1 fact"
    )


@pytest.mark.parametrize("given", ["nobody at all", "01900000-0000-7000-8000-000000000000"])
async def test_who_is_not_there_is_empty(graph: GraphBase, given: str) -> None:
    """An unknown id and an unknown name alike, also an id of another base."""
    assert (await graph.run(TOOL, entity_id=given)).status == "empty"
    other = await bases.create(graph.database, f"other-{new_id()}")
    assert other is not None
    elsewhere = GraphBase(graph.database, other.id)
    assert (await elsewhere.run(TOOL, entity_id=graph.ids["OpenAI"])).status == "empty"


@pytest.mark.parametrize("at", ["soon", "2023-13", "2023-11-17T00:00:00Z"])
async def test_a_time_that_is_none_is_an_error_with_the_forms(graph: GraphBase, at: str) -> None:
    """Nothing is guessed."""
    result = await graph.run(TOOL, entity_id="OpenAI", at=at)
    assert result.status == "error"
    assert result.text.startswith("`at` is ")


async def test_before_a_correction_the_old_fact_is_believed(corrected: GraphBase) -> None:
    """Record time: the exact instant of the correction shows what was believed just before it, and `at` still works."""
    now = await corrected.run(TOOL, entity_id="Mistaken", at="2001")
    assert "- large; 2001 to 2002" in now.text
    assert "colour" not in now.text
    when = await corrected.instant("superseded_at", "facts", "value = 'small'")
    before = await corrected.run(TOOL, as_of=when, entity_id="Mistaken", at="2001")
    assert "- small; 2001 to 2002" in before.text
    assert "(at 2001, as believed before " in before.text
    assert "\ndate unknown (1): not known whether these held at 2001\ncolour:\n- red; date unknown" in before.text


async def test_a_merged_entity_stands_for_the_other(corrected: GraphBase) -> None:
    """An id that an earlier turn resolved still leads to the facts."""
    result = await corrected.run(TOOL, entity_id=corrected.ids["Old Name"])
    assert corrected.named(result.text) == (
        "<Old Name> was merged into:\n<New Name> | New Name | no type; also called Old Name\n"
        "founded:\n- 1990; 1990\nmotto:\n- onwards; date unknown\n2 facts."
    )


async def test_a_long_list_is_cut_before_the_observation_is_and_cites_only_what_it_shows(graph: GraphBase) -> None:
    """TOOLS O11, O12, O16: shown, total, how to narrow."""
    base = await bases.create(graph.database, f"hub-{new_id()}")
    assert base is not None
    rows = [
        ReadRow(n, row({"subject": "Hub", "predicate": "owns", "value": f"{n} {'x' * 290}"})) for n in range(1, 121)
    ]
    await import_rows(graph.database, base.id, rows, origin="import")
    hub = GraphBase(graph.database, base.id)
    few = await hub.run(TOOL, entity_id="Hub", limit=3)
    assert few.text.split("\n")[-1] == "showing 3 of 120 facts; narrow with `predicate` or `at`, or raise `limit`."
    many = await hub.run(TOOL, entity_id="Hub", limit=100)
    shown = many.text.count("\n- ")
    assert SHEET_CHARS - 400 < len(many.text) < SHEET_CHARS + 200
    assert many.text.split("\n")[-1].startswith(f"showing {shown} of 120 facts; ")


async def test_evidence_that_was_superseded_cites_nothing_but_did_before(graph: GraphBase) -> None:
    """The fact stays, its number goes with the passage; record time brings it back."""
    own = await graph_in(graph.database, f"superseded-{new_id()}")
    ingest = Ingest(own.database)
    async with ingest.running():
        await ingest.submit(own.base_id, "board.md", b"# The board\n\nRewritten.\n")
        await ingest.drain()
    now, before = own.context(), own.context(as_of=await own.instant("superseded_at", "documents", "version = 1"))
    told = [await own.call(TOOL, context, entity_id="Microsoft", predicate="invested in") for context in (now, before)]
    assert [own.named(result.text).split("\n")[2] for result in told] == [
        "- OpenAI (id <OpenAI>); 2019-07-22 to open",
        "- OpenAI (id <OpenAI>); 2019-07-22 to open [1]",
    ]
    assert now.citations.sources == ()
    assert [source.excerpt for source in before.citations.sources] == [MONEY_QUOTE]


def test_a_quote_is_shown_once_and_within_bounds() -> None:
    """A passage keeps its number; its excerpt grows by the sentences that facts rest on."""
    citations = Citations()
    source = Source("chunk", "c1", "d1", "board.md", "The board", "It began.")
    assert [citations.cite(source), citations.cite(source, quote="Then\n it  ended."), citations.cite(source)] == [
        1,
        1,
        1,
    ]
    citations.cite(source, quote="Then it ended.")
    assert citations.sources == (
        NumberedSource(1, "chunk", "c1", "d1", "board.md", "The board", "It began. … Then it ended."),
    )
    for n in range(50):
        citations.cite(source, quote=f"{n} {'word ' * 40}")
    assert len(citations.sources[0].excerpt) <= 1_000
