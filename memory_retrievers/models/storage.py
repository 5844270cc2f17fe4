"""Values that the storage gives out, such as queued messages and adopted rows; and how an embedder is known again."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

from memory_retrievers.models.memories import MemoryKey
from memory_retrievers.models.messages import Message
from memory_retrievers.models.results import PendingReview
from memory_retrievers.models.selection import Embedded, ProjectedPassage, Vector

HELD_UNTIL: Final = "writers_held_until"  # note of a store: until when nobody stores vectors, in seconds since 1970


class QueuedMessage(NamedTuple):
    """A message in the queue, with its time, and the id that it was given on arrival, never used again."""

    id: str
    message: Message


class ItemCondition(NamedTuple):
    """A comparison of a field at the top level of an item's value, of which every part is untrusted."""

    key: str  # the field
    sign: Literal["=", "!=", ">", ">=", "<", "<="]  # how it is compared; ``!=`` also holds where the field is not there
    value: str | int | float | bool  # a text, a number or a truth value, and one of the first two where the sign orders


class StoredItem(NamedTuple):
    """What stands under a key of a store: an item, or another memory of that id."""

    row: int  # its number
    scope: str  # its scope
    id: str  # its key
    is_put: bool  # whether a store has put it
    holds: bool  # whether it was not invalidated since
    metadata: dict[str, Any]  # its metadata, which hold the value
    created_at: datetime  # when it was first put
    updated_at: datetime  # when it was last put

    @property
    def key(self) -> MemoryKey:
        """Scope and id."""
        return MemoryKey(scope=self.scope, id=self.id)


class OpenPlace(NamedTuple):
    """A queued message by its number, without what it says."""

    row: int  # its number
    scope: str  # its scope
    conversation: str | None  # its conversation; None is the one without a name
    is_embedded: bool  # whether its vector is stored


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenMessage:
    """A queued message as a search reads it."""

    row: int  # its number
    scope: str  # its scope
    conversation: str | None  # its conversation; None is the one without a name
    id: str  # its id
    message: Message  # the message, with its time
    embedded: Embedded | None  # what the embedder makes of it; None if nobody has embedded it yet


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """State of the message queue of a conversation."""

    messages: int = 0  # number of queued messages
    first_at: datetime | None = None  # time of the first of them; None if there is none
    heard_at: datetime | None = None  # when the last of them arrived; None if there is none
    leased_at: datetime | None = None  # time at which the current lease was taken; None if there is none
    window_doubled: bool = False  # whether the last look saw a single topic
    previous_summary: str | None = None  # summary of the last episode, if the queue continues it


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewJob:
    """Retrievals to be rated by the conversation around them."""

    id: int = 0  # its number in the ledger; 0 in none
    scope: str  # the scope
    reviewed_at: datetime  # the moment the review counts from
    conversation: tuple[Message, ...]  # the messages
    reviews: tuple[PendingReview, ...]  # the retrievals, oldest first


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectionState:
    """Progress of a projection."""

    generation: str | None  # the name of the projection that is fed; None if there is none
    projected: int  # how many passages it should hold, when nothing is listed as changed
    changed: int  # how many changes of passages it holds are waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxBatch:
    """Operations to carry out next. They are idempotent and may be applied in any order."""

    generation: str | None  # the projection it is for
    put: tuple[ProjectedPassage, ...]  # passages to write, as they are now
    remove: tuple[int, ...]  # ids of passages to take out, whether they are there or not
    mark: int  # the last new passage that is part of this batch
    last_change: int  # the last listed change that is part of it


@dataclass(frozen=True, slots=True)
class UnembeddedPassage:
    """A passage that has no new vector yet."""

    id: int  # its number in the ledger
    memory: int  # the ledger's number of the memory it belongs to
    part: str  # which text of the memory it is
    text: str  # what is searched


@dataclass(frozen=True, slots=True)
class AdoptedRow:
    """Row of a memory that is also one of the collection, and the digest of that one when last read; empty before."""

    memory: int
    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwritten:
    """Changes that have not been written to the collection yet."""

    last: int  # the number of the last change among them
    memories: tuple[int, ...]  # the ledger's numbers of the memories that are new or changed; some may be gone again
    gone: tuple[str, ...]  # the ids in the collection of memories that are gone


PROBE: Final = "The quick brown fox jumps over the lazy dog."  # by whose vector an embedder is known again
_FIRST: Final = 16  # numbers of the vector that older stores and exports know; of a sparse vector they may all be 0
_SUMS: Final = 64
"""A power of two, and not 16. The cosine of two lists of sums is that of the vectors within (1 - cosine²) / 8, one
standard deviation; the list takes 0.6 kB, and a whole vector of 4,096 numbers would take 50 kB at every search."""
_PROBE_MIN_COSINE: Final = 0.95  # quantised models vary a little between processors; another model is nowhere near


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Identifies an embedder by its name and its vector of a fixed sentence."""

    embedder_id: str  # its name
    dimension: int  # how many numbers its vectors have
    # sums of all numbers of the vector, each with other signs, or a short vector itself; None of an older version
    sums: tuple[float, ...] | None
    first: tuple[float, ...] | None  # its first numbers, which older versions noted; None if only ``sums`` are known

    @classmethod
    def of(cls, embedder_id: str, vector: Vector) -> Fingerprint:
        """Compute the fingerprint of an embedder from its vector of the fixed sentence, shape (d,)."""
        first = tuple(float(number) for number in vector[:_FIRST])
        return cls(embedder_id, len(vector), first if len(vector) <= _FIRST else _signed_sums(vector), first)

    @classmethod
    def noted(cls, notes: Mapping[str, str]) -> Fingerprint | None:
        """Read the fingerprint from the metadata of a store; None if there is none."""
        if "embedder_id" not in notes:
            return None
        dimension, probe = int(notes["dimension"]), tuple(json.loads(notes["probe"]))
        if dimension <= _FIRST:
            return cls(notes["embedder_id"], dimension, probe, probe)
        is_old = len(probe) <= _FIRST
        return cls(notes["embedder_id"], dimension, None if is_old else probe, probe if is_old else None)

    def notes(self) -> dict[str, str]:
        """Return the fingerprint as metadata of a store."""
        return {
            "embedder_id": self.embedder_id,
            "dimension": str(self.dimension),
            "probe": json.dumps(self.first if self.sums is None else self.sums),
        }

    def has_vectors_like(self, other: Fingerprint) -> bool:
        """Return True if the vectors of both can be compared, whatever their names.

        An old note and a new one have nothing to be compared by; the first embedding will tell.
        """
        if self.dimension != other.dimension:
            return False
        for ours, theirs in ((self.sums, other.sums), (self.first, other.first)):
            if ours is not None and theirs is not None:
                return _cosine(ours, theirs) >= _PROBE_MIN_COSINE
        return True


def _signed_sums(vector: Vector) -> tuple[float, ...]:
    """Project a vector by signs from the bits of a hash, which are the same on every machine and version."""
    import numpy as np  # here, so that importing the package loads no numpy

    numbers = np.asarray(vector, dtype=np.float64)
    bits = hashlib.shake_256(b"memory-retrievers probe").digest(len(numbers) * _SUMS // 8)
    signs = np.unpackbits(np.frombuffer(bits, dtype=np.uint8)).reshape(len(numbers), _SUMS) * 2.0 - 1.0
    return tuple(round(float(each), 5) for each in numbers @ signs / (np.linalg.norm(numbers) or 1.0))


def _cosine(left: Sequence[float], right: Sequence[float]) -> float:
    """Cosine of two vectors; two zero vectors, as old stores have of sparse embedders, count as equal."""
    if len(left) != len(right):
        return 0.0
    if not any(left) and not any(right):
        return 1.0
    product = sum(a * b for a, b in zip(left, right, strict=True))
    return product / (math.hypot(*left) * math.hypot(*right) or 1.0)
