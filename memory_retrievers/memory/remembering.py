"""What changes memories: remember, update, invalidate, forget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

import pydantic

from memory_retrievers.errors import ValidationError
from memory_retrievers.memory.handle import Handle
from memory_retrievers.models import AnyMemory, Category, Draft, EpisodicMemory, JsonObject, Message, SemanticMemory
from memory_retrievers.updates import NOT_GIVEN, NotGiven

if TYPE_CHECKING:
    from memory_retrievers.management.manager import MemoryManager


class Remembering(Handle):
    """The part of ``AgentMemory`` that changes memories."""

    def remember_episode(
        self,
        *,
        scope: str,
        summary: str,
        messages: Sequence[Message] = (),
        title: str = "",
        surprise: float = 0.0,
        id: str | None = None,
        tags: Sequence[str] = (),
        metadata: JsonObject | None = None,
        importance: float = 0.5,
        expires_at: datetime | None = None,
        start_at: datetime | None = None,
        end_at: datetime | None = None,
        created_at: datetime | None = None,
        last_reviewed_at: datetime | None = None,
        stability: float | None = None,
        difficulty: float | None = None,
    ) -> EpisodicMemory:
        """Store one episode; what is left out is filled in. See ``EpisodicMemory`` for the fields.

        Raises:
            ValidationError: A field breaks a rule, or the id is taken in this scope; nothing was stored.
            EmbeddingError: The embedder failed; nothing was stored.
        """
        with _our_errors():
            draft = EpisodicMemory.new(
                scope=scope,
                summary=summary,
                messages=tuple(messages),
                title=title,
                surprise=surprise,
                id=id,
                tags=tuple(tags),
                metadata=metadata or {},
                importance=importance,
                expires_at=expires_at,
                start_at=start_at,
                end_at=end_at,
                created_at=created_at,
                last_reviewed_at=last_reviewed_at,
                stability=stability,
                difficulty=difficulty,
            )
        with self._written() as store:
            memory = _only(store.put([draft]))
        assert isinstance(memory, EpisodicMemory)  # noqa: S101 - an episode's draft becomes an episode
        return memory

    def remember_fact(
        self,
        *,
        scope: str,
        fact: str,
        category: Category | str = Category.NOTE,
        keywords: Sequence[str] = (),
        source_episodic_ids: Sequence[str] = (),
        id: str | None = None,
        tags: Sequence[str] = (),
        metadata: JsonObject | None = None,
        importance: float = 0.5,
        expires_at: datetime | None = None,
        created_at: datetime | None = None,
        valid_at: datetime | None = None,
        invalid_at: datetime | None = None,
    ) -> SemanticMemory:
        """Store one fact; what is left out is filled in. See ``SemanticMemory`` for the fields.

        Raises:
            ValidationError: A field breaks a rule, or the id is taken in this scope; nothing was stored.
            EmbeddingError: The embedder failed; nothing was stored.
        """
        with _our_errors():
            draft = SemanticMemory.new(
                scope=scope,
                fact=fact,
                category=category,
                keywords=tuple(keywords),
                source_episodic_ids=tuple(source_episodic_ids),
                id=id,
                tags=tuple(tags),
                metadata=metadata or {},
                importance=importance,
                expires_at=expires_at,
                created_at=created_at,
                valid_at=valid_at,
                invalid_at=invalid_at,
            )
        with self._written() as store:
            memory = _only(store.put([draft]))
        assert isinstance(memory, SemanticMemory)  # noqa: S101 - a fact's draft becomes a fact
        return memory

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

        Its text, vector and index entries go, and its id leaves the memories and reviews that name it. What other
        memories were made of it stays. :meth:`purge` clears the bytes that are left in the files.

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


@contextmanager
def _our_errors() -> Iterator[None]:
    """Turn pydantic's complaint about a record into ours."""
    try:
        yield
    except pydantic.ValidationError as error:
        raise ValidationError.from_pydantic(error) from error


def _only(stored: list[AnyMemory]) -> AnyMemory:
    if not stored:
        raise ValidationError("before_store has held this back; nothing was stored")
    return stored[0]
