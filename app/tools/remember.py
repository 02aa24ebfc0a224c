"""What the user asks to be kept: recorded at once as proposals, which a person's nod turns into facts.

Nothing of it is in the graph until then. A turn that is taken over, or a call that is repeated, proposes the same
once: the key is made of the turn and the arguments. Source: DESIGN section 7, issue 4 item 3.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from app.knowledge.fact_rows import FactRow, parse_row
from app.knowledge.graph import count, inline
from app.store import proposals
from app.store.proposals import NewProposal
from app.text import clean, clean_json, cut
from app.tools.tool import Step, Tool, ToolContext, ToolResult

KIND = "remember"
_LABEL_CHARS = 200


class ProposedFact(BaseModel):
    """A fact that the sentence states, as a row of a fact file."""

    model_config = ConfigDict(extra="forbid")

    subject: Annotated[str, Field(description="Who or what the fact is about.")]
    predicate: Annotated[str, Field(description="What is said of it, in lower-case words, such as chief executive of.")]
    object: Annotated[str, Field(description="The other entity, if the fact links two; else blank.")] = ""
    value: Annotated[str, Field(description="The value, if the fact has no other entity; else blank.")] = ""
    valid_from: Annotated[str, Field(description="Since when: YYYY, YYYY-MM or YYYY-MM-DD; blank if unknown.")] = ""
    valid_to: Annotated[str, Field(description="Until when, written likewise, or open; blank if unknown.")] = ""

    def row(self) -> FactRow | str:
        """The row, or a sentence on why it is none."""
        given = {
            "subject": self.subject,
            "predicate": self.predicate,
            "object": self.object,
            "value": self.value,
            "from": self.valid_from,
            "to": self.valid_to,
        }
        return parse_row({key: value for key, value in given.items() if value.strip()})


class Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    text: Annotated[str, Field(max_length=2_000, description="The sentence to keep, in the user's own words.")]
    facts: Annotated[
        list[ProposedFact], Field(max_length=10, description="The facts that the sentence states; empty if unclear.")
    ] = []


async def run(context: ToolContext, args: Arguments) -> ToolResult:
    """Record the proposals. One bad fact refuses the call, so that nothing is recorded by half."""
    sentence = " ".join(clean(args.text).split())
    label = cut(sentence, _LABEL_CHARS)
    if not sentence:
        return ToolResult("error", "`text` is blank. Give the sentence to keep.", Step(KIND, "remember", "blank text"))
    rows = [fact.row() for fact in args.facts]
    wrong = [f"fact {n}: {row}" for n, row in enumerate(rows, 1) if isinstance(row, str)]
    if wrong:
        text = "Nothing was recorded. Give the facts again so that they fit, or leave `facts` out:"
        return ToolResult("error", "\n".join([text, *wrong]), Step(KIND, label, "bad facts"))
    facts = [row.as_json() for row in rows if isinstance(row, FactRow)]
    stored = await proposals.propose(context.database, context.base_id, _proposals(context, sentence, facts))
    waiting = count(len(facts), "fact of it waits", "facts of it wait") if facts else "it waits"
    text = (
        f"recorded as a proposal: {inline(sentence)}\n{waiting} for a person's nod and "
        f"{'is' if len(facts) < 2 else 'are'} not in the knowledge graph. Say so; no other tool finds it yet."
    )
    structured: dict[str, object] = {"proposals": [{"id": p.id, "status": p.status, "fact": p.fact} for p in stored]}
    return ToolResult("ok", text, Step(KIND, label, "waits for a nod"), structured=structured)


def _proposals(context: ToolContext, sentence: str, facts: Sequence[dict[str, object]]) -> list[NewProposal]:
    """One proposal per fact, or one of the sentence alone."""
    return [
        NewProposal(
            fact=fact,
            sentence=sentence,
            origin="remember",
            proposed_by=context.owner,
            idempotency_key=_key(context, sentence, fact),
            turn_id=context.turn_id,
        )
        for fact in {json.dumps(fact, sort_keys=True): fact for fact in facts or [{}]}.values()
    ]


def _key(context: ToolContext, sentence: str, fact: dict[str, object]) -> str:
    """The same for the same fact of the same sentence in the same turn; without a turn, of the same owner."""
    said = [context.turn_id or context.owner, sentence, clean_json(fact)]
    return f"remember {hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()}"


def _own_words(args: Arguments) -> list[str]:
    """The sentence, and of the facts who and what they are about: predicate and dates are a reading of the sentence."""
    return [args.text, *(words for fact in args.facts for words in (fact.subject, fact.object, fact.value))]


TOOL = Tool(
    name="remember",
    description="""\
Record a sentence that the user asks to keep, as a proposal that waits for a person's nod.

WHEN:
  - The user asks to remember, note or add something, or corrects what the base says

WHEN NOT:
  - The user asks a question: use `search_chunks` or `entity_facts`
  - The sentence is about this conversation alone: use `no_evidence_needed`

RETURNS:
  What was recorded and that it waits: it is no part of the graph until a person nods, and the answer MUST say so.
  EMPTY is not used. A fact that can't be read as one gives an error and nothing is recorded.

EXAMPLE: remember {"text": "Ada Lin joined Acme in 2024.", "facts": [{"subject": "Ada Lin", "predicate": "works at", \
"object": "Acme", "valid_from": "2024"}]}""",
    args=Arguments,
    run=run,
    kind=KIND,
    read_only=False,
    writes=True,
    own_words=_own_words,
)
