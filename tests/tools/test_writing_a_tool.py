"""What the manual's page on writing a tool shows is a package that works: made from the page, installed, asked."""

import importlib
import re
import sys
from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL

from app.settings import PREFIX
from app.tools.registry import Registry, load
from tests.harness.app import running_app
from tests.harness.scripted_endpoint import ScriptedEndpoint, call, text
from tests.tools.description_contract import Described, faults
from tests.tools.test_third_party import install

PAGE = (Path(__file__).parents[2] / "docs" / "manual" / "22-writing-a-tool.md").read_text(encoding="utf-8")
TOML, PYTHON, SHELL, TEST = re.findall(r"^```\w+\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
MODULE = "turnstream_dates"
ASKED = {"start": "2023-11-17", "end": "2023-11-21"}
DAYS = "From 2023-11-17 to 2023-11-21 it is 4 days."


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """The files as the page names them, installed; afterwards nothing of them is left in this process."""
    package = tmp_path / "source"
    module = package / re.findall(rf"^`({MODULE}/\w+\.py)`:$", PAGE, re.MULTILINE)[0]
    module.parent.mkdir(parents=True)
    module.write_text(PYTHON, encoding="utf-8")
    (module.parent / "__init__.py").touch()
    (package / "pyproject.toml").write_text(TOML, encoding="utf-8")
    install(tmp_path / "site", package=package)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), *sys.path])
    importlib.invalidate_caches()
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == MODULE]:
        del sys.modules[name]


@pytest.fixture
def registry(installed: None) -> Registry:
    found = load(["days_between"])
    assert found.errors == ()
    return found


def test_its_description_keeps_the_contract(registry: Registry) -> None:
    """People copy it."""
    tool = next(tool for tool in registry if tool.name == "days_between")
    assert faults(Described(tool.name, tool.description, tool.args), set(registry.names()) - {tool.name}) == []


async def test_the_test_that_the_page_shows_passes(installed: None) -> None:
    """As it stands there."""
    shown: dict[str, Any] = {}
    exec(compile(TEST, "22-writing-a-tool.md", "exec"), shown)
    await shown["test_days_are_counted"]()


async def test_a_turn_is_offered_it_and_shows_what_it_did(
    installed: None, new_database: Callable[[], AbstractAsyncContextManager[URL]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Named by the variable as the page sets it, over HTTP, also when its arguments are wrong."""
    [(name, value)] = re.findall(r"^export (\w+)='(.*)'$", SHELL, re.MULTILINE)
    assert name == f"{PREFIX}TOOLS"
    monkeypatch.setenv(name, value)
    swapped = {"start": ASKED["end"], "end": ASKED["start"]}
    async with new_database() as url, ScriptedEndpoint() as endpoint, running_app(url, llm=endpoint.base_url) as app:
        calls = (("days_between", swapped), ("days_between", ASKED))
        script = endpoint.script(*(call(one) for one in calls), text("Four days."))
        turn = await app.ask(f"How long was he gone? {script}")
        offered: Any = script.bodies[0]["tools"]
        listed = (await app.http.get("/api/settings")).json()["tools"]
    assert "days_between" in [tool["function"]["name"] for tool in offered]
    assert "days_between" in [tool["name"] for tool in listed]
    assert [(step["status"], step["detail"]) for step in turn.of("step")] == [("error", "swapped"), ("ok", "4 days")]
    assert [m["content"] for m in script.messages(2) if m["role"] == "tool"] == [
        "ERROR: `end` lies before `start`; swap them.",
        f"OK: {DAYS}",
    ]
    assert (turn.answer, turn.done["evidence"]) == ("Four days.", "none")
