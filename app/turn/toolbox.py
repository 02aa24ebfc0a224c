"""One turn's tools: the registry bound to this turn's base, question and numbering of sources.

Turns what a tool gives back into what the loop and the policy speak. Implements turn.hooks.Tools and
turn.policy.Evidence.
"""

from collections.abc import Sequence

from app.llm.model import ToolSpec
from app.tools.observation import Observed
from app.tools.registry import Registry
from app.tools.tool import Entity, NumberedSource, ToolContext
from app.turn.hooks import CallOutcome


class Toolbox:
    """The tools as one turn sees them, and what they have brought so far.

    `resolved` and `skipped` are what they had brought an earlier owner of the turn; its sources are in the context.
    """

    def __init__(
        self, registry: Registry, context: ToolContext, *, resolved: Sequence[Entity] = (), skipped: bool = False
    ) -> None:
        self._registry = registry
        self._context = context
        self._resolved: dict[str, Entity] = {entity.id: entity for entity in resolved}
        offered = registry.chat_tools(may_write=context.may_write)
        self._specs = tuple(ToolSpec(t.name, t.description, t.parameters) for t in offered)
        self._names = tuple(spec.name for spec in self._specs)
        self.skipped = skipped
        """Whether the terminal that says no evidence is needed has run."""

    def specs(self) -> tuple[ToolSpec, ...]:
        return self._specs

    def names(self) -> Sequence[str]:
        return self._names

    def required(self, name: str) -> Sequence[str]:
        return self._registry.required(name)

    def fault(self, name: str, arguments: dict[str, object]) -> str | None:
        return self._registry.fault(name, arguments)

    def written(self, name: str, arguments: dict[str, object]) -> Sequence[str] | None:
        return self._registry.written(name, arguments)

    def is_terminal(self, name: str) -> bool:
        return self._registry.is_terminal(name)

    @property
    def sources(self) -> tuple[NumberedSource, ...]:
        return self._context.citations.sources

    @property
    def resolved(self) -> tuple[Entity, ...]:
        """Entities identified in this turn, each once, in the order they were first met."""
        return tuple(self._resolved.values())

    async def run(self, name: str, arguments: dict[str, object]) -> CallOutcome:
        observed = await self._registry.dispatch(name, arguments, self._context)
        for entity in observed.resolved:
            self._resolved.setdefault(entity.id, entity)
        if observed.status == "ok" and self._registry.is_terminal(name):
            self.skipped = True
        return _outcome(observed)

    def refused(self, name: str, reason: str, detail: str) -> CallOutcome:
        return _outcome(self._registry.refused(name, reason, detail))


def _outcome(observed: Observed) -> CallOutcome:
    step = observed.step
    return CallOutcome(observed.status, observed.text, step.kind, step.label, step.detail)
