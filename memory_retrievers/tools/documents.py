"""The one way in which both frameworks' retrievers ask a memory for documents."""

from __future__ import annotations

from memory_retrievers.errors import ValidationError
from memory_retrievers.models import Category, DetailLevel
from memory_retrievers.protocols import Memory
from memory_retrievers.rendering.document import MemoryDocument, documents


def find_documents(
    memory: Memory,
    query: str,
    *,
    scope: str,
    k: int,
    detail: DetailLevel,
    category: Category | str | None,
    include_child_scopes: bool,
) -> list[MemoryDocument]:
    """The k best memories of both kinds together, best first.

    Raises:
        ValidationError: ``k`` is below 1, the query is empty, or the scope or the category is unknown.
    """
    if k < 1:
        raise ValidationError(f"k must be at least 1, not {k}")
    result = memory.retrieve(
        query,
        scope=scope,
        episodic_limit=k,
        semantic_limit=k,
        category=category,
        include_child_scopes=include_child_scopes,
        limit=k,
    )
    return documents(result.semantic, result.episodic, detail=detail)
