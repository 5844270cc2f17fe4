"""Values of the memory tools: filters, associations, the audit log, searches and their hits, and changes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Literal, TypeAlias

from pydantic import JsonValue

from memory_retrievers.errors import ValidationError
from memory_retrievers.models import scopes
from memory_retrievers.models.fields import Category, storable
from memory_retrievers.models.memories import AnyMemory, EpisodicMemory, Kind, MemoryKey, Origin, Tier
from memory_retrievers.models.selection import Conditions, Selection

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
class MemoryFilter(Conditions):
    """Conditions that all memories of an operation must meet; expired memories never do."""

    kinds: ToolKinds = "tool"  # only what the tools have stored, or every memory
    include_invalidated: bool = False  # also facts that no longer hold; a search never finds them

    def fits(self, memory: AnyMemory) -> bool:
        """True if a memory of these scopes and kinds meets the other conditions."""
        made = memory.created_at
        return (
            (self.tier is None or memory.tier is self.tier)
            and self.filters.obstacle(memory) is None
            and (self.content_type is None or memory.content_type is self.content_type)
            and (self.created_after is None or made >= self.created_after)
            and (self.created_before is None or made <= self.created_before)
            and (self.ids is None or memory.id in self.ids)
        )

    def selection(self, kind: Kind, *, now: datetime) -> Selection:
        """Convert the filter to a selection for a search among memories of one kind."""
        shared: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(Conditions)}
        return Selection(kind=kind, now=now, origins=(Origin.TOOL,) if self.kinds == "tool" else (), **shared)


@dataclass(frozen=True, slots=True, kw_only=True)
class Association:
    """An association of two memories; a pair has at most one, in either order."""

    source: MemoryKey  # the one memory
    target: MemoryKey  # the other
    type: AssociationType  # what associates them
    strength: float  # how strongly, 0 to 1
    auto_generated: bool  # whether it was found by itself
    created_at: datetime  # when


class AuditType(StrEnum):
    """Type of an audit entry."""

    GET = "get"
    SEARCH = "search"
    SCORE = "score"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """Audit entry about a memory's importance."""

    memory: MemoryKey  # the memory
    type: AuditType  # an access, by its way, or that the score was set by hand
    at: datetime  # when
    old: float  # the importance before
    new: float  # the importance after
    reason: str | None = None  # why it was set; None for an access


class MemoryEventType(StrEnum):
    """What happened to a memory."""

    CREATED = "created"
    MERGED = "merged"
    IMPORTED = "imported"
    UPDATED = "updated"
    CORRECTED = "corrected"
    RESTORED = "restored"
    CONFIRMED = "confirmed"
    SUPERSEDED = "superseded"
    INVALIDATED = "invalidated"
    REVIEWED = "reviewed"
    PINNED = "pinned"
    UNPINNED = "unpinned"
    MOVED = "moved"
    FORGOTTEN = "forgotten"
    EXPIRED = "expired"


class Channel(StrEnum):
    """Channel through which a change came."""

    API = "api"
    TOOL = "tool"
    HTTP = "http"
    MCP = "mcp"
    WORKER = "worker"
    IMPORT = "import"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEvent:
    """Entry of the log of what happened to memories. It quotes nothing of what they say.

    Attributes:
        scope: Scope of the memory.
        id: Its id; None of one that is forgotten, of which no more is kept.
        type: What happened: ``created``; ``merged`` (made of others); ``imported`` (with a store, from an export that
            had no log); ``updated`` (a new text is a new version); ``corrected`` (in place); ``restored`` (a change was
            undone); ``confirmed`` (stated again); ``superseded`` (another fact holds instead); ``invalidated``;
            ``reviewed``; ``pinned`` and ``unpinned`` (its importance, by hand); ``moved`` (here from another scope);
            ``forgotten``; ``expired``.
        at: When.
        channel: Through which the change came: ``api``, ``tool``, ``http``, ``mcp``, ``worker`` (what makes memories of
            messages) or ``import``.
        actor: Who: the name of a tool or a language model, ``chroma``, or the name in ``acting_as``; else None.
        fields: Names of the fields that have changed.
    """

    scope: str
    id: str | None
    type: MemoryEventType
    at: datetime
    channel: Channel
    actor: str | None = None
    fields: tuple[str, ...] = ()


MOST_ACTOR: Final = 200  # characters of a name that are kept

acting = ContextVar[tuple[Channel, str | None]]("memory_retrievers_acting", default=(Channel.API, None))
"""The channel through which this context changes memories, and who does."""


@contextmanager
def acting_as(channel: Channel, actor: str | None = None) -> Iterator[None]:
    """Note all changes within as made by somebody; of two names the inner one counts, of two channels the outer one.

    What makes memories of messages is always the worker.
    """
    outer_channel, outer_actor = acting.get()
    name = outer_actor if actor is None else storable(actor)[:MOST_ACTOR]
    is_inner = outer_channel is Channel.API or channel is Channel.WORKER
    token = acting.set((channel if is_inner else outer_channel, name))
    try:
        yield
    finally:
        acting.reset(token)


_BY_ITSELF: Final = frozenset({"updated_at", "valid_at", "last_confirmed_at", "importance_pinned"})
"""Fields that no caller changes, or that an event of their own tells of."""


def changes_of(before: AnyMemory, after: AnyMemory) -> tuple[str, ...]:
    """Return the names of the fields in which two states of a memory differ."""
    names = type(before).model_fields
    return tuple(name for name in names if name not in _BY_ITSELF and getattr(before, name) != getattr(after, name))


class SearchMode(StrEnum):
    """Basis of comparison of a search."""

    SEMANTIC = "semantic"
    KEYWORD = "keyword"
    HYBRID = "hybrid"


class SortBy(StrEnum):
    """Order of results."""

    RELEVANCE = "relevance"
    IMPORTANCE = "importance"
    CREATED_AT = "created_at"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMemory:
    """One hit of a search."""

    memory: AnyMemory  # the memory
    similarity: float  # max(0, cosine) with the query, whichever list found it; 0 in a search by words alone
    keyword_score: float | None  # its BM25 score, 0 or more; None in a semantic search
    combined_score: float | None  # what both lists gave it, 0 to 1; None but in a hybrid search
    score: float  # what it was ordered by: relevance, blended with importance


MAX_TOP_K: Final = 1_000


def check_top_k(top_k: int) -> None:
    """Raise ValidationError if a search cannot be asked for so many hits."""
    if isinstance(top_k, bool) or not isinstance(top_k, int) or not 1 <= top_k <= MAX_TOP_K:
        raise ValidationError(f"top_k must be between 1 and {MAX_TOP_K}, not {top_k!r}")


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A search for the memories that answer a query best.

    Raises:
        ValidationError: The query is empty, the scope is malformed, or a number lies outside its range.
    """

    query: str  # in plain words
    filter: MemoryFilter  # among which memories
    _: KW_ONLY
    top_k: int  # at most this many
    mode: SearchMode = SearchMode.SEMANTIC  # what to compare
    min_similarity: float = 0.0  # only what is at least so similar; a search by words alone knows no similarity
    keyword_weight: float = 0.3  # how much words count in a hybrid search, 0 to 1
    sort_by: SortBy = SortBy.RELEVANCE  # what comes first
    importance_weight: float = 0.0  # how much importance counts beside relevance, 0 to 1

    def __post_init__(self) -> None:
        scopes.parse(self.filter.scope)
        if not self.query.strip():
            raise ValidationError("Query cannot be empty: say what to look for")
        check_top_k(self.top_k)
        for name in ("min_similarity", "keyword_weight", "importance_weight"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValidationError(f"{name} must be between 0.0 and 1.0, not {getattr(self, name)!r}")


def require_category(category: Category, own: Collection[str]) -> None:
    """Refuse a category that a memory does not have.

    Raises:
        ValidationError: It is neither one of the nine nor among ``own``; the message names those that there are.
    """
    known = [*Category, *own]
    if category not in known:
        raise ValidationError(f"unknown category {category.value!r}; one of: {', '.join(known)}")


@dataclass(frozen=True, slots=True)
class Change:
    """New values for the fields of a memory; None leaves a field as it is.

    Raises:
        ValidationError: It is an episode, and has no content to be changed.
    """

    memory: AnyMemory  # the memory, as it was found
    _: KW_ONLY
    content: str | None = None  # its new text; only a fact's can be changed
    tags: tuple[str, ...] | None = None  # they take the place of those it has
    metadata: Mapping[str, JsonValue] | None = None  # keys that are added to what it has, or written over
    tier: Tier | None = None  # its new tier; what becomes long_term no longer expires
    category: Category | None = None  # a fact's new category
    correct: bool = False  # the new text mends a slip: what the fact said before is not kept

    def __post_init__(self) -> None:
        if isinstance(self.memory, EpisodicMemory) and self.content is not None:
            raise ValidationError(f"{self.memory.id} is an episode; only the content of facts can be updated")

    def revised(self, memory: AnyMemory) -> Mapping[str, object]:
        """The fields that the memory, whatever it is by then, is to have."""
        asked: dict[str, object] = {
            "fact": self.content,
            "tags": self.tags,
            "metadata": None if self.metadata is None else {**memory.metadata, **self.metadata},
            "tier": self.tier,
            "category": self.category,
        }
        return {name: value for name, value in asked.items() if value is not None}
