"""Records of whole stores: their contents for export and migration, and the reports of verification and import."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from itertools import islice
from typing import Final, TypeAlias

from memory_retrievers.models.fields import Category
from memory_retrievers.models.management import Association, AuditEntry, MemoryEvent
from memory_retrievers.models.memories import AnyMemory
from memory_retrievers.models.results import PendingReview
from memory_retrievers.models.scenes import CharacterState
from memory_retrievers.models.selection import NewPassage, Vector
from memory_retrievers.models.storage import QueuedMessage, ReviewJob

Progress: TypeAlias = Callable[[int, int], None]
"""Called from time to time with how many memories are done, and of how many."""

MAX_PROBLEMS: Final = 1_000  # problems that are listed one by one; the rest are counted
MOVING: Final = "moving"  # the note of a store that ``migrate`` fills; once the move is verified it is blank
HALF_MOVED: Final = (
    "a migrate into this store has not ended, and something may be missing: run the same migrate command again, which "
    "goes on where it was; where the old store is lost, export --incomplete saves what has come"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMemory:
    """A memory with its passages, in the order in which they were stored."""

    memory: AnyMemory
    passages: tuple[NewPassage, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FactVersion:
    """What a fact said before it was changed."""

    scope: str  # scope of the fact
    id: str  # its id
    fact: str  # what it said
    category: Category  # its category then
    keywords: tuple[str, ...]  # its keywords then
    valid_at: datetime  # since when it held
    invalid_at: datetime  # until when
    vector: Vector | None  # its unit vector, shape (d,); None where the fact is not searched


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredQueue:
    """Queued messages of a conversation, in order of arrival, each with its id: all of them, or a part of very many."""

    scope: str  # the scope
    conversation: str | None = None  # the conversation; None is the one without a name
    messages: tuple[QueuedMessage, ...]
    window_doubled: bool  # whether the last look at them saw a single topic
    previous_summary: str | None  # the summary of the episode they go on from


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCharacter:
    """A character of a scope's story, as of its last event."""

    scope: str
    state: CharacterState


Record: TypeAlias = (
    StoredMemory
    | FactVersion
    | PendingReview
    | ReviewJob
    | StoredQueue
    | Association
    | AuditEntry
    | MemoryEvent
    | StoredCharacter
)
"""A record of a store; an export has a line for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """Everything that some scopes hold, as of one point in time; each iterator reads page by page, once, in order."""

    notes: Mapping[str, str]  # what the store remembers about itself
    counts: Mapping[str, int]  # how many records of each kind there are, by the names of the iterators
    memories: Iterator[StoredMemory]  # the memories by scope, ``created_at`` and id
    versions: Iterator[FactVersion]  # what facts have said before, by scope, id and time
    # the pending reviews that are part of no job, by scope and ``created_at``
    pending_reviews: Iterator[PendingReview]
    review_jobs: Iterator[ReviewJob]  # the review jobs with their reviews, by scope, oldest first
    queues: Iterator[StoredQueue]  # the messages that wait, by scope and conversation
    associations: Iterator[Association]  # the associations of these memories, by scope and id
    audit: Iterator[AuditEntry]  # the entries that the audit has of them, by scope, id and time
    events: Iterator[MemoryEvent]  # what happened to them, by scope and id, in order
    # the characters of their stories, by scope, in the order in which they appeared
    characters: Iterator[StoredCharacter]

    def records(self) -> Generator[Record, None, None]:
        """Yield all records in the order of an export: nothing comes before what it refers to.

        A caller that stops early must close the generator before the contents are released.
        """
        for part in fields(self)[2:]:
            yield from getattr(self, part.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationReport:
    """Result of a verification: what was checked, and the problems found.

    Attributes:
        memories: How many memories were looked at.
        passages: How many passages were looked at.
        postings: How many postings of the keyword index were looked at; 0 for an engine that stores none.
        projected: How many passages were compared with a vector index outside the file; 0 if there is none.
        problems: One sentence each; beyond the first 1,000 of a part, how many more there are. Empty: all is well.
        notes: What is no damage and yet worth a look, one sentence each: files that others may read.
    """

    memories: int = 0
    passages: int = 0
    postings: int = 0
    projected: int = 0
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """True if no problem was found."""
        return not self.problems

    def joined(self, other: VerificationReport) -> VerificationReport:
        """Combine two reports."""
        both = {each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(self)}
        return VerificationReport(**both)


class Problems:
    """Collects problems in bounded memory, however many there are."""

    def __init__(self) -> None:
        self._listed: list[str] = []
        self._unlisted = 0

    def add(self, problems: Iterable[str]) -> None:
        """Add problems."""
        problems = iter(problems)
        self._listed += islice(problems, MAX_PROBLEMS - len(self._listed))
        self._unlisted += sum(1 for _ in problems)

    def listed(self) -> tuple[str, ...]:
        """List the problems; the last entry counts those that are not listed."""
        more = (f"and {self._unlisted:,} more problems like these",) if self._unlisted else ()
        return (*self._listed, *more)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedRows:
    """Rows of a collection that could not become memories."""

    # why: ``no_text``, ``zero_vector``, ``non_finite_vector``, ``no_scope`` (the key is missing, or neither text nor a
    # whole number), ``invalid_scope``, ``id_taken`` (by a memory that is not from the collection), ``invalid_record``
    # (a text, an id or metadata that no memory can hold) or ``held_back`` (by ``before_store``)
    reason: str
    rows: int  # how many
    examples: tuple[str, ...]  # the ids of the first few


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptionReport:
    """Outcome of importing the rows of a collection.

    Attributes:
        adopted: New memories.
        updated: Memories that follow a change of their row.
        forgotten: Memories whose row is gone, or of no use any more.
        unchanged: Memories that were there already, as they are.
        skipped: The rows that are no memories, by reason.
    """

    adopted: int = 0
    updated: int = 0
    forgotten: int = 0
    unchanged: int = 0
    skipped: tuple[SkippedRows, ...] = ()
