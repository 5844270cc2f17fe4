"""Interfaces of the parts that a user may provide.

They are an :class:`Embedder`, a :class:`LanguageModel`, a :class:`Segmenter`, a :class:`Judge` and a :class:`Clock`;
the other classes are their arguments and results. The interfaces are structural: any object with these methods fits.
Every implementation must be thread-safe.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

from pydantic import BaseModel

from memory_retrievers.models import EpisodicMemory, Rating, SummaryBy
from memory_retrievers.models.messages import Message

if TYPE_CHECKING:  # importing the package loads no numpy
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

    This is the shape inside the package; ``embeddings.adapt`` brings LangChain, LlamaIndex and Chroma embedders, and
    plain functions, into it and checks what they give.
    """

    @property
    def id(self) -> str:
        """Name of the model. A store remembers it and rejects any other."""

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed texts as L2-normalised rows: shape (number of texts, dimension).

        Raises:
            EmbeddingError: The model failed, or gave another number of rows, another length, NaN or infinity.
        """

    def embed_query(self, text: str) -> Vector:
        """Embed a question as an L2-normalised vector: shape (dimension,).

        Raises:
            EmbeddingError: As above.
        """


@runtime_checkable
class TokenEmbedder(Embedder, Protocol):
    """An embedder that also gives a vector for each token, of its own way of meaning: the bundled one does."""

    def embed_tokens(self, texts: Sequence[str], *, is_query: bool = False) -> list[Embedded]:
        """Embed texts, each as a whole and by its tokens, in one pass of the model.

        Args:
            texts: The texts.
            is_query: They are questions: of each token the word is given too.

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
        messages: How many messages it takes, from where the segment before ended; at least 1.
        title: A headline; may be empty, and is made from the messages then.
        summary: What happened, in a sentence or two; may be empty, and is made from the messages then.
        surprise: How unexpected it was, 0 to 1.
        summary_by: Who wrote the summary; one that is empty is made by rules in any case.
    """

    messages: int
    title: str
    summary: str
    surprise: float
    summary_by: SummaryBy = SummaryBy.MODEL


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentationContext:
    """Context that a segmenter may use beside the messages.

    Attributes:
        previous_summary: The summary of the episode before, if it belongs to the same run of messages.
        recent: The scope's newest episodes, newest first; what is far from them is surprising.
        embed: Unit vectors of texts, by the store's embedder: shape (number of texts, dimension).
    """

    previous_summary: str | None
    recent: Sequence[EpisodicMemory]
    embed: Callable[[Sequence[str]], Vectors]


class Segmenter(Protocol):
    """Cuts a run of messages into segments."""

    def segment(self, messages: Sequence[Message], context: SegmentationContext) -> list[Segment]:
        """Split the messages into segments, in order, that together cover every message exactly once.

        A single segment means that no topic boundary was found.

        Raises:
            LanguageModelError: A language model failed, or its answer cannot be used.
            EmbeddingError: The embedder failed.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewedMemory:
    """A retrieved episode that is to be rated.

    Attributes:
        id: How the judge names it in the answer; any text, unique within a call.
        memory: The episode.
        queries: What it was found by, in order, repeats included.
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
