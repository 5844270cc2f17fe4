"""Values that the storage gives out: queued messages, review jobs, the outbox, and rows of adopted collections."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from memory_retrievers.models.memories import MemoryKey
from memory_retrievers.models.messages import Message
from memory_retrievers.models.results import PendingReview
from memory_retrievers.models.selection import ProjectedPassage

if TYPE_CHECKING:  # importing the package loads no numpy
    from memory_retrievers.models.selection import Embedded

HELD_UNTIL: Final = "writers_held_until"
"""Note of a store: until when nobody stores vectors, in seconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedMessage:
    """A message in the queue, with its time, and the id that it was given on arrival, never used again."""

    id: str
    message: Message


class ItemCondition(NamedTuple):
    """A comparison of a field at the top level of an item's value, of which every part is untrusted.

    Attributes:
        key: The field.
        sign: How it is compared; ``!=`` also holds where the field is not there.
        value: A text, a number or a truth value, and one of the first two where the sign orders.
    """

    key: str
    sign: Literal["=", "!=", ">", ">=", "<", "<="]
    value: str | int | float | bool


class StoredItem(NamedTuple):
    """What stands under a key of a store: an item, or another memory of that id.

    Attributes:
        row: Its number.
        scope: Its scope.
        id: Its key.
        is_put: Whether a store has put it.
        holds: Whether it was not invalidated since.
        metadata: Its metadata, which hold the value.
        created_at: When it was first put.
        updated_at: When it was last put.
    """

    row: int
    scope: str
    id: str
    is_put: bool
    holds: bool
    metadata: dict[str, Any]
    created_at: datetime
    updated_at: datetime

    @property
    def key(self) -> MemoryKey:
        """Scope and id."""
        return MemoryKey(scope=self.scope, id=self.id)


class OpenPlace(NamedTuple):
    """A queued message by its number, without what it says.

    Attributes:
        row: Its number.
        scope: Its scope.
        conversation: Its conversation; None is the one without a name.
        is_embedded: Whether its vector is stored.
    """

    row: int
    scope: str
    conversation: str | None
    is_embedded: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenMessage:
    """A queued message as a search reads it.

    Attributes:
        row: Its number.
        scope: Its scope.
        conversation: Its conversation; None is the one without a name.
        id: Its id.
        message: The message, with its time.
        embedded: What the embedder makes of it; None if nobody has embedded it yet.
    """

    row: int
    scope: str
    conversation: str | None
    id: str
    message: Message
    embedded: Embedded | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """State of the message queue of a conversation.

    Attributes:
        messages: Number of queued messages.
        first_at: Time of the first of them; None if there is none.
        heard_at: When the last of them arrived; None if there is none.
        leased_at: Time at which the current lease was taken; None if there is none.
        window_doubled: Whether the last look saw a single topic.
        previous_summary: Summary of the last episode, if the queue continues it.
    """

    messages: int = 0
    first_at: datetime | None = None
    heard_at: datetime | None = None
    leased_at: datetime | None = None
    window_doubled: bool = False
    previous_summary: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewJob:
    """Retrievals to be rated by the conversation around them.

    Attributes:
        id: Its number in the ledger; 0 in none.
        scope: The scope.
        reviewed_at: The moment the review counts from.
        conversation: The messages.
        reviews: The retrievals, oldest first.
    """

    id: int = 0
    scope: str
    reviewed_at: datetime
    conversation: tuple[Message, ...]
    reviews: tuple[PendingReview, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectionState:
    """Progress of a projection.

    Attributes:
        generation: The name of the projection that is fed; None if there is none.
        projected: How many passages it should hold, when nothing is listed as changed.
        changed: How many changes of passages it holds are waiting.
    """

    generation: str | None
    projected: int
    changed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxBatch:
    """Operations to carry out next. They are idempotent and may be applied in any order.

    Attributes:
        generation: The projection it is for.
        put: Passages to write, as they are now.
        remove: Ids of passages to take out, whether they are there or not.
        mark: The last new passage that is part of this batch.
        last_change: The last listed change that is part of it.
    """

    generation: str | None
    put: tuple[ProjectedPassage, ...]
    remove: tuple[int, ...]
    mark: int
    last_change: int


@dataclass(frozen=True, slots=True)
class UnembeddedPassage:
    """A passage that has no new vector yet.

    Attributes:
        id: Its number in the ledger.
        memory: The ledger's number of the memory it belongs to.
        part: Which text of the memory it is.
        text: What is searched.
    """

    id: int
    memory: int
    part: str
    text: str


@dataclass(frozen=True, slots=True)
class UnembeddedVersion:
    """A former version of a fact that has no new vector yet: its number in the ledger, and what is embedded."""

    id: int
    text: str


@dataclass(frozen=True, slots=True)
class AdoptedRow:
    """Row of a memory that is also one of the collection, and the digest of that one when last read; empty before."""

    memory: int
    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwritten:
    """Changes that have not been written to the collection yet.

    Attributes:
        last: The number of the last change among them.
        memories: The ledger's numbers of the memories that are new or changed; some may be gone again.
        gone: The ids in the collection of memories that are gone.
    """

    last: int
    memories: tuple[int, ...]
    gone: tuple[str, ...]
