"""A script: conversations of turns, each with what is expected of it, as data in YAML.

Expectations are structural: which tools ran, what the evidence was, which facts appear in any of several spellings,
in which language. None reads prose. Every scalar is taken as the text that stands in the file, so that a date needs no
quotes and `no` is no boolean. Source: issue 8 items 1 and 7, seeds 001 and 003.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, cast

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails

from app.errors import StartError

Evidence = Literal["cited", "uncited", "skipped", "none"]

SHIPPED = Path(__file__).parent / "scripts"
SUFFIX = ".yaml"
FIRST_LANGUAGE = "zh"
"""The variant that a shipped name without a language means: the seeds' turns are Chinese."""

MAX_BYTES = 1_000_000
MAX_NODES = 50_000

_NAME = r"^[a-z0-9][a-z0-9-]{0,60}$"
_TOOL = r"^[A-Za-z0-9_-]{1,64}$"
_WORDS: dict[str, tuple[str, str]] = {
    "missing": ("is missing", ""),
    "extra_forbidden": ("is no field here", ""),
    "too_short": ("is empty", "at least one entry"),
}
_ALLOWED: dict[str, str] = {
    "string_too_short": "text that isn't blank",
    "string_too_long": "at most {max_length} characters",
    "string_pattern_mismatch": "text of the form {pattern}",
    "string_type": "text",
    "tuple_type": "a list",
    "too_long": "at most {max_length} entries",
    "int_parsing": "a whole number",
    "bool_parsing": "true or false",
    "model_type": "a mapping of fields",
}


class ScriptError(StartError):
    """A script that can't be used: where in which file, what stands there, what is allowed."""


def _one_or_more(value: object) -> object:
    """A single entry stands for a list of it."""
    return [value] if isinstance(value, str) else value


Words = Annotated[str, Field(min_length=1, max_length=4_000)]
ToolName = Annotated[str, Field(pattern=_TOOL)]
Tools = Annotated[tuple[ToolName, ...], BeforeValidator(_one_or_more)]
Slot = Annotated[tuple[Words, ...], BeforeValidator(_one_or_more), Field(min_length=1, max_length=40)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)


class Expectation(_Strict):
    """What must hold for one turn; what isn't said isn't looked at, but for `terminal`.

    `must_run`: each of these ran. `must_run_one_of`: one of them did. `must_not_run`: none was even tried.
    `facts`: every slot appears in the answer in one of its spellings. `no_failed_call`: no call ended in error.
    `reuses_ids_of`: the number of an earlier turn; a call of this one names an entity that one found, and names no
    other (the recall check).
    """

    must_run: Tools = ()
    must_run_one_of: Tools = ()
    must_not_run: Tools = ()
    evidence: Annotated[tuple[Evidence, ...], BeforeValidator(_one_or_more)] = ()
    sources_at_least: Annotated[int, Field(ge=0, le=1_000)] = 0
    facts: tuple[Slot, ...] = ()
    language: Literal["zh", "en"] | None = None
    terminal: Literal["done", "error"] = "done"
    no_failed_call: bool = False
    reuses_ids_of: Annotated[int, Field(ge=1)] | None = None


class Turn(_Strict):
    """One question. `about`: `base` for a data question, of which the skip rate is made; `talk` for the rest."""

    question: Words
    about: Literal["base", "talk"] = "base"
    expect: Expectation = Expectation()


class Conversation(_Strict):
    """Turns asked one after the other in a conversation of their own."""

    name: Annotated[str, Field(pattern=_NAME)]
    turns: Annotated[tuple[Turn, ...], Field(min_length=1, max_length=200)]

    @model_validator(mode="after")
    def _earlier(self) -> "Conversation":
        for number, turn in enumerate(self.turns, start=1):
            earlier = turn.expect.reuses_ids_of
            if earlier is not None and earlier >= number:
                raise ValueError(f"turn {number} expects ids of turn {earlier}; allowed is an earlier turn's number")
        return self


class Script(_Strict):
    """A whole script; `name` is what its runs are kept under."""

    name: Annotated[str, Field(pattern=_NAME)]
    about: Words
    conversations: Annotated[tuple[Conversation, ...], Field(min_length=1, max_length=500)]

    @field_validator("conversations")
    @classmethod
    def _apart(cls, value: tuple[Conversation, ...]) -> tuple[Conversation, ...]:
        seen: set[str] = set()
        for conversation in value:
            if conversation.name in seen:
                raise ValueError(f"two conversations are named {conversation.name!r}; allowed is each name once")
            seen.add(conversation.name)
        return value

    @property
    def turn_count(self) -> int:
        return sum(len(conversation.turns) for conversation in self.conversations)

    @property
    def hash(self) -> str:
        """Of what it asks and expects, hex; neither comments nor the order of keys change it."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()


def shipped() -> tuple[str, ...]:
    """The names of the scripts that come with the product."""
    return tuple(sorted(path.stem for path in SHIPPED.glob(f"*{SUFFIX}")))


def find(name: str) -> Path:
    """The file that a command line names: a shipped script's name, or a path (with a slash or a YAML suffix).

    Raises:
        ScriptError: there is neither.
    """
    if name.endswith((SUFFIX, ".yml")) or "/" in name or "\\" in name:
        return Path(name)
    for candidate in (name, f"{name}-{FIRST_LANGUAGE}"):
        if candidate in shipped():
            return SHIPPED / f"{candidate}{SUFFIX}"
    raise ScriptError(f"there is no script {name!r}; allowed is one of {', '.join(shipped())}, or a path to a .yaml")


def load(path: Path) -> Script:
    """The script in a file. Blocking.

    Raises:
        ScriptError: it can't be read, isn't YAML, or says something that no script may.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ScriptError(f"{path}: is larger than {MAX_BYTES} bytes, which no script may be")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ScriptError(f"{path}: can't be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ScriptError(f"{path}: isn't UTF-8 (byte {error.start})") from error
    return parse(text, str(path))


def parse(text: str, name: str) -> Script:
    """The script in a text; `name` is what its errors call it. Raises ScriptError."""
    document = _read(text, name)
    try:
        return Script.model_validate(document.value)
    except ValidationError as error:
        fault = error.errors()[0]
        where = fault["loc"]
        line = document.line_of(where)
        raise ScriptError(f"{name}:{line}: {_told(fault, where)}") from None


def _told(fault: ErrorDetails, where: tuple[str | int, ...]) -> str:
    kind, message, given = fault["type"], fault["msg"], fault["input"]
    path = ".".join(str(part + 1) if isinstance(part, int) else part for part in where) or "the script"
    said, allowed = _WORDS.get(kind, ("", ""))
    if said:
        return f"{path} {said}" + (f"; allowed is {allowed}" if allowed else "")
    if kind == "value_error":
        return f"{path}: {message.removeprefix('Value error, ')}"
    shown = repr(given) if isinstance(given, str) and len(given) <= 60 else f"a {_kind(given)}"
    known = _ALLOWED.get(kind)
    allowed = message.removeprefix("Input should be ") if known is None else known.format(**fault.get("ctx", {}))
    return f"{path}: {shown} was given; allowed is {allowed}"


def _kind(value: object) -> str:
    if isinstance(value, str):
        return f"text of {len(value)} characters"
    return "list" if isinstance(value, list) else "mapping"


class _Document:
    """A YAML document as plain text, lists and mappings, with the line on which each part begins."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lines: dict[tuple[str | int, ...], int] = {}
        self._count = 0
        self.value: object = None

    def line_of(self, where: tuple[str | int, ...]) -> int:
        """The line of the part, or of the nearest one around it that stands in the file."""
        while where not in self._lines and where:
            where = where[:-1]
        return self._lines.get(where, 1)

    def take(self, node: yaml.Node, where: tuple[str | int, ...] = ()) -> object:
        """The node as a value; refuses what YAML allows and a script has no use for."""
        self._count += 1
        self._lines.setdefault(where, node.start_mark.line + 1)
        if self._count > MAX_NODES or len(where) > 20:
            raise ScriptError(f"{self._name}: has more parts than a script may ({MAX_NODES}, 20 deep)")
        if isinstance(node, yaml.MappingNode):
            return dict(self._pairs(node, where))
        if isinstance(node, yaml.SequenceNode):
            return [self.take(child, (*where, n)) for n, child in enumerate(node.value)]
        return str(node.value)

    def _pairs(self, node: yaml.MappingNode, where: tuple[str | int, ...]) -> Iterator[tuple[str, object]]:
        seen: set[str] = set()
        for key_node, child in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise ScriptError(f"{self._name}:{line}: a field's name must be text")
            key = str(key_node.value)
            if key in seen:
                raise ScriptError(f"{self._name}:{line}: {key} is given twice")
            seen.add(key)
            self._lines[(*where, key)] = line
            yield key, self.take(child, (*where, key))


def _read(text: str, name: str) -> _Document:
    document = _Document(name)
    try:
        node = cast("yaml.Node | None", yaml.compose(text, Loader=yaml.BaseLoader))  # pyright: ignore[reportUnknownMemberType]
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        raise ScriptError(f"{name}:{line}: isn't YAML: {error.problem or error.context or 'it breaks off'}") from error
    except yaml.YAMLError as error:
        raise ScriptError(f"{name}:1: isn't YAML: {error}") from error
    except RecursionError as error:
        raise ScriptError(f"{name}: is nested deeper than a script may be") from error
    if node is None:
        raise ScriptError(f"{name}:1: is empty; allowed are `name`, `about` and `conversations`")
    document.value = document.take(node)
    return document
