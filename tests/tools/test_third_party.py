"""Tools of other packages: only those that are named are loaded, and what is wrong with one harms nobody.

The package in example_package is installed as pip leaves it (its folder and a dist-info) into a temporary folder.
"""

import importlib
import shutil
import sys
import tomllib
from collections.abc import Generator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from app.store.engine import Database
from app.tools.registry import AnyTool, Registry, ToolFault, load
from app.tools.tool import Citations, ToolContext
from tests.tools.description_contract import Described, example_of, faults

PACKAGE = Path(__file__).parent / "example_package"
MODULE = "turnstream_example_tool"
UNREACHED = Database("postgresql://nobody@127.0.0.1:1/none")
"""Never connected: the example tools ask it nothing."""


def install(target: Path, *, package: Path = PACKAGE, name: str | None = None) -> None:
    """What pip makes of the package in a folder on sys.path, without a network."""
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    named = name or project["name"]
    info = target / f"{named.replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {named}\nVersion: {project['version']}\n")
    points = project["entry-points"]["turnstream.tools"]
    lines = ["[turnstream.tools]", *(f"{key} = {value}" for key, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    module = project["name"].replace("-", "_")
    shutil.copytree(package / module, target / module, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    """The package is installed; afterwards nothing of it is left in this process."""
    install(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    importlib.invalidate_caches()
    yield tmp_path
    for module in [name for name in sys.modules if name.partition(".")[0] == MODULE]:
        del sys.modules[module]


def names(registry: Registry) -> set[str]:
    return set(registry.names()) - set(load().names())


async def test_named_tools_are_loaded_and_run_like_ours(installed: Path) -> None:
    """An entry point names a module with a TOOL, or the tool itself."""
    registry = load(["roll_dice", "tell_time"])
    assert names(registry) == {"roll_dice", "tell_time"}
    assert registry.errors == ()
    context = ToolContext(UNREACHED, "base", "Roll!", Citations())
    observed = await registry.dispatch("roll_dice", {"sides": 6}, context)
    assert (observed.status, observed.text[:4], observed.step.kind) == ("ok", "OK: ", "dice")
    refused = await registry.dispatch("roll_dice", {"sides": 1_000}, context)
    assert refused.text.startswith("ERROR: The arguments don't fit: `sides`")


def test_being_installed_is_no_consent(installed: Path) -> None:
    """Nothing of the package is even imported while it isn't named."""
    assert names(load()) == set()
    assert MODULE not in sys.modules


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("search_chunks", "that name is a tool of turnstream itself"),
        ("breaks_at_import", "turnstream-example-tool can't be imported: RuntimeError"),
        ("exits_at_import", "turnstream-example-tool can't be imported: SystemExit"),
        ("gone", "turnstream-example-tool can't be imported: ModuleNotFoundError"),
        ("not_a_tool", "its entry point names neither a Tool nor a module with a TOOL"),
        ("other_name", "its tool is named 'roll_dice'"),
        ("not_async", "its run isn't an async function"),
        ("no_schema", "its arguments have no JSON schema: PydanticInvalidForJsonSchema"),
        ("nobody_has_it", "no installed package has an entry point nobody_has_it in the group turnstream.tools"),
    ],
)
def test_what_is_wrong_with_one_is_logged_and_recorded_and_the_others_are_there(
    installed: Path, name: str, reason: str
) -> None:
    """Never a crash; a first-party name can't be taken over; no secret of an exception is in the reason."""
    with capture_logs() as logs:
        registry = load([name, "roll_dice"])
    assert registry.errors == (ToolFault(name, reason),)
    assert names(registry) == {"roll_dice"}
    assert [(log["tool"], log["reason"]) for log in logs if log["event"] == "tool_not_loaded"] == [(name, reason)]


def test_a_name_that_two_packages_have_is_nobodys(installed: Path) -> None:
    """Which one would win is nobody's to guess."""
    install(installed, name="another-package")
    registry = load(["roll_dice"])
    reason = "several packages have it: another-package, turnstream-example-tool"
    assert registry.errors == (ToolFault("roll_dice", reason),)


def test_a_name_given_twice_is_loaded_once(installed: Path) -> None:
    """A list in a setting may repeat itself."""
    assert names(load(["roll_dice", "roll_dice"])) == {"roll_dice"}


@pytest.mark.parametrize("name", ["roll_dice", "tell_time"])
async def test_a_third_partys_description_keeps_the_contract_too(installed: Path, name: str) -> None:
    """Seed 002 over every registered tool; its example runs."""
    registry = load(["roll_dice", "tell_time"])
    tool: AnyTool = next(tool for tool in registry if tool.name == name)
    assert faults(Described(tool.name, tool.description, tool.args), set(registry.names()) - {name}) == []
    arguments = example_of(tool.description.split("EXAMPLE: ")[1], name)
    context = ToolContext(UNREACHED, "base", "?", Citations())
    assert (await registry.dispatch(name, arguments, context)).status == "ok"
