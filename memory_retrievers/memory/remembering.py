"""What changes memories: remember, update, invalidate, forget."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from memory_retrievers.memory.handle import Handle
from memory_retrievers.models import AnyMemory, Category, Draft, JsonObject, SemanticMemory
from memory_retrievers.remembering import RemembersByField
from memory_retrievers.updates import NOT_GIVEN, NotGiven

if TYPE_CHECKING:
    from memory_retrievers.management.manager import MemoryManager


class Remembering(RemembersByField, Handle):
    """The part of ``AgentMemory`` that changes memories."""

    def remember_many(self, drafts: Sequence[Draft], *, replace: bool = False) -> list[AnyMemory]:
        """Store many memories in one embedding batch and one transaction: all of them or none.

        Args:
            drafts: From ``EpisodicMemory.new(...)`` and ``SemanticMemory.new(...)``.
            replace: Forget the memories whose scope and id the drafts have; otherwise an id must not be taken.

        Returns:
            The stored memories, complete, in the order given.

        Raises:
            ValidationError: A scope is malformed or an id is taken; nothing was stored.
            EmbeddingError: The embedder failed; nothing was stored.
        """
        with self._written() as store:
            return store.put(drafts, replace=replace)

    @property
    def manager(self) -> MemoryManager:
        """What the memory tools use: finding, changing, moving and associating memories as they do."""
        return self._engine.manager

    def invalidate(self, fact_id: str, *, scope: str) -> SemanticMemory:
        """Mark a fact as no longer true: it is kept, and no longer found.

        Raises:
            NotFoundError: There is no such memory in this scope.
            ValidationError: It is an episode, or the scope is malformed.
        """
        return self._store.invalidate(fact_id, scope=scope)

    def update(
        self,
        id: str,
        *,
        scope: str,
        summary: str | NotGiven = NOT_GIVEN,
        fact: str | NotGiven = NOT_GIVEN,
        title: str | NotGiven = NOT_GIVEN,
        category: Category | str | NotGiven = NOT_GIVEN,
        keywords: Sequence[str] | NotGiven = NOT_GIVEN,
        tags: Sequence[str] | NotGiven = NOT_GIVEN,
        metadata: JsonObject | NotGiven = NOT_GIVEN,
        importance: float | NotGiven = NOT_GIVEN,
        expires_at: datetime | NotGiven | None = NOT_GIVEN,
    ) -> AnyMemory:
        """Change the fields that are given, each as a whole, and give the memory as it is now.

        A new text is found from then on, the old one no longer. ``expires_at=None`` keeps the memory for good.
        ``updated_at`` moves unless nothing is different.

        Raises:
            NotFoundError: There is no such memory in this scope.
            ValidationError: A field breaks a rule, or belongs to the other kind of memory; nothing was changed.
            EmbeddingError: The embedder failed; nothing was changed.
        """
        fields = {
            "summary": summary,
            "fact": fact,
            "title": title,
            "category": category,
            "keywords": keywords,
            "tags": tags,
            "metadata": metadata,
            "importance": importance,
            "expires_at": expires_at,
        }
        with self._written() as store:
            return store.update(id, scope=scope, fields=fields)

    def forget(self, id: str, *, scope: str) -> None:
        """Remove a memory for good, with every trace of it; :meth:`invalidate` is the soft form.

        Its text, vector and index entries go, and its id leaves the memories, characters and reviews that name it.
        What was made of it stays: facts, and what characters feel. :meth:`purge` clears the bytes that are left in the
        files.

        Raises:
            NotFoundError: There is no such memory in this scope.
            ValidationError: The scope is malformed.
        """
        with self._written() as store:
            store.forget(id, scope=scope)

    def forget_scope(self, scope: str, *, include_child_scopes: bool = True) -> int:
        """Remove everything that a scope and the scopes below it hold, and give the number of memories.

        Raises:
            ValidationError: The scope is malformed.
        """
        with self._written() as store:
            return store.forget_scope(scope, include_child_scopes=include_child_scopes)
