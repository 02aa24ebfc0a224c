"""One scripted endpoint and one client for all tests of the wire."""

from collections.abc import AsyncGenerator, Generator

import pytest
from hypothesis import settings

from app.llm.capabilities import Capabilities
from app.llm.openai_chat import EndpointConfig, OpenAIChat
from tests.harness.scripted_endpoint import ScriptedEndpoint

settings.register_profile("without_deadline", deadline=None)
settings.load_profile("without_deadline")


@pytest.fixture(scope="session")
def no_proxy() -> Generator[None]:
    """A proxy of the machine's environment must not stand between a test and its own endpoint."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            patch.delenv(name, raising=False)
            patch.delenv(name.lower(), raising=False)
        yield


@pytest.fixture(scope="session")
async def endpoint(no_proxy: None) -> AsyncGenerator[ScriptedEndpoint]:
    async with ScriptedEndpoint() as running:
        yield running


@pytest.fixture(scope="session")
async def model(endpoint: ScriptedEndpoint) -> AsyncGenerator[OpenAIChat]:
    config = EndpointConfig(base_url=endpoint.base_url, model="scripted", api_key="sk-test-0123456789abcdef")
    client = OpenAIChat(config, Capabilities())
    yield client
    await client.aclose()
