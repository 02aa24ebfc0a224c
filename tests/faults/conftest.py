"""A folder for a process's data, and the replicas that most of these tests break and mend."""

import shutil
import tempfile
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest

from tests.harness.cluster import Cluster, running_cluster
from tests.harness.postgres import PostgresServer
from tests.harness.redis import redis_server

BOARD = b"""# The board in November 2023

On 17 November 2023 the board of OpenAI removed Sam Altman as chief executive. After Greg Brockman left it,
four members remained besides Altman: Ilya Sutskever, Adam D'Angelo, Tasha McCauley and Helen Toner.
"""


@pytest.fixture
def folder() -> Generator[Path, None, None]:
    """Removed with all that is in it. Not pytest's own, which is closed to the account that root gives a Postgres."""
    made = Path(tempfile.mkdtemp(prefix="turnstream-process-"))
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="session")
async def shared(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Cluster, None]:
    """Two replicas for the session: starting one takes longer than most of these tests."""
    folder = tmp_path_factory.mktemp("cluster")
    async with (
        redis_server(folder) as redis,
        postgres.new_database() as url,
        running_cluster(folder, url, redis, count=2, answer_max_chars="16000000") as cluster,
    ):
        await upload(cluster, "board.md", BOARD)
        yield cluster


async def upload(cluster: Cluster, name: str, data: bytes) -> None:
    """Put a document into the default base, and wait until it can be found."""
    http = cluster.members[0].http
    sent = await http.post("/api/bases/default/documents", files={"file": (name, data)})
    assert sent.status_code == 202, sent.text
    await cluster.until_row("SELECT 1 FROM documents WHERE status = 'ready'")


@pytest.fixture
async def pair(shared: Cluster) -> Cluster:
    """Two replicas that are well, whatever the last test did to them."""
    await shared.mend()
    await shared.clear()
    return shared
