"""Who asks. Until tokens exist there is one principal, and the server only listens where that is safe."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Principal:
    """The owner of what a request makes and sees."""

    owner: str


def current() -> Principal:
    """The request's principal. Source: DESIGN section 3, AUTH=none (loopback only)."""
    return Principal("local")
