"""Value types of the memory manager: what is searched for, a hit, and a change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from typing import Final, Literal, TypeAlias

from pydantic import JsonValue

from memory_retrievers.errors import ValidationError
from memory_retrievers.models import AnyMemory, Category, EpisodicMemory, Tier, scopes
from memory_retrievers.models.management import MemoryFilter


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
    """One hit of a search.

    Attributes:
        memory: The memory.
        similarity: max(0, cosine) with the query, whichever list it was found in; 0 in a search by words alone, which
            embeds nothing.
        keyword_score: Its BM25 score, 0 or more; None in a semantic search.
        combined_score: What both lists gave it, 0 to 1; None but in a hybrid search.
        score: What it was ordered by: relevance, blended with importance.
    """

    memory: AnyMemory
    similarity: float
    keyword_score: float | None
    combined_score: float | None
    score: float


MAX_TOP_K: Final = 1_000


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A search for the memories that answer a query best.

    Attributes:
        query: In plain words.
        filter: Among which memories.
        top_k: At most this many.
        mode: What to compare.
        min_similarity: Only what is at least so similar; a search by words alone knows no similarity.
        keyword_weight: How much words count in a hybrid search, 0 to 1.
        sort_by: What comes first.
        importance_weight: How much importance counts beside relevance, 0 to 1.

    Raises:
        ValidationError: The query is empty, the scope is malformed, or a number lies outside its range.
    """

    query: str
    filter: MemoryFilter
    _: KW_ONLY
    top_k: int
    mode: SearchMode = SearchMode.SEMANTIC
    min_similarity: float = 0.0
    keyword_weight: float = 0.3
    sort_by: SortBy = SortBy.RELEVANCE
    importance_weight: float = 0.0

    def __post_init__(self) -> None:
        scopes.parse(self.filter.scope)
        if not self.query.strip():
            raise ValidationError("Query cannot be empty: say what to look for")
        if isinstance(self.top_k, bool) or not 1 <= self.top_k <= MAX_TOP_K:
            raise ValidationError(f"top_k must be between 1 and {MAX_TOP_K}, not {self.top_k!r}")
        for name in ("min_similarity", "keyword_weight", "importance_weight"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValidationError(f"{name} must be between 0.0 and 1.0, not {getattr(self, name)!r}")


AccessType: TypeAlias = Literal["get", "search"]
"""The way a memory was read: by its id, or among the results of a search."""


@dataclass(frozen=True, slots=True)
class Change:
    """New values for the fields of a memory; None leaves a field as it is.

    Attributes:
        memory: The memory, as it was found.
        content: Its new text; only a fact's can be changed.
        tags: They take the place of those it has.
        metadata: Keys that are added to what it has, or written over.
        tier: Its new tier; what becomes long_term no longer expires.
        category: A fact's new category.
        correct: The new text mends a slip: what the fact said before is not kept.
    """

    memory: AnyMemory
    _: KW_ONLY
    content: str | None = None
    tags: tuple[str, ...] | None = None
    metadata: Mapping[str, JsonValue] | None = None
    tier: Tier | None = None
    category: Category | None = None
    correct: bool = False

    def revised(self, memory: AnyMemory) -> Mapping[str, object]:
        """The fields that the memory, whatever it is by then, is to have.

        Raises:
            ValidationError: It is an episode, and has no content to be changed.
        """
        if isinstance(memory, EpisodicMemory) and self.content is not None:
            raise ValidationError(f"{memory.id} is an episode; its content cannot be updated")
        asked: dict[str, object] = {
            "fact": self.content,
            "tags": self.tags,
            "metadata": None if self.metadata is None else {**memory.metadata, **self.metadata},
            "tier": self.tier,
            "category": self.category,
        }
        return {name: value for name, value in asked.items() if value is not None}
