"""Records of the memory tools: filters, associations and audit entries."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal, TypeAlias

from memory_retrievers.models.categories import Category
from memory_retrievers.models.filters import EVERYTHING, Filters
from memory_retrievers.models.memories import ContentType, Kind, MemoryKey, Origin, Tier
from memory_retrievers.models.selection import Selection

ToolKinds: TypeAlias = Literal["tool", "all"]
"""``tool``: only what the tools have stored; ``all``: every memory, of both kinds and every origin."""


class AssociationType(StrEnum):
    """Reason why two memories are associated."""

    SEMANTIC = "semantic"
    TEMPORAL = "temporal"
    CAUSAL = "causal"
    SIMILAR = "similar"
    CONTEXTUAL = "contextual"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFilter:
    """Conditions that all memories of an operation must meet; expired memories never do.

    Attributes:
        scope: The scope, exactly as given.
        include_child_scopes: Also every scope below it.
        kinds: Only what the tools have stored, or every memory.
        tier: Only memories of this tier.
        tags: Only memories that have all of these.
        narrowed: Metadata and times that memories must have, and further tags.
        content_type: Only memories whose text is this.
        category: Only facts of this category.
        created_after: Only memories made then or later.
        created_before: Only memories made then or earlier.
        older_than: Only memories made earlier than that.
        ids: Only memories of these ids.
        include_invalidated: Also facts that no longer hold; a search never finds them.
    """

    scope: str
    include_child_scopes: bool = False
    kinds: ToolKinds = "tool"
    tier: Tier | None = None
    tags: tuple[str, ...] = ()
    narrowed: Filters = EVERYTHING
    content_type: ContentType | None = None
    category: Category | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    older_than: datetime | None = None
    ids: tuple[str, ...] | None = None
    include_invalidated: bool = False

    def selection(self, kind: Kind, *, now: datetime) -> Selection:
        """Convert the filter to a selection for a search among memories of one kind."""
        before = [] if self.created_before is None else [self.created_before]
        if self.older_than is not None:
            before.append(self.older_than - timedelta.resolution)
        return Selection(
            scope=self.scope,
            kind=kind,
            now=now,
            include_child_scopes=self.include_child_scopes,
            category=self.category,
            tier=self.tier,
            tags=(*self.tags, *self.narrowed.tags),
            metadata=self.narrowed.metadata,
            since=self.narrowed.since,
            until=self.narrowed.until,
            where=self.narrowed.where,
            content_type=self.content_type,
            origins=(Origin.TOOL,) if self.kinds == "tool" else (),
            created_after=self.created_after,
            created_before=min(before, default=None),
            ids=self.ids,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Association:
    """An association of two memories; a pair has at most one, in either order.

    Attributes:
        source: The one memory.
        target: The other.
        type: What associates them.
        strength: How strongly, 0 to 1.
        auto_generated: Whether it was found by itself.
        created_at: When.
    """

    source: MemoryKey
    target: MemoryKey
    type: AssociationType
    strength: float
    auto_generated: bool
    created_at: datetime


class AuditType(StrEnum):
    """Type of an audit entry."""

    GET = "get"
    SEARCH = "search"
    SCORE = "score"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """Audit entry about a memory's importance.

    Attributes:
        memory: The memory.
        type: An access, by its way, or that the score was set by hand.
        at: When.
        old: The importance before.
        new: The importance after.
        reason: Why it was set; None for an access.
    """

    memory: MemoryKey
    type: AuditType
    at: datetime
    old: float
    new: float
    reason: str | None = None
