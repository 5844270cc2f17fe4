"""The engine: the parts of a memory, wired together."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from memory_retrievers.errors import ConfigurationError
from memory_retrievers.parts import Parts
from memory_retrievers.retrieval.pending import PendingReviewBuffer
from memory_retrievers.retrieval.retriever import HybridRetriever
from memory_retrievers.store import MemoryStore

if TYPE_CHECKING:
    from memory_retrievers.backends.sqlite import SQLiteLedger
    from memory_retrievers.ingestion.pipeline import IngestionPipeline
    from memory_retrievers.ingestion.worker import Worker
    from memory_retrievers.management.manager import MemoryManager
    from memory_retrievers.protocols import KeywordIndex, VectorIndex

STORE_FILE: Final = "memory.db"
"""The file in a store's directory that holds everything."""

CHROMA_DIRECTORY: Final = "chroma"
"""Beside it, what Chroma keeps: a projection of the file, which can be thrown away at any time."""


class Engine:
    """A store, the reading of it, and what waits to be reviewed.

    Args:
        parts: What it is made of.
        file: Where the store is; None keeps it in memory.
        read_only: Only look: nothing is written, and nothing noted for review.

    Raises:
        ConfigurationError: The store cannot be opened in this way.
        EmbeddingMismatchError: The store was filled with another embedder.
        BackendError: The store cannot be read or written.
    """

    def __init__(self, parts: Parts, *, file: Path | None, read_only: bool = False) -> None:
        from memory_retrievers.backends.sqlite import SQLiteLedger
        from memory_retrievers.backends.sqlite.adopted import SQLiteAdoptedRows

        ledger = SQLiteLedger(file, read_only=read_only)
        try:
            self.store = MemoryStore(
                ledger,
                keyword=_keyword_index(parts, ledger),
                dense=_vector_index(parts, ledger, file=file, read_only=read_only),
                embedder=parts.embedder,
                clock=parts.clock,
                before_store=parts.before_store,
                searched=parts.retrieval.passages,
            )
            if file is not None and not read_only:
                ledger.conversations.tear_down_fences()  # one process writes a store: their owners are gone
        except BaseException:
            ledger.close()
            raise
        self._parts = parts
        self.read_only = read_only
        self.adopted = SQLiteAdoptedRows(ledger.database)
        self.after_write: Callable[[], None] | None = None
        self.pending = PendingReviewBuffer(self.store)
        self.retriever = HybridRetriever(self.store, settings=parts.retrieval, pending=self.pending)
        self._worker: Worker | None = None
        self._worker_lock = threading.Lock()

    @functools.cached_property
    def pipeline(self) -> IngestionPipeline:
        """The write path; made at its first use."""
        from memory_retrievers.ingestion.wiring import pipeline_of

        return pipeline_of(
            self.store,
            self.retriever,
            language_model=self._parts.language_model,
            settings=self._parts.ingestion,
            review_settings=self._parts.review,
        )

    @functools.cached_property
    def manager(self) -> MemoryManager:
        """What the memory tools use; made at its first use."""
        from memory_retrievers.management.manager import MemoryManager

        return MemoryManager(
            self.store, settings=self._parts.tools, read_only=self.read_only, after_write=self.told_after_write
        )

    def told_after_write(self) -> None:
        """Tell whoever follows the changes of this store, if anybody does."""
        if self.after_write is not None:
            self.after_write()

    def start_worker(self) -> None:
        """Let a thread do what is due from now on; one is enough.

        Raises:
            ConfigurationError: The store is only looked into.
        """
        from memory_retrievers.ingestion.worker import Worker

        if self.read_only:
            raise ConfigurationError("this memory was opened read-only: open it without read_only=True to process it")
        with self._worker_lock:
            if self._worker is None:
                self._worker = Worker(
                    self.pipeline, conversations=self.store.ledger.conversations, clock=self._parts.clock
                )
                self._worker.start()

    def wake_worker(self) -> None:
        """Tell the worker, if there is one, that something has arrived."""
        if self._worker is not None:
            self._worker.wake()

    @property
    def settings(self) -> tuple[object, ...]:
        """What another holder of this store must ask for, see :attr:`Parts.settings`."""
        return self._parts.settings_with(self.store.embedder.id)

    def close(self) -> None:
        """Write what is waiting and release everything, which is done even if the writing fails."""
        try:
            if self._worker is not None:
                self._worker.stop()
            self.pending.flush()
            self.told_after_write()
        finally:
            self.store.close()


def noted_embedder(directory: Path) -> str | None:
    """The id of the embedder that a store was filled with; None if nothing has been embedded for it yet.

    It only looks, also beside a process that writes the store; the store need not be of this version's schema.

    Raises:
        ConfigurationError: A newer version of the package wrote the store.
        BackendError: The store cannot be read.
    """
    from memory_retrievers.backends.sqlite.database import read_note

    return read_note(directory / STORE_FILE, "embedder_id")


def _vector_index(parts: Parts, ledger: SQLiteLedger, *, file: Path | None, read_only: bool) -> VectorIndex:
    from memory_retrievers.backends.chroma import ChromaProjection
    from memory_retrievers.backends.exact import ExactVectorIndex
    from memory_retrievers.projection import ProjectedVectorIndex

    exact = ExactVectorIndex(ledger)
    if read_only:
        return exact
    client = None if isinstance(parts.dense, str) else parts.dense
    at_once = parts.dense == "chroma"
    return ProjectedVectorIndex(
        ledger,
        exact=exact,
        projection=ChromaProjection(None if file is None or client else file.parent / CHROMA_DIRECTORY, client=client),
        exact_limit={"chroma": 0, "exact": None}.get(str(parts.dense), parts.retrieval.exact_limit),
        at_once=at_once,
    )


def _keyword_index(parts: Parts, ledger: SQLiteLedger) -> KeywordIndex:
    from memory_retrievers.backends.rank_bm25 import RankBM25KeywordIndex
    from memory_retrievers.backends.sqlite_bm25 import SQLiteKeywordIndex

    k1, b = parts.retrieval.bm25_k1, parts.retrieval.bm25_b
    postings = SQLiteKeywordIndex(ledger, k1=k1, b=b)
    if parts.keyword == "sqlite_bm25":
        return postings
    # The postings are kept up all the same, so that the store, or a copy of it, can be opened with either engine.
    return RankBM25KeywordIndex(ledger, k1=k1, b=b, postings=postings)
