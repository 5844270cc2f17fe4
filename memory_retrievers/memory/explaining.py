"""What tells why: explain what is returned, and what is not."""

from __future__ import annotations

from datetime import datetime

from memory_retrievers.memory.handle import Handle
from memory_retrievers.models import Category
from memory_retrievers.retrieval.explained import ExplainedAbsence, ExplainedRetrieval
from memory_retrievers.retrieval.request import RetrievalRequest


class Explaining(Handle):
    """The part of ``AgentMemory`` that explains retrievals."""

    def explain(
        self,
        query: str,
        *,
        scope: str,
        episodic_limit: int = 5,
        semantic_limit: int = 20,
        category: Category | str | None = None,
        include_child_scopes: bool = False,
        limit: int | None = None,
        as_of: datetime | None = None,
    ) -> ExplainedRetrieval:
        """Why :meth:`retrieve` returns what it returns: the place and score of each memory by every stage.

        The arguments are those of :meth:`retrieve`. Nothing is filed for review.

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
        return self._retriever.explainer().explain(request)

    def explain_missing(
        self,
        id: str,
        *,
        query: str,
        scope: str,
        episodic_limit: int = 5,
        semantic_limit: int = 20,
        category: Category | str | None = None,
        include_child_scopes: bool = False,
        limit: int | None = None,
        as_of: datetime | None = None,
    ) -> ExplainedAbsence:
        """Why :meth:`retrieve` does not return a memory: the stage that drops it; or that it does return it.

        The arguments after ``id`` are those of :meth:`retrieve`. Nothing is filed for review.

        Args:
            id: Which memory.
            query: What is looked for.
            scope: The scope that is searched; the memory's own, unless ``include_child_scopes`` is given.
            episodic_limit: At most this many episodes; 0 to 100.
            semantic_limit: At most this many facts; 0 to 1,000.
            category: Only facts of this category; episodes are not affected.
            include_child_scopes: Also search every scope below ``scope``. If several of them hold a memory of this
                id, that of ``scope`` is meant, or else the first by the name of its scope.
            limit: At most this many of both kinds together.
            as_of: Answer with what held at that moment.

        Raises:
            NotFoundError: There is no such memory in this scope; what other scopes hold makes no difference.
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
        return self._retriever.explainer().explain_missing(id, request)
