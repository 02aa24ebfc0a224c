"""What `turnstream ask` knows of a turn: its question, the frames that come, and what brings them."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, Protocol

TERMINAL = ("done", "error")


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked. `base` is of a new conversation; None: default."""

    message: str
    base: str | None
    conversation_id: str | None
    as_of: str | None

    def body(self) -> dict[str, object]:
        """The fields of POST /api/chat that are given."""
        given = {
            "message": self.message,
            "base": self.base,
            "conversation_id": self.conversation_id,
            "as_of": self.as_of,
        }
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Shown:
    """A frame as it is shown: its id, its event, its decoded data."""

    id: str
    event: str
    data: Any


class Lost(Exception):
    """The turn's end won't be seen: the connection is gone and can't be had again, in a sentence."""


class Conduit(Protocol):
    """What asks the question and brings the frames of its turn."""

    def frames(self) -> AsyncGenerator[Shown, None]:
        """Ask, and give every frame up to and with the terminal one.

        Raises:
            StartError: it was refused.
            Lost: the end won't be seen.
        """
        ...

    async def stop(self) -> None:
        """Ask for the turn to be stopped, as soon as it is known; its terminal frame says when it has. Raises Lost."""
        ...
