"""The values that the operations of the memory tools take and give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TypeAlias

from pydantic import JsonValue

from memory_retrievers.managed import (
    Association,
    AssociationType,
    AuditEntry,
    AuditType,
    MemoryFilter,
    ToolKinds,
)
from memory_retrievers.models import AnyMemory, Category, Tier

__all__ = [
    "AccessType",
    "Association",
    "AssociationType",
    "AuditEntry",
    "AuditType",
    "Change",
    "FoundMemory",
    "MemoryFilter",
    "SearchMode",
    "SortBy",
    "ToolKinds",
]

AccessType: TypeAlias = Literal["get", "search"]
"""How a memory was handed out: by its id, or among the results of a search."""


class SearchMode(StrEnum):
    """What a search compares."""

    SEMANTIC = "semantic"
    KEYWORD = "keyword"
    HYBRID = "hybrid"


class SortBy(StrEnum):
    """What results are ordered by."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a memory is to become; None leaves a field as it is.

    Attributes:
        memory: The memory, as it was found.
        content: Its new text; only a fact's can be changed.
        tags: They take the place of those it has.
        metadata: Keys that are added to what it has, or written over.
        tier: Its new tier; what becomes long_term no longer expires.
        category: A fact's new category.
    """

    memory: AnyMemory
    content: str | None = None
    tags: tuple[str, ...] | None = None
    metadata: Mapping[str, JsonValue] | None = None
    tier: Tier | None = None
    category: Category | None = None
