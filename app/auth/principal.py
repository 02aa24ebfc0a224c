"""Who asks and what they may: an owner, a scope, and the bases that it holds for.

What a person may do in a base is the lesser of what their credential allows and what they are there. Source:
decision 0019.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum


class Scope(IntEnum):
    """What is allowed, each with all that is before it."""

    READ = 1
    """Read bases, ask, and keep one's own conversations."""
    WRITE = 2
    """Upload and delete documents, record and correct facts, decide proposals; turns may propose facts."""
    ADMIN = 3
    """Make, describe and delete bases, extract facts, say who is a member, examine the server."""

    @property
    def word(self) -> str:
        """As it is stored, given and told."""
        return self.name.lower()

    @classmethod
    def of(cls, word: str) -> "Scope":
        """The scope of this word. Raises KeyError for any other."""
        return cls[word.upper()]


@dataclass(frozen=True, slots=True)
class Principal:
    """The owner of what a request makes and sees. `bases` are ids with what is allowed in each, None for every base."""

    owner: str
    scope: Scope
    bases: Mapping[str, Scope] | None

    def on(self, base_id: str) -> Scope | None:
        """What is allowed in a base; None where nothing is, so that it isn't there."""
        if self.bases is None:
            return self.scope
        role = self.bases.get(base_id)
        return None if role is None else min(role, self.scope)

    def reach(self, scope: Scope) -> tuple[str, ...] | None:
        """The ids of the bases in which this much is allowed; None for every base."""
        if self.scope < scope:
            return ()
        if self.bases is None:
            return None
        return tuple(base_id for base_id, role in self.bases.items() if role >= scope)


LOCAL = Principal("local", Scope.ADMIN, None)
"""Whoever can reach the server where nobody is asked who they are: AUTH=none, and the commands on its machine."""
