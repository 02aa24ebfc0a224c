"""Runs against an endpoint that does as told: what is counted of a turn, resuming, the bound. Source: issue 8."""

import asyncio
import json
import re
from collections.abc import Sequence
from typing import Any, cast

import pytest

from app.errors import StartError
from app.harness import run as runs
from app.harness import script as scripts
from app.harness.compare import chosen, compare
from app.harness.records import TurnSeen, Wire
from app.harness.script import Script
from app.store import conversations, harness_runs, proposals
from tests.harness.scripted_endpoint import Body, Reply, ScriptedEndpoint, Step, call, event, finish, http, stream, text
from tests.harness_runs.conftest import Bench

SEARCH = call(("search_chunks", {"query": "OpenAI board removed Sam Altman"}))
SKIP = call(("no_evidence_needed", {"reason": "general knowledge"}))
ANSWER = text("Helen Toner sat on it [1].")
BUSY = http(503, {"error": {"message": "overloaded"}})
NO_TOOLS = http(400, {"error": {"message": "tools are not supported by this model"}})


def one_turn(*questions: str, name: str = "made") -> Script:
    """A script of one conversation for each question, without expectations but an answer."""
    conversations = [{"name": f"q{n}", "turns": [{"question": q}]} for n, q in enumerate(questions)]
    return Script.model_validate({"name": name, "about": "made here", "conversations": conversations})


async def seen(bench: Bench, endpoint: ScriptedEndpoint, *steps: Step) -> TurnSeen:
    """What is seen of one turn whose requests are answered so."""
    asked = endpoint.script(*steps)
    done = await bench.run(one_turn(f"Who sat on the board? {asked}"), llm=endpoint.base_url)
    (turn,) = done.turns
    return turn


def told(turn: TurnSeen) -> dict[str, object]:
    """What a turn's measures are made of."""
    names = ("tools", "evidence", "cited", "invented", "skipped", "reached", "turned_back", "fallback", "wire")
    return {name: getattr(turn, name) for name in names}


PLAIN: dict[str, object] = {
    "tools": ("search_chunks",),
    "evidence": "cited",
    "cited": (1,),
    "invented": (),
    "skipped": False,
    "reached": False,
    "turned_back": False,
    "fallback": False,
    "wire": Wire(2),
}
SEARCHED_FIRST = ("no_evidence_needed", "search_chunks")


@pytest.mark.parametrize(
    ("steps", "different"),
    [
        ([SEARCH, ANSWER], {}),
        (
            [SKIP, text("Some board.")],
            {"tools": ("no_evidence_needed",), "evidence": "skipped", "cited": (), "skipped": True, "reached": True},
        ),
        (
            [SKIP, SEARCH, ANSWER],
            {"tools": SEARCHED_FIRST, "reached": True, "turned_back": True, "wire": Wire(3)},
        ),
        ([SEARCH, SKIP, ANSWER], {"tools": ("search_chunks", "no_evidence_needed"), "reached": True, "wire": Wire(3)}),
        ([SEARCH, text("Toner [1], and others [1, 97] [0].")], {"invented": (0, 97)}),
        ([SEARCH, text("Nobody knows [97].")], {"evidence": "uncited", "cited": (), "invented": (97,)}),
        ([BUSY, SEARCH, BUSY, BUSY, ANSWER], {"wire": Wire(5, retries=3)}),
        ([text("I will look it up."), SEARCH, ANSWER], {"wire": Wire(3, asked_again=1)}),
        ([SEARCH, stream(finish()), ANSWER], {"wire": Wire(3, asked_again=1)}),
        ([NO_TOOLS, ANSWER], {"fallback": True, "wire": Wire(2, answer_requests=1)}),
        (
            [text("I will look."), text("I am looking."), ANSWER],
            {"fallback": True, "wire": Wire(3, asked_again=1, answer_requests=1)},
        ),
    ],
    ids=[
        "plain",
        "skipped",
        "turned back",
        "reached after looking",
        "invented beside valid",
        "invented only",
        "retries",
        "promise",
        "empty",
        "tools refused",
        "two promises",
    ],
)
async def test_what_a_turn_did_is_seen(
    bench: Bench, endpoint: ScriptedEndpoint, steps: list[Step], different: dict[str, object]
) -> None:
    """From frames, the stored row and the model's door; seed 001's counts among them."""
    assert told(await seen(bench, endpoint, *steps)) == PLAIN | different


async def test_a_turn_that_fails_is_seen_with_its_code(bench: Bench, endpoint: ScriptedEndpoint) -> None:
    """An error frame misses the expectation that every turn has."""
    turn = await seen(bench, endpoint, SEARCH, stream(finish()), stream(finish()))
    assert (turn.terminal, turn.error_code, turn.evidence) == ("error", "answer_empty", None)
    assert [(u.expectation, u.seen) for u in turn.unmet] == [("terminal", "error answer_empty")]


async def test_tokens_are_those_of_all_requests(bench: Bench, endpoint: ScriptedEndpoint) -> None:
    """Two requests of 11 and 7."""
    turn = await seen(bench, endpoint, SEARCH, ANSWER)
    assert (turn.tokens.prompt, turn.tokens.completion) == (22, 14)


async def test_every_model_is_asked_by_its_name(bench: Bench, endpoint: ScriptedEndpoint) -> None:
    """Several names run against the one endpoint, and each turn says whose it is."""
    asked = endpoint.script(SEARCH, ANSWER)
    done = await bench.run(one_turn(f"Who? {asked}"), models=["small", "large"], llm=endpoint.base_url, at_once=1)
    assert [(turn.model, turn.prompt) for turn in done.turns] == [("small", 2), ("large", 2)]
    assert [body["model"] for body in asked.bodies[:1]] == ["small"]
    assert {body["model"] for body in asked.bodies} == {"small", "large"}


async def test_each_arm_is_given_its_own_words(bench: Bench, endpoint: ScriptedEndpoint) -> None:
    """Version 1 says nothing of the graph, version 2 does; the hashes differ and are kept."""
    asked = endpoint.script(SEARCH, ANSWER, SEARCH, ANSWER)
    done = await bench.run(one_turn(f"Who? {asked}"), prompts=[1, 2], llm=endpoint.base_url, at_once=1)
    systems = ["The base has two halves" in asked.messages(n)[0]["content"] for n in (0, 2)]
    assert systems == [False, True]
    assert len({arm.prompt_hash for arm in done.plan.arms}) == 2


async def test_an_interrupted_run_goes_on_with_what_it_has_not(bench: Bench, endpoint: ScriptedEndpoint) -> None:
    """Cancelled in its third conversation, two are kept; going on asks the others only, and ends the same run."""
    asked = endpoint.script(*[SEARCH, ANSWER] * 4)
    gate = asyncio.Event()
    stuck = endpoint.script(SEARCH, stream(event({"content": "Half"}), gate, finish()), SEARCH, ANSWER)
    script = one_turn(f"Zero {asked}", f"One {asked}", f"Two {stuck}", f"Three {asked}")
    running = asyncio.create_task(bench.run(script, llm=endpoint.base_url, at_once=1))
    await stuck.request(1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    (kept,) = list(await harness_runs.newest(bench.database, limit=1))
    before = await runs.load(bench.database, kept.id)
    assert ([t.conversation for t in before.turns], before.finished_at, before.complete) == (["q0", "q1"], None, False)
    bench.told.clear()
    done = await bench.run(script, llm=endpoint.base_url, resume=kept.id)
    assert sorted(turn.conversation for turn in bench.told) == ["q2", "q3"]
    assert (done.id, [t.conversation for t in done.turns], done.complete) == (kept.id, ["q0", "q1", "q2", "q3"], True)
    assert (await runs.load(bench.database, kept.id)).turns == done.turns
    with pytest.raises(StartError, match="is over; start a new one"):
        await bench.run(script, llm=endpoint.base_url, resume=kept.id)


async def test_a_run_goes_on_only_with_what_it_was_begun_with(bench: Bench, endpoint: ScriptedEndpoint) -> None:
    """Another script, arm or number of repeats is another run."""
    asked = endpoint.script(SEARCH, ANSWER)
    plan_of_first = one_turn(f"Who? {asked}")
    first = await bench.run(plan_of_first, llm=endpoint.base_url)
    started = await runs.begin(bench.database, first.plan)
    for changed, reason in (
        ({"script": one_turn(f"Whom? {asked}")}, "the script was changed since"),
        ({"script": plan_of_first, "prompts": [1]}, "its models or prompts are others"),
        ({"script": plan_of_first, "repeats": 2}, "it has another number of repeats"),
    ):
        given = cast("dict[str, Any]", changed)
        with pytest.raises(StartError, match=f"can't go on: {reason}"):
            await bench.run(**given, llm=endpoint.base_url, resume=started.id)
    with pytest.raises(StartError, match="there is no run 'what'"):
        await bench.run(plan_of_first, llm=endpoint.base_url, resume="what")


async def test_no_more_conversations_run_at_once_than_are_allowed(bench: Bench, endpoint: ScriptedEndpoint) -> None:
    """Of six, two wait for the endpoint at a time, and with more allowed all of them do."""
    for allowed, expected in ((2, 2), (6, 6)):
        gate = asyncio.Event()
        held = [endpoint.script(stream(gate, *cast("Sequence[bytes]", SKIP.pieces)), ANSWER) for _ in range(6)]
        script = one_turn(*(f"Question {n} {asked}" for n, asked in enumerate(held)))
        running = asyncio.create_task(bench.run(script, llm=endpoint.base_url, at_once=allowed))
        for asked in held[:expected]:
            await asked.request(0)
        assert [len(asked.requests) for asked in held] == [1] * expected + [0] * (6 - expected)
        gate.set()
        assert len((await running).turns) == 6


def with_id(tool: str, argument: str, **more: object) -> Step:
    """A call that takes its id from what the model was shown: the entity block or the result of a look-up."""

    def step(body: Body) -> Reply:
        messages = cast("list[dict[str, Any]]", body["messages"])
        shown = " ".join(str(m["content"]) for m in messages if m["role"] in ("system", "tool"))
        found = re.findall(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", shown)
        return call((tool, {argument: found[0], **more}))

    return step


def recall(first: object, second: object, third: object) -> Script:
    """The shipped recall script, its questions marked for the endpoint."""
    shipped = scripts.load(scripts.find("recall-en")).model_dump()
    (conversation,) = shipped["conversations"]
    for turn, marker in zip(conversation["turns"], (first, second, third), strict=True):
        turn["question"] += f" {marker}"
    return Script.model_validate(json.loads(json.dumps(shipped)))


FIND = call(("find_entities", {"name": "Mira Murati"}))
REMEMBER = call(("remember", {"text": "Mira Murati spoke at our meeting on 3 March 2026."}))


async def test_recall_is_met_by_a_model_that_uses_the_block(bench: Bench, endpoint: ScriptedEndpoint) -> None:
    """Issue 8 item 7: ids of the first turn in the second, no second look-up, the sentence waits as a proposal."""
    script = recall(
        endpoint.script(FIND, with_id("entity_facts", "entity_id"), text("She was its technology officer [1].")),
        endpoint.script(with_id("paths_between", "a", b="OpenAI"), text("She led its technology [1].")),
        endpoint.script(REMEMBER, text("It is noted and waits for a nod.")),
    )
    done = await bench.run(script, llm=endpoint.base_url)
    assert [turn.unmet for turn in done.turns] == [(), (), ()]
    assert [turn.tools for turn in done.turns] == [("find_entities", "entity_facts"), ("paths_between",), ("remember",)]
    waiting = await proposals.find(bench.database, bench.base.id, status="pending", limit=10, offset=0)
    assert "Mira Murati spoke at our meeting on 3 March 2026." in str(waiting)


async def test_recall_is_missed_by_a_model_that_looks_up_again(bench: Bench, endpoint: ScriptedEndpoint) -> None:
    """A second find_entities is told, by both expectations that are about it."""
    script = recall(
        endpoint.script(FIND, with_id("entity_facts", "entity_id"), text("She was its technology officer [1].")),
        endpoint.script(FIND, with_id("neighbors", "entity_id"), text("She led its technology [1].")),
        endpoint.script(REMEMBER, text("It is noted and waits for a nod.")),
    )
    done = await bench.run(script, llm=endpoint.base_url)
    assert [[(u.expectation, u.seen) for u in turn.unmet] for turn in done.turns] == [
        [],
        [("must_not_run", "find_entities"), ("reuses_ids_of", "find_entities was called again")],
        [],
    ]


async def test_nobody_sees_the_harness_among_their_conversations(bench: Bench, endpoint: ScriptedEndpoint) -> None:
    """They belong to an owner of their own."""
    turn = await seen(bench, endpoint, SEARCH, ANSWER)
    assert await conversations.get(bench.database, "local", turn.conversation_id) is None
    assert await conversations.get(bench.database, harness_runs.OWNER, turn.conversation_id) is not None


def skips_everything(body: Body) -> Reply:
    """A model that says no evidence is needed, then answers from memory."""
    messages = cast("list[dict[str, Any]]", body["messages"])
    return text("They are competitors.") if messages[-1]["role"] == "tool" else SKIP


async def test_a_model_that_skips_the_base_is_told_from_one_that_looks(bench: Bench) -> None:
    """Twelve data questions on either: every one of the skipping model's misses, and the difference is no noise."""
    script = scripts.load(scripts.find("twelve-en"))
    async with ScriptedEndpoint() as skipping:
        skipping.default.steps = (skips_everything,)
        skipped = await bench.run(script, llm=skipping.base_url)
    looked = await bench.run(script)
    missed = {tuple(unmet.expectation for unmet in turn.unmet) for turn in skipped.turns}
    assert missed == {("must_run_one_of", "evidence", "sources_at_least", "facts")}
    found = compare(chosen(skipped, "skipping", None), chosen(looked, "looking", None))
    better = {
        one.measure: one.better for one in found.differences if one.measure in ("skipped", "uncited", "unmet", "failed")
    }
    assert better == {"skipped": "B", "uncited": "B", "unmet": "B", "failed": None}
