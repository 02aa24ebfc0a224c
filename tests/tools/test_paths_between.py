"""paths_between: chains of facts, shortest first, with a bound on what is read."""

from typing import Any

import pytest

from app.knowledge.fact_rows import ReadRow
from app.knowledge.facts_import import import_rows
from app.store import bases, graph_links
from app.store.graph import View
from app.store.graph_links import PathQuery
from app.store.ids import new_id
from app.tools.paths_between import TOOL
from app.tools.tool import Step
from tests.tools.conftest import GraphBase, row


async def test_a_chain_is_told_link_by_link(graph: GraphBase) -> None:
    """The whole observation: both ends resolved, each link with range and source."""
    context = graph.context()
    result = await graph.call(TOOL, context, a="Sam Altman", b=graph.ids["Satya Nadella"])
    assert graph.named(result.text) == (
        "<Sam Altman> | Sam Altman | person\n<Satya Nadella> | Satya Nadella | person\n1.\n"
        "   - Sam Altman member of board of OpenAI (id <OpenAI>); 2015-12-11 to 2023-11-17 [1]\n"
        "   also: Sam Altman chief executive of OpenAI (id <OpenAI>); 2019 to unknown end\n"
        "   - Microsoft (id <Microsoft>) invested in OpenAI (id <OpenAI>); 2019-07-22 to open [2]\n"
        "   - Satya Nadella chief executive of Microsoft (id <Microsoft>); 2014-02-04 to open\n"
        "1 chain, shortest first."
    )
    assert result.step == Step("path", "Sam Altman → Satya Nadella", "1 chain")
    assert [entity.name for entity in result.resolved] == ["Sam Altman", "Satya Nadella"]
    assert [source.n for source in context.citations.sources] == [1, 2]


async def test_no_chain_is_said_plainly(graph: GraphBase) -> None:
    """EMPTY, with the bound that was asked for."""
    result = await graph.run(TOOL, a="Sam Altman", b="Satya Nadella", max_hops=2)
    assert (result.status, result.text.split("\n")[-1]) == ("empty", "no chain of at most 2 links was found.")


async def test_links_of_unknown_date_are_left_out_and_counted(graph: GraphBase) -> None:
    """At a time, a chain of doubtful links would be no answer."""
    result = await graph.run(TOOL, a="Sam Altman", b="Satya Nadella", at="2024-01")
    assert result.status == "empty"
    assert result.text.split("\n")[-1] == "1 link of unknown date was left out: not known to hold at 2024-01."
    assert (await graph.run(TOOL, a="Sam Altman", b="Satya Nadella", at="2020")).status == "ok"


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ({"a": "Kim", "b": "OpenAI"}, "error"),
        ({"a": "OpenAI", "b": "Kim"}, "error"),
        ({"a": "OpenAI", "b": "openai inc."}, "error"),
        ({"a": "OpenAI", "b": "Microsoft", "at": "x"}, "error"),
        ({"a": "nobody", "b": "OpenAI"}, "empty"),
        ({"a": "OpenAI", "b": "nobody"}, "empty"),
    ],
)
async def test_ends_that_are_not_two_clear_entities_are_said_so(
    graph: GraphBase, arguments: dict[str, Any], status: str
) -> None:
    """Ambiguous, the same, unknown."""
    assert (await graph.run(TOOL, **arguments)).status == status


@pytest.fixture(scope="session")
async def hub(graph: GraphBase) -> GraphBase:
    """Left and Right, each linked with 60 entities of which 12 are common, and a chain of four links elsewhere."""
    base = await bases.create(graph.database, f"hub-{new_id()}")
    assert base is not None
    rows = [{"subject": "Left", "predicate": "knows", "object": f"N{n}"} for n in range(60)]
    rows += [{"subject": f"N{n}", "predicate": "knows", "object": "Right"} for n in range(48, 108)]
    rows += [{"subject": f"C{n}", "predicate": "leads to", "object": f"C{n + 1}"} for n in range(4)]
    report = await import_rows(
        graph.database, base.id, [ReadRow(n, row(dict(r))) for n, r in enumerate(rows)], origin="import"
    )
    assert report.added == len(rows)
    return GraphBase(graph.database, base.id)


async def test_many_chains_are_bounded_and_said_so(hub: GraphBase) -> None:
    """Eight of twelve."""
    result = await hub.run(TOOL, a="Left", b="Right", max_hops=4)
    assert result.step.detail == "8 chains"
    assert result.text.split("\n")[-1] == (
        "showing 8 chains, shortest first; there may be more: narrow with `at` or `max_hops`."
    )


@pytest.mark.parametrize(("max_hops", "status"), [(3, "empty"), (4, "ok")])
async def test_four_links_are_found_only_where_four_are_asked_for(hub: GraphBase, max_hops: int, status: str) -> None:
    """Both halves meet in the middle."""
    assert (await hub.run(TOOL, a="C0", b="C4", max_hops=max_hops)).status == status


async def test_what_is_read_is_bounded_and_it_is_known(hub: GraphBase) -> None:
    """Exactly so many links, counted over all levels of both ends."""
    view = View(hub.base_id)
    left, right = [(await hub.run(TOOL, a=n, b="C0")).resolved[0].id for n in ("Left", "Right")]
    query = PathQuery(left, right, 4)
    few = await graph_links.links(hub.database, view, query, max_edges=50)
    assert (len(few.edges), few.bounded) == (50, True)
    enough = await graph_links.links(hub.database, view, query)
    assert (len(enough.edges), enough.bounded) == (120, False)


async def test_the_model_is_told_that_the_bound_was_hit(hub: GraphBase, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then no chain is no proof that there is none."""
    read = graph_links.links

    async def bounded(*arguments: Any) -> graph_links.Links:
        return await read(*arguments, max_edges=10)

    monkeypatch.setattr(graph_links, "links", bounded)
    result = await hub.run(TOOL, a="Left", b="C4")
    assert result.status == "empty"
    assert result.text.split("\n")[-1].startswith("the search was ended at its bound of ")
