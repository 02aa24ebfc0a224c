"""What README and the manual tell people to run, open and follow is there: commands, options, targets, files, links."""

import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from app.cli import LoadedPath, main
from app.harness.script import find

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "SECURITY.md", "CHANGELOG.md", "GLOSSARY.md")),
    *sorted((ROOT / "docs" / "manual").glob("*.md")),
]
TARGETS = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))

Command = list[str]


def commands(page: Path) -> Iterator[Command]:
    """The commands of a page, in words: lines of its blocks without a language or of the shell, and code in its text."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```(?:sh)?\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    lines += re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))
    for line in lines:
        if re.match(r"(\.venv/bin/)?(turnstream|make|python) ", line):
            yield shlex.split(line.removeprefix(".venv/bin/"), comments=True)


def fault(command: Command) -> str | None:
    """Why the command can't be meant; None where it can."""
    match command:
        case ["make", *targets]:
            return next((f"no target {name}" for name in targets if "=" not in name and name not in TARGETS), None)
        case ["python", "-m", module, *_]:
            return None if module in ("pip", "venv") or importlib.util.find_spec(module) else f"no module {module}"
        case ["turnstream", *words]:
            return _told_by_click(main, words)
        case _:
            return "nothing that this test knows"


def _told_by_click(command: click.Command, words: Command) -> str | None:
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.commands.get(words[0])
        if found is None:
            return f"no command {words[0]}"
        command, words = found, words[1:]
    known = {option for parameter in command.params for option in parameter.opts} | {"--help", "--version"}
    return next((f"no option {word}" for word in words if word.startswith("--") and word not in known), None)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_that_people_are_told_to_run_exists(page: Path) -> None:
    """Its name and its options, the target, the module."""
    assert [(command, why) for command in commands(page) if (why := fault(command))] == []


def test_the_test_of_commands_sees_them() -> None:
    """It finds those of README, and what is wrong with others."""
    found = list(commands(ROOT / "README.md"))
    for command in (["make", "run"], ["turnstream", "doctor"], ["turnstream", "ask", "Who led OpenAI in 2023?"]):
        assert command in found
    for wrong in ("make nothing", "turnstream nothing", "turnstream token nothing", "turnstream ask x --nothing"):
        assert fault(shlex.split(wrong)) is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_and_link_that_is_named_exists(page: Path) -> None:
    """Paths of the checkout that stand as code, and what links lead to."""
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"`((?:app|web|docs|deploy|tests|sample|examples|bench)/[\w./-]*)`", text)
    missing = [name for name in named if not (ROOT / name).exists()]
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    missing += [link for link in links if link and not (page.parent / link).exists()]
    assert missing == []


def test_the_scripts_that_readme_names_are_shipped() -> None:
    """`harness run` takes the name of one of them, or a path."""
    for command in commands(ROOT / "README.md"):
        if command[:3] == ["turnstream", "harness", "run"]:
            assert find(command[3]).is_file()


def test_the_sample_base_can_be_loaded_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--load sample` is the folder of that name where there is one, else what came along with turnstream."""
    loaded = LoadedPath(exists=True, path_type=Path)
    monkeypatch.chdir(tmp_path)
    assert loaded.convert("sample", None, None) == ROOT / "sample"
    with pytest.raises(click.BadParameter):
        loaded.convert("sampel", None, None)
    (tmp_path / "sample").mkdir()
    assert loaded.convert("sample", None, None) == Path("sample")
