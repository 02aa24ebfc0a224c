"""What an owner may do in a minute: in this process and, over Redis, for several. Source: issue 9 item 2."""

import asyncio
import itertools
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from app.auth import rates
from app.auth.rates import Lane, Rates
from app.errors import AppError, RefusalCode
from tests.harness.clock import Clock
from tests.harness.redis import RedisServer, redis_server


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    made.put_in_place(monkeypatch)
    return made


@pytest.fixture
async def redis(tmp_path: Path) -> AsyncGenerator[RedisServer]:
    async with redis_server(tmp_path) as running:
        yield running


async def taken(counts: Rates, owner: str, times: int, lane: Lane = Lane.REQUESTS) -> int:
    """How many of so many tries are let through."""
    through = 0
    for _ in range(times):
        try:
            await counts.take(owner, lane)
            through += 1
        except AppError as refusal:
            if refusal.code is not RefusalCode.TOO_MANY_REQUESTS:
                raise
    return through


async def refusal_of(counts: Rates, owner: str) -> AppError:
    with pytest.raises(AppError) as refused:
        await counts.may_spend(owner)
    return refused.value


@pytest.mark.usefixtures("clock")
async def test_an_owner_s_requests_are_counted_apart_from_others_and_from_what_tabs_need() -> None:
    """The refusal says which limit, what is allowed, and when to ask again."""
    counts = Rates({Lane.REQUESTS: 3, Lane.TABS: 2}, None)
    assert await taken(counts, "ann", 5) == 3
    assert await taken(counts, "bob", 5) == 3
    assert await taken(counts, "ann", 5, Lane.TABS) == 2
    with pytest.raises(AppError) as refused:
        await counts.take("ann", Lane.REQUESTS)
    assert (refused.value.status, refused.value.retry_after_s) == (429, 50)  # half a minute's rest, and a third of one
    assert refused.value.message == ("Requests are limited to 3 a minute, and as many were made; ask again in 50 s.")


async def test_a_minute_s_requests_fade_and_never_come_twice(clock: Clock) -> None:
    """At the turn of a minute nobody may do twice as much: the window slides."""
    counts = Rates({Lane.REQUESTS: 60}, None)
    clock.now += 29
    assert await taken(counts, "ann", 100) == 60
    clock.now += 2  # a second into the next minute
    assert await taken(counts, "ann", 100) == 1
    clock.now += 29.5  # half of it
    assert 28 <= await taken(counts, "ann", 100) <= 30
    clock.now += 120
    assert await taken(counts, "ann", 100) == 60


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(limit=st.integers(1, 50), steps=st.lists(st.tuples(st.integers(1, 60), st.floats(0, 90)), max_size=8))
async def test_who_waits_as_long_as_is_said_is_let_through(
    clock: Clock, limit: int, steps: list[tuple[int, float]]
) -> None:
    """Whatever was done before: after Retry-After one more fits, and it is never more than two minutes."""
    counts = Rates({Lane.REQUESTS: limit, Lane.TOKENS: limit}, None)
    for tries, pause in steps:
        await taken(counts, "ann", tries)
        await counts.charge("ann", tries)
        clock.now += pause
    await taken(counts, "ann", limit)
    await counts.charge("ann", limit)
    with pytest.raises(AppError) as refused:
        await counts.take("ann", Lane.REQUESTS)
    spent = await refusal_of(counts, "ann")
    waits = sorted({refused.value.retry_after_s or 0, spent.retry_after_s or 0})
    assert 1 <= waits[0] <= waits[-1] <= 120
    for before, after in itertools.pairwise([0, *waits]):
        clock.now += after - before
        if after == refused.value.retry_after_s:
            await counts.take("ann", Lane.REQUESTS)
        if after == spent.retry_after_s:
            await counts.may_spend("ann")


async def test_tokens_are_charged_whole_and_a_debt_is_waited_for(clock: Clock) -> None:
    """A turn may use more than was left; then its owner waits, longer the more it was."""
    counts = Rates({Lane.TOKENS: 1_000}, None)
    await counts.may_spend("ann")
    await counts.charge("ann", 999)
    await counts.may_spend("ann")
    await counts.charge("ann", 4_001)
    refused = await refusal_of(counts, "ann")
    assert refused.code is RefusalCode.TOO_MANY_TOKENS
    assert refused.message.startswith("The model's tokens are limited to 1000 a minute, and 5000 were used;")
    assert refused.retry_after_s == 79  # the rest of this minute, and as much of the next as leaves 1,000 of them
    standing = await counts.standing("ann", Lane.TOKENS)
    assert standing == rates.Standing(limit=1_000, left=0, reset_s=90)
    await counts.may_spend("bob")
    clock.now += 79
    await counts.may_spend("ann")


async def test_replicas_count_together_in_redis(redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes, asked at once, let through as many as one would; a third sees the tokens they charged."""
    monkeypatch.setattr(rates, "REDIS_S", 10.0)  # on a busy machine, too
    most = {Lane.REQUESTS: 20, Lane.TOKENS: 100}
    async with AsyncExitStack() as stack:
        replicas = [Rates(most, redis.url) for _ in range(3)]
        for replica in replicas:
            await stack.enter_async_context(replica.running())
        through = await asyncio.gather(*(taken(replica, "ann", 1) for replica in replicas[:2] * 30))
        assert sum(through) == 20
        await asyncio.gather(*(replica.charge("ann", 60) for replica in replicas[:2]))
        refused = await refusal_of(replicas[2], "ann")
        assert refused.retry_after_s is not None
        assert 60 < refused.retry_after_s <= 120
        assert await replicas[2].standing("ann", Lane.TOKENS) is not None


async def test_while_redis_is_away_each_process_counts_by_itself(
    redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is refused for its sake and nobody is let through without end; one request alone waits for it."""
    patient, hasty = 10.0, 0.05
    monkeypatch.setattr(rates, "AWAY_S", 0.0)
    monkeypatch.setattr(rates, "REDIS_S", patient)
    counts = Rates({Lane.REQUESTS: 3}, redis.url)
    async with counts.running():
        assert await taken(counts, "ann", 2) == 2
        await asyncio.to_thread(redis.kill)
        monkeypatch.setattr(rates, "REDIS_S", hasty)
        assert await taken(counts, "ann", 5) == 3
        await asyncio.to_thread(redis.start)
        monkeypatch.setattr(rates, "REDIS_S", patient)
        assert await taken(counts, "ann", 5) == 3  # it came back empty
        redis.pause()
        monkeypatch.setattr(rates, "REDIS_S", hasty)
        monkeypatch.setattr(rates, "AWAY_S", 60.0)
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert await taken(counts, "bob", 100) == 3
        assert loop.time() - began < 2
        redis.go_on()


async def test_no_name_of_an_owner_is_left_in_redis(redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """An owner may be somebody's address; the keys live two minutes at most."""
    monkeypatch.setattr(rates, "REDIS_S", 10.0)
    counts = Rates({Lane.REQUESTS: 3}, redis.url)
    async with counts.running():
        await counts.take("ann@example.test", Lane.REQUESTS)
    client: Any = Redis(port=redis.port)
    try:
        keys: list[bytes] = await client.keys("*")
        assert keys
        assert not [key for key in keys if b"ann" in key]
        assert all([0 < await client.ttl(key) <= 120 for key in keys])
    finally:
        await client.aclose()
