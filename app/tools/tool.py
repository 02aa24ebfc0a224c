"""What a tool is, what it is given and what it gives back.

A tool is one module of this folder with a `TOOL`. It never writes the OK/EMPTY/ERROR prefix, numbers its
sources only through `ToolContext.citations`, and gets everything that isn't an argument (base, record
time, question) from its context, never from the model. Source: DESIGN section 7, seeds 000 and 002.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Literal, TypeVar

from pydantic import BaseModel

from app.knowledge.nearest import Nearest
from app.store.engine import Database
from app.text import cut

EXCERPT_CHARS = 1_000
"""The longest excerpt of a source: its own, and the sentences that facts rest on."""

QUOTE_CHARS = 300
"""How much of one such sentence is shown."""

Status = Literal["ok", "empty", "error"]


@dataclass(frozen=True, slots=True)
class Source:
    """A passage an answer can rest on. `id` is stable over turns; `locator` says where in the document it is."""

    kind: Literal["chunk", "manual"]
    id: str
    document_id: str | None
    title: str
    locator: str
    excerpt: str


@dataclass(frozen=True, slots=True)
class NumberedSource:
    """A source with its number of this turn: an entry of the `sources` frame, field for field."""

    n: int
    kind: str
    id: str
    document_id: str | None
    title: str
    locator: str
    excerpt: str


class Citations:
    """The numbering of one turn's sources: the same passage keeps its number across tools and calls.

    Held by the turn; tools that number run one at a time, so numbers follow the order of calls.
    """

    def __init__(self, numbered: Iterable[NumberedSource] = ()) -> None:
        """`numbered` are the sources of a turn that is gone on with, in order of their numbers."""
        self._sources: list[NumberedSource] = list(numbered)
        self._numbers: dict[tuple[str, str], int] = {(s.kind, s.id): s.n for s in self._sources}

    def cite(self, source: Source, *, quote: str = "") -> int:
        """The source's number, registering it as the next one where it is new.

        `quote` is the sentence that what is said rests on: it becomes visible in the excerpt, also of a passage
        that has its number already, within `EXCERPT_CHARS`.
        """
        key = (source.kind, source.id)
        known = self._numbers.get(key)
        if known is None:
            known = self._numbers[key] = len(self._sources) + 1
            self._sources.append(
                NumberedSource(
                    known, source.kind, source.id, source.document_id, source.title, source.locator, source.excerpt
                )
            )
        self._show(known, cut(" ".join(quote.split()), QUOTE_CHARS))
        return known

    def _show(self, n: int, quote: str) -> None:
        shown = self._sources[n - 1]
        if not quote or quote in shown.excerpt or len(shown.excerpt) >= EXCERPT_CHARS:
            return
        excerpt = f"{shown.excerpt} … {quote}" if shown.excerpt else quote
        self._sources[n - 1] = replace(shown, excerpt=cut(excerpt, EXCERPT_CHARS))

    @property
    def sources(self) -> tuple[NumberedSource, ...]:
        """All sources so far, in order of their numbers."""
        return tuple(self._sources)


@dataclass(frozen=True, slots=True)
class Entity:
    """An entity identified in a turn: an entry of the stored `resolved`, and of the next turn's entity block."""

    id: str
    name: str
    type: str | None


@dataclass(frozen=True, slots=True)
class Step:
    """How the reader sees the call: `kind` picks the picture, `label` says on what, `detail` what came of it."""

    kind: str
    label: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What came of a call. `status` decides the prefix; `text` is what the model reads after it.

    empty means: ran cleanly and found nothing. error means: did not run or broke; the text says how to
    do better. `structured` is the same content for programs (MCP).
    """

    status: Status
    text: str
    step: Step
    resolved: tuple[Entity, ...] = ()
    structured: dict[str, object] = field(default_factory=dict[str, object])


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What the server knows and the model doesn't choose."""

    database: Database
    base_id: str
    question: str
    citations: Citations
    as_of: str | None = None
    may_write: bool = False
    owner: str = ""
    turn_id: str | None = None
    nearest: Nearest | None = None
    """The search by meaning, where an embedding model is configured."""


A = TypeVar("A", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Tool(Generic[A]):
    """A registered tool. `args` forbids unknown fields. `terminal` marks the call that needs no evidence.

    `writes`: it is offered to, and runs for, only those who may write; in a chat also only where the user's message
    asks for it. `own_words` gives the texts of such a call that must be the user's own; None: every text in it.
    """

    name: str
    description: str
    args: type[A]
    run: Callable[[ToolContext, A], Awaitable[ToolResult]]
    kind: str
    read_only: bool = True
    writes: bool = False
    chat_only: bool = False
    terminal: bool = False
    own_words: Callable[[A], Sequence[str]] | None = None
    timeout_s: float = 20.0
