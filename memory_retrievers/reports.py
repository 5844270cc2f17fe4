"""What the write path says it has done."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

from memory_retrievers.models import EpisodicMemory, MemoryKey, Rating, SemanticMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """What became of messages that were handed in.

    Attributes:
        accepted: How many were queued; what ``before_store`` held back is not among them.
        queued: How many messages the scope's queue holds now.
        due: Whether ``process_due`` would do something for this scope.
    """

    accepted: int
    queued: int
    due: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was made of queued messages, episodes and retrievals, oldest first.

    Attributes:
        episodes: The episodes that were made.
        facts: The facts that are new, those that replace another included.
        reinforced: The facts that were learned again.
        invalidated: The facts that no longer hold, replaced or not, as they were before.
        reviews: The episodes whose forgetting state was reviewed, with the rating of each.
        waiting: How many messages are still queued in the scopes that were looked at.
    """

    episodes: tuple[EpisodicMemory, ...] = ()
    facts: tuple[SemanticMemory, ...] = ()
    reinforced: tuple[SemanticMemory, ...] = ()
    invalidated: tuple[SemanticMemory, ...] = ()
    reviews: tuple[tuple[MemoryKey, Rating], ...] = ()
    waiting: int = 0

    def joined(self, other: Self) -> Self:
        """Both reports in one."""
        return type(self)(**{each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(self)})
