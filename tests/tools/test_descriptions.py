"""Every registered tool keeps the contract of descriptions, and the contract bites."""

import hashlib
import json
import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import BaseModel, ConfigDict, Field

import app.tools
from app.store.engine import Database
from app.tools.registry import AnyTool, load
from app.tools.tool import Citations, ToolContext
from app.turn import prompts
from app.turn.check_call import resolve
from tests.tools.conftest import GraphBase
from tests.tools.description_contract import CATALOGUE_CHARS, Described, example_of, faults

REGISTRY = load()
TOOLS: list[AnyTool] = list(REGISTRY)
BY_NAME = pytest.mark.parametrize("tool", TOOLS, ids=[tool.name for tool in TOOLS])

FIRST_PARTY = [
    "changes",
    "entity_facts",
    "find_entities",
    "neighbors",
    "no_evidence_needed",
    "paths_between",
    "remember",
    "search_chunks",
    "search_docs",
    "timeline",
]
WRITING = ["remember"]
GRAPH_READING = ["changes", "entity_facts", "find_entities", "neighbors", "paths_between", "timeline"]
CHAT_ONLY = ["no_evidence_needed"]
NO_TOOL = {"graph_sheet", "observation", "passage", "registry", "tool"}
"""Modules of the folder that are no tool."""


def described(tool: AnyTool) -> Described:
    return Described(tool.name, tool.description, tool.args)


def examples(tool: AnyTool) -> list[dict[str, object]]:
    lines = [line for line in tool.description.split("\n") if line.startswith("EXAMPLE: ")]
    return [example_of(line.removeprefix("EXAMPLE: "), tool.name) for line in lines]


def test_the_tools_are_those_we_know_and_every_module_is_one() -> None:
    """D1: a tool can't vanish, and none can be dropped in unseen."""
    assert list(REGISTRY.names()) == FIRST_PARTY
    modules = {module.name for module in pkgutil.iter_modules(app.tools.__path__)}
    files = {path.stem for path in Path(app.tools.__path__[0]).glob("*.py")} - {"__init__"}
    assert modules == files == NO_TOOL | set(FIRST_PARTY)


def test_no_two_names_are_equal_after_folding() -> None:
    """D2: looking a name up can't be ambiguous."""
    for name in REGISTRY.names():
        assert resolve(name.replace("_", "-").upper(), REGISTRY.names()) == name


@BY_NAME
def test_a_registered_tool_keeps_the_contract(tool: AnyTool) -> None:
    """Seed 002 and D2-D13, over the live registry."""
    assert faults(described(tool), set(REGISTRY.names()) - {tool.name}) == []


def test_headlines_are_unique_and_the_whole_catalogue_is_small() -> None:
    """D3 and D8."""
    headlines = [tool.description.split("\n")[0] for tool in TOOLS]
    assert len(set(headlines)) == len(headlines)
    assert (
        sum(len(o.description) + len(json.dumps(dict(o.parameters))) for o in REGISTRY.chat_tools()) < CATALOGUE_CHARS
    )


@BY_NAME
def test_defaults_fit_their_own_schema_and_the_schema_is_plain_json(tool: AnyTool) -> None:
    """D11: closed, without combinators at the root, the same after a round trip."""
    (offered,) = (o for o in REGISTRY.chat_tools() if o.name == tool.name)
    schema = dict(offered.parameters)
    assert json.loads(json.dumps(schema)) == schema
    assert (schema["type"], schema["additionalProperties"]) == ("object", False)
    assert not {"anyOf", "oneOf", "allOf"} & set(schema)
    complete = tool.args.model_validate(examples(tool)[0]).model_dump()
    assert tool.args.model_validate(complete).model_dump() == complete


@BY_NAME
async def test_the_example_runs(tool: AnyTool, database: Database) -> None:
    """D7: what the description shows can be called as it stands, also in a base that holds nothing."""
    context = ToolContext(database, "01900000-0000-7000-8000-000000000000", "?", Citations())
    for arguments in examples(tool):
        observed = await REGISTRY.dispatch(tool.name, arguments, context)
        assert observed.status in (("ok", "empty") if tool.read_only else ("error",))


@pytest.mark.parametrize("tool", [tool for tool in TOOLS if tool.name in GRAPH_READING + WRITING], ids=lambda t: t.name)
async def test_the_example_finds_something_in_a_base_that_has_it(tool: AnyTool, corrected: GraphBase) -> None:
    """D7: each example of a graph tool is one that a model could copy; one that writes runs for who may write."""
    for arguments in examples(tool):
        observed = await REGISTRY.dispatch(tool.name, arguments, corrected.context(may_write=True))
        assert observed.status == "ok", observed.text


def test_only_what_writes_is_not_read_only() -> None:
    """D12: who may not write is offered exactly the others."""
    assert [tool.name for tool in TOOLS if tool.writes] == WRITING
    assert [tool.name for tool in TOOLS if not tool.read_only] == WRITING
    assert list(REGISTRY.names(may_write=False)) == [name for name in FIRST_PARTY if name not in WRITING]


def test_what_only_a_chat_may_call_is_listed() -> None:
    """TOOLS M2: loop control isn't for MCP, and only it is terminal."""
    assert [tool.name for tool in TOOLS if tool.chat_only] == CHAT_ONLY
    assert [tool.name for tool in TOOLS if tool.terminal] == CHAT_ONLY


def test_the_system_prompt_explains_the_prefixes() -> None:
    """D13: that grammar stands there once, and in no description."""
    assert all(f"`{prefix}: `" in prompts.LATEST.system for prefix in ("OK", "EMPTY", "ERROR"))


RENDER = """
import hashlib, json, socket
def refuse(*args, **kwargs): raise OSError("no I/O at import")
socket.socket.connect = socket.getaddrinfo = refuse
from app.tools.registry import load
offered = [[o.name, o.description, dict(o.parameters)] for o in load().chat_tools()]
print(hashlib.sha256(json.dumps(offered).encode()).hexdigest())
"""


@pytest.mark.parametrize("seed", ["1", "2"])
def test_the_rendered_list_is_the_same_in_every_process(seed: str) -> None:
    """D14: sorted and stable, so that prompt caches stay warm; loading it touches no network."""
    offered = [[o.name, o.description, dict(o.parameters)] for o in REGISTRY.chat_tools()]
    here = hashlib.sha256(json.dumps(offered).encode()).hexdigest()
    run = subprocess.run(
        [sys.executable, "-c", RENDER],
        env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(app.tools.__path__[0]).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == here


class Fits(BaseModel):
    model_config = ConfigDict(extra="forbid")
    query: str = Field(description="What to look for.")


class Pages(Fits):
    limit: int = Field(5, ge=1, le=10, description="How many at most, 1 to 10.")


class Open(BaseModel):
    query: str = Field(description="What to look for.")


class Undescribed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    query: str


class Unbounded(Fits):
    depth: int = Field(1, description="How far to look.")


class Untyped(Fits):
    anything: Annotated[object, Field(description="Whatever it may be.")] = None


class Injected(Fits):
    base_id: str = Field("", description="Which base to look in.")


GOOD = """\
Find things by their words.

WHEN:
  - A question names a thing
  - An earlier search found too little

WHEN NOT:
  - The thing is a person: use `find_people`

RETURNS:
  The things, one a line; each MUST be cited.
  EMPTY means that nothing is called so.

EXAMPLE: find_things {"query": "lamp"}"""


def good(old: str = "", new: str = "", *, name: str = "find_things", args: type[BaseModel] = Fits) -> Described:
    """The good description with one thing changed."""
    assert old in GOOD
    return Described(name, GOOD.replace(old, new, 1) if old else GOOD, args)


EXAMPLE = 'EXAMPLE: find_things {"query": "lamp"}'
HEADLINE = "Find things by their words."


@pytest.mark.parametrize(
    "tool",
    [
        good(),
        good("\nWHEN NOT:\n  - The thing is a person: use `find_people`\n", ""),
        good("nothing is called so.", "nothing is called so; see `limit`.", args=Pages),
        good(EXAMPLE, f"{EXAMPLE}\n{EXAMPLE}"),
    ],
)
def test_a_good_description_has_no_fault(tool: Described) -> None:
    """D15: what may vary."""
    assert faults(tool, [] if "WHEN NOT" not in tool.description else ["find_people"]) == []


@pytest.mark.parametrize(
    ("rule", "tool"),
    [
        ("D2", good("find_things {", "Find {", name="Find")),
        ("D2", good("find_things {", "fi {", name="fi")),
        ("D2", good("find_things {", "required {", name="required")),
        ("D3", good(HEADLINE, "")),
        ("D3", good(HEADLINE, f"Find {'x' * 120}.")),
        ("D3", good(HEADLINE, "Find things by their words:")),
        ("D3", good(HEADLINE, "Find things. Quickly.")),
        ("D3", good(HEADLINE, "find_things.")),
        ("D3", good(HEADLINE, "This tool finds things.")),
        ("D3", good(HEADLINE, "Finds things by their words.")),
        ("D3", good(HEADLINE, "Find things\nby their words.")),
        ("D4", good("WHEN:", "WHEN TO USE:")),
        ("D4", good("WHEN:", "When:")),
        ("D4", good("WHEN:", "  WHEN:")),
        ("D4", good("RETURNS:", "\nRETURNS:")),
        ("D4", good("\n\nRETURNS:", "\nRETURNS:")),
        ("D4", good(f"\n\n{EXAMPLE}", "")),
        ("D4", good("WHEN NOT:\n  - The thing is a person: use `find_people`\n\n", "CONTRACT:\n  x\n\n")),
        ("D4", good("  EMPTY means", "  SCOPES: all\n  EMPTY means")),
        ("D4", Described("find_things", GOOD.replace("WHEN NOT:", "X").replace("WHEN:", "WHEN NOT:"), Fits)),
        ("D5", good("  - A question names a thing\n  - An earlier search found too little", "  A question")),
        ("D5", good("WHEN:\n  - A question names a thing\n", "WHEN: a question names a thing\n")),
        ("D5", good("A question names a thing", "x" * 160)),
        ("D5", good("  - A question", "- A question")),
        ("D5", good("`find_people`", "something else")),
        ("D5", good("`find_people`", "`find_nobody`")),
        ("D5", good("`find_people`", "`find_things`")),
        ("D5", good("\nWHEN NOT:\n  - The thing is a person: use `find_people`\n", "")),
        ("D6", good("RETURNS:\n  The things", "RETURNS: The things")),
        ("D6", good("EMPTY means that nothing is called so.", "Nothing may be called so.")),
        ("D6", good("  EMPTY means", "  a\n  b\n  EMPTY means")),
        ("D6", good(args=Pages)),
        ("D7", good(EXAMPLE, "EXAMPLE: find_things")),
        ("D7", good(EXAMPLE, 'EXAMPLE: find_people {"query": "lamp"}')),
        ("D7", good(EXAMPLE, "EXAMPLE: find_things {'query': 'lamp'}")),
        ("D7", good(EXAMPLE, 'EXAMPLE: find_things ["lamp"]')),
        ("D7", good(EXAMPLE, 'EXAMPLE: find_things {"name": "lamp"}')),
        ("D7", good(EXAMPLE, f"{EXAMPLE}\n{EXAMPLE}\n{EXAMPLE}")),
        ("D8", good("The things, one a line", f"The things, {'one a line ' * 80}")),
        ("D9", good("A question names", "MANDATORY when a question names")),
        ("D9", good("A question names", "Never wait: a question names")),
        ("D9", good("A question names", "Don't guess when a question names")),
        ("D9", good("A question names", "Do not guess when a question names")),
        ("D9", good("A question names", "Prefer this over guessing when a question names")),
        ("D9", good("A question names", "Important! A question names")),
        ("D9", good("A question names", "A blocked question names")),
        ("D9", good("A question names", "✅ A question names")),
        ("D9", good("A question names", "A question MUST name")),
        ("D10", good("  - A question", "  1. A question")),
        ("D10", good("  - A question", "  * A question")),
        ("D10", good("  - A question", "  • A question")),
        ("D10", good("names a thing", "names a thing ")),
        ("D10", good("names a thing", "names\ta thing")),
        ("D10", good("names a thing", "names a <b>thing</b>")),
        ("D10", good("names a thing", "names a {thing}")),
        ("D11", good(args=Open)),
        ("D11", good(args=Undescribed)),
        ("D11", good(args=Unbounded)),
        ("D11", good(args=Untyped)),
        ("D11", good(args=Injected)),
        ("D13", good("EMPTY means", "EMPTY: means")),
        ("D13", good("The things, one", "OK: the things, one")),
    ],
)
def test_a_bad_description_fails_exactly_its_rule(rule: str, tool: Described) -> None:
    """D15: proof that the contract bites."""
    assert {fault.partition(":")[0] for fault in faults(tool, ["find_people"])} == {rule}
