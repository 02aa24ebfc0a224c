"""What a run is and what was seen of each of its turns: the shapes that are stored, and written as JSON.

Decides the fields of the report's JSON; a stored turn is one of these, encoded. Source: issue 8 items 2 and 3.
"""

from typing import Literal

import msgspec

from app.harness.script import Evidence


class Arm(msgspec.Struct, frozen=True):
    """One of the things a run compares: a model with a version of the prompts. The tools are the same for all."""

    model: str
    prompt: int
    prompt_hash: str

    @property
    def label(self) -> str:
        """How it is named on the command line and in reports: `model@prompt version`."""
        return f"{self.model}@{self.prompt}"


class SourceSeen(msgspec.Struct, frozen=True):
    """A source as the last `sources` frame had it."""

    n: int
    kind: str
    title: str
    locator: str


class TokensSeen(msgspec.Struct, frozen=True):
    """Tokens of all requests of a turn; None where the provider didn't count them."""

    prompt: int | None = None
    completion: int | None = None
    reasoning: int | None = None
    cached: int | None = None


class Wire(msgspec.Struct, frozen=True):
    """What went over the wire for one turn, counted at the model's door.

    `requests`: sent. `retries`: sent after one that failed. `asked_again`: sent after a reply that was no ending
    (empty, a promise, markup, an answer that had to be repaired). `answer_requests`: fresh ones, without tools.
    """

    requests: int = 0
    retries: int = 0
    asked_again: int = 0
    answer_requests: int = 0


class Unmet(msgspec.Struct, frozen=True):
    """An expectation that wasn't met: its name in the script, what was expected, what was seen."""

    expectation: str
    expected: str
    seen: str


class TurnSeen(msgspec.Struct, frozen=True, kw_only=True):
    """One turn of one arm. `tools` are the calls that ran, in order; `failed_calls` those refused or broken.

    `skipped`: the terminal was called and nothing was looked up. `reached`: the terminal was called.
    `turned_back`: it was, and a tool that reads ran after it. `fallback`: the turn gathered for itself, because the
    endpoint could not be had to. `invented`: cited numbers that are on no list. Times are milliseconds from asking, as
    a tab sees them; None where no text came. `stored` says whether the saved answer is what was streamed.
    """

    model: str
    prompt: int
    repeat: int
    conversation: str
    turn: int
    question: str
    about: Literal["base", "talk"]
    tools: tuple[str, ...]
    failed_calls: tuple[str, ...]
    sources: tuple[SourceSeen, ...]
    evidence: Evidence | None
    terminal: Literal["done", "error"]
    error_code: str | None
    stopped: bool
    answer: str
    language: str
    cited: tuple[int, ...]
    invented: tuple[int, ...]
    skipped: bool
    reached: bool
    turned_back: bool
    fallback: bool
    wire: Wire
    tokens: TokensSeen
    first_token_ms: int | None
    total_ms: int
    stored: bool
    unmet: tuple[Unmet, ...]
    conversation_id: str
    turn_id: str

    @property
    def arm(self) -> tuple[str, int]:
        return self.model, self.prompt

    @property
    def place(self) -> tuple[str, int, int]:
        """Where in a run it stands, whatever the arm: conversation, turn, repeat."""
        return self.conversation, self.turn, self.repeat


class Plan(msgspec.Struct, frozen=True):
    """What a run is to do, fixed when it begins; a run that goes on must find all of it unchanged.

    `base_hash` is of the documents' contents and the number of facts. `embedding_model` is None where passages are
    found by words alone.
    """

    script: str
    script_hash: str
    base: str
    base_hash: str
    tools_hash: str
    embedding_model: str | None
    arms: tuple[Arm, ...]
    repeats: int
    turns: int
    version: str


class Run(msgspec.Struct, frozen=True):
    """A run with what was seen so far. `created_at` and `finished_at` are RFC 3339; unfinished ones have no end."""

    id: str
    created_at: str
    finished_at: str | None
    plan: Plan
    turns: tuple[TurnSeen, ...]

    @property
    def complete(self) -> bool:
        return len(self.turns) == self.plan.turns * self.plan.repeats * len(self.plan.arms)

    def of(self, arm: Arm) -> tuple[TurnSeen, ...]:
        """The turns of one arm, in the order of the script, then of repeats."""
        return tuple(turn for turn in self.turns if turn.arm == (arm.model, arm.prompt))
