"""Whole turns over the graph: ids of one turn are used in the next, sources grow, proposals wait. Source: issue 4."""

from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest

from app.knowledge.fact_rows import FactRow, ReadRow, parse_row
from app.knowledge.facts_import import import_rows
from app.store import bases
from tests.harness.app import App, Turn
from tests.harness.scripted_endpoint import Reply, Script, ScriptedEndpoint, call, text

QUOTE = "On 17 November 2023 the board of OpenAI removed Sam Altman as chief executive."
BASE = "graph-turns"
DOCUMENT = f"# The board\n\n{QUOTE} {'What happened then was told in many ways. ' * 12}Four members remained.\n"


def row(**fields: object) -> FactRow:
    parsed = parse_row(fields)
    assert isinstance(parsed, FactRow), parsed
    return parsed


@pytest.fixture(scope="module")
async def base(app: App) -> AsyncGenerator[str]:
    """A base with one document and the facts that rest on it."""
    made = await bases.create(app.parts.database, BASE)
    assert made is not None
    await app.upload("board.md", DOCUMENT.encode(), base=BASE)
    altman = {"subject": "Sam Altman", "subject_type": "person"}
    rows = [
        row(**altman, predicate="chief executive of", object="OpenAI", object_type="organization", to="2023-11-17",
            evidence="board.md", quote=QUOTE, **{"from": "2019"}),
        row(subject="OpenAI", subject_type="organization", predicate="headquarters", value="San Francisco"),
        row(subject="Kim", subject_disambiguator="the poet", predicate="wrote", value="sonnets"),
        row(subject="Kim", subject_disambiguator="the pilot", predicate="flew", value="gliders"),
    ]  # fmt: skip
    report = await import_rows(
        app.parts.database, made.id, [ReadRow(n, r) for n, r in enumerate(rows, 1)], origin="import"
    )
    assert report.added == len(rows)
    yield BASE
    await bases.delete(app.parts.database, BASE)


def observations(script: Script, request: int) -> list[str]:
    return [m["content"] for m in script.messages(request) if m["role"] == "tool"]


def called_with(argument: str, tool: str, **more: object) -> Any:
    """A reply that calls a tool with the id of the last line of the entity block that was shown."""

    def reply(body: dict[str, object]) -> Reply:
        messages = cast("list[dict[str, Any]]", body["messages"])
        block = next(m["content"] for m in reversed(messages) if m["role"] == "system" and " | " in m["content"])
        return call((tool, {argument: block.split("\n")[-1].split(" | ")[0], **more}))

    return reply


async def test_an_entity_found_in_one_turn_is_used_in_the_next_without_a_look_up(
    app: App, endpoint: ScriptedEndpoint, base: str
) -> None:
    """The id stands in the entity block right before the next question, and a fact tool takes it (issue 4 item 7)."""
    first = endpoint.script(call(("find_entities", {"name": "Altman"})), text("There is one."))
    turn = await app.ask(f"Is there an Altman? {first}", base=base)
    stored = (await app.messages(turn.conversation_id))[-1]["resolved"]
    assert [(entity["name"], entity["type"]) for entity in stored] == [("Sam Altman", "person")]

    second = endpoint.script(called_with("entity_id", "entity_facts", at="2020"), text("Chief executive [1]."))
    after = await app.ask(f"What was he in 2020? {second}", conversation_id=turn.conversation_id)
    block, question = second.messages(0)[-2:]
    assert (block["role"], question["role"]) == ("system", "user")
    assert block["content"].split("\n")[1:] == [f"{stored[0]['id']} | Sam Altman | person"]
    assert [step["tool"] for step in after.of("step")] == ["entity_facts"]
    (told,) = [o for o in observations(second, 1) if "chief executive" in o]
    assert told.startswith(f"OK: {stored[0]['id']} | Sam Altman | person (at 2020)\nchief executive of:\n- OpenAI (id ")
    assert told.split("\n")[2].endswith("); 2019 to 2023-11-17 [1]")
    assert (after.done["evidence"], after.done["cited"]) == ("cited", [1])
    assert after.sources[0]["excerpt"] == QUOTE


async def test_namesakes_that_are_not_clear_are_not_resolved(app: App, endpoint: ScriptedEndpoint, base: str) -> None:
    """Nothing is put into the next turn's block that nobody chose; a question that chooses does."""
    open_question = endpoint.script(call(("find_entities", {"name": "Kim"})), text("Which one?"))
    turn = await app.ask(f"Who is Kim? {open_question}", base=base)
    assert (await app.messages(turn.conversation_id))[-1]["resolved"] == []
    choosing = endpoint.script(call(("find_entities", {"name": "Kim"})), text("The poet."))
    turn = await app.ask(f"Which sonnets did Kim write? {choosing}", base=base)
    assert [e["name"] for e in (await app.messages(turn.conversation_id))[-1]["resolved"]] == ["Kim (the poet)"]


async def test_a_passage_keeps_its_number_and_a_fact_makes_its_sentence_visible(
    app: App, endpoint: ScriptedEndpoint, base: str
) -> None:
    """A sources frame is sent again when only an excerpt grew; live and stored agree."""
    script = endpoint.script(
        call(("search_chunks", {"query": "Four members"})),
        call(("entity_facts", {"entity_id": "Sam Altman"})),
        text("Removed [1]."),
    )
    turn = await app.ask(f"What became of him? {script}", base=base)
    frames = cast("list[list[dict[str, Any]]]", turn.of("sources"))
    assert [[source["n"] for source in frame] for frame in frames] == [[1], [1]]
    assert [QUOTE in frame[0]["excerpt"] for frame in frames] == [False, True]
    assert observations(script, 2)[-1].endswith("; 2019 to 2023-11-17 [1]\n1 fact.")
    assert (await app.messages(turn.conversation_id))[-1]["sources"] == turn.sources


async def test_as_of_of_the_request_reaches_every_graph_tool(app: App, endpoint: ScriptedEndpoint, base: str) -> None:
    """Before anything was recorded the base believed nothing."""
    script = endpoint.script(
        call(("find_entities", {"name": "OpenAI"}), ("changes", {"since": "2000"})), text("Nothing was known.")
    )
    turn = await app.ask(f"What was known? {script}", base=base, as_of="2020-01-01")
    assert [step["status"] for step in turn.of("step")] == ["empty", "empty"]


async def test_what_is_to_be_remembered_waits_and_the_model_is_told(
    app: App, endpoint: ScriptedEndpoint, base: str
) -> None:
    """One proposal per fact, of this turn; a repeated call records nothing new."""
    fact = {"subject": "Ada Lin", "predicate": "works at", "object": "Acme", "valid_from": "2024"}
    keep = call(("remember", {"text": "Ada Lin works at Acme.", "facts": [fact]}))
    script = endpoint.script(keep, keep, text("Noted; it waits for a nod."))
    turn = await app.ask(f"Note that Ada Lin works at Acme. {script}", base=base)
    assert [(step["kind"], step["status"]) for step in turn.of("step")] == [("remember", "ok")] * 2
    assert "waits for a person's nod and is not in the knowledge graph" in observations(script, 1)[0]
    found = await app.rows(
        "SELECT fact, sentence, status FROM proposals WHERE turn_id = CAST(:turn AS uuid)", turn=turn.turn_id
    )
    stated = {"subject": "Ada Lin", "predicate": "works at", "object": "Acme", "from": "2024"}
    assert [tuple(row) for row in found] == [(stated, "Ada Lin works at Acme.", "pending")]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("neighbors", {"entity_id": "OpenAI"}),
        ("timeline", {"entity_id": "Sam Altman"}),
        ("paths_between", {"a": "Sam Altman", "b": "OpenAI"}),
        ("changes", {"since": "2020", "entity_id": "Sam Altman"}),
    ],
)
async def test_each_graph_tool_cites_what_it_tells(
    app: App, endpoint: ScriptedEndpoint, base: str, tool: str, arguments: dict[str, object]
) -> None:
    """A step, then its source with the quoted sentence, then an answer that is cited."""
    turn: Turn = await app.ask(f"Tell me. {endpoint.script(call((tool, arguments)), text('So it is [1].'))}", base=base)
    assert [(step["tool"], step["status"]) for step in turn.of("step")] == [(tool, "ok")]
    assert [(source["n"], source["excerpt"]) for source in turn.sources] == [(1, QUOTE)]
    assert turn.done["cited"] == [1]
