"""What the memory tools read: by id, by filter, by search."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from memory_retrievers import scopes
from memory_retrievers.errors import NotFoundError, ValidationError
from memory_retrievers.fields import storable
from memory_retrievers.management.model import (
    Association,
    AuditEntry,
    FoundMemory,
    MemoryFilter,
    SearchMode,
    SortBy,
)
from memory_retrievers.management.searching import SearchRequest, search
from memory_retrievers.models import AnyMemory, MemoryKey
from memory_retrievers.settings import ToolSettings
from memory_retrievers.store import MemoryStore

if TYPE_CHECKING:
    from memory_retrievers.passages import Vectors

_TWO: Final = 2


class Reading:
    """The part of ``MemoryManager`` that reads memories.

    Args:
        store: Where they are.
        settings: What the tools keep to.
    """

    def __init__(self, store: MemoryStore, *, settings: ToolSettings) -> None:
        self.settings = settings
        self._store = store
        self._ledger = store.ledger.management

    def now(self) -> datetime:
        """The current moment in UTC."""
        return self._store.now()

    def find(self, id: str, *, root: str, scope: str) -> AnyMemory:
        """The memory of this id, of either kind: in the scope, or else anywhere in the root.

        Raises:
            NotFoundError: There is none there, or it has expired; what lies outside the root makes no difference.
            ValidationError: There are several in the root, and none in the scope.
        """
        id = storable(id)  # noqa: A001
        if not scopes.is_within(scopes.parse(root), scopes.parse(scope)):
            raise NotFoundError(f"Memory not found: {id}")
        for searched, with_children in ((scope, False), (root, True)):
            where = MemoryFilter(
                scope=searched, include_child_scopes=with_children, kinds="all", ids=(id,), include_invalidated=True
            )
            found = self.select(where, limit=_TWO)
            if len(found) == 1:
                return found[0]
            if found:
                raise ValidationError(
                    f"several scopes hold a memory of the id {id}: name the one meant, for example with "
                    "memory_manage(operation='get', memory_id=..., scope=...)"
                )
        raise NotFoundError(f"Memory not found: {id}")

    def select(
        self,
        filter: MemoryFilter,
        *,
        limit: int | None = None,
        offset: int = 0,
        newest_first: bool = True,
    ) -> list[AnyMemory]:
        """The memories that a filter lets through, by ``created_at``, then by id.

        Args:
            filter: Which memories.
            limit: At most this many; None gives all.
            offset: So many are left out before.
            newest_first: Or the oldest.
        """
        scopes.parse(filter.scope)
        return self._ledger.select(filter, now=self.now(), limit=limit, offset=offset, newest_first=newest_first)

    def count(self, filter: MemoryFilter) -> int:
        """How many memories a filter lets through."""
        scopes.parse(filter.scope)
        return self._ledger.count(filter, now=self.now())

    def scopes(self, *, root: str) -> dict[str, int]:
        """Every scope of the root, itself included, that holds memories, with their number, sorted by name."""
        return self._ledger.scopes(scopes.parse(root), now=self.now())

    def search(
        self,
        query: str,
        filter: MemoryFilter,
        *,
        top_k: int,
        mode: SearchMode = SearchMode.SEMANTIC,
        min_similarity: float = 0.0,
        keyword_weight: float = 0.3,
        sort_by: SortBy = SortBy.RELEVANCE,
        importance_weight: float = 0.0,
    ) -> list[FoundMemory]:
        """The memories that answer a query best, see ``SearchRequest``; nothing is counted as an access.

        A search by words alone embeds nothing: its hits have the similarity 0, and ``min_similarity`` leaves it alone.

        Raises:
            ValidationError: The query is empty, or a number lies outside its range.
            EmbeddingError: The embedder failed.
        """
        request = SearchRequest(
            query=query,
            filter=filter,
            top_k=top_k,
            mode=mode,
            min_similarity=min_similarity,
            keyword_weight=keyword_weight,
            sort_by=sort_by,
            importance_weight=importance_weight,
        )
        return search(self._store, request, settings=self.settings)

    def near(
        self, memory: AnyMemory, filter: MemoryFilter, *, top_k: int, min_similarity: float = 0.0
    ) -> list[FoundMemory]:
        """The memories nearest to one that is stored, itself among them, by its stored vector: nothing is embedded."""
        if not memory.is_searchable:  # and so has no vector
            return []
        request = SearchRequest(
            query=memory.embedding_text,
            filter=filter,
            top_k=top_k,
            mode=SearchMode.SEMANTIC,
            min_similarity=min_similarity,
            keyword_weight=0.0,
            sort_by=SortBy.RELEVANCE,
            importance_weight=0.0,
        )
        (vector,) = self.vectors_of([memory])
        return search(self._store, request, settings=self.settings, vector=vector)

    def vectors_of(self, memories: Sequence[AnyMemory]) -> Vectors:
        """The stored unit vectors of memories, in their order; zeros for one that is not searched."""
        import numpy as np  # here, so that importing the package loads no numpy

        keys = [key_of(memory) for memory in memories]
        passages = self._ledger.passages(keys)
        ids, matrix = self._store.ledger.vectors(list(passages.values()))
        rows = dict(zip(ids, matrix, strict=True))
        nothing = np.zeros(matrix.shape[1], np.float32)
        vectors = [rows.get(passages.get(key, 0), nothing) for key in keys]
        return np.array(vectors, np.float32).reshape(len(keys), -1 if keys else 0)

    def audit(self, memory: AnyMemory) -> list[AuditEntry]:
        """What was noted about a memory's use and importance, oldest first."""
        return self._ledger.audit(key_of(memory))

    def associations_of(self, memory: AnyMemory, *, within: str, limit: int | None = None) -> list[Association]:
        """A memory's associations with what is in the scope ``within`` or below it, the strongest first."""
        return self._ledger.associations(key_of(memory), within=scopes.parse(within), now=self.now(), limit=limit)


def key_of(memory: AnyMemory) -> MemoryKey:
    """The identity of a memory."""
    return MemoryKey(scope=memory.scope, id=memory.id)
