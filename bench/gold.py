"""The gold set over sample/: questions, where their answers stand, and how well a search finds them.

A question is answered by a chunk of one of its documents that holds one of its quotes. recall@k is the share of
questions with such a chunk among the first k found, MRR the mean of one over the place of the first, 0 beyond k.
Every third question is held out: ranking may be tuned on the others only.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.store.chunks import ChunkRecord

QUESTIONS = Path(__file__).parents[1] / "tests" / "gold" / "questions.jsonl"
SAMPLE = Path(__file__).parents[1] / "sample"
DEPTH = 6
"""How many passages are looked at: what search_chunks gives by default."""


@dataclass(frozen=True, slots=True)
class Question:
    """A line of the gold set. `lang` is the question's language: en or zh."""

    id: str
    lang: str
    question: str
    documents: tuple[str, ...]
    quotes: tuple[str, ...]

    @property
    def held_out(self) -> bool:
        return int(self.id[1:]) % 3 == 0

    def answered_by(self, chunk: ChunkRecord) -> bool:
        """Whether the passage holds the answer."""
        return chunk.name in self.documents and any(quote in chunk.text for quote in self.quotes)


@dataclass(frozen=True, slots=True)
class Place:
    """At which place a question's answer was found, counting from 1; None where it was not among the first DEPTH."""

    question: Question
    place: int | None


@dataclass(frozen=True, slots=True)
class Score:
    """What a part of the gold set scored."""

    questions: int
    recall: float
    mrr: float


def questions() -> list[Question]:
    """The gold set, in order."""
    return [
        Question(
            line["id"], line["lang"], line["question"], documents=tuple(line["documents"]), quotes=tuple(line["quotes"])
        )
        for line in map(json.loads, QUESTIONS.read_text(encoding="utf-8").splitlines())
    ]


async def places(find: Callable[[str], Awaitable[Sequence[ChunkRecord]]]) -> list[Place]:
    """Each question of the set, asked of `find`."""
    out: list[Place] = []
    for question in questions():
        found = await find(question.question)
        places = [n for n, chunk in enumerate(found[:DEPTH], 1) if question.answered_by(chunk)]
        out.append(Place(question, places[0] if places else None))
    return out


def score(found: Sequence[Place]) -> Score:
    """recall@DEPTH and MRR of these questions."""
    recall = sum(one.place is not None for one in found) / len(found)
    mrr = sum(1 / one.place for one in found if one.place is not None) / len(found)
    return Score(len(found), round(recall, 3), round(mrr, 3))


def parts(found: Sequence[Place]) -> dict[str, Score]:
    """The scores of the whole set, of what may be tuned on and what is held out, and of each language."""
    return {
        "all": score(found),
        "tuned_on": score([one for one in found if not one.question.held_out]),
        "held_out": score([one for one in found if one.question.held_out]),
        "en": score([one for one in found if one.question.lang == "en"]),
        "zh": score([one for one in found if one.question.lang == "zh"]),
    }
