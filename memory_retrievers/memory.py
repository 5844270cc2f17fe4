"""The front door: ``AgentMemory`` opens a store, wires the parts and passes calls on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, Self

import pydantic

from memory_retrievers import scopes
from memory_retrievers.errors import ConfigurationError, ValidationError
from memory_retrievers.models import (
    AnyMemory,
    Category,
    Draft,
    EpisodicMemory,
    JsonObject,
    Message,
    PendingReview,
    ScopeStatistics,
    SemanticMemory,
)
from memory_retrievers.retrieval.pending import PendingReviewBuffer
from memory_retrievers.retrieval.request import RetrievalRequest
from memory_retrievers.retrieval.result import RecentResult, RetrievalResult
from memory_retrievers.retrieval.retriever import HybridRetriever
from memory_retrievers.settings import RetrievalSettings
from memory_retrievers.store import MemoryStore

if TYPE_CHECKING:
    from memory_retrievers.backends.sqlite import SQLiteLedger
    from memory_retrievers.embeddings.adapt import AnyEmbedder
    from memory_retrievers.protocols import Clock, KeywordIndex

KeywordEngine = Literal["sqlite_bm25", "rank_bm25"]

STORE_FILE: Final = "memory.db"
"""The file in a store's directory that holds everything."""


class AgentMemory:
    """A long-term memory: what an agent was told, and what it made of it, found again by meaning and by words.

    Open one with :meth:`open` or :meth:`in_memory`; close it with :meth:`close`, or use it in a ``with`` statement.
    All methods may be called from several threads at once.
    """

    def __init__(self, store: MemoryStore, *, retrieval: RetrievalSettings) -> None:
        self._store = store
        self._closed = False
        self._pending = PendingReviewBuffer(store.ledger)
        self._retriever = HybridRetriever(store, settings=retrieval, pending=self._pending)

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        embedder: AnyEmbedder | None = None,
        embedder_id: str | None = None,
        retrieval: RetrievalSettings | None = None,
        clock: Clock | None = None,
        keyword: KeywordEngine = "sqlite_bm25",
    ) -> Self:
        """Open the store in the directory ``path``, or make it.

        Args:
            path: The directory.
            embedder: What turns text into vectors: a LangChain, LlamaIndex or Chroma embedder, or a function from a
                list of texts to a list of vectors. None is the bundled all-MiniLM-L6-v2, which needs no network.
            embedder_id: The name the store remembers the embedder by; None derives it from the embedder.
            retrieval: How to rank and show; None is the default, ``RetrievalSettings.seed()`` the specification.
            clock: What tells the time; None is the system's clock.
            keyword: The BM25 engine.

        Raises:
            ConfigurationError: The path is not a directory, or a newer version of the package wrote the store.
            EmbeddingMismatchError: The store was filled with another embedder.
            BackendError: The store cannot be read or written.
        """
        directory = Path(path)
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"{directory} cannot be used as a store directory: {error.strerror}") from error
        return cls._assemble(directory / STORE_FILE, embedder, embedder_id, retrieval, clock, keyword)

    @classmethod
    def in_memory(
        cls,
        *,
        embedder: AnyEmbedder | None = None,
        embedder_id: str | None = None,
        retrieval: RetrievalSettings | None = None,
        clock: Clock | None = None,
        keyword: KeywordEngine = "rank_bm25",
    ) -> Self:
        """A memory that leaves nothing on disk and ends with the process; the arguments are those of :meth:`open`.

        Raises:
            ConfigurationError: The arguments do not fit together.
        """
        return cls._assemble(None, embedder, embedder_id, retrieval, clock, keyword)

    @classmethod
    def _assemble(  # noqa: PLR0917 - the arguments of open and in_memory, passed on once
        cls,
        file: Path | None,
        embedder: AnyEmbedder | None,
        embedder_id: str | None,
        retrieval: RetrievalSettings | None,
        clock: Clock | None,
        keyword: KeywordEngine,
    ) -> Self:
        # imported here, so that importing the package loads no numpy
        from memory_retrievers.backends.exact import ExactVectorIndex
        from memory_retrievers.backends.sqlite import SQLiteLedger
        from memory_retrievers.embeddings.adapt import adapt
        from memory_retrievers.embeddings.minilm import MiniLMEmbedder

        settings = retrieval or RetrievalSettings()
        adapted = adapt(embedder if embedder is not None else MiniLMEmbedder(), embedder_id=embedder_id)
        ledger = SQLiteLedger(file)
        try:
            store = MemoryStore(
                ledger,
                keyword=_keyword_index(keyword, ledger, settings),
                dense=ExactVectorIndex(ledger),
                embedder=adapted,
                clock=clock or _SystemClock(),
            )
        except BaseException:
            ledger.close()
            raise
        return cls(store, retrieval=settings)

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
        (memory,) = self._store.put([draft])
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
        (memory,) = self._store.put([draft])
        assert isinstance(memory, SemanticMemory)  # noqa: S101 - a fact's draft becomes a fact
        return memory

    def remember_many(self, drafts: Sequence[Draft]) -> list[AnyMemory]:
        """Store many memories in one embedding batch and one transaction: all of them or none.

        Args:
            drafts: From ``EpisodicMemory.new(...)`` and ``SemanticMemory.new(...)``.

        Returns:
            The stored memories, complete, in the order given.

        Raises:
            ValidationError: A scope is malformed or an id is taken; nothing was stored.
            EmbeddingError: The embedder failed; nothing was stored.
        """
        return self._store.put(drafts)

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
        )
        return self._retriever.retrieve(request, record=record)

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

    def invalidate(self, fact_id: str, *, scope: str) -> SemanticMemory:
        """Mark a fact as no longer true: it is kept, and no longer found.

        Raises:
            NotFoundError: There is no such memory in this scope.
            ValidationError: It is an episode, or the scope is malformed.
        """
        return self._store.invalidate(fact_id, scope=scope)

    def pending_reviews(self, scope: str) -> list[PendingReview]:
        """The retrievals in this scope whose use has not been judged yet, oldest first."""
        self._pending.flush()
        return self._store.ledger.pending_reviews(scopes.parse(scope))

    def scopes(self) -> list[str]:
        """All scopes that hold a memory, sorted."""
        return self._store.ledger.scopes()

    def stats(self, scope: str | None = None) -> ScopeStatistics:
        """How much a scope holds, or the whole store.

        Raises:
            ValidationError: The scope is malformed.
        """
        self._pending.flush()
        return self._store.ledger.statistics(None if scope is None else scopes.parse(scope))

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
        )

    def close(self) -> None:
        """Write what is waiting and release everything; a second call does nothing."""
        if not self._closed:
            self._closed = True
            self._pending.flush()
            self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class _SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


def _keyword_index(name: KeywordEngine, ledger: SQLiteLedger, settings: RetrievalSettings) -> KeywordIndex:
    if name == "sqlite_bm25":
        from memory_retrievers.backends.sqlite_bm25 import SQLiteKeywordIndex

        return SQLiteKeywordIndex(ledger, k1=settings.bm25_k1, b=settings.bm25_b)
    if name == "rank_bm25":
        from memory_retrievers.backends.rank_bm25 import RankBM25KeywordIndex

        return RankBM25KeywordIndex(ledger, k1=settings.bm25_k1, b=settings.bm25_b)
    raise ConfigurationError(f"unknown keyword engine {name!r}; one of: sqlite_bm25, rank_bm25")


@contextmanager
def _our_errors() -> Iterator[None]:
    """Turn pydantic's complaint about a record into ours."""
    try:
        yield
    except pydantic.ValidationError as error:
        raise ValidationError.from_pydantic(error) from error
