"""find_entities: exact names, aliases, parts, typos and Chinese are found, namesakes ranked by the question."""

import pytest

from app.store.engine import Database, StoreUnavailable
from app.tools.find_entities import TOOL
from app.tools.tool import Entity, Step
from tests.tools.conftest import GraphBase


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("OpenAI", "OpenAI"),
        ("  openai ", "OpenAI"),
        ("ＯｐｅｎＡＩ", "OpenAI"),
        ("OpenAI Inc.", "OpenAI"),
        ("Samuel Altman", "Sam Altman"),
        ("Altman", "Sam Altman"),
        ("阿尔特曼", "Sam Altman"),
        ("萨姆·阿尔特曼", "Sam Altman"),
        ("Satya", "Satya Nadella"),
        ("Kim (the pilot)", "Kim the pilot"),
        ("李伟（足球）", "李伟 足球"),
        ("100%", "100%_sure"),
        ("%", "100%_sure"),
        ("_", "100%_sure"),
    ],
)
async def test_a_name_an_alias_or_a_part_of_one_is_the_best_match(graph: GraphBase, name: str, found: str) -> None:
    """Exact before alias before prefix before part; signs that LIKE knows are letters; it is resolved."""
    result = await graph.run(TOOL, name=name)
    assert (result.status, result.step.detail) == ("ok", "best match")
    assert graph.named(result.text).split("\n")[1].startswith(f"<{found}> | ")
    assert [entity.id for entity in result.resolved] == [graph.ids[found]]


async def test_a_line_tells_id_name_type_and_facts(graph: GraphBase) -> None:
    """The whole observation, step, entity and structured content."""
    result = await graph.run(TOOL, name="openai")
    assert graph.named(result.text) == "best match:\n<OpenAI> | OpenAI | organization | 5 facts"
    assert result.step == Step("entity", "openai", "best match")
    assert result.resolved == (Entity(graph.ids["OpenAI"], "OpenAI", "organization"),)
    found = {"id": graph.ids["OpenAI"], "name": "OpenAI", "type": "organization", "disambiguator": "", "facts": 5}
    assert result.structured == {"entities": [found], "total": 1, "clear": True}


@pytest.mark.parametrize(
    ("name", "found"), [("Opnai", "OpenAI"), ("Sam Altmann", "Sam Altman"), ("Nadela", "Satya Nadella")]
)
async def test_a_typo_is_found_by_its_looks_and_said_to_be_one(graph: GraphBase, name: str, found: str) -> None:
    """pg_trgm is asked only where nothing else finds anything."""
    result = await graph.run(TOOL, name=name)
    assert graph.named(result.text).startswith(f"best match (by its looks; check the spelling):\n<{found}> | ")


async def test_namesakes_are_asked_about_when_the_question_says_nothing(graph: GraphBase) -> None:
    """Two Chinese characters are enough to find them; none is resolved."""
    result = await graph.run(TOOL, name="李伟")
    assert graph.named(result.text) == (
        "2 entities may be meant; use the id of the one that fits, or ask the user which one:\n"
        "<李伟 化学家> | 李伟 (化学家) | no type | 1 fact\n"
        "<李伟 足球> | 李伟 (足球) | no type | 1 fact"
    )
    assert (result.status, result.resolved) == ("ok", ())


@pytest.mark.parametrize(
    ("question", "name", "meant", "other"),
    [
        ("李伟在哪个俱乐部踢足球？", "李伟", "李伟 足球", "李伟 化学家"),
        ("李伟的化学研究在哪里做？", "李伟", "李伟 化学家", "李伟 足球"),
        ("Which sonnets did Kim write?", "Kim", "Kim the poet", "Kim the pilot"),
        ("What kind of gliders did Kim fly?", "Kim", "Kim the pilot", "Kim the poet"),
    ],
)
async def test_namesakes_are_ranked_by_the_question(
    graph: GraphBase, question: str, name: str, meant: str, other: str
) -> None:
    """The one whose facts hold the question's words is meant, the other is still told."""
    result = await graph.run(TOOL, question, name=name)
    lines = graph.named(result.text).split("\n")
    assert (lines[0], lines[2]) == ("best match:", "others:")
    assert lines[1].startswith(f"<{meant}> | ")
    assert lines[3].startswith(f"<{other}> | ")
    assert [entity.id for entity in result.resolved] == [graph.ids[meant]]


async def test_a_list_is_bounded_and_says_so(graph: GraphBase) -> None:
    """TOOLS O12: shown, total, and how to narrow."""
    result = await graph.run(TOOL, name="n", limit=2)
    assert result.text.split("\n")[-1] == "showing 2 of 6; narrow with `type`."
    assert len(result.text.split("\n")) == 4


async def test_a_type_narrows_and_says_what_types_there_are(graph: GraphBase) -> None:
    """EMPTY with the way out."""
    assert (await graph.run(TOOL, name="n", type="Organization")).resolved[0].name == "OpenAI"
    result = await graph.run(TOOL, name="OpenAI", type="person")
    assert (result.status, result.text) == (
        "empty",
        "no entity of type 'person' has such a name; others have: organization. Leave `type` out.",
    )


@pytest.mark.parametrize("name", ["zzz", "' OR 1=1 --", "\\", "%%%x", "🧭", "x" * 5_000, "Kim\x00\n| forged", "\ud800"])
async def test_an_unknown_name_is_empty_whatever_is_in_it(graph: GraphBase, name: str) -> None:
    """Names are data; nothing found is no error."""
    result = await graph.run(TOOL, name=name)
    assert (result.status, result.resolved) == ("empty", ())
    assert len(result.step.label) <= 200


@pytest.mark.parametrize("name", ["", " \n", "\x00"])
async def test_a_blank_name_is_an_error(graph: GraphBase, name: str) -> None:
    """DESIGN section 7: EMPTY would say that nothing exists."""
    assert (await graph.run(TOOL, name=name)).status == "error"


async def test_before_it_was_recorded_there_was_nothing(graph: GraphBase) -> None:
    """`as_of` hides entities that were not known yet."""
    assert (await graph.run(TOOL, as_of="2020", name="OpenAI")).status == "empty"


async def test_a_merged_entity_is_found_as_the_one_that_took_its_names(corrected: GraphBase) -> None:
    """Its old name is an alias of the other."""
    result = await corrected.run(TOOL, name="Old Name")
    assert corrected.named(result.text) == "best match:\n<New Name> | New Name | no type | 2 facts"


async def test_a_store_that_fails_is_raised(graph: GraphBase) -> None:
    """The registry makes ERROR of it: an outage is never EMPTY."""
    gone = Database("postgresql://nobody@localhost:1/none", pool_timeout_s=0.5)
    broken = GraphBase(gone, graph.base_id)
    with pytest.raises(StoreUnavailable):
        await broken.run(TOOL, name="OpenAI")
    await gone.aclose()
