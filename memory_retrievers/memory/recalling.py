"""What reads memories: retrieve, context, recent, get, list, and what the store holds."""

from __future__ import annotations

import asyncio
import builtins
from datetime import datetime

from memory_retrievers import scopes
from memory_retrievers.memory.handle import Handle
from memory_retrievers.models import AnyMemory, Category, Kind, ScopeStatistics
from memory_retrievers.paging import Page
from memory_retrievers.retrieval.request import RetrievalRequest
from memory_retrievers.retrieval.result import RecentResult, RetrievalResult
from memory_retrievers.retrieved import PendingReview


class Recalling(Handle):
    """The part of ``AgentMemory`` that reads memories."""

    def retrieve(
        self,
        query: str,
        *,
        scope: str,
        episodic_limit: int = 5,
        semantic_limit: int = 20,
        category: Category | str | None = None,
        include_child_scopes: bool = False,
        limit: int | None = None,
        record: bool = True,
        as_of: datetime | None = None,
    ) -> RetrievalResult:
        """The memories that answer a question, facts and episodes, best first.

        Args:
            query: What to look for, in plain words.
            scope: Whose memories; exactly this scope.
            episodic_limit: At most this many episodes; 0 to 100.
            semantic_limit: At most this many facts; 0 to 1,000.
            category: Only facts of this category; episodes are not affected.
            include_child_scopes: Also search every scope below ``scope``.
            limit: At most this many of both kinds together.
            as_of: Answer with what held at that moment: facts that were valid then, also those that have been
                replaced since, and episodes that had begun.
            record: File the returned episodes for review, so that useful ones fade slower.

        Raises:
            ValidationError: An argument breaks a rule.
            EmbeddingError: The embedder failed.
        """
        request = RetrievalRequest.parse(
            query,
            scope=scope,
            episodic_limit=episodic_limit,
            semantic_limit=semantic_limit,
            category=category,
            include_child_scopes=include_child_scopes,
            limit=limit,
            as_of=as_of,
        )
        return self._retriever.retrieve(request, record=record and not self._engine.read_only)

    async def aretrieve(
        self,
        query: str,
        *,
        scope: str,
        episodic_limit: int = 5,
        semantic_limit: int = 20,
        category: Category | str | None = None,
        include_child_scopes: bool = False,
        limit: int | None = None,
        record: bool = True,
        as_of: datetime | None = None,
    ) -> RetrievalResult:
        """:meth:`retrieve` in a thread, so that an event loop is not held up."""
        return await asyncio.to_thread(
            self.retrieve,
            query,
            scope=scope,
            episodic_limit=episodic_limit,
            semantic_limit=semantic_limit,
            category=category,
            include_child_scopes=include_child_scopes,
            limit=limit,
            record=record,
            as_of=as_of,
        )

    def context(
        self,
        query: str,
        *,
        scope: str,
        semantic_limit: int = 20,
        category: Category | str | None = None,
        include_child_scopes: bool = False,
    ) -> RetrievalResult:
        """The facts that answer a question, for the system prompt before a model is called; no side effects.

        Raises:
            ValidationError: An argument breaks a rule.
            EmbeddingError: The embedder failed.
        """
        return self.retrieve(
            query,
            scope=scope,
            episodic_limit=0,
            semantic_limit=semantic_limit,
            category=category,
            include_child_scopes=include_child_scopes,
            record=False,
        )

    def recent(self, scope: str, *, limit: int = 10, days_limit: float | None = None) -> RecentResult:
        """The scope's newest episodes by ``created_at``.

        Args:
            scope: Whose episodes.
            limit: At most this many; brought into 1 to 100.
            days_limit: Only those made in the last so many days.

        Raises:
            ValidationError: An argument breaks a rule.
        """
        return self._retriever.recent(scope, limit=limit, days_limit=days_limit)

    def get(self, id: str, *, scope: str) -> AnyMemory:
        """The memory of this id in this scope, invalidated facts included.

        Raises:
            NotFoundError: There is none; what other scopes hold makes no difference.
            ValidationError: The scope is malformed.
        """
        return self._store.get(id, scope=scope)

    def list(self, scope: str, *, kind: Kind | str | None = None, cursor: str | None = None, limit: int = 50) -> Page:
        """The memories of a scope, newest first, page by page; invalidated facts are among them.

        Args:
            scope: Whose memories.
            kind: Only episodes, or only facts.
            cursor: The ``cursor`` of the page before. What is stored meanwhile neither repeats nor hides a memory.
            limit: At most this many, 1 to 1000.

        Raises:
            ValidationError: An argument breaks a rule.
        """
        return self._retriever.page(scope, kind=kind, cursor=cursor, limit=limit)

    def pending_reviews(self, scope: str) -> builtins.list[PendingReview]:
        """The retrievals in this scope whose use has not been judged yet, oldest first."""
        self._pending.flush()
        return self._store.ledger.pending_reviews(scopes.parse(scope))

    def now(self) -> datetime:
        """The current moment in UTC, by the clock of this memory."""
        return self._store.now()

    def scopes(self) -> builtins.list[str]:
        """All scopes that hold a memory, sorted."""
        return self._store.ledger.scopes()

    def stats(self, scope: str | None = None) -> ScopeStatistics:
        """How much a scope holds, or the whole store.

        Raises:
            ValidationError: The scope is malformed.
        """
        self._pending.flush()
        return self._store.ledger.statistics(None if scope is None else scopes.parse(scope))
