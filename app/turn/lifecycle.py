"""One turn, from its admitted question to its terminal frame: read the history, run, publish, save, say so.

The order of the end is the promise: the answer is saved and the conversation released before the terminal
frame goes out, and exactly one goes out whatever happened. No connection is held while the model is waited
for. Called by the supervisor, which owns the task. Source: DESIGN section 5.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

import msgspec
import structlog

from app.errors import TurnErrorCode
from app.knowledge.nearest import Nearest
from app.live.frames import Conversation, Done, Failed
from app.live.log import Writer
from app.llm.model import Model
from app.llm.shape import to_stored
from app.metrics import Metrics, TurnEnd
from app.store import answers, conversations
from app.store.answers import Answer, Saved
from app.store.conversations import PastMessage
from app.store.engine import Database, StoreUnavailable
from app.store.ids import new_id
from app.store.turns import AdmittedTurn
from app.tools.registry import Registry
from app.tools.tool import Citations, NumberedSource, ToolContext
from app.turn import runner
from app.turn.answer import carried, valid_citations, verdict
from app.turn.checkpoint import Kept
from app.turn.context import HISTORY_CHARS, HISTORY_MESSAGES, Prompt, complete_exchange, window
from app.turn.history import known_entities, past_turns, previous_sources
from app.turn.hooks import Hooks, Tools
from app.turn.outcome import NOT_SAVED, Answered, Broke, Outcome, Stopped, failed_frame, status_of
from app.turn.policy import Ledger, Limits, Mode, Policy
from app.turn.prompts import LATEST, Wording
from app.turn.publish import AnswerTooLong, Publisher
from app.turn.toolbox import Toolbox
from app.turn.trace import Tracing, TurnTrace

SAVE_AGAIN_S = 0.25
"""The wait before the database is asked again."""

T = TypeVar("T")

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TurnParts:
    """What every turn of this process is run with."""

    database: Database
    model: Model
    registry: Registry
    limits: Limits
    nearest: Nearest | None = None
    words: Wording = LATEST
    answer_max_chars: int = 400_000
    show_reasoning: bool = False
    save_timeout_s: float = 10.0
    metrics: Metrics = field(default_factory=Metrics)
    tracing: Tracing | None = None
    charge: Callable[[str, int], Awaitable[None]] | None = None
    """Told the owner and the tokens of each turn that ends here; None where nobody counts them."""


class GivenUp(Exception):
    """This process doesn't go on with the turn: it hands it over, or another process has it already."""


Reason = Literal["stop", "hand_over", "lost"]
"""Why a turn's task is cancelled: somebody stopped it, the process ends, another process has the turn."""


@dataclass(slots=True)
class Running:
    """A turn in flight, shared by its task and the supervisor.

    The task alone writes `begun`, `saving` and `kept`; the supervisor alone writes `reason`, and cancels the task only
    between the first two: a task that hasn't begun would be ended without its last words, one that saves completes.
    """

    turn: AdmittedTurn
    publisher: Publisher
    toolbox: Toolbox
    kept: Kept
    """What another process could go on from; of a turn that was taken over, from the start what it began with."""
    outcome: Outcome | None = None
    """How a turn that was taken over ends at once, without another request."""
    reason: Reason | None = None
    ledger: Ledger = field(default_factory=Ledger)
    """What the policy has granted so far."""
    prepared_at: float = field(default_factory=time.perf_counter)
    begun: bool = False
    saving: bool = False
    round_ended: asyncio.Event = field(default_factory=asyncio.Event)
    trace: TurnTrace | None = None
    """Where turns are traced: ended by who owns the task."""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """How a turn ended: the row to store, and the terminal frame that may be sent once it is stored."""

    answer: Answer
    frame: Done | Failed


def prepare(parts: TurnParts, turn: AdmittedTurn, writer: Writer, kept: Kept, round_ended: asyncio.Event) -> Running:
    """Everything a turn needs, and its first frame: published before anything is awaited.

    `kept` is what an earlier owner had; a turn none of whose frames is known begins as if it were new.
    """
    draft = kept.draft
    context = ToolContext(
        parts.database,
        turn.base_id,
        turn.question,
        Citations(draft.sources),
        as_of=turn.as_of,
        may_write=turn.may_write,
        owner=turn.owner,
        turn_id=turn.turn_id,
        nearest=parts.nearest,
    )
    toolbox = Toolbox(parts.registry, context, resolved=draft.resolved, skipped=kept.skipped)
    publisher = Publisher(
        writer,
        gathered=lambda: toolbox.sources,
        resolved=lambda: toolbox.resolved,
        max_chars=parts.answer_max_chars,
        show_reasoning=parts.show_reasoning,
        draft=draft,
    )
    if writer.next_seq == 1:
        publisher.begin(Conversation(turn.conversation_id, turn.turn_id, turn.question_id, turn.title))
    if turn.attempt:
        publisher.go_on(turn.turn_id)
    trace = None if parts.tracing is None else parts.tracing.begin(turn)
    return Running(turn, publisher, toolbox, kept, round_ended=round_ended, trace=trace)


async def run_turn(parts: TurnParts, running: Running) -> Conclusion:
    """Answer the question; gives how it ended. Stopping it ends it early.

    Raises:
        GivenUp: it isn't this process's any more.
        asyncio.CancelledError: only when the supervisor gave no reason for the cancellation.
    """
    running.begun = True
    if running.reason is not None:
        return conclude(parts, running, _cancelled(running.reason), ())
    if running.outcome is not None:
        return conclude(parts, running, running.outcome, ())
    previous: tuple[NumberedSource, ...] = ()
    try:
        past: list[PastMessage] = []
        if not running.turn.first:
            turn = running.turn
            past = await _patiently(
                parts,
                lambda: conversations.past(parts.database, turn.conversation_id, turn.question_id, HISTORY_MESSAGES),
            )
        previous = previous_sources(past)
        outcome = await _work(parts, running, past)
    except asyncio.CancelledError:
        if running.reason is None:
            raise
        _forgive_cancellation()
        outcome = _cancelled(running.reason)
    except AnswerTooLong:
        message = f"The answer passed the limit of {parts.answer_max_chars} characters and was ended."
        outcome = Broke(TurnErrorCode.ANSWER_TOO_LONG, message)
    except StoreUnavailable as error:
        _log.warning("history_unavailable", turn_id=running.turn.turn_id, exc_info=error)
        outcome = Broke(TurnErrorCode.INTERNAL, "The conversation's history could not be read.")
    return conclude(parts, running, outcome, previous)


async def _work(parts: TurnParts, running: Running, past: list[PastMessage]) -> Outcome:
    prompt = Prompt(
        running.turn.question,
        window(past_turns(past, parts.words), HISTORY_CHARS),
        known_entities(past),
        parts.words,
    )
    kept, publisher = running.kept, running.publisher
    # the backoff's jitter is no secret
    policy = Policy(prompt, running.toolbox, parts.limits, jitter=random.random, ledger=kept.ledger)
    running.ledger = policy.ledger
    hooks: Hooks = policy
    tools: Tools = running.toolbox
    if running.trace is not None:
        hooks, tools = running.trace.around(hooks, tools)
    async with aclosing(runner.run(parts.model, tools, hooks, kept.draft.exchange)) as events:
        async for event in events:
            publisher.take(event)
            if isinstance(event, runner.CallEnded):
                running.kept = Kept(publisher.draft(), policy.ledger.copy(), running.toolbox.skipped)
            elif isinstance(event, runner.RoundEnded):
                running.round_ended.set()
    if publisher.outcome is None:
        raise RuntimeError("a run ended without saying how")
    return publisher.outcome


def _forgive_cancellation() -> None:
    """The cancellation was ours and has done its work; what follows in this task must not see it."""
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()


def _cancelled(reason: Reason) -> Outcome:
    if reason == "stop":
        return Stopped()
    raise GivenUp


def conclude(parts: TurnParts, running: Running, outcome: Outcome, previous: tuple[NumberedSource, ...]) -> Conclusion:
    """Sum the turn up, with the verdict on its evidence; publishes carried sources where there are any.

    From here on the turn completes: a stop comes too late.
    """
    running.saving = True
    publisher = running.publisher
    if not isinstance(outcome, Broke) and _gathered_nothing(parts, publisher):
        publisher.set_sources(carried(publisher.content, previous))
    draft = publisher.draft()
    cited = valid_citations(draft.content, publisher.sources)
    evidence = verdict(cited, publisher.sources, skipped=running.toolbox.skipped)
    usage = publisher.usage(truncated=isinstance(outcome, Answered) and outcome.truncated)
    stopped = isinstance(outcome, Stopped)
    broke = outcome if isinstance(outcome, Broke) else None
    answer_id = new_id()
    answer = Answer(
        turn_id=running.turn.turn_id,
        replica=running.turn.replica,
        attempt=running.turn.attempt,
        answer_id=answer_id,
        status=status_of(outcome),
        content=draft.content,
        steps=msgspec.json.encode(draft.steps),
        sources=msgspec.json.encode(draft.sources),
        resolved=msgspec.json.encode(draft.resolved),
        tool_exchange=msgspec.json.encode([to_stored(m) for m in complete_exchange(draft.exchange)]),
        evidence=evidence,
        cited=msgspec.json.encode(cited),
        stopped=stopped,
        error_code=broke.code if broke else None,
        error_message=broke.message if broke else None,
        model=parts.model.name,
        usage=msgspec.json.encode(usage),
        last_seq=publisher.next_seq,
    )
    return Conclusion(answer, failed_frame(broke) if broke else Done(answer_id, stopped, evidence, cited, usage))


def _gathered_nothing(parts: TurnParts, publisher: Publisher) -> bool:
    return not publisher.sources and all(
        not step.tool or parts.registry.is_terminal(step.tool) for step in publisher.steps
    )


def summary(parts: TurnParts, running: Running, answer: Answer) -> TurnEnd:
    """What is counted of a stored turn."""
    publisher, ledger = running.publisher, running.ledger
    usage = publisher.usage(truncated=False)
    first = publisher.first_text_at
    return TurnEnd(
        outcome=answer.error_code or answer.status,
        evidence=answer.evidence or "none",
        base=running.turn.base,
        model=parts.model.name,
        seconds=time.perf_counter() - running.prepared_at,
        first_text_s=None if first is None else first - running.prepared_at,
        prompt_tokens=usage.prompt_tokens or 0,
        completion_tokens=usage.completion_tokens or 0,
        requests=usage.requests,
        retries=ledger.retries,
        turned_back=ledger.turned_back,
        fell_back=ledger.mode is Mode.ONE_SHOT,
    )


async def charge(parts: TurnParts, running: Running) -> None:
    """Have the turn's owner charged with what the provider counted; what it didn't count costs nothing."""
    if parts.charge is not None:
        usage = running.publisher.usage(truncated=False)
        await parts.charge(running.turn.owner, (usage.prompt_tokens or 0) + (usage.completion_tokens or 0))


async def save(parts: TurnParts, answer: Answer) -> Saved | None:
    """Store the answer; None when it could not be done within the time for it."""
    try:
        return await _patiently(parts, lambda: answers.save(parts.database, answer))
    except StoreUnavailable as error:
        _log.error("answer_not_saved", turn_id=answer.turn_id, exc_info=error)
        return None


async def _patiently(parts: TurnParts, ask: Callable[[], Awaitable[T]]) -> T:
    """Ask the database, again and again while it is away, for as long as a turn waits for it.

    Raises:
        StoreUnavailable: it was away all that time.
    """
    give_up_at = time.monotonic() + parts.save_timeout_s
    while True:
        try:
            async with asyncio.timeout(max(give_up_at - time.monotonic(), SAVE_AGAIN_S)):
                return await ask()
        except (StoreUnavailable, TimeoutError) as error:
            if time.monotonic() + SAVE_AGAIN_S > give_up_at:
                raise StoreUnavailable from error
            _log.warning("database_awaited", exc_info=error)
        await asyncio.sleep(SAVE_AGAIN_S)


def unsaved(answer: Answer) -> Answer:
    """The same answer as a failed one: what the reader was told is what is stored when the database is back."""
    return replace(answer, status="failed", error_code=NOT_SAVED.code, error_message=NOT_SAVED.message)
