"""A folder for a process's data, where an unprivileged account can be let in: pytest's own is closed to it."""

import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest


@pytest.fixture
def folder() -> Generator[Path, None, None]:
    """Removed with all that is in it."""
    made = Path(tempfile.mkdtemp(prefix="turnstream-process-"))
    yield made
    shutil.rmtree(made)
