"""The socket for the truth: records, passages, vectors and reviews."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from memory_retrievers.contents import Contents, VerificationReport
from memory_retrievers.models import AnyMemory, EpisodicMemory, Kind, MemoryKey, ScopeStatistics, SemanticMemory
from memory_retrievers.paging import Position
from memory_retrievers.passages import ForgettingState, Layout, NewPassage, Passage, Selection
from memory_retrievers.protocols.characters import Characters
from memory_retrievers.protocols.conversations import Conversations
from memory_retrievers.protocols.management import Management
from memory_retrievers.protocols.outbox import Outbox
from memory_retrievers.protocols.reembedding import NewVectors
from memory_retrievers.retrieved import PendingReview

if TYPE_CHECKING:  # importing the package loads no numpy
    from memory_retrievers.passages import Vectors


class Ledger(Protocol):
    """The truth: records, their passages and vectors, and what is waiting to be reviewed."""

    def transaction(self, *scopes: str) -> AbstractContextManager[None]:
        """All writes inside are kept together or not at all; once it ends without an exception they are durable.

        Args:
            scopes: All changes inside are within these scopes. Until it ends nobody else changes them, so what is read
                there stays true. Without any, that holds for the whole store, and everybody else waits.
        """
        ...

    def reading(self) -> AbstractContextManager[None]:
        """While this lasts, all that this thread reads may be as of the first of it."""
        ...

    def present(self, keys: Sequence[MemoryKey]) -> set[MemoryKey]:
        """Those of the memories that exist, whatever their state."""
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

    def invalidate(self, *, scope: str, id: str, at: datetime, replaced_by: str | None = None) -> None:
        """Mark a fact as no longer true from ``at`` on, and name the one that holds instead.

        One that is marked already stays as it was.
        """
        ...

    def replace(self, memory: AnyMemory, passages: Sequence[NewPassage] = ()) -> list[Passage]:
        """Write a memory over the one of its scope and id; the messages of an episode stay.

        Passages that are given take the place of those of the same parts, under ids of their own, and are returned.

        Raises:
            NotFoundError: There is none.
        """
        ...

    def put_passages(self, memory: AnyMemory, passages: Sequence[NewPassage]) -> list[Passage]:
        """Give a memory that is stored further passages; they take the place of those of the same parts.

        Raises:
            NotFoundError: There is no memory of its scope and id.
        """
        ...

    def remove_passages(self, passages: Sequence[int]) -> None:
        """Remove passages, and leave their memories."""
        ...

    def remove(self, *, scope: str, id: str) -> bool:
        """Remove a memory and every trace of it; False if there is none.

        Its id leaves the ``source_episodic_ids`` and ``consolidated_from`` of its scope, what its characters know, and
        all pending reviews; a review left without memories goes, and so do the characters of a scope without scenes.
        """
        ...

    def remove_scope(self, scope: str, *, include_child_scopes: bool) -> int:
        """Remove all that a scope holds, what waits there and its name; gives the number of memories."""
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
            ConfigurationError: The directory is in use, or cannot be made.
        """
        ...

    @property
    def conversations(self) -> Conversations:
        """What waits to become memories."""
        ...

    @property
    def characters(self) -> Characters:
        """The characters of the stories that are told in scenes."""
        ...

    @property
    def management(self) -> Management:
        """What the memory tools keep and ask beside the records."""
        ...

    @property
    def outbox(self) -> Outbox:
        """What a vector index outside the ledger has still to be told."""
        ...

    @property
    def new_vectors(self) -> NewVectors:
        """The vectors of another embedder, while they are gathered."""
        ...

    def eligible(self, selection: Selection, *, among: Sequence[int] | None = None) -> list[int]:
        """The ids of all passages the selection lets through, or of those among the given ones, ascending."""
        ...

    def size(self, selection: Selection, *, at_most: int) -> int:
        """How many passages the selection lets through; if there are more than ``at_most``, any number above it."""
        ...

    def layout(self, selection: Selection, *, memories: Sequence[int] | None = None) -> Layout:
        """How the passages the selection lets through belong together; only those of the given rows, if there are."""
        ...

    def indexed(self, selection: Selection) -> list[int]:
        """The ids of all passages of the selection's scope and fields, whatever their state, ascending.

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
        """The forgetting states of those of the given rows that are episodes and fade."""
        ...

    def load(self, rows: Sequence[int]) -> dict[int, AnyMemory]:
        """The memories of those of the given rows that exist."""
        ...

    def recent(self, *, scope: str, limit: int, now: datetime, since: datetime | None) -> list[EpisodicMemory]:
        """The scope's newest episodes by ``created_at``, newest first."""
        ...

    def episode_rows(self, *, after: int, limit: int) -> list[int]:
        """The rows of the next episodes behind one, in all scopes and whatever their state, ascending."""
        ...

    def unconsolidated(self, scope: str, *, limit: int) -> list[EpisodicMemory]:
        """The scope's oldest episodes that have not been turned into facts, oldest first, whether expired or not."""
        ...

    def unconsolidated_scopes(self) -> list[str]:
        """The scopes that hold such episodes, sorted."""
        ...

    def scenes(self, scope: str, *, now: datetime) -> list[EpisodicMemory]:
        """The scope's episodes that are scenes and have not expired, oldest first by ``created_at``, then by id."""
        ...

    def versions(self, *, scope: str, id: str) -> list[SemanticMemory]:
        """The fact of this id with those it has replaced and those that have replaced it, oldest first."""
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

    def write_notes(self, notes: Mapping[str, str], *, replace: bool = True) -> None:
        """Add to the notes.

        Args:
            notes: What to add.
            replace: Whether a note takes the place of one of its name. Otherwise that one stays, also if another
                transaction has written it and ends first.
        """
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
