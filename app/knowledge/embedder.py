"""The port to a model that turns texts into vectors. The one that speaks to an endpoint is app/llm/embeddings.py."""

from typing import Literal, Protocol, Self

TextKind = Literal["query", "passage"]
"""Whether a text asks or may answer: some models want to be told."""


class Embedder(Protocol):
    """Texts into vectors of one model."""

    @property
    def model(self) -> str:
        """The model's name: vectors of different models are never compared."""
        ...

    async def embed(self, texts: list[str], *, kind: TextKind) -> list[list[float]]:
        """A vector for each text, in order, all of one length.

        Raises:
            EmbeddingFailed: no vectors; says whether one text, the moment or the settings are why.
        """
        ...

    def for_model(self, model: str) -> Self:
        """The same endpoint with another of its models: the one that search still uses while a new one catches up."""
        ...
