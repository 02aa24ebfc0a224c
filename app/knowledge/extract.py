"""What a model's extraction of a passage is worth: rows checked, quotes found in the passage, the rest dropped.

Decides which rows become proposals. Nothing here asserts a fact: a proposal waits for a person's nod. The model is
behind the port `Extractor`; app/llm/extraction.py satisfies it without knowing it.
"""

import hashlib
import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from app.defuse import defused
from app.knowledge.fact_rows import FactRow, parse_row
from app.store.chunks import ChunkRecord
from app.store.proposals import NewProposal

MAX_ROWS = 100
"""Rows of one passage that are looked at; what is beyond is dropped."""

_ASKED = frozenset(
    {"subject", "subject_type", "predicate", "object", "object_type", "value", "from", "to", "confidence", "quote"}
)
"""What a model may say of a fact. Whether it is believed, and what its evidence is, is not its to say."""


class Failure(Protocol):
    """Why a passage could not be read: a stable code and a sentence; `transient` when trying again may help."""

    @property
    def code(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def transient(self) -> bool: ...
    @property
    def retry_after_s(self) -> float | None: ...


class Extraction(Protocol):
    """Rows as the model wrote them, the number of its entries that were no rows, or a failure in their place."""

    @property
    def rows(self) -> Sequence[Mapping[str, object]]: ...
    @property
    def unreadable(self) -> int: ...
    @property
    def failure(self) -> Failure | None: ...


class Extractor(Protocol):
    """Reads facts from a passage. What goes wrong with the model is a value, not an exception."""

    @property
    def name(self) -> str:
        """The model's name, stored with what it proposed."""
        ...

    async def extract(self, *, title: str, heading: str, passage: str) -> Extraction: ...


@dataclass(frozen=True, slots=True)
class Readout:
    """The proposals of a passage, each once, and how many rows were dropped."""

    proposals: tuple[NewProposal, ...]
    dropped: int


def read_out(chunk: ChunkRecord, extraction: Extraction, *, model: str) -> Readout:
    """Check what a model read from a chunk.

    Dropped is a row that is no fact (app/knowledge/fact_rows.py), or whose quote is blank or doesn't stand in the
    chunk, however its white space is set. The same fact twice is one proposal and nothing dropped.
    """
    passage = _loose(chunk.text)
    found: dict[str, NewProposal] = {}
    dropped = extraction.unreadable + max(len(extraction.rows) - MAX_ROWS, 0)
    for given in extraction.rows[:MAX_ROWS]:
        row = parse_row({name: value for name, value in given.items() if name in _ASKED and value is not None})
        if isinstance(row, str) or row.quote is None or _loose(row.quote) not in passage:
            dropped += 1
            continue
        key = _key(chunk.id, row)
        found.setdefault(key, _proposal(chunk.id, row, key=key, model=model))
    return Readout(tuple(found.values()), dropped)


def _proposal(chunk_id: str, row: FactRow, *, key: str, model: str) -> NewProposal:
    return NewProposal(
        fact={**row.as_json(), "evidence": chunk_id},
        sentence=row.quote or "",
        origin="extraction",
        proposed_by=model,
        idempotency_key=key,
        chunk_id=chunk_id,
    )


def _key(chunk_id: str, row: FactRow) -> str:
    """Names what a row says of its chunk; another quote or another confidence doesn't make it another fact."""
    said = {name: value for name, value in row.as_json().items() if name not in ("quote", "confidence")}
    canonical = json.dumps([chunk_id, said], ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _loose(text: str) -> str:
    """The text without white space, in one Unicode form: models set spaces and line ends anew, in Chinese above all.

    Of the passage they have read what app/defuse.py left of it.
    """
    return "".join(unicodedata.normalize("NFC", defused(text)).split())
