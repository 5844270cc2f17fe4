"""The engine: the parts of a memory, wired together."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from memory_retrievers.errors import ConfigurationError
from memory_retrievers.retrieval.pending import PendingReviewBuffer
from memory_retrievers.retrieval.retriever import HybridRetriever
from memory_retrievers.settings import RetrievalSettings
from memory_retrievers.store import MemoryStore

if TYPE_CHECKING:
    from memory_retrievers.backends.sqlite import SQLiteLedger
    from memory_retrievers.embeddings.adapt import AnyEmbedder
    from memory_retrievers.protocols import Clock, Embedder, KeywordIndex

STORE_FILE: Final = "memory.db"
"""The file in a store's directory that holds everything."""

KeywordEngine: TypeAlias = Literal["sqlite_bm25", "rank_bm25"]


class SystemClock:
    """The time of this machine; all of them are the same."""

    def now(self) -> datetime:
        """The current moment in UTC."""
        return datetime.now(UTC)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SystemClock)

    def __hash__(self) -> int:
        return hash(SystemClock)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What an engine is made of, with every default filled in."""

    embedder: Embedder
    retrieval: RetrievalSettings
    clock: Clock
    keyword: KeywordEngine

    @classmethod
    def chosen(
        cls,
        *,
        embedder: AnyEmbedder | None,
        embedder_id: str | None,
        retrieval: RetrievalSettings | None,
        clock: Clock | None,
        keyword: KeywordEngine,
    ) -> Parts:
        """The parts a caller has asked for; None is the default.

        Raises:
            ConfigurationError: The embedder embeds in no known way, or there is no such keyword engine.
        """
        # imported here, so that importing the package loads no numpy
        from memory_retrievers.embeddings.adapt import adapt
        from memory_retrievers.embeddings.minilm import MiniLMEmbedder

        if keyword not in {"sqlite_bm25", "rank_bm25"}:
            raise ConfigurationError(f"unknown keyword engine {keyword!r}; one of: sqlite_bm25, rank_bm25")
        return cls(
            embedder=adapt(MiniLMEmbedder() if embedder is None else embedder, embedder_id=embedder_id),
            retrieval=retrieval or RetrievalSettings(),
            clock=SystemClock() if clock is None else clock,
            keyword=keyword,
        )

    @property
    def settings(self) -> tuple[object, ...]:
        """What two holders of one store must agree on: the embedder by its name, the rest by equality."""
        return (self.embedder.id, self.retrieval, self.keyword, self.clock)


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
        from memory_retrievers.backends.exact import ExactVectorIndex
        from memory_retrievers.backends.sqlite import SQLiteLedger

        ledger = SQLiteLedger(file, read_only=read_only)
        try:
            self.store = MemoryStore(
                ledger,
                keyword=_keyword_index(parts, ledger),
                dense=ExactVectorIndex(ledger),
                embedder=parts.embedder,
                clock=parts.clock,
            )
        except BaseException:
            ledger.close()
            raise
        self.read_only = read_only
        self.pending = PendingReviewBuffer(self.store)
        self.retriever = HybridRetriever(self.store, settings=parts.retrieval, pending=self.pending)

    def close(self) -> None:
        """Write what is waiting and release everything."""
        self.pending.flush()
        self.store.close()


def _keyword_index(parts: Parts, ledger: SQLiteLedger) -> KeywordIndex:
    from memory_retrievers.backends.rank_bm25 import RankBM25KeywordIndex
    from memory_retrievers.backends.sqlite_bm25 import SQLiteKeywordIndex

    k1, b = parts.retrieval.bm25_k1, parts.retrieval.bm25_b
    postings = SQLiteKeywordIndex(ledger, k1=k1, b=b)
    if parts.keyword == "sqlite_bm25":
        return postings
    # The postings are kept up all the same, so that the store, or a copy of it, can be opened with either engine.
    return RankBM25KeywordIndex(ledger, k1=k1, b=b, postings=postings)
