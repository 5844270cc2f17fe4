"""Interfaces of the parts that a user may provide.

They are an :class:`Embedder`, a :class:`LanguageModel`, a :class:`Segmenter`, a :class:`Judge` and a :class:`Clock`;
the other classes are their arguments and results. The interfaces are structural: any object with these methods fits.
Every implementation must be thread-safe.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar, runtime_checkable

from pydantic import BaseModel

from memory_retrievers.models import EpisodicMemory, Rating, SummaryBy
from memory_retrievers.models.messages import Message
from memory_retrievers.models.selection import Embedded, Vector, Vectors

__all__ = [
    "Clock",
    "Embedder",
    "Judge",
    "LanguageModel",
    "ReviewedMemory",
    "Segment",
    "SegmentationContext",
    "Segmenter",
    "TokenEmbedder",
]

AnswerT = TypeVar("AnswerT", bound=BaseModel)


class Clock(Protocol):
    """Source of the current time."""

    def now(self) -> datetime:
        """Return the current time, with a time zone."""


class Embedder(Protocol):
    """Turns text into unit vectors of one dimension.

    This is the interface inside the package. ``embeddings.adapt`` converts embedders of LangChain, LlamaIndex and
    Chroma, and plain functions, and checks their results.
    """

    @property
    def id(self) -> str:
        """Name of the model. A store remembers it and rejects any other."""

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed texts as L2-normalised rows: shape (number of texts, dimension).

        Raises:
            EmbeddingError: The model failed, or returned a wrong number of rows, a wrong dimension, NaN or infinity.
        """

    def embed_query(self, text: str) -> Vector:
        """Embed a query as an L2-normalised vector: shape (dimension,).

        Raises:
            EmbeddingError: As above.
        """


@runtime_checkable
class TokenEmbedder(Embedder, Protocol):
    """An embedder that also returns a vector for each token, as the bundled one does."""

    def embed_tokens(self, texts: Sequence[str], *, is_query: bool = False) -> list[Embedded]:
        """Embed each text as a whole and by its tokens, in one pass of the model.

        Args:
            texts: The texts.
            is_query: The texts are queries: also return the word of each token.

        Raises:
            EmbeddingError: As above.
        """


class LanguageModel(Protocol):
    """Answers a prompt with an object of a given schema."""

    def generate(self, system: str, user: str, schema: type[AnswerT]) -> AnswerT:
        """Ask the model and return its answer as an instance of ``schema``.

        Args:
            system: The system prompt.
            user: The user prompt.
            schema: Pydantic model that the answer must fit.

        Raises:
            LanguageModelError: The model failed, or its answer does not fit the schema.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A part of a conversation that becomes one episode.

    Attributes:
        messages: Number of messages, counted from the end of the segment before; at least 1.
        title: Title; if empty, it is made from the messages.
        summary: One or two sentences on what happened; if empty, it is made from the messages.
        surprise: How unexpected it was, 0 to 1.
        summary_by: Who wrote the summary; an empty one is made by rules in any case.
    """

    messages: int
    title: str
    summary: str
    surprise: float
    summary_by: SummaryBy = SummaryBy.MODEL


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentationContext:
    """Context for a segmenter, in addition to the messages.

    Attributes:
        previous_summary: Summary of the previous episode, if it belongs to the same run of messages.
        recent: The newest episodes of the scope, newest first; messages far from them are surprising.
        embed: Returns unit vectors of texts by the store's embedder: shape (number of texts, dimension).
    """

    previous_summary: str | None
    recent: Sequence[EpisodicMemory]
    embed: Callable[[Sequence[str]], Vectors]


class Segmenter(Protocol):
    """Splits a run of messages into segments."""

    def segment(self, messages: Sequence[Message], context: SegmentationContext) -> list[Segment]:
        """Split the messages into segments, in order, that together cover every message exactly once.

        A single segment means that no topic boundary was found.

        Raises:
            LanguageModelError: A language model failed, or its answer cannot be used.
            EmbeddingError: The embedder failed.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewedMemory:
    """A retrieved episode to rate.

    Attributes:
        id: Key of the memory in the answer; any text, unique within a call.
        memory: The episode.
        queries: Queries that found it, in order, with repeats.
    """

    id: str
    memory: EpisodicMemory
    queries: tuple[str, ...]


class Judge(Protocol):
    """Rates how useful retrieved memories were for a conversation."""

    def rate(
        self,
        conversation: Sequence[Message],
        memories: Sequence[ReviewedMemory],
        *,
        embed: Callable[[Sequence[str]], Vectors],
    ) -> Mapping[str, Rating]:
        """Rate memories by the conversation in which they were retrieved.

        Args:
            conversation: Messages after the retrieval, oldest first.
            memories: The memories to rate.
            embed: Returns the unit vectors of n texts, shape (n, d).

        Returns:
            Ratings by memory id. Memories without a rating keep their state.

        Raises:
            LanguageModelError: A language model failed, or its answer cannot be used.
            EmbeddingError: The embedder failed.
        """
