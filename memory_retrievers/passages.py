"""Passages: the searchable texts of memories, which of them a search may see, and what a search found."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from memory_retrievers.models import Category, ContentType, Kind, Origin, Tier

if TYPE_CHECKING:  # importing the package loads no numpy
    import numpy as np
    from numpy.typing import NDArray

    Vector: TypeAlias = NDArray[np.float32]
    Vectors: TypeAlias = NDArray[np.float32]

TURN: Final = "turn"
"""The field of passages that are a message of an episode; ``turn 3`` is the part of its fourth."""

WHOLE: Final = -1
"""The place of a passage that stands for its memory as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which passages a search may see. Filters come before ranking, in every list.

    Attributes:
        scope: The scope searched, exactly as given.
        kind: Which kind of memory.
        now: Memories that expired by then are invisible.
        include_child_scopes: Also search every scope below ``scope``.
        every_passage: Also search the messages of episodes, where they are indexed, and not only what stands for a
            memory as a whole.
        category: Only facts of this category.
        as_of: What held at that moment: facts that were valid then, and episodes that had begun. None is what holds
            now.
        tier: Only memories of this tier.
        tags: Only memories that have all of these.
        content_type: Only memories whose text is this.
        origins: Only memories that came from one of these; none is from anywhere.
        created_after: Only memories made then or later.
        created_before: Only memories made then or earlier.
        ids: Only memories of these ids.
    """

    scope: str
    kind: Kind
    now: datetime
    include_child_scopes: bool = False
    every_passage: bool = False
    category: Category | None = None
    as_of: datetime | None = None
    tier: Tier | None = None
    tags: tuple[str, ...] = ()
    content_type: ContentType | None = None
    origins: tuple[Origin, ...] = ()
    created_after: datetime | None = None
    created_before: datetime | None = None
    ids: tuple[str, ...] | None = None

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that are searched; word statistics are kept for each."""
        return (self.kind, TURN) if self.every_passage and self.kind is Kind.EPISODIC else (self.kind,)

    @property
    def is_narrow(self) -> bool:
        """Whether it asks for more than scope, kind and category, which is seldom asked twice; only the ledger can."""
        moments = (self.as_of, self.created_after, self.created_before)
        labels = (self.tier, self.content_type, self.ids)
        return bool(self.tags or self.origins) or any(asked is not None for asked in (*moments, *labels))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPassage:
    """A searchable text of a memory with its vector, not stored yet.

    Attributes:
        part: Which text of the memory it is: its kind, for what stands for it as a whole, or ``turn 3``.
        text: What is searched.
        vector: Its unit vector.
        speaker: Who says it, if it is a message.
        tells_time: Whether it is a message that tells when something happens.
    """

    part: str
    text: str
    vector: Vector
    speaker: str | None = None
    tells_time: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A stored passage. Its id is never used again, and its text and vector never change.

    Attributes:
        id: Its number in the ledger.
        memory: The ledger's number of the memory it belongs to.
        scope: The memory's scope.
        kind: The memory's kind.
        part: Which text of the memory it is.
        text: What is searched.
    """

    id: int
    memory: int
    scope: str
    kind: Kind
    part: str
    text: str

    @property
    def field(self) -> str:
        """What it is searched as; word statistics are kept for each field."""
        return self.kind if self.part == self.kind else TURN


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectedPassage:
    """A passage with all that a vector index outside the ledger keeps of it, so that it can filter by itself.

    Attributes:
        id: Its number in the ledger.
        memory_id: The id of its memory within the scope.
        scope: The memory's scope.
        kind: The memory's kind.
        part: Which text of the memory it is.
        origin: Where the memory came from.
        created_at: When the memory was made, in microseconds since 1970.
        category: What a fact is about; None for an episode.
        tier: How long the memory is meant to live.
        expires_at: From when on it is invisible, in microseconds since 1970; None means never.
        text: What is searched.
        vector: Its unit vector.
    """

    id: int
    memory_id: str
    scope: str
    kind: str
    part: str
    origin: str
    created_at: int
    category: str | None
    tier: str
    expires_at: int | None
    text: str
    vector: Vector


class Hits(NamedTuple):
    """What one list found, best first, as parallel lists: ids travel, records are read late.

    Attributes:
        passages: The ids of the passages.
        memories: The rows of the memories they belong to; a memory with several passages may stand here again.
        scores: The list's own scores, descending.
    """

    passages: list[int]
    memories: list[int]
    scores: list[float]


@dataclass(frozen=True, slots=True)
class Layout:
    """How passages belong together, as parallel arrays in the order of memories and of places within each.

    Attributes:
        passages: Their ids.
        memories: The rows of their memories; equal ones stand together.
        places: Which message of the episode each is, from 0, or ``WHOLE``.
        speakers: Who says each, as a position in ``names``; -1 for nobody.
        tells_time: Whether each is a message that tells when something happens.
        began: When the episode of each began, in microseconds since 1970; 0 for facts.
        names: The names of the speakers, as the messages give them.
    """

    passages: NDArray[np.int64]
    memories: NDArray[np.int64]
    places: NDArray[np.int64]
    speakers: NDArray[np.int64]
    tells_time: NDArray[np.bool_]
    began: NDArray[np.int64]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TermStatistics:
    """What BM25 knows of the passages it searches in.

    Attributes:
        passages: How many there are.
        average_length: How many terms they have on average; 1 if there are none.
        frequencies: In how many of them each of the asked terms stands; 0 for a term that stands in none.
    """

    passages: int
    average_length: float
    frequencies: dict[str, int]


@dataclass(frozen=True, slots=True)
class TermCounts:
    """How often terms stand in passages.

    Attributes:
        lengths: How many terms each passage has, in the order asked for; 0 for one that is gone.
        counts: A row for each term, in the order asked for, a column for each passage.
    """

    lengths: NDArray[np.float64]
    counts: NDArray[np.float64]


class ForgettingState(NamedTuple):
    """What the forgetting curve of an episode depends on.

    Attributes:
        stability: FSRS stability in days.
        last_reviewed_at: In microseconds since 1970.
    """

    stability: float
    last_reviewed_at: int
