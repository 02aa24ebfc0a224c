"""A client of the OpenAI door that goes away: its turn goes on, unless its request said otherwise. Decision 0018."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI
from sqlalchemy import URL

from tests.behaviour.test_openai_door import SEARCH, told, user
from tests.harness.app import App, running_app
from tests.harness.redis import redis_server
from tests.harness.scripted_endpoint import Script, ScriptedEndpoint, event, finish, stream


async def leave(client: AsyncOpenAI, script: Script, **given: Any) -> str:
    """Read to the first text, go away, and give the conversation."""
    answer = await client.chat.completions.create(
        model="scripted", messages=[user(f"How many? {script}")], stream=True, **given
    )
    conversation = ""
    async for chunk in answer:
        conversation = told(chunk).get("conversation_id", conversation)
        if chunk.choices[0].delta.content:
            break
    await answer.close()
    return conversation


async def ended(app: App, conversation: str) -> dict[str, Any]:
    """The stored answer, once it is there."""
    async with asyncio.timeout(10):
        while True:
            found = await app.messages(conversation)
            if len(found) == 2:
                return found[1]
            await asyncio.sleep(0.01)


async def test_a_client_that_goes_away_cancels_nothing(
    app: App, endpoint: ScriptedEndpoint, client: AsyncOpenAI
) -> None:
    """Losing a connection is not a stop, at this door as at every other (case S03)."""
    gate = asyncio.Event()
    script = endpoint.script(SEARCH, stream(event({"content": "Four "}), gate, event({"content": "[1]."}), finish()))
    conversation = await leave(client, script)
    gate.set()
    answer = await ended(app, conversation)
    assert (answer["content"], answer["stopped"]) == ("Four [1].", False)


async def test_a_client_may_say_that_leaving_is_stopping(
    app: App, endpoint: ScriptedEndpoint, client: AsyncOpenAI
) -> None:
    """With `metadata.on_disconnect` the turn ends as stopped, with what had come."""
    never = asyncio.Event()
    script = endpoint.script(SEARCH, stream(event({"content": "Four "}), never, finish()))
    conversation = await leave(client, script, metadata={"on_disconnect": "stop"})
    answer = await ended(app, conversation)
    assert (answer["content"], answer["stopped"]) == ("Four ", True)


async def test_leaving_stops_a_turn_that_runs_at_another_replica_too(
    new_database: Callable[[], AbstractAsyncContextManager[URL]], endpoint: ScriptedEndpoint, tmp_path: Path
) -> None:
    """A repeated request is read at the replica that it reaches; leaving there reaches the turn's owner at once."""
    never = asyncio.Event()
    script = endpoint.script(SEARCH, stream(event({"content": "Four "}), never, finish()))
    async with (
        new_database() as url,
        redis_server(tmp_path) as redis,
        running_app(url, llm=endpoint.base_url, redis_url=redis.url) as owner,
        running_app(url, llm=endpoint.base_url, redis_url=redis.url) as other,
        AsyncOpenAI(base_url=f"{owner.url}/v1", api_key="none", max_retries=0) as here,
        AsyncOpenAI(base_url=f"{other.url}/v1", api_key="none", max_retries=0) as there,
    ):
        same = {"extra_headers": {"Idempotency-Key": "once"}}
        first = await leave(here, script, **same)
        conversation = await leave(there, script, metadata={"on_disconnect": "stop"}, **same)
        assert conversation == first
        async with asyncio.timeout(2):  # housekeeping, every 5 s, would see the mark too
            answer = await ended(owner, conversation)
        assert (answer["content"], answer["stopped"]) == ("Four ", True)
        assert other.parts.supervisor.running_turns == owner.parts.supervisor.running_turns == 0
        assert len(script.requests) == 2
