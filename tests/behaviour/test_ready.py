"""/readyz tells the truth, and going down is the first of all reasons. Issue 9 item 4."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager

import pytest
import uvicorn
from sqlalchemy import URL, text

from app.main import create_app
from app.serve import Server
from tests.harness.app import App, running_app, settings_for

NewDatabase = Callable[[], AbstractAsyncContextManager[URL]]
WAITING = "SELECT count(*) AS n FROM pg_locks WHERE NOT granted AND relation = 'bases'::regclass"


@pytest.fixture
async def own_app(new_database: NewDatabase) -> AsyncGenerator[App]:
    """An application that may be broken."""
    async with new_database() as url, running_app(url) as running:
        yield running


async def told(app: App) -> tuple[int, str]:
    answer = await app.http.get("/readyz")
    return answer.status_code, answer.json()["status"]


async def test_a_background_task_that_is_gone_is_said(new_database: NewDatabase) -> None:
    """Until the server goes down; then what is gone went because of that."""
    async with new_database() as url:
        others = asyncio.all_tasks()
        async with running_app(url) as own_app:
            assert await told(own_app) == (200, "ok")
            [worker] = [task for task in asyncio.all_tasks() - others if task.get_name() == "ingest"]
            worker.cancel()
            await asyncio.wait({worker})
            assert await told(own_app) == (503, "background tasks are not running")
            own_app.parts.begin_shutdown()
            assert await told(own_app) == (503, "shutting down")


async def test_a_check_that_a_shutdown_overtakes_says_so(own_app: App) -> None:
    """It waited for the database when the shutdown began, and the database answers after all."""
    async with own_app.parts.database.begin() as lock:
        await lock.execute(text("LOCK TABLE bases IN ACCESS EXCLUSIVE MODE"))
        asking = asyncio.create_task(told(own_app))
        async with asyncio.timeout(5):
            while not (await own_app.rows(WAITING))[0].n:
                await asyncio.sleep(0.01)
        own_app.parts.begin_shutdown()
    assert await asking == (503, "shutting down")


async def test_from_the_signal_on_nothing_is_taken(new_database: NewDatabase) -> None:
    """Not only from when the server's loop has noticed it."""
    async with new_database() as url:
        app = create_app(settings_for(url, None), url)
        Server(uvicorn.Config(app, log_config=None), app).handle_exit(15, None)
        assert await app.ready() == "shutting down"
        await app.aclose()
