"""What each endpoint and model was seen to refuse, for the life of the process.

One small record per origin, kept in one registry that the composition root owns; OpenAIChat writes it, doctor
and the log read it. Nothing is forgotten or guessed: a feature is in use until a refusal names it. Source:
DESIGN 6, case P16.
"""

from enum import StrEnum

from app.llm.model import Feature


class IdFormat(StrEnum):
    """Which ids of tool calls an endpoint takes back."""

    ANY = "any"
    NINE = "nine"
    """Exactly nine letters and digits. Source: Mistral, case A14."""


class EndpointCapabilities:
    """The record of one endpoint and model. Shared by every client of that origin; one event loop writes it."""

    __slots__ = ("_id_format", "_refused", "origin")

    def __init__(self, origin: str, id_format: IdFormat = IdFormat.ANY) -> None:
        self.origin = origin
        self._id_format = id_format
        self._refused: frozenset[Feature] = frozenset()

    @property
    def refused(self) -> frozenset[Feature]:
        """What requests do without."""
        return self._refused

    @property
    def id_format(self) -> IdFormat:
        """The ids it takes: what it is known for, or what a refusal taught."""
        return IdFormat.NINE if Feature.CALL_IDS in self._refused else self._id_format

    def learn(self, feature: Feature) -> bool:
        """Remember a refusal; whether it was news."""
        if feature in self._refused:
            return False
        self._refused |= {feature}
        return True


class Capabilities:
    """The registry: the records of this process, by origin (`Model.origin`)."""

    __slots__ = ("_records",)

    def __init__(self) -> None:
        self._records: dict[str, EndpointCapabilities] = {}

    def of(self, origin: str, id_format: IdFormat = IdFormat.ANY) -> EndpointCapabilities:
        """The record of an origin, made when first asked for; `id_format` counts only then."""
        return self._records.setdefault(origin, EndpointCapabilities(origin, id_format))

    def all(self) -> tuple[EndpointCapabilities, ...]:
        """Every record, in the order in which their origins were first used."""
        return tuple(self._records.values())
