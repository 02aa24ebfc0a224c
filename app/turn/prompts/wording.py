"""What a version of the prompts consists of: every text the model is given that isn't the user's."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Wording:
    """One version, whole, so that two can be run side by side.

    `system` opens every request with tools, `answer` the fresh answer request. `repair` is added to `answer` when an
    attempt can't stand, by what was wrong with it: empty, markup, calls, length. `entities` heads the entity block.
    The feedbacks answer a model turn that is no ending; the last two follow an earlier answer that was cut short.
    """

    version: int
    system: str
    answer: str
    repair: Mapping[str, str]
    entities: str
    empty_feedback: str
    gate_feedback: str
    markup_feedback: str
    unfinished_stopped: str
    unfinished_broken: str

    @property
    def hash(self) -> str:
        """Of all its texts, hex: what a measurement is tied to."""
        texts = {name: value for name, value in asdict(self).items() if name != "version"}
        return hashlib.sha256(json.dumps(texts, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
