"""A run: every conversation of the script, for every arm and repeat, a bounded number at a time; stored as it goes.

Arms take turns, so that what changes while a run lasts changes for all of them. A conversation is stored when it is
over; a run that was interrupted goes on with those that aren't stored. Source: issue 8 items 2 and 3.
"""

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version

import msgspec

from app.errors import StartError
from app.harness.arms import Asker, Parts
from app.harness.judge import Ids
from app.harness.records import Arm, Plan, Run, TurnSeen
from app.harness.script import Conversation, Script
from app.harness.seen import Place, record
from app.store import harness_runs
from app.store.engine import Database
from app.store.harness_runs import RunRecord, TurnRow
from app.store.ids import is_id, new_id
from app.tools.registry import Registry


@dataclass(frozen=True, slots=True)
class Work:
    """A conversation to be had: whose, which, for the how-manieth time."""

    arm: Arm
    repeat: int
    conversation: Conversation


def plan_of(script: Script, parts: Parts, *, arms: Sequence[Arm], repeats: int) -> Plan:
    """What a run with these parts is to do."""
    base, contents = parts.base, parts.base.contents
    held = f"{contents.content_hash} {contents.facts}"
    return Plan(
        script=script.name,
        script_hash=script.hash,
        base=base.name,
        base_hash=hashlib.sha256(held.encode()).hexdigest(),
        tools_hash=tools_hash(parts.registry),
        embedding_model=parts.embedding_model,
        arms=tuple(arms),
        repeats=repeats,
        turns=script.turn_count,
        version=version("turnstream"),
    )


def tools_hash(registry: Registry) -> str:
    """Of the tools as a chat model is shown them, hex."""
    shown = [(t.name, t.description, t.parameters) for t in registry.chat_tools(may_write=True)]
    return hashlib.sha256(json.dumps(shown, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


async def begin(database: Database, plan: Plan) -> Run:
    """A new run, stored."""
    run_id = new_id()
    created = await harness_runs.begin(database, run_id, plan.script, msgspec.json.encode(plan))
    return Run(run_id, _moment(created), None, plan, ())


async def go_on(database: Database, run_id: str, plan: Plan) -> Run:
    """The stored run, to be gone on with.

    Raises:
        StartError: there is none, it is over, or what it is to do isn't what the plan says any more.
    """
    run = await load(database, run_id)
    if run.finished_at is not None:
        raise StartError(f"run {run_id} is over; start a new one")
    told = {
        "script": "the script was changed since",
        "script_hash": "the script was changed since",
        "base": "it asked another base",
        "base_hash": "the base holds something else since",
        "tools_hash": "the tools were changed since",
        "embedding_model": "passages are found by another embedding model",
        "arms": "its models or prompts are others",
        "repeats": "it has another number of repeats",
        "version": "it was begun by another version of turnstream",
    }
    for name, reason in told.items():
        if getattr(run.plan, name) != getattr(plan, name):
            raise StartError(f"run {run_id} can't go on: {reason}; start a new one")
    return run


async def load(database: Database, run_id: str) -> Run:
    """The stored run with its turns, in the order of repeats and conversations' names.

    Raises:
        StartError: there is none.
    """
    found = await harness_runs.get(database, run_id) if is_id(run_id) else None
    if found is None:
        raise StartError(f"there is no run {run_id!r}; `turnstream harness list` names them")
    records = [msgspec.json.decode(r, type=TurnSeen) for r in await harness_runs.turns(database, run_id)]
    return _run(found, records)


async def finish(database: Database, run: Run, script: Script) -> Run:
    """The run marked as over, its turns in the script's order."""
    ended = await harness_runs.finish(database, run.id)
    return in_order(msgspec.structs.replace(run, finished_at=_moment(ended)), script)


def in_order(run: Run, script: Script) -> Run:
    """The run with its turns by arm, repeat and place in the script."""
    arms = [(arm.model, arm.prompt) for arm in run.plan.arms]
    names = [conversation.name for conversation in script.conversations]

    def key(turn: TurnSeen) -> tuple[int, int, int, int]:
        return arms.index(turn.arm), turn.repeat, names.index(turn.conversation), turn.turn

    return msgspec.structs.replace(run, turns=tuple(sorted(run.turns, key=key)))


def left_to_do(run: Run, script: Script) -> list[Work]:
    """The conversations that aren't stored yet; arms alternate."""
    done = {(turn.arm, turn.repeat, turn.conversation) for turn in run.turns}
    return [
        Work(arm, repeat, conversation)
        for repeat in range(1, run.plan.repeats + 1)
        for conversation in script.conversations
        for arm in run.plan.arms
        if ((arm.model, arm.prompt), repeat, conversation.name) not in done
    ]


class Runner:
    """Has a run's conversations and stores them. `on_turn` is told of every turn when it is over."""

    def __init__(
        self,
        database: Database,
        askers: Mapping[Arm, Asker],
        *,
        terminals: frozenset[str],
        on_turn: Callable[[TurnSeen], None],
    ) -> None:
        self._database = database
        self._askers = askers
        self._terminals = terminals
        self._on_turn = on_turn

    async def perform(self, run: Run, works: Sequence[Work], *, at_once: int) -> Run:
        """Have these conversations, at most `at_once` at a time; the run with their turns.

        The first that can't be had ends the others and is raised; what was stored by then stays.
        """
        waiting = iter(works)
        seen: list[TurnSeen] = []

        async def worker() -> None:
            for work in waiting:
                turns = await self._converse(work)
                await harness_runs.add_conversation(self._database, run.id, [_row(turn) for turn in turns])
                seen.extend(turns)

        try:
            async with asyncio.TaskGroup() as tasks:
                for number in range(min(at_once, len(works))):
                    tasks.create_task(worker(), name=f"harness {number}")
        except* Exception as failures:
            raise first_of(failures) from failures
        return msgspec.structs.replace(run, turns=(*run.turns, *seen))

    async def _converse(self, work: Work) -> list[TurnSeen]:
        asker = self._askers[work.arm]
        conversation_id: str | None = None
        turns: list[TurnSeen] = []
        ids: list[Ids] = []
        for number, asked in enumerate(work.conversation.turns, start=1):
            left = await asker.ask(asked.question, conversation_id)
            conversation_id = left.conversation_id
            place = Place(work.arm, work.repeat, work.conversation.name, number)
            seen, its_ids = record(place, asked, left, terminals=self._terminals, before=ids)
            turns.append(seen)
            ids.append(its_ids)
            self._on_turn(seen)
        return turns


def first_of(group: BaseExceptionGroup[Exception]) -> Exception:
    """The first exception inside a group."""
    error = group.exceptions[0]
    return first_of(error) if isinstance(error, BaseExceptionGroup) else error


def _row(turn: TurnSeen) -> TurnRow:
    return TurnRow(turn.model, turn.prompt, turn.repeat, turn.conversation, turn.turn, msgspec.json.encode(turn))


def _run(found: RunRecord, records: Sequence[TurnSeen]) -> Run:
    ended = None if found.finished_at is None else _moment(found.finished_at)
    ordered = tuple(sorted(records, key=lambda t: (t.arm, t.repeat, t.conversation, t.turn)))
    return Run(found.id, _moment(found.created_at), ended, msgspec.json.decode(found.plan, type=Plan), ordered)


def _moment(at: datetime) -> str:
    return at.isoformat(timespec="seconds")
