"""A browser, the built page, and a server with the sample base and a scripted model behind it."""

import fcntl
from collections.abc import AsyncGenerator

import pytest
from playwright.async_api import Browser, Page, expect

import hatch_build
from tests.browser.chromium import PATIENCE_MS, Person, person, running_chromium
from tests.browser.conversation import Conversation
from tests.browser.sample import ROOT, load_sample
from tests.harness.app import App, running_app
from tests.harness.postgres import PostgresServer
from tests.harness.programs import installed
from tests.harness.scripted_endpoint import ScriptedEndpoint

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="session")
def page_built(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The page of this checkout's sources, and the packages its tests need; built once whatever the number of workers."""
    installed("chromium")
    with (tmp_path_factory.getbasetemp().parent / "page.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        hatch_build.install(ROOT / "web")
        hatch_build.build_page(ROOT)


@pytest.fixture(scope="session")
async def chromium(page_built: None) -> AsyncGenerator[Browser, None]:
    """One browser for the session."""
    async with running_chromium() as browser:
        yield browser


@pytest.fixture(scope="session")
async def endpoint() -> AsyncGenerator[ScriptedEndpoint, None]:
    """The model: does as each test's script says."""
    async with ScriptedEndpoint() as running:
        yield running


@pytest.fixture(scope="session")
async def app(chromium: Browser, postgres: PostgresServer, endpoint: ScriptedEndpoint) -> AsyncGenerator[App, None]:
    """The application with the sample base, documents and facts. Asks for the browser first: without one, no work."""
    async with postgres.new_database() as url, running_app(url, llm=endpoint.base_url, heartbeat_s=0.5) as running:
        await load_sample(running)
        yield running


@pytest.fixture
async def somebody(chromium: Browser, app: App) -> AsyncGenerator[Person, None]:
    """A person before the sample base."""
    async with person(chromium, app.url) as visitor:
        yield visitor


@pytest.fixture
async def chat(somebody: Person) -> Conversation:
    """A new conversation, before its first question."""
    return Conversation(await somebody.open("/"))


@pytest.fixture
async def phone(chromium: Browser, app: App) -> AsyncGenerator[Page, None]:
    """The page on a phone."""
    async with person(chromium, app.url, viewport={"width": 390, "height": 844}, has_touch=True) as visitor:
        yield await visitor.open("/")
