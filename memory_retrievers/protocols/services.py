"""The sockets for what comes from outside: time, embeddings and a language model."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypeVar

from pydantic import BaseModel

if TYPE_CHECKING:  # importing the package loads no numpy
    from memory_retrievers.passages import Vector, Vectors

AnswerT = TypeVar("AnswerT", bound=BaseModel)


class Clock(Protocol):
    """Where the time comes from."""

    def now(self) -> datetime:
        """The current moment, with a time zone."""
        ...


class Embedder(Protocol):
    """Turns text into unit vectors of one length.

    This is the shape inside the package; ``embeddings.adapt`` brings LangChain, LlamaIndex and Chroma embedders, and
    plain functions, into it and checks what they give.
    """

    @property
    def id(self) -> str:
        """Names the model; a store remembers it and refuses another."""
        ...

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """One L2-normalised row per text: shape (number of texts, dimension).

        Raises:
            EmbeddingError: The model failed, or gave another number of rows, another length, NaN or infinity.
        """
        ...

    def embed_query(self, text: str) -> Vector:
        """The L2-normalised vector of a question: shape (dimension,).

        Raises:
            EmbeddingError: As above.
        """
        ...


class LanguageModel(Protocol):
    """Answers a prompt with an object."""

    def generate(self, system: str, user: str, schema: type[AnswerT]) -> AnswerT:
        """The model's answer as an instance of ``schema``.

        Raises:
            LanguageModelError: The model failed, or its answer does not fit the schema.
        """
        ...
