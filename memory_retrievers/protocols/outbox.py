"""The socket for what a vector index outside the ledger has still to be told."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from memory_retrievers.passages import ProjectedPassage


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectionState:
    """How far a projection has come.

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
    """What is to be done next, in any order, as often as it takes: doing it twice changes nothing.

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


class Outbox(Protocol):
    """Knows which passages a projection of the ledger lacks, and which have changed or gone since it was told.

    Passages of invalidated facts are in no projection; those of expired memories are, with the moment they expire.
    """

    def turn(self) -> AbstractContextManager[None]:
        """While this lasts nobody else feeds a projection, in whatever process; for one batch, or a new beginning."""
        ...

    def begin(self, generation: str | None) -> None:
        """From now on feed a projection of this name, from nothing; None feeds none."""
        ...

    def state(self) -> ProjectionState:
        """How far the projection has come, as of one moment."""
        ...

    def batch(self, *, limit: int) -> OutboxBatch | None:
        """Up to so many passages that wait; None if nothing does. Until it is acknowledged, it is given again."""
        ...

    def acknowledge(self, batch: OutboxBatch) -> None:
        """The batch has been carried out; one for another projection than the one that is fed now is let go."""
        ...

    def waiting(self, *, at_most: int) -> list[int]:
        """The ids of passages about which a projection may be wrong; of more than ``at_most``, only some more."""
        ...

    def projected(self, *, after: int, limit: int) -> list[ProjectedPassage]:
        """What a projection should hold by now, by ascending id, without what is waiting."""
        ...

    def missing(self, passages: Sequence[int]) -> list[int]:
        """Those of the given passages that a projection should not hold by now, and that are not waiting to go."""
        ...
