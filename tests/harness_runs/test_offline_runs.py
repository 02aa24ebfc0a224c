"""The shipped scripts on the offline model over the sample base, as CI runs them. Source: issue 8 items 1, 2, 5."""

from collections import Counter

import pytest
from sqlalchemy import text

from app.errors import StartError
from app.harness import sample, script
from app.harness.measures import summary
from app.harness.records import TurnSeen
from app.harness.sample import BaseReady
from app.live.memory import MemoryLog
from app.llm.extractive import Extractive
from app.metrics import Metrics
from app.parts import turn_parts
from app.store import turns
from app.store.engine import Database
from app.tools import registry
from app.turn.supervisor import Supervisor
from tests.harness.app import new_turn
from tests.harness.embedding_endpoint import EmbeddingEndpoint
from tests.harness_runs.conftest import Bench
from tests.harness_runs.made import quiet

READ = ("search_chunks",)
SKIP = ("no_evidence_needed",)


async def test_the_sample_is_taken_in_once(sampled: tuple[Database, BaseReady]) -> None:
    """A base of its own gets the documents and the facts; a second look finds all of it there."""
    database, first = sampled
    assert (first.name, first.contents.documents, first.contents.facts, first.loaded) == ("sample", 37, 287, 37)
    again = await sample.ready(database, "sample", on_file=quiet)
    assert (again.contents, again.loaded) == (first.contents, 0)
    with pytest.raises(StartError, match="there is no base named 'absent'; allowed is one that is there, or sample"):
        await sample.ready(database, "absent", on_file=quiet)


@pytest.mark.parametrize("language", ["zh", "en"])
async def test_fifteen_meets_every_expectation(bench: Bench, language: str) -> None:
    """Eight data questions are looked up and cited, seven others are not; nobody skips."""
    done = await bench.run(script.load(script.find(f"fifteen-{language}")))
    assert [(turn.question, turn.unmet) for turn in done.turns if turn.unmet] == []
    shapes = Counter((t.about, t.tools, len(t.sources), t.evidence, t.terminal, t.language) for t in done.turns)
    assert shapes == {
        ("base", READ, 6, "cited", "done", language): 8,
        ("talk", SKIP, 1, "cited", "done", language): 1,  # the shortened answer keeps the source it cites
        ("talk", SKIP, 0, "skipped", "done", language): 6,
    }
    numbers = summary(done.turns)
    assert {name: (rate.count, rate.n) for name, rate in numbers.rates.items()} == {
        "skipped": (0, 8),
        "uncited": (0, 8),
        "invented": (0, 15),
        "unmet": (0, 15),
        "failed": (0, 15),
    }


@pytest.mark.parametrize("language", ["zh", "en"])
async def test_twelve_meets_every_expectation_with_either_version_of_the_prompts(bench: Bench, language: str) -> None:
    """Two versions side by side, each turn once per arm; arms alternate."""
    done = await bench.run(script.load(script.find(f"twelve-{language}")), prompts=[1, 2], at_once=1)
    assert [(turn.question, turn.unmet) for turn in done.turns if turn.unmet] == []
    assert [turn.prompt for turn in done.turns] == [1] * 12 + [2] * 12
    assert [turn.prompt for turn in bench.told] == [1, 2] * 12


async def test_turns_of_a_conversation_know_what_came_before(bench: Bench) -> None:
    """`你搜了吗` is answered with the call of the turn before, which only a stored conversation can know."""
    done = await bench.run(script.load(script.find("fifteen-zh")))
    (asked,) = [turn for turn in done.turns if (turn.conversation, turn.turn) == ("timeline-and-doubt", 2)]
    assert "搜了。上一轮进行了这些调用：" in asked.answer
    assert len({turn.conversation_id for turn in done.turns}) == 6


async def test_the_recall_script_shows_what_the_offline_model_cannot_do(bench: Bench) -> None:
    """It searches passages only: no entity is looked up and nothing is remembered, and the report says so."""
    done = await bench.run(script.load(script.find("recall-en")))
    missed = [[unmet.expectation for unmet in turn.unmet] for turn in done.turns]
    assert missed == [["must_run"], ["must_run_one_of", "reuses_ids_of"], ["must_run"]]


async def test_a_model_without_an_endpoint_is_refused(bench: Bench) -> None:
    """As is a version of the prompts that isn't there."""
    with pytest.raises(StartError, match=r"--model 'gpt' needs an endpoint: set TURNSTREAM_LLM_BASE_URL"):
        await bench.run(script.load(script.find("twelve-en")), models=["gpt"])
    with pytest.raises(StartError, match=r"no version 9 of the prompts; allowed is one of 1, 2"):
        await bench.run(script.load(script.find("twelve-en")), prompts=[9])


def times(turns: tuple[TurnSeen, ...]) -> list[bool]:
    return [turn.first_token_ms is not None and 0 <= turn.first_token_ms <= turn.total_ms for turn in turns]


async def test_times_are_those_of_a_tab(bench: Bench) -> None:
    """The first token comes before the end, and an offline turn counts no tokens."""
    done = await bench.run(script.load(script.find("twelve-en")))
    assert all(times(done.turns))
    assert {turn.tokens.completion for turn in done.turns} == {None}
    assert {turn.wire.requests for turn in done.turns} == {2}


async def test_a_configured_embedding_model_is_used_and_kept(bench: Bench) -> None:
    """As in the server: every passage has its vector before the first question, and the plan names the model."""
    async with EmbeddingEndpoint() as vectors:
        given = {"embedding_base_url": vectors.base_url, "embedding_model": "made"}
        bench.settings = bench.settings.model_copy(update=given)
        done = await bench.run(script.load(script.find("twelve-en")))
        embedded = len(vectors.requests)
        vectors.refuse(500, {"error": {"message": "out of order"}}, times=100)
        bench.settings = bench.settings.model_copy(update={"embedding_model": "other", "llm_retries": 0})
        with pytest.raises(StartError, match="the embedding endpoint gives no vectors: "):
            await bench.run(script.load(script.find("twelve-en")))
    assert done.plan.embedding_model == "made"
    assert [turn.question for turn in done.turns if turn.evidence != "cited"] == []
    assert embedded >= 12 + bench.base.contents.documents // 64


async def test_the_harness_leaves_turns_of_others_alone(bench: Bench) -> None:
    """A turn whose server is gone is for another server to go on with, not for a measurement's model."""
    admitted = await turns.admit(bench.database, new_turn("Hello", replica="gone"))
    async with bench.database.begin() as connection:
        await connection.execute(text("UPDATE turns SET lease_until = now() - interval '1 hour'"))
    parts = turn_parts(bench.settings, bench.database, Extractive(), registry.load(), metrics=Metrics())
    for takes_over, expected in ((False, "gone"), (True, "server")):
        supervisor = Supervisor(parts, MemoryLog(), replica="server", takes_over=takes_over)
        await supervisor.keep_house()
        async with bench.database.read() as connection:
            statement = text("SELECT replica FROM turns WHERE id = CAST(:id AS uuid)")
            assert await connection.scalar(statement, {"id": admitted.turn_id}) == expected
        await supervisor.wait_for(admitted.turn_id)
