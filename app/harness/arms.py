"""The parts that one arm's turns are run with: the real ones, its own model and words, its own supervisor.

In process means without HTTP only: admission, supervisor, policy, tools, live log and save are the server's.
"""

import os
import socket
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from app.errors import StartError
from app.harness.hearing import Heard, StreamBroke, hear
from app.harness.records import Arm
from app.harness.sample import BaseReady
from app.harness.seen import Evidences
from app.harness.wire import Counted, counted
from app.knowledge.nearest import Nearest
from app.live.log import LiveLog, Position, Reader
from app.live.memory import MemoryLog
from app.llm.model import Model
from app.metrics import Metrics
from app.parts import build_model, turn_parts, unconfigured
from app.settings import PREFIX, Settings
from app.store import conversations
from app.store.engine import Database
from app.store.harness_runs import OWNER
from app.store.ids import new_id
from app.store.turns import NewTurn
from app.text import cut
from app.tools.registry import Registry
from app.turn import prompts
from app.turn.prompts import Wording
from app.turn.supervisor import Supervisor

DRAIN_S = 2.0


@dataclass(frozen=True, slots=True)
class Parts:
    """What a run's arms have in common."""

    base: BaseReady
    registry: Registry
    embedding_model: str | None


@dataclass(frozen=True, slots=True)
class Contestant:
    """An arm, and what it is run with."""

    arm: Arm
    model: Model
    words: Wording


def contestants(settings: Settings, models: Sequence[str], versions: Sequence[int]) -> list[Contestant]:
    """Every model with every version of the prompts; the configured ones where none is named.

    Raises:
        StartError: a model is named and no endpoint is configured, or none is named where one must be, or there is no
            such version of the prompts.
    """
    if models and settings.llm_base_url is None:
        raise StartError(
            f"--model {models[0]!r} needs an endpoint: set {PREFIX}LLM_BASE_URL; without --model the offline one runs"
        )
    if not models and (reason := unconfigured(settings)) is not None:
        raise StartError(reason)
    words = [_version(number) for number in dict.fromkeys(versions)] or [_version(settings.prompt_version)]
    chosen = list(dict.fromkeys(models)) or [None]
    built = [
        build_model(settings if name is None else settings.model_copy(update={"llm_model": name})) for name in chosen
    ]
    return [
        Contestant(Arm(model.name, wording.version, wording.hash), model, wording)
        for model in built
        for wording in words
    ]


def _version(number: int | None) -> Wording:
    if number is None:
        return prompts.LATEST
    if number not in prompts.VERSIONS:
        raise StartError(f"there is no version {number} of the prompts; allowed is one of {prompts.listed()}")
    return prompts.VERSIONS[number]


class Asker:
    """Asks questions of one arm, as a person with a tab would, and gives back what each left."""

    def __init__(self, supervisor: Supervisor, live: LiveLog, database: Database, *, base: str, replica: str) -> None:
        self._supervisor = supervisor
        self._live = live
        self._database = database
        self._base = base
        self._replica = replica

    async def ask(self, question: str, conversation_id: str | None) -> Evidences:
        """Ask in a conversation, or begin one; returns when the terminal frame was read.

        Raises:
            AppError: as Supervisor.start.
            StreamBroke: the live log ended without a terminal frame.
        """
        heard = Heard()
        with counted() as count:
            started = await self._supervisor.start(self._new_turn(question, conversation_id), retry=False)
        try:
            await hear(await self._reader(started.turn_id), heard)
        except BaseException:
            self._supervisor.stop_here(started.turn_id)  # nobody will read it
            raise
        finished = await conversations.finished_turn(self._database, OWNER, started.turn_id)
        return Evidences(
            heard,
            None if finished is None else finished.answer,
            count.frozen(),
            started.conversation_id,
            started.turn_id,
        )

    async def _reader(self, turn_id: str) -> Reader:
        reader = await self._live.attach(turn_id, Position(turn_id, 0), running=True)
        if reader is None:
            raise StreamBroke("the turn has no live log")
        return reader

    def _new_turn(self, question: str, conversation_id: str | None) -> NewTurn:
        return NewTurn(
            turn_id=new_id(),
            question_id=new_id(),
            new_conversation_id=new_id(),
            owner=OWNER,
            replica=self._replica,
            question=question,
            title=cut(" ".join(question.split()), 80),
            conversation_id=conversation_id,
            base=None if conversation_id else self._base,
            as_of=None,
            request_id=None,
        )


@asynccontextmanager
async def askers(
    settings: Settings, database: Database, parts: Parts, field: Sequence[Contestant], *, nearest: Nearest | None
) -> AsyncGenerator[dict[Arm, Asker], None]:
    """An asker for each contestant, for the block. The models are closed at its end."""
    async with AsyncExitStack() as stack:
        for model in {id(c.model): c.model for c in field}.values():
            stack.push_async_callback(model.aclose)
        out: dict[Arm, Asker] = {}
        for contestant in field:
            live = MemoryLog()
            replica = f"harness:{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
            for_turns = turn_parts(
                settings,
                database,
                Counted(contestant.model),
                parts.registry,
                metrics=Metrics(),
                nearest=nearest,
                words=contestant.words,
            )
            supervisor = Supervisor(for_turns, live, replica=replica, takes_over=False)
            await stack.enter_async_context(live.running())
            await stack.enter_async_context(supervisor.active(drain_s=DRAIN_S))
            out[contestant.arm] = Asker(supervisor, live, database, base=parts.base.name, replica=replica)
        yield out
