"""The interfaces: what the package asks of its parts.

An :class:`Embedder`, a :class:`LanguageModel`, a :class:`Segmenter`, a :class:`Judge` and a :class:`Clock` may be
brought by the user, and the adapters take any :class:`Memory`; the others stand between the package's own parts, and
no argument takes one. All are structural: any object with these methods fits. Every implementation must be safe to use
from several threads. What ledger and indexes promise is tested by the suites in ``tests/contracts``, which the tests of
every backend inherit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

from pydantic import BaseModel

from memory_retrievers.models import EpisodicMemory, Rating, SummaryBy
from memory_retrievers.models.contents import VerificationReport
from memory_retrievers.models.messages import Message
from memory_retrievers.models.selection import Hits, Passage, Selection, TermCounts, TermStatistics
from memory_retrievers.protocols.memory import Memory, Recent, Retrieved

if TYPE_CHECKING:  # importing the package loads no numpy
    import numpy as np
    from numpy.typing import NDArray

    from memory_retrievers.models.selection import Embedded, Vector, Vectors


__all__ = [
    "Clock",
    "Embedder",
    "Judge",
    "KeywordIndex",
    "LanguageModel",
    "Memory",
    "Recent",
    "Retrieved",
    "ReviewedMemory",
    "Segment",
    "SegmentationContext",
    "Segmenter",
    "TokenEmbedder",
    "VectorIndex",
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


class KeywordIndex(Protocol):
    """BM25 over the passages of a selection, with the statistics of the scope that is searched.

    The formula is Lucene's: ``idf = ln(1 + (N − df + 0.5) / (df + 0.5))`` and
    ``score = Σ idf · tf / (tf + k1 · (1 − b + b · length / average length))``, where N, df and the average length
    are those of the searched scope and kind, or of the union of the scopes when child scopes are included.
    """

    def add(self, passages: Sequence[Passage]) -> None:
        """Index new passages. Called inside the ledger's transaction."""

    def remove(self, passages: Sequence[Passage]) -> None:
        """Undo :meth:`add` exactly. Called inside the ledger's transaction, before the passages leave the ledger."""

    def search(self, terms: Sequence[str], selection: Selection, *, limit: int) -> Hits:
        """Find the passages with the highest BM25 scores, best first, ties by lower id.

        Args:
            terms: Terms of the query, as :func:`~memory_retrievers.text.analysis.analyze` gives them; repeats count. No
                terms, no hits.
            selection: The scope, kind and filters that passages must match.
            limit: Maximum number of passages.

        Returns:
            At most ``limit`` passages that contain at least one term.
        """

    def statistics(self, terms: Sequence[str], selection: Selection) -> TermStatistics:
        """Document frequencies of the terms and the average length, over the selection's scope and fields."""

    def counts(self, terms: Sequence[str], selection: Selection, passages: NDArray[np.int64]) -> TermCounts:
        """Term frequencies in passages that match the selection.

        Args:
            terms: Distinct terms.
            selection: The scope, kind and filters that the passages match.
            passages: Passage ids, shape (n,).

        Returns:
            Lengths of shape (n,) and counts of shape (number of terms, n), in the order given.
        """

    def verify(self) -> VerificationReport:
        """Compare the stored postings with the ledger's passages. An engine that stores nothing has no problems."""

    def rebuild(self) -> None:
        """Recreate all stored and cached data from the ledger's passages, in one transaction."""


class VectorIndex(Protocol):
    """Nearest-neighbour search by cosine among the passages of a selection."""

    exact_limit: int | None
    """Up to so many passages that a selection lets through, a search misses none; None is any number."""

    def search(self, vector: Vector, selection: Selection, *, limit: int) -> Hits:
        """Find the nearest passages, nearest first, ties by lower id; there is no similarity threshold.

        Args:
            vector: Unit vector of the query, shape (d,).
            selection: The scope, kind and filters that passages must match.
            limit: Maximum number of passages.
        """

    def is_approximate(self, selection: Selection) -> bool:
        """Return True if a search of this selection may miss near passages, in return for speed."""

    def similarities(self, vector: Vector, selection: Selection, passages: NDArray[np.int64]) -> NDArray[np.float32]:
        """Compute the cosines between a vector and passages that match the selection.

        Args:
            vector: Unit vector of the query, shape (d,).
            selection: The scope, kind and filters that the passages match.
            passages: Passage ids, shape (n,).

        Returns:
            Cosines of shape (n,), in the order given; -1 for a passage that no longer exists.
        """

    def verify(self) -> VerificationReport:
        """Compare the stored data with the ledger's passages. An index that stores nothing has no problems."""

    def rebuild(self) -> None:
        """Recreate all stored and cached data from the ledger's vectors."""

    def purge(self) -> None:
        """Erase every byte of removed passages from the index's files."""

    def close(self) -> None:
        """Release all resources; further calls do nothing."""
