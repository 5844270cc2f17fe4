"""Passages, the searchable texts of memories: selections of them, and results of searching them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from memory_retrievers.models.fields import Category
from memory_retrievers.models.filters import EVERYTHING, Filters
from memory_retrievers.models.memories import ContentType, Kind, Origin, Tier

if TYPE_CHECKING:  # importing the package loads no numpy
    import numpy as np
    from numpy.typing import NDArray

Vector: TypeAlias = "NDArray[np.float32]"
Vectors: TypeAlias = "NDArray[np.float32]"

TURN: Final = "turn"  # field of passages that are a message of an episode; ``turn 3`` is the part of its fourth
ITEM: Final = "item"  # field of passages that are one text of a store's item; ``item 1`` is the part of its second
MAX_LENGTH_ERROR: Final = 1e-3  # how far a vector may be from unit length; single precision is off by a millionth
MOST_TOKEN_BYTES: Final = 16_384  # bytes that the token vectors of a text may take; the bundled embedder's take 4,096
TOKEN_CHARACTERS: Final = 1_000  # characters that token vectors may be of; the bundled embedder's 64 are some 600
TOKEN_WIDTHS: Final = {"all-MiniLM-L6-v2-int8": 64}  # bytes of one token vector, of embedders that need not be asked
WHOLE: Final = -1  # the place of a passage that stands for its memory as a whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Conditions that memories must meet to be searched or listed."""

    scope: str  # the scope, exactly as given
    include_child_scopes: bool = False  # also every scope below it
    tier: Tier | None = None  # only memories of this tier
    filters: Filters = EVERYTHING  # only memories that pass these
    content_type: ContentType | None = None  # only memories whose text is this
    created_after: datetime | None = None  # only memories made then or later
    created_before: datetime | None = None  # only memories made then or earlier
    ids: tuple[str, ...] | None = None  # only memories of these ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection(Conditions):
    """Conditions that passages must meet to be searched. They are applied before ranking."""

    kind: Kind  # which kind of memory
    now: datetime  # memories that expired by then are invisible
    every_passage: bool = False  # also search the messages of episodes, where they are indexed
    every_field: bool = False  # also search the fields of the items of a store one by one
    category: Category | None = None  # only facts of this category
    as_of: datetime | None = None  # facts valid at that moment, and episodes begun by then; None is what holds now
    origins: tuple[Origin, ...] = ()  # only memories that came from one of these; none is from anywhere
    exclude_conversation: str | None = None  # no episode of this conversation

    @property
    def fields(self) -> tuple[str, ...]:
        """Fields that are searched; word statistics are separate for each."""
        if self.kind is Kind.EPISODIC:
            return (self.kind, TURN) if self.every_passage else (self.kind,)
        return (self.kind, ITEM) if self.every_field else (self.kind,)

    @property
    def is_narrow(self) -> bool:
        """True for conditions beyond scope, kind and category, which rarely repeat."""
        moments = (self.as_of, self.filters.since, self.filters.until, self.created_after, self.created_before)
        return bool(self.origins or self.needs_ledger) or any(asked is not None for asked in moments)

    @property
    def needs_ledger(self) -> bool:
        """True for conditions that no snapshot answers, since what they ask for may change and leave its version."""
        return labels_of(self) != NO_LABELS


labels_of: Final = attrgetter(
    "filters.tags", "filters.metadata", "filters.where", "tier", "content_type", "ids", "exclude_conversation"
)
"""The conditions of a selection that only the ledger answers."""

NO_LABELS: Final = ((), (), None, None, None, None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Which memories of a scope are listed, and in which order."""

    scope: str  # the scope
    now: datetime  # what has expired by then is left out
    kinds: tuple[Kind, ...] = tuple(Kind)  # kinds of memory
    # only what held at that moment, in the words of that moment; None lists all, whatever its state
    as_of: datetime | None = None
    filters: Filters = EVERYTHING  # tags, metadata and times that a memory must have
    oldest_first: bool = False  # the order

    def of(self, kind: Kind) -> Selection:
        """Select those of one kind."""
        return Selection(scope=self.scope, kind=kind, now=self.now, as_of=self.as_of, filters=self.filters)


class Embedded(NamedTuple):
    """A text as an embedder sees it."""

    vector: Vector  # its unit vector, shape (d,)
    tokens: bytes | None = None  # the vectors of its tokens, int8, one after another; None if the embedder gives none
    words: tuple[str, ...] = ()  # the word that each token is of, folded; only for questions
    terms: tuple[tuple[str, ...], ...] = ()  # the search terms of each of these words, which the store works out


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPassage:
    """A passage with its vector, before it is stored."""

    part: str  # which text of the memory it is: its kind, for the whole of it, ``turn 3`` or ``item 1``
    text: str  # text that is searched
    vector: Vector  # its unit vector, shape (d,)
    speaker: str | None = None  # speaker of a message; None for the whole of a memory
    tells_time: bool = False  # whether it is a message with a time expression
    tokens: bytes | None = None  # as in :class:`Embedded`; None if nobody has made them yet
    # its terms, as the text is analyzed; None if that is still to be done
    terms: tuple[str, ...] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A stored passage. Its id is never reused, and its text and vector never change."""

    id: int  # its number in the ledger
    memory: int  # the ledger's number of the memory it belongs to
    scope: str  # the memory's scope
    kind: Kind  # the memory's kind
    part: str  # which text of the memory it is
    text: str  # what is searched
    # as of :class:`NewPassage`, when it was just stored
    terms: tuple[str, ...] | None = field(default=None, compare=False, repr=False)
    # the ledger's number of the scope, when it was just stored
    scope_id: int | None = field(default=None, compare=False, repr=False)

    @property
    def field(self) -> str:
        """Field in which it is searched; word statistics are separate for each."""
        if self.part == self.kind:
            return self.kind
        return ITEM if self.part.startswith(f"{ITEM} ") else TURN


@dataclass(frozen=True, slots=True)
class ProjectedPassage:
    """A passage with all data that a vector index outside the ledger needs to filter by itself."""

    id: int  # its number in the ledger
    memory_id: str  # the id of its memory within the scope
    scope: str  # the memory's scope
    kind: str  # the memory's kind
    part: str  # which text of the memory it is
    origin: str  # where the memory came from
    created_at: int  # when the memory was made, in microseconds since 1970
    category: str | None  # what a fact is about; None for an episode
    tier: str  # how long the memory is meant to live
    expires_at: int | None  # from when on it is invisible, in microseconds since 1970; None means never
    text: str  # what is searched
    vector: Vector  # its unit vector


class Hits(NamedTuple):
    """Result of one search, best first, as parallel lists of ids; records are read later."""

    passages: list[int]  # ids of the passages
    memories: list[int]  # rows of their memories; a memory with several passages may occur repeatedly
    scores: list[float]  # scores of the search, descending


class Growing:
    """An array, shape (n, …), that grows at its end: a view of a larger one, whose free rows the next view takes.

    Views that were given out keep their length, so whoever reads one is not disturbed. Only one thread at a time may
    append.
    """

    __slots__ = ("_room", "array")

    def __init__(self, array: NDArray[Any], room: _Room | None = None) -> None:
        self.array = array
        self._room = room or _Room(array, len(array))

    @property
    def size(self) -> int:
        """Bytes, free rows included: at most an eighth more than what is in use."""
        return self._room.array.nbytes

    def appended(self, rows: NDArray[Any]) -> Growing:
        """Return an array with further rows, shape (k, …); copied only when there is no room."""
        before, after, room = len(self.array), len(self.array) + len(rows), self._room
        if not before:
            return Growing(rows)
        if room.taken != before or after > len(room.array):
            import numpy as np  # here, so that importing the package loads no numpy

            array = np.empty((after + after // 8, *self.array.shape[1:]), self.array.dtype)
            array[:before] = self.array
            room = _Room(array, before)
        room.array[before:after] = rows
        room.taken = after
        return Growing(room.array[:after], room)


class _Room:
    """The array behind views, and how many of its rows are taken."""

    __slots__ = ("array", "taken")

    def __init__(self, array: NDArray[Any], taken: int) -> None:
        self.array = array
        self.taken = taken


@dataclass(frozen=True)
class Layout:
    """Grouping of n passages by memory, as parallel arrays of shape (n,), ordered by memory and by place within it."""

    passages: NDArray[np.int64]  # their ids
    memories: NDArray[np.int64]  # rows of their memories; equal ones are adjacent
    places: NDArray[np.int64]  # index of the message within the episode, from 0, or ``WHOLE``
    speakers: NDArray[np.int64]  # index of the speaker in ``names``; -1 for none
    tells_time: NDArray[np.bool_]  # whether each is a message with a time expression
    began: NDArray[np.int64]  # start of each episode in microseconds since 1970; 0 for facts
    names: tuple[str, ...]  # names of the speakers, as the messages give them
    # what was made of it and goes with it, by name, with the array that it was made by
    made: dict[Hashable, tuple[Any, Any]] = field(default_factory=dict, init=False, compare=False, repr=False)
    # the arrays below that have grown with it, by name
    grown: dict[str, Growing] = field(default_factory=dict, init=False, compare=False, repr=False)

    def grow(self, former: Layout, later: Layout) -> None:
        """Make of the passages of a former layout, and of later memories behind them, what was made of the former."""
        known = vars(former)
        for name, counted in GROWING.items():
            if name in known:
                rows = getattr(later, name)
                rows = rows + len(getattr(former, counted)) if counted else rows
                self.grown[name] = former.grown.get(name, Growing(known[name])).appended(rows)
                vars(self)[name] = self.grown[name].array

    @cached_property
    def is_first(self) -> NDArray[np.bool_]:
        """Mask of the first passage of each memory, shape (n,)."""
        is_first = self.memories.astype("bool")
        is_first[:1] = True
        is_first[1:] = self.memories[1:] != self.memories[:-1]
        return is_first

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Index of each memory's first passage, shape (m,) for m memories."""
        return self.is_first.nonzero()[0]

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """Index behind each memory's last passage, shape (m,)."""
        import numpy as np  # here, so that importing the package loads no numpy

        return np.append(self.starts, len(self.memories))[1:]

    @cached_property
    def groups(self) -> NDArray[np.int64]:
        """Index of the memory that each passage belongs to, in the order of ``starts``, from 0; shape (n,)."""
        import numpy as np  # here, so that importing the package loads no numpy

        return np.arange(len(self.starts)).repeat(self.ends - self.starts)

    @cached_property
    def ranks(self) -> NDArray[np.int64]:
        """Index of each passage among those of its memory, from 0; shape (n,)."""
        import numpy as np  # here, so that importing the package loads no numpy

        return np.arange(len(self.groups)) - self.starts[self.groups]

    @cached_property
    def is_message(self) -> NDArray[np.bool_]:
        """Mask of the passages that are a single message, shape (n,)."""
        return self.places != WHOLE  # type: ignore[no-any-return]

    @cached_property
    def has_messages(self) -> bool:
        """True if any passage is a single message."""
        return bool(self.is_message.any())

    @cached_property
    def has_both(self) -> NDArray[np.bool_]:
        """Mask of the memories that have messages behind a passage for the whole of them, shape (m,)."""
        import numpy as np  # here, so that importing the package loads no numpy

        return np.logical_or.reduceat(self.is_message, self.starts) & ~self.is_message[self.starts]

    @cached_property
    def is_next(self) -> NDArray[np.bool_]:
        """Mask of the passages that were said right after the one before them, shape (n,)."""
        is_next = ~self.is_first
        is_next[1:] &= (self.places[1:] == self.places[:-1] + 1) & self.is_message[:-1]
        return is_next

    @cached_property
    def is_before_next(self) -> NDArray[np.bool_]:
        """Mask of the passages that the next one was said right after, shape (n,)."""
        import numpy as np  # here, so that importing the package loads no numpy

        return np.append(self.is_next, False)[1:]

    @cached_property
    def widths(self) -> NDArray[np.floating]:
        """Number of passages in the window of each, with those said right before and after it, shape (n,)."""
        return 1.0 + self.is_next + self.is_before_next


GROWING: Final = {
    **dict.fromkeys(("is_first", "is_message", "is_next", "is_before_next", "widths", "ranks", "has_both"), ""),
    **dict.fromkeys(("starts", "ends"), "memories"),
    "groups": "starts",
}
"""What grows with a layout; where it holds indexes, the name of what is counted by them."""


@dataclass(frozen=True, slots=True)
class TermStatistics:
    """Statistics of the searched passages for BM25."""

    passages: int  # number of passages
    average_length: float  # mean number of terms per passage; 1 if there are none
    frequencies: dict[str, int]  # document frequency of each query term; 0 for a term that occurs in none
    # the first term of those that are forms of one word, by each of the others
    words: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TermCounts:
    """Term frequencies of t terms in n passages, both in the order asked for."""

    lengths: NDArray[np.float64]  # number of terms of each passage, shape (n,); 0 for a deleted one
    counts: NDArray[np.float64]  # occurrences of each term in each passage, shape (t, n)


class ForgettingState(NamedTuple):
    """State of the forgetting curve of an episode: its FSRS stability in days, and microseconds since 1970."""

    stability: float
    last_reviewed_at: int
