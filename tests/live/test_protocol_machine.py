"""Decision 0015's invariants over both live logs, whatever happens in which order. The machine: protocol_machine.py."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from sqlalchemy import URL

from app.llm.extractive import Extractive
from app.store.engine import Database
from app.tools import registry
from app.turn.lifecycle import TurnParts
from app.turn.policy import Limits
from tests.harness.postgres import PostgresServer
from tests.live.protocol_machine import ProtocolMachine


@pytest.fixture(scope="module")
async def empty_database(postgres: PostgresServer) -> AsyncGenerator[URL]:
    """A database in which nothing else runs."""
    async with postgres.new_database() as url:
        yield url


@pytest.mark.timeout(180)
@pytest.mark.parametrize(("implementation", "examples"), [("memory", 50), ("redis", 30)])
def test_a_turn_has_one_outcome_and_its_tabs_end_with_it_whatever_happens_in_which_order(
    implementation: str, examples: int, empty_database: URL, request: pytest.FixtureRequest
) -> None:
    """Decision 0015's invariants; issue 5 item 7."""
    redis_url = None if implementation == "memory" else request.getfixturevalue("redis").url
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        database = Database(empty_database)
        parts = TurnParts(database, Extractive(), registry.load(), Limits())
        machine = type("Machine", (ProtocolMachine,), {"runner": runner, "parts": parts, "redis_url": redis_url})
        try:
            run_state_machine_as_test(
                machine,
                settings=settings(
                    max_examples=examples,
                    stateful_step_count=40,
                    deadline=None,
                    derandomize=True,  # what is tried is the same in every run, but for who wins a race
                    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
                ),
            )
        finally:
            runner.run(database.aclose())
