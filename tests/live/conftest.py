"""The implementations of the live log, and the server that some of them need."""

from collections.abc import AsyncGenerator, Generator

import pytest

from app.live.log import LiveLog
from tests.harness.redis import RedisServer
from tests.live.tabs import IMPLEMENTATIONS, LogFactory, log_factory


@pytest.fixture(scope="session")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Generator[RedisServer]:
    """One server for the session; each log that is made on it begins by emptying it."""
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(params=IMPLEMENTATIONS)
def factory(request: pytest.FixtureRequest) -> LogFactory:
    """Every implementation of the port."""
    url = None if request.param == "memory" else request.getfixturevalue("redis").url
    return log_factory(request.param, url)


@pytest.fixture
async def log(factory: LogFactory) -> AsyncGenerator[LiveLog]:
    async with factory(60) as live_log:
        yield live_log
