"""neighbors: the entities that one is linked with, most linked first, each link as a cited sentence."""

from typing import Any

import pytest

from app.tools.neighbors import TOOL
from app.tools.tool import Entity, Step
from tests.tools.conftest import GraphBase

HEAD = "<OpenAI> | OpenAI | organization; also called OpenAI Inc."


async def test_neighbours_stand_with_their_links(graph: GraphBase) -> None:
    """The whole observation; values are no neighbours; only the entity that was read is resolved."""
    context = graph.context()
    result = await graph.call(TOOL, context, entity_id="OpenAI")
    assert graph.named(result.text) == (
        f"{HEAD}\n"
        "<Sam Altman> | Sam Altman | person\n"
        "- Sam Altman chief executive of OpenAI; 2019 to unknown end\n"
        "- Sam Altman member of board of OpenAI; 2015-12-11 to 2023-11-17 [1]\n"
        "<Ilya Sutskever> | Ilya Sutskever | person\n"
        "- Ilya Sutskever chief scientist of OpenAI; 2015 to 2024-05; confidence 0.8 [1]\n"
        "<Microsoft> | Microsoft | organization\n"
        "- Microsoft invested in OpenAI; 2019-07-22 to open [2]\n"
        "4 links."
    )
    assert result.step == Step("neighbors", "OpenAI", "4 links")
    assert result.resolved == (Entity(graph.ids["OpenAI"], "OpenAI", "organization"),)
    assert [source.n for source in context.citations.sources] == [1, 2]


async def test_at_tells_links_of_unknown_date_apart(graph: GraphBase) -> None:
    """An unknown end is not an open one."""
    result = await graph.run(TOOL, entity_id="OpenAI", at="2025")
    assert graph.named(result.text) == (
        f"{HEAD} (at 2025)\n"
        "<Microsoft> | Microsoft | organization\n- Microsoft invested in OpenAI; 2019-07-22 to open [1]\n"
        "\ndate unknown: not known whether these held at 2025\n"
        "<Sam Altman> | Sam Altman | person\n- Sam Altman chief executive of OpenAI; 2019 to unknown end\n"
        "2 links."
    )


async def test_a_list_is_bounded_and_says_so(graph: GraphBase) -> None:
    """TOOLS O12."""
    result = await graph.run(TOOL, entity_id="OpenAI", limit=1)
    assert result.text.split("\n")[-1] == "showing 1 of 4 links; narrow with `predicate` or `at`, or raise `limit`."


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ({"entity_id": "Mistaken"}, "empty"),
        ({"entity_id": "OpenAI", "predicate": "zzz"}, "empty"),
        ({"entity_id": "OpenAI", "at": "1990"}, "empty"),
        ({"entity_id": "nobody"}, "empty"),
        ({"entity_id": "Kim"}, "error"),
        ({"entity_id": " "}, "error"),
        ({"entity_id": "OpenAI", "at": "then"}, "error"),
    ],
)
async def test_nothing_linked_is_empty_and_bad_input_an_error(
    graph: GraphBase, arguments: dict[str, Any], status: str
) -> None:
    """O6: EMPTY ran and found nothing, ERROR did not run."""
    assert (await graph.run(TOOL, **arguments)).status == status
