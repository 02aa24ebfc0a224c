"""The contract of tool descriptions: what a model reads when it chooses a tool. Source: seed 002, TOOLS D2-D13.

`faults` gives every breach as `D<n>: what is wrong`; none for a description that keeps the contract.
"""

import json
import re
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, cast

from pydantic import BaseModel, ValidationError

HEADLINE_CHARS = 120
BULLET_CHARS = 160
DESCRIPTION_CHARS = 1_000
CATALOGUE_CHARS = 24_000
"""Of all descriptions and schemas together: some 6,000 tokens."""

_ORDER = ("WHEN", "WHEN NOT", "RETURNS", "EXAMPLE")
_OPTIONAL = ("WHEN NOT",)
_RESERVED = frozenset({"auto", "none", "required", "functions", "tools"})
_INJECTED = frozenset({"as_of", "base", "base_id", "database", "question", "tenant", "user_id"})
_PAGING = frozenset({"cursor", "limit", "offset"})

_NAME = re.compile(r"[a-z][a-z0-9_]{2,47}")
_HEADER = re.compile(r"(WHEN NOT|WHEN|RETURNS|EXAMPLE):(.*)", re.DOTALL)
_OTHER_HEADER = re.compile(r"\s*(?!(?:OK|EMPTY|ERROR):)[A-Z][A-Z ]+:")
_OTHER_BULLET = re.compile(r"\s*(?:[0-9]+[.)-]|[*•+]) ?\S")
_STATUS = re.compile(r"\b(?:OK|EMPTY|ERROR):")
_TOOL = re.compile(r"`([^`]+)`")
_MARKUP = re.compile(r"</?[a-z][^>]*>|\{[a-z_]+\}|[\t\r]| $", re.MULTILINE)
_BANNED = re.compile(
    r"\b(?:mandatory|forbidden|blocked|never|must not|do not|don't|session state|prefer\b.*\bover)\b|\bimportant!",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Described:
    """A tool as far as its description goes."""

    name: str
    description: str
    args: type[BaseModel]


def faults(tool: Described, others: Collection[str]) -> list[str]:
    """Every breach of the contract by one tool, beside the other registered ones."""
    found = [*_name(tool.name), *_text(tool.description), *_schema(tool.args)]
    headline, *blocks = tool.description.split("\n\n")
    found += _headline(headline, tool.name)
    structure = _structure(blocks)
    if structure:
        return found + structure
    sections = {match[1]: match[2] for match in map(_HEADER.fullmatch, blocks) if match}
    if "MUST" in "".join((headline, *(text for name, text in sections.items() if name != "RETURNS"))):
        found.append("D9: MUST outside RETURNS")
    found += _when(sections["WHEN"])
    found += _when_not(sections.get("WHEN NOT"), tool.name, others)
    found += _returns(sections["RETURNS"], tool.args)
    found += _example(sections["EXAMPLE"], tool)
    return found


def _name(name: str) -> list[str]:
    if not _NAME.fullmatch(name) or name in _RESERVED:
        return [f"D2: {name!r} is no name that every endpoint takes"]
    return []


def _headline(headline: str, name: str) -> list[str]:
    if not 1 <= len(headline) <= HEADLINE_CHARS or "\n" in headline:
        return [f"D3: the headline isn't one line of 1 to {HEADLINE_CHARS} characters"]
    if headline.rstrip(".") == name or not headline.endswith(".") or ". " in headline:
        return ["D3: the headline isn't one sentence"]
    if not re.match(r"(?!(?:This|It|A|An|The) )[A-Z][a-z]+\b(?<!s)(?<!ing) ", headline):
        return ["D3: the headline doesn't begin with an imperative"]
    return []


def _structure(blocks: list[str]) -> list[str]:
    found: list[str] = []
    names: list[str] = []
    for block in blocks:
        match = _HEADER.fullmatch(block)
        if match is None:
            found.append(f"D4: {block[:30]!r} is no section, or not set off by one blank line")
            continue
        names.append(match[1])
        if any(_OTHER_HEADER.match(line) and not line.startswith("EXAMPLE:") for line in block.split("\n")[1:]):
            found.append(f"D4: a header inside {match[1]}")
    expected = [name for name in _ORDER if name in names or name not in _OPTIONAL]
    if names != expected and not found:
        found.append(f"D4: sections are {names}, not {expected}")
    return found


def _bullets(text: str, section: str) -> list[str]:
    first, *lines = text.split("\n")
    if first or not lines:
        return [f"D5: {section} has no bullets of its own"]
    wrong = [ln for ln in lines if not re.fullmatch(r"  - \S.*", ln) and not _OTHER_BULLET.match(ln)]
    wrong += [ln for ln in lines if len(ln) > BULLET_CHARS]
    return [f"D5: {ln!r} is no bullet of {section}" for ln in wrong]


def _when(text: str) -> list[str]:
    return _bullets(text, "WHEN")


def _when_not(text: str | None, name: str, others: Collection[str]) -> list[str]:
    if text is None:
        return ["D5: WHEN NOT is missing though there are other tools"] if others else []
    found = _bullets(text, "WHEN NOT")
    for line in text.split("\n")[1:]:
        named = set(_TOOL.findall(line))
        if not found and (not named or name in named or not named <= set(others)):
            found.append(f"D5: {line!r} doesn't name another registered tool")
    return found


def _returns(text: str, args: type[BaseModel]) -> list[str]:
    first, *lines = text.split("\n")
    found: list[str] = []
    if first or not 1 <= len(lines) <= 3 or not all(re.fullmatch(r"  \S.*", line) for line in lines):
        found.append("D6: RETURNS isn't one to three indented lines of its own")
    if "EMPTY" not in text:
        found.append("D6: RETURNS doesn't say what EMPTY means")
    paging = _PAGING & set(args.model_fields)
    if paging - set(_TOOL.findall(text)):
        found.append(f"D6: RETURNS doesn't name {sorted(paging)}")
    return found


def _example(text: str, tool: Described) -> list[str]:
    lines = [line.removeprefix("EXAMPLE:") for line in text.split("\n")]
    if len(lines) > 2:
        return ["D7: more than two examples"]
    return [fault for line in lines for fault in _call(line, tool)]


def _call(line: str, tool: Described) -> list[str]:
    try:
        arguments = example_of(line, tool.name)
        tool.args.model_validate(arguments)
    except (ValueError, ValidationError) as error:
        return [f"D7: {line!r} is no call of {tool.name}: {error}"]
    return []


def example_of(line: str, name: str) -> dict[str, object]:
    """The arguments of an EXAMPLE line, without its header.

    Raises:
        ValueError: it isn't the tool's name and one JSON object.
    """
    called, _, arguments = line.strip().partition(" ")
    value: object = json.loads(arguments)
    if called != name or not isinstance(value, dict):
        raise ValueError("not the name and one JSON object")
    return cast("dict[str, object]", value)


def _text(description: str) -> list[str]:
    found: list[str] = []
    if len(description) > DESCRIPTION_CHARS:
        found.append(f"D8: {len(description)} characters, more than {DESCRIPTION_CHARS}")
    banned = _BANNED.search(description)
    if banned or any(unicodedata.category(char) == "So" for char in description):
        found.append(f"D9: {banned.group()!r}" if banned else "D9: an emoji")
    if _MARKUP.search(description) or any(map(_OTHER_BULLET.match, description.split("\n"))):
        found.append("D10: a tab, a trailing blank, a tag, a placeholder or another kind of bullet")
    if _STATUS.search(description):
        found.append("D13: a status prefix; that grammar is the system prompt's")
    return found


def _schema(args: type[BaseModel]) -> list[str]:
    schema: dict[str, Any] = args.model_json_schema()
    properties: dict[str, dict[str, Any]] = schema.get("properties", {})
    found: list[str] = []
    if schema.get("type") != "object" or args.model_config.get("extra") != "forbid":
        found.append("D11: arguments aren't a closed object")
    if _INJECTED & set(properties):
        found.append(f"D11: {sorted(_INJECTED & set(properties))} is the server's to choose")
    for key, prop in properties.items():
        if not {"type", "enum", "anyOf", "$ref"} & set(prop):
            found.append(f"D11: {key} has no type")
        if len(prop.get("description", "")) < 10 or prop["description"] == key:
            found.append(f"D11: {key} isn't described")
        if prop.get("type") == "integer" and not {"minimum", "maximum"} <= set(prop):
            found.append(f"D11: {key} has no bounds")
    return found
