"""A model that counts what is asked of it, per turn.

What a turn was granted (asked again, tried again, answered without tools) isn't in its frames or its row. It is seen
whole at the model's door, so it is counted there. The count belongs to whoever called `counted` before the turn was
started: a task inherits the context in which it was made.
"""

from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from app.harness.records import Wire
from app.llm.failures import ModelFailure
from app.llm.model import Feature, Model, ModelEvent, ModelRequest, ModelTurn


@dataclass(slots=True)
class Count:
    """What was asked for one turn so far."""

    requests: int = 0
    retries: int = 0
    asked_again: int = 0
    answer_requests: int = 0
    failed_last: bool = False
    ended_last: bool = False
    tools_last: bool = False

    def begin(self, request: ModelRequest) -> None:
        """Count a request. One without tools after one with them is the way down, neither a retry nor asked again."""
        same_kind = bool(request.tools) == self.tools_last
        self.requests += 1
        self.retries += self.failed_last and same_kind
        self.asked_again += self.ended_last and same_kind
        self.answer_requests += not request.tools
        self.failed_last = self.ended_last = False
        self.tools_last = bool(request.tools)

    def frozen(self) -> Wire:
        return Wire(self.requests, self.retries, self.asked_again, self.answer_requests)


_count: ContextVar[Count | None] = ContextVar("harness_count", default=None)


@contextmanager
def counted() -> Generator[Count, None, None]:
    """Tasks that are made in the block count into what it gives."""
    count = Count()
    token = _count.set(count)
    try:
        yield count
    finally:
        _count.reset(token)


class Counted:
    """Implements app.llm.model.Model by another, and counts its requests."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def name(self) -> str:
        """The other's."""
        return self._model.name

    @property
    def origin(self) -> str:
        """The other's."""
        return self._model.origin

    def learn(self, feature: Feature) -> None:
        """The other learns it."""
        self._model.learn(feature)

    async def aclose(self) -> None:
        """The other is closed."""
        await self._model.aclose()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """The other's reply as it comes. Raises ModelFailure as it does."""
        count = _count.get() or Count()
        count.begin(request)
        try:
            async with aclosing(self._model.stream(request)) as events:
                async for event in events:
                    if isinstance(event, ModelTurn):
                        # with calls the run goes on by itself; without, another request means that it was no ending
                        count.ended_last = not event.tool_calls or not request.tools
                    yield event
        except ModelFailure:
            count.failed_last = True
            raise
