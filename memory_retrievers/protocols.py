"""The sockets: what the package asks of its parts, so that each can be replaced.

All are structural: any object with these methods fits. Every implementation must be safe to use from several threads.
The suites in ``memory_retrievers.testing.contracts`` say the same in tests; a backend's author inherits them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from pydantic import BaseModel

from memory_retrievers.contents import Contents, VerificationReport
from memory_retrievers.models import (
    AnyMemory,
    Category,
    DetailLevel,
    EpisodicMemory,
    JsonObject,
    Kind,
    MemoryKey,
    PendingReview,
    RetrievedMemory,
    ScopeStatistics,
    SemanticMemory,
)
from memory_retrievers.paging import Position
from memory_retrievers.passages import ForgettingState, Hits, NewPassage, Passage, Selection

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


class Ledger(Protocol):
    """The truth: records, their passages and vectors, and what is waiting to be reviewed."""

    def transaction(self) -> AbstractContextManager[None]:
        """All writes inside are kept together or not at all; once it ends without an exception they are durable."""
        ...

    def add(self, memories: Sequence[AnyMemory], passages: Sequence[Sequence[NewPassage]]) -> list[Passage]:
        """Store memories, each with its passages.

        Raises:
            ValidationError: A memory's id is already taken in its scope; nothing was stored.
        """
        ...

    def get(self, *, scope: str, id: str) -> AnyMemory | None:
        """The memory, whatever its state, or None."""
        ...

    def invalidate(self, *, scope: str, id: str, at: datetime) -> None:
        """Mark a fact as no longer true from ``at`` on; one that is marked already stays as it was."""
        ...

    def replace(self, memory: AnyMemory, passages: Sequence[NewPassage] | None = None) -> list[Passage]:
        """Write a memory over the one of its scope and id; the messages of an episode stay.

        Passages that are given take the place of those it had, under ids of their own, and are returned.

        Raises:
            NotFoundError: There is none.
        """
        ...

    def remove(self, *, scope: str, id: str) -> bool:
        """Remove a memory and every trace of it; False if there is none.

        Its id leaves the ``source_episodic_ids`` and ``consolidated_from`` of its scope and all pending reviews; a
        review left without memories goes.
        """
        ...

    def remove_scope(self, scope: str, *, include_child_scopes: bool) -> int:
        """Remove all that a scope holds, its pending reviews and its name; gives the number of memories."""
        ...

    def purge(self) -> None:
        """Leave no byte of what was removed in any file.

        Raises:
            BackendError: It could not be done now.
        """
        ...

    def backup(self, file: Path) -> None:
        """Write all that is committed to a file in a new directory, to be opened in the place of this one.

        Raises:
            ConfigurationError: The directory exists, or cannot be made.
        """
        ...

    def eligible(self, selection: Selection) -> list[int]:
        """The ids of all passages the selection lets through, ascending."""
        ...

    def indexed(self, selection: Selection) -> list[int]:
        """The ids of all passages of the selection's scope and kind, whatever their state, ascending.

        This is what word statistics are counted over.
        """
        ...

    def vectors(self, passages: Sequence[int]) -> tuple[list[int], Vectors]:
        """The stored vectors of those of the given passages that exist, with their ids, ascending."""
        ...

    def texts(self, passages: Sequence[int]) -> dict[int, str]:
        """The texts of those of the given passages that exist."""
        ...

    def owners(self, passages: Sequence[int]) -> dict[int, int]:
        """The rows of the memories that those of the given passages belong to that exist. It never changes."""
        ...

    def passages_of(self, scope: str, *, id: str | None = None, include_child_scopes: bool = False) -> list[Passage]:
        """All passages of a scope, or those of one memory in it, whatever their state, by ascending id."""
        ...

    def forgetting_states(self, rows: Sequence[int]) -> dict[int, ForgettingState]:
        """The forgetting states of those of the given rows that are episodes."""
        ...

    def load(self, rows: Sequence[int]) -> dict[int, AnyMemory]:
        """The memories of those of the given rows that exist."""
        ...

    def recent(self, *, scope: str, limit: int, now: datetime, since: datetime | None) -> list[EpisodicMemory]:
        """The scope's newest episodes by ``created_at``, newest first."""
        ...

    def page(
        self, scope: str, *, kinds: Sequence[Kind], after: Position | None, limit: int, now: datetime
    ) -> list[AnyMemory]:
        """The scope's memories that follow a position, newest first by ``created_at``, then by id.

        Invalidated facts are among them; what has expired by ``now`` is not.
        """
        ...

    def expired(self, now: datetime) -> list[MemoryKey]:
        """All memories that have expired by ``now``."""
        ...

    def scopes(self) -> list[str]:
        """All scopes that hold a memory, sorted."""
        ...

    def statistics(self, scope: str | None) -> ScopeStatistics:
        """Counts for one scope, or for all."""
        ...

    def notes(self) -> dict[str, str]:
        """What the store remembers about itself, such as its embedder."""
        ...

    def write_notes(self, notes: Mapping[str, str]) -> None:
        """Add to the notes."""
        ...

    def add_pending_reviews(self, reviews: Sequence[PendingReview], *, merge: bool = True) -> None:
        """File retrievals for later review.

        The same query with the same memories within 60 s counts once, unless ``merge`` is False, as for reviews that
        were kept apart in another store; a scope keeps its newest 200.
        """
        ...

    def pending_reviews(self, scope: str) -> list[PendingReview]:
        """The scope's pending reviews, oldest first."""
        ...

    def contents(self, scope: str | None = None) -> AbstractContextManager[Contents]:
        """Everything that the scope and those below it hold, or all, as of the moment of entering.

        Raises:
            BackendError: While iterating: a memory is damaged and cannot be read.
        """
        ...

    def verify(self) -> VerificationReport:
        """Look through all memories, passages and vectors; what is wrong stands in the report."""
        ...

    def close(self) -> None:
        """Release everything; further calls do nothing."""
        ...


class KeywordIndex(Protocol):
    """BM25 over the passages of a selection, with the statistics of the scope that is searched.

    The formula is Lucene's: ``idf = ln(1 + (N − df + 0.5) / (df + 0.5))`` and
    ``score = Σ idf · tf / (tf + k1 · (1 − b + b · length / average length))``, where N, df and the average length
    are those of the searched scope and kind, or of the union of the scopes when child scopes are included.
    """

    def add(self, passages: Sequence[Passage]) -> None:
        """Index new passages; called inside the ledger's transaction."""
        ...

    def remove(self, passages: Sequence[Passage]) -> None:
        """The exact inverse of :meth:`add`; called inside the ledger's transaction, before they leave the ledger."""
        ...

    def forget(self, passages: Sequence[int]) -> None:
        """Keep nothing in memory of passages that are gone; called after the transaction."""
        ...

    def search(self, terms: Sequence[str], selection: Selection, *, limit: int) -> Hits:
        """The best passages that share a term, best first, ties by lower id. No terms, no hits."""
        ...

    def verify(self) -> VerificationReport:
        """Compare what the index stores with the ledger's passages; an engine that stores nothing has no problems."""
        ...

    def rebuild(self) -> None:
        """Make everything the index stores or remembers anew from the ledger's passages, in one transaction."""
        ...


class VectorIndex(Protocol):
    """Nearest neighbours by cosine among the passages of a selection."""

    def search(self, vector: Vector, selection: Selection, *, limit: int) -> Hits:
        """The nearest passages, nearest first, ties by lower id; no floor on similarity."""
        ...

    def forget(self, passages: Sequence[int]) -> None:
        """Keep nothing in memory of passages that are gone; called after the transaction."""
        ...

    def rebuild(self) -> None:
        """Make everything the index stores or remembers anew from the ledger's vectors."""
        ...


class Retrieved(Protocol):
    """What a memory answers to a question."""

    @property
    def semantic(self) -> tuple[RetrievedMemory[SemanticMemory], ...]:
        """The facts, best first."""
        ...

    @property
    def episodic(self) -> tuple[RetrievedMemory[EpisodicMemory], ...]:
        """The episodes, best first."""
        ...

    def to_markdown(self, detail: DetailLevel | str = DetailLevel.AUTO) -> str:
        """The block for a model to read; empty when nothing was found."""
        ...

    def to_dict(self) -> JsonObject:
        """The raw form."""
        ...


class Recent(Protocol):
    """A scope's newest episodes."""

    @property
    def episodic(self) -> tuple[EpisodicMemory, ...]:
        """The episodes, newest first."""
        ...

    def to_markdown(self) -> str:
        """The block for a model to read."""
        ...

    def to_dict(self) -> JsonObject:
        """The raw form."""
        ...


class Memory(Protocol):
    """What the adapters and tools need of a memory; ``AgentMemory`` is one."""

    def retrieve(
        self,
        query: str,
        *,
        scope: str,
        episodic_limit: int = 5,
        semantic_limit: int = 20,
        category: Category | str | None = None,
        include_child_scopes: bool = False,
        limit: int | None = None,
        record: bool = True,
    ) -> Retrieved:
        """The memories that answer the query."""
        ...

    def context(
        self,
        query: str,
        *,
        scope: str,
        semantic_limit: int = 20,
        category: Category | str | None = None,
        include_child_scopes: bool = False,
    ) -> Retrieved:
        """The facts that answer the query, without any side effect."""
        ...

    def recent(self, scope: str, *, limit: int = 10, days_limit: float | None = None) -> Recent:
        """The newest episodes."""
        ...
