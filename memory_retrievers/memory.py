"""The front door: ``AgentMemory`` opens a store, wires the parts and passes calls on."""

from __future__ import annotations

import asyncio
import builtins
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import pydantic

from memory_retrievers import scopes, transfer, upkeep
from memory_retrievers.contents import Progress, VerificationReport
from memory_retrievers.engine import Engine, KeywordEngine, Parts
from memory_retrievers.errors import ConfigurationError, ValidationError
from memory_retrievers.models import (
    AnyMemory,
    Category,
    Draft,
    EpisodicMemory,
    JsonObject,
    Kind,
    Message,
    PendingReview,
    ScopeStatistics,
    SemanticMemory,
)
from memory_retrievers.ownership import share
from memory_retrievers.paging import Page
from memory_retrievers.retrieval.pending import PendingReviewBuffer
from memory_retrievers.retrieval.request import RetrievalRequest
from memory_retrievers.retrieval.result import RecentResult, RetrievalResult
from memory_retrievers.retrieval.retriever import HybridRetriever
from memory_retrievers.settings import RetrievalSettings
from memory_retrievers.store import MemoryStore
from memory_retrievers.updates import NOT_GIVEN, NotGiven
from memory_retrievers.upkeep import Index

if TYPE_CHECKING:
    from memory_retrievers.embeddings.adapt import AnyEmbedder
    from memory_retrievers.protocols import Clock

STORE_FILE: Final = "memory.db"
"""The file in a store's directory that holds everything."""


class AgentMemory:
    """A long-term memory: what an agent was told, and what it made of it, found again by meaning and by words.

    Open one with :meth:`open` or :meth:`in_memory`; close it with :meth:`close`, or use it in a ``with`` statement.
    All methods may be called from several threads at once.
    """

    def __init__(self, engine: Engine, *, let_go: Callable[[], None]) -> None:
        self._shared_engine = engine
        # also when the handle is dropped without being closed, and when the program ends
        self._let_go = weakref.finalize(self, let_go)

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
        read_only: bool = False,
    ) -> Self:
        """Open the store in the directory ``path``, or make it.

        One process at a time writes a store. Opened twice in a process, both handles share it, and it is closed with
        the last of them.

        Args:
            path: The directory.
            embedder: What turns text into vectors: a LangChain, LlamaIndex or Chroma embedder, or a function from a
                list of texts to a list of vectors. None is the bundled all-MiniLM-L6-v2, which needs no network.
            embedder_id: The name the store remembers the embedder by; None derives it from the embedder.
            retrieval: How to rank and show; None is the default, ``RetrievalSettings.seed()`` the specification.
            clock: What tells the time; None is the system's clock.
            keyword: The BM25 engine.
            read_only: Only look, also beside a process that writes; nothing is noted for review.

        Raises:
            ConfigurationError: The path is not a directory, a newer version of the package wrote the store, this
                process has it open with other settings, or there is none to look into.
            StoreLockedError: Another process writes this store.
            EmbeddingMismatchError: The store was filled with another embedder.
            BackendError: The store cannot be read or written.
        """
        parts = Parts.chosen(
            embedder=embedder, embedder_id=embedder_id, retrieval=retrieval, clock=clock, keyword=keyword
        )
        file = Path(path) / STORE_FILE
        if read_only:
            if not file.is_file():
                raise ConfigurationError(f"there is no memory store at {path} to look into")
            engine = Engine(parts, file=file, read_only=True)
            return cls(engine, let_go=engine.close)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"{path} cannot be used as a store directory: {error.strerror}") from error
        engine, let_go = share(file.parent, settings=parts.settings, build=lambda: Engine(parts, file=file))
        return cls(engine, let_go=let_go)

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
        engine = Engine(
            Parts.chosen(embedder=embedder, embedder_id=embedder_id, retrieval=retrieval, clock=clock, keyword=keyword),
            file=None,
        )
        return cls(engine, let_go=engine.close)

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

    def remember_many(self, drafts: Sequence[Draft]) -> builtins.list[AnyMemory]:
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
        return self._retriever.retrieve(request, record=record and not self._engine.read_only)

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
        return self._store.update(id, scope=scope, fields=fields)

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

    def forget(self, id: str, *, scope: str) -> None:
        """Remove a memory for good, with every trace of it; :meth:`invalidate` is the soft form.

        Its text, vector and index entries go, and its id leaves the memories and reviews that name it. What other
        memories were made of it stays. :meth:`purge` clears the bytes that are left in the files.

        Raises:
            NotFoundError: There is no such memory in this scope.
            ValidationError: The scope is malformed.
        """
        self._store.forget(id, scope=scope)

    def forget_scope(self, scope: str, *, include_child_scopes: bool = True) -> int:
        """Remove everything that a scope and the scopes below it hold, and give the number of memories.

        Raises:
            ValidationError: The scope is malformed.
        """
        return self._store.forget_scope(scope, include_child_scopes=include_child_scopes)

    def purge(self) -> None:
        """Remove what has expired, and leave no byte of what was forgotten in the directory of the store.

        The file is written anew, which takes time and, for that long, as much space again.

        Raises:
            BackendError: It could not be done now, since somebody was reading; nothing is lost.
        """
        self._pending.flush()
        self._store.purge()

    def backup(self, path: str | Path) -> None:
        """Copy the store to a new directory, whatever is written meanwhile; :meth:`open` opens the copy.

        Raises:
            ConfigurationError: The directory exists, or cannot be made.
            BackendError: The copy failed, and nothing was left of it.
        """
        self._pending.flush()
        self._store.ledger.backup(Path(path) / STORE_FILE)

    def pending_reviews(self, scope: str) -> builtins.list[PendingReview]:
        """The retrievals in this scope whose use has not been judged yet, oldest first."""
        self._pending.flush()
        return self._store.ledger.pending_reviews(scopes.parse(scope))

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

    def export(self, path: str | Path, *, scope: str | None = None, progress: Progress | None = None) -> int:
        """Write memories, their vectors and what waits for review into a new file of JSON lines, losing nothing.

        The file is of one moment, and appears under its name only when it is whole. :meth:`import_` reads it.

        Args:
            path: The file; it must not exist yet.
            scope: This scope and all below it; None is everything.
            progress: Told now and then how many memories are written, and of how many.

        Returns:
            How many memories were written.

        Raises:
            ConfigurationError: The file exists, or cannot be written.
            ValidationError: The scope is malformed.
            BackendError: A memory is damaged; :meth:`verify` tells more.
        """
        asked = None if scope is None else scopes.parse(scope)
        if not self._engine.read_only:
            self._pending.flush()
        return transfer.export(self._store.ledger, Path(path), scope=asked, progress=progress)

    @classmethod
    def import_(
        cls,
        path: str | Path,
        *,
        into: str | Path,
        embedder: AnyEmbedder | None = None,
        embedder_id: str | None = None,
        retrieval: RetrievalSettings | None = None,
        clock: Clock | None = None,
        keyword: KeywordEngine = "sqlite_bm25",
        progress: Progress | None = None,
    ) -> Self:
        """Make a store from a file that :meth:`export` wrote, and open it.

        Records and vectors are taken as they are; nothing is embedded again. The directory is there once everything
        is in it.

        Args:
            path: The file.
            into: The new store's directory: missing, or empty.
            embedder: Must be the one the export's vectors are from; this and the rest as for :meth:`open`.
            embedder_id: As for :meth:`open`.
            retrieval: As for :meth:`open`.
            clock: As for :meth:`open`.
            keyword: As for :meth:`open`.
            progress: Told now and then how many memories are in, and of how many.

        Raises:
            ValidationError: The file is no export, or not whole; the message names the line.
            ConfigurationError: The file cannot be read, a newer version wrote it, or the directory is not empty.
            EmbeddingMismatchError: The vectors are from another embedder.
        """
        parts = Parts.chosen(
            embedder=embedder, embedder_id=embedder_id, retrieval=retrieval, clock=clock, keyword=keyword
        )
        transfer.import_(
            Path(path),
            into=Path(into),
            build=lambda directory: Engine(parts, file=directory / STORE_FILE).store,
            progress=progress,
        )
        return cls.open(
            into, embedder=embedder, embedder_id=embedder_id, retrieval=retrieval, clock=clock, keyword=keyword
        )

    def verify(self) -> VerificationReport:
        """Look whether the store is whole: the file, every memory with its passages and vectors, the postings."""
        return upkeep.verify(self._store)

    def rebuild(self, what: Index = "all") -> None:
        """Make indexes anew from the stored memories, which stay as they are.

        Args:
            what: ``sparse`` makes postings and word statistics anew from the passages, in one transaction. ``dense``
                only drops the vectors remembered in memory, which are read from the store again: the stored vectors
                are the index, and mending them would take embedding again. ``all`` does both.

        Raises:
            ValidationError: There is no such index.
        """
        upkeep.rebuild(self._store, what)

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
        self._let_go()

    @property
    def _engine(self) -> Engine:
        if not self._let_go.alive:
            raise ConfigurationError("this memory is closed; open it again")
        return self._shared_engine

    @property
    def _store(self) -> MemoryStore:
        return self._engine.store

    @property
    def _pending(self) -> PendingReviewBuffer:
        return self._engine.pending

    @property
    def _retriever(self) -> HybridRetriever:
        return self._engine.retriever

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


@contextmanager
def _our_errors() -> Iterator[None]:
    """Turn pydantic's complaint about a record into ours."""
    try:
        yield
    except pydantic.ValidationError as error:
        raise ValidationError.from_pydantic(error) from error
