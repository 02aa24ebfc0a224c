"""The port through which a turn is traced, where somebody traces: app/turn/otel.py is behind it.

A trace sees a turn through the ports that the loop has anyway: it stands in front of the hooks and of the tools, is
asked once per request and once per call, and never per token. What it is shown holds text; what it keeps must not.
"""

from typing import Protocol

from app.live.frames import Done, Failed, TurnUsage
from app.store.turns import AdmittedTurn
from app.turn.hooks import Hooks, Tools


class TurnTrace(Protocol):
    """The trace of one turn in this process, from its admission or take-over to its end here."""

    @property
    def trace_id(self) -> str:
        """What the log names, so that a line leads to the trace."""
        ...

    def around(self, hooks: Hooks, tools: Tools) -> tuple[Hooks, Tools]:
        """The same hooks and tools, seen."""
        ...

    def end(self, frame: Done | Failed | None, usage: TurnUsage) -> None:
        """The turn is over: with its terminal frame, or with None where another process goes on with it."""
        ...


class Tracing(Protocol):
    """Begins traces."""

    def begin(self, turn: AdmittedTurn) -> TurnTrace:
        """Called where the turn begins: within the request that asked for it, or by who takes it over."""
        ...
