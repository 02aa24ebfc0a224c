"""One running application with a scripted model and one document, shared by the tests of whole turns."""

from collections.abc import AsyncGenerator

import pytest
from openai import AsyncOpenAI
from sqlalchemy import URL

from tests.harness.app import App, running_app
from tests.harness.scripted_endpoint import ScriptedEndpoint

BOARD = """# The board in November 2023

On 17 November 2023 the board of OpenAI removed Sam Altman as chief executive. After Greg Brockman left it,
four members remained besides Altman: Ilya Sutskever, Adam D'Angelo, Tasha McCauley and Helen Toner.

## 董事会

董事会在2023年11月17日罢免了首席执行官。
"""


@pytest.fixture(scope="session")
async def endpoint() -> AsyncGenerator[ScriptedEndpoint, None]:
    """The model: does as each test's script says."""
    async with ScriptedEndpoint() as running:
        yield running


@pytest.fixture(scope="session")
async def app(database_url: URL, endpoint: ScriptedEndpoint) -> AsyncGenerator[App, None]:
    """The application, with one document about a board in its default base."""
    async with running_app(database_url, llm=endpoint.base_url, heartbeat_s=0.2) as running:
        await running.upload("board.md", BOARD.encode())
        yield running


@pytest.fixture
async def client(app: App) -> AsyncGenerator[AsyncOpenAI, None]:
    """The OpenAI client as its users make it; it doesn't try again, so that each request is seen."""
    async with AsyncOpenAI(base_url=f"{app.url}/v1", api_key="none", max_retries=0) as made:
        yield made


@pytest.fixture
async def forgetful(app: App, database_url: URL, endpoint: ScriptedEndpoint) -> AsyncGenerator[App, None]:
    """Another application on the same database, for tests that teach it something about its endpoint."""
    async with running_app(database_url, llm=endpoint.base_url) as running:
        yield running
