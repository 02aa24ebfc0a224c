"""A database with the sample in it, shared by the tests of whole runs, and runs in one call."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from app.harness import run as runs
from app.harness import sample
from app.harness.arms import Parts, askers, contestants
from app.harness.meaning import nearest_of
from app.harness.records import Run, TurnSeen
from app.harness.run import Runner
from app.harness.sample import BaseReady
from app.harness.script import Script
from app.settings import Settings
from app.store.engine import Database
from app.tools import registry
from tests.harness.app import settings_for
from tests.harness.postgres import PostgresServer
from tests.harness.scripted_endpoint import ScriptedEndpoint
from tests.harness_runs.made import quiet


@dataclass(slots=True)
class Bench:
    """What a run needs beside its script; `told` are the turns in the order in which they ended."""

    database: Database
    base: BaseReady
    settings: Settings
    told: list[TurnSeen] = field(default_factory=list[TurnSeen])

    async def run(
        self,
        script: Script,
        *,
        models: Sequence[str] = (),
        prompts: Sequence[int] = (),
        repeats: int = 1,
        at_once: int = 4,
        resume: str | None = None,
        llm: str | None = None,
    ) -> Run:
        """Run it to its end, as the command does."""
        given: dict[str, Any] = {} if llm is None else {"llm_base_url": llm, "llm_model": "scripted"}
        settings = self.settings.model_copy(update=given)
        tools = registry.load()
        field = contestants(settings, models, prompts)
        parts = Parts(self.base, tools, settings.embedding_model)
        plan = runs.plan_of(script, parts, arms=[c.arm for c in field], repeats=repeats)
        begun = await (runs.begin(self.database, plan) if resume is None else runs.go_on(self.database, resume, plan))

        terminals = frozenset(name for name in tools.names() if tools.is_terminal(name))
        async with (
            nearest_of(settings, self.database, self.base.id) as nearest,
            askers(settings, self.database, parts, field, nearest=nearest) as by_arm,
        ):
            runner = Runner(self.database, by_arm, terminals=terminals, on_turn=self.told.append)
            done = await runner.perform(begun, runs.left_to_do(begun, script), at_once=at_once)
        return await runs.finish(self.database, done, script)


@pytest.fixture(scope="session")
async def sampled(postgres: PostgresServer) -> AsyncGenerator[tuple[Database, BaseReady], None]:
    """A database whose base `sample` the harness filled."""
    async with postgres.new_database() as url:
        database = Database(url)
        try:
            yield database, await sample.ready(database, sample.SAMPLE_BASE, on_file=quiet)
        finally:
            await database.aclose()


@pytest.fixture
async def bench(sampled: tuple[Database, BaseReady]) -> Bench:
    """A bench of the test's own on the shared database, without an endpoint."""
    database, base = sampled
    return Bench(database, base, settings_for(database.engine.url, None))


@pytest.fixture(scope="session")
async def endpoint() -> AsyncGenerator[ScriptedEndpoint, None]:
    """The model: does as each test's script says."""
    async with ScriptedEndpoint() as running:
        yield running
