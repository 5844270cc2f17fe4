"""The engine: the parts of a memory, wired together."""

from __future__ import annotations

from collections.abc import Callable
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
    from memory_retrievers.backends.chroma import ChromaClient
    from memory_retrievers.backends.sqlite import SQLiteLedger
    from memory_retrievers.embeddings.adapt import AnyEmbedder
    from memory_retrievers.protocols import Clock, Embedder, KeywordIndex, VectorIndex

STORE_FILE: Final = "memory.db"
"""The file in a store's directory that holds everything."""

CHROMA_DIRECTORY: Final = "chroma"
"""Beside it, what Chroma keeps: a projection of the file, which can be thrown away at any time."""

DenseEngine: TypeAlias = "Literal['auto', 'exact', 'chroma'] | ChromaClient"
"""How vectors are searched: ``exact``: by comparing with every one. ``auto``: exactly in small scopes, by Chroma's HNSW
in wide ones, once it has been filled in the background. ``chroma``: always by Chroma, filled before each search. A
client of a Chroma server or of Chroma Cloud: as ``auto``, with the collection there."""

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


def chosen_embedder(embedder: AnyEmbedder | None, *, embedder_id: str | None) -> Embedder:
    """The embedder a caller has asked for; None is the bundled one.

    Raises:
        ConfigurationError: It embeds in no known way, or the id is blank.
    """
    # imported here, so that importing the package loads no numpy
    from memory_retrievers.embeddings.adapt import adapt
    from memory_retrievers.embeddings.minilm import MiniLMEmbedder

    return adapt(MiniLMEmbedder() if embedder is None else embedder, embedder_id=embedder_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What an engine is made of, with every default filled in."""

    embedder: Embedder
    retrieval: RetrievalSettings
    clock: Clock
    keyword: KeywordEngine
    dense: DenseEngine

    @classmethod
    def chosen(
        cls,
        *,
        embedder: AnyEmbedder | None,
        embedder_id: str | None,
        retrieval: RetrievalSettings | None,
        clock: Clock | None,
        keyword: KeywordEngine,
        dense: DenseEngine,
    ) -> Parts:
        """The parts a caller has asked for; None is the default.

        Raises:
            ConfigurationError: The embedder embeds in no known way, or there is no such keyword engine.
        """
        if keyword not in {"sqlite_bm25", "rank_bm25"}:
            raise ConfigurationError(f"unknown keyword engine {keyword!r}; one of: sqlite_bm25, rank_bm25")
        if isinstance(dense, str) and dense not in {"auto", "exact", "chroma"}:
            raise ConfigurationError(f"unknown dense engine {dense!r}; one of: auto, exact, chroma, or a Chroma client")
        return cls(
            embedder=chosen_embedder(embedder, embedder_id=embedder_id),
            retrieval=retrieval or RetrievalSettings(),
            clock=SystemClock() if clock is None else clock,
            keyword=keyword,
            dense=dense,
        )

    @property
    def settings(self) -> tuple[object, ...]:
        """What two holders of one store must agree on: the embedder by its name, the rest by equality."""
        return self.settings_with(self.embedder.id)

    def settings_with(self, embedder_id: str) -> tuple[object, ...]:
        """The same, once the store has moved to an embedder of this name."""
        return (embedder_id, self.retrieval, self.keyword, self.dense, self.clock)


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
            )
        except BaseException:
            ledger.close()
            raise
        self._parts = parts
        self.read_only = read_only
        self.adopted = SQLiteAdoptedRows(ledger.database)
        self.after_write: Callable[[], None] | None = None
        self.pending = PendingReviewBuffer(self.store)
        self.retriever = HybridRetriever(self.store, settings=parts.retrieval, pending=self.pending)

    @property
    def settings(self) -> tuple[object, ...]:
        """What another holder of this store must ask for, see :attr:`Parts.settings`."""
        return self._parts.settings_with(self.store.embedder.id)

    def close(self) -> None:
        """Write what is waiting and release everything."""
        self.pending.flush()
        if self.after_write is not None:
            self.after_write()
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
