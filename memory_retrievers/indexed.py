"""The ledger with its indexes: what both the reading and the changing of memories stand on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from memory_retrievers import scopes
from memory_retrievers.errors import ConfigurationError, NotFoundError, ValidationError
from memory_retrievers.fingerprint import StoreEmbedder
from memory_retrievers.messages import Message
from memory_retrievers.models import AnyMemory, Draft
from memory_retrievers.passages import Passage
from memory_retrievers.protocols import Clock, Embedder, KeywordIndex, Ledger, VectorIndex
from memory_retrievers.stages import EMBED, stage
from memory_retrievers.turn_passages import Searched

if TYPE_CHECKING:
    from memory_retrievers.passages import Vector

FoundT = TypeVar("FoundT")
RecordT = TypeVar("RecordT", bound="Message | Draft | AnyMemory")


class IndexedLedger:
    """A ledger, its indexes, and the embedder that fills them; see ``MemoryStore`` for the arguments."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        keyword: KeywordIndex,
        dense: VectorIndex,
        embedder: Embedder,
        clock: Clock,
        before_store: Callable[[Any], Any] | None = None,
        searched: Searched = "turns",
    ) -> None:
        self.ledger = ledger
        self.keyword = keyword
        self.dense = dense
        self.clock = clock
        self.searched: Final = searched
        self._before_store = before_store
        self.embedder = StoreEmbedder(ledger, embedder, forget_vectors=lambda: dense.forget(None))
        self._together = threading.local()

    def now(self) -> datetime:
        """The current moment in UTC."""
        moment = self.clock.now()
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)

    def admitted(self, record: RecordT) -> RecordT | None:
        """The record as it may be stored; None if it may not.

        Raises:
            ConfigurationError: ``before_store`` gave something that is no such record, or moved it to another scope.
        """
        if self._before_store is None:
            return record
        kept = self._before_store(record)
        if kept is None:
            return None
        if not isinstance(kept, type(record)) or getattr(kept, "scope", None) != getattr(record, "scope", None):
            raise ConfigurationError(
                f"before_store was given a {type(record).__name__} and must give one of the same scope, or None"
            )
        return kept

    def get(self, id: str, *, scope: str) -> AnyMemory:
        """The memory of this id in this scope, whatever its state, unless it has expired.

        Raises:
            NotFoundError: There is none; other scopes make no difference.
            ValidationError: The scope is malformed.
        """
        memory = self.ledger.get(scope=scopes.parse(scope), id=id)
        if memory is None or (memory.expires_at is not None and memory.expires_at <= self.now()):
            raise NotFoundError(f"Memory not found: {id}")
        return memory

    def required(self, memory: AnyMemory) -> AnyMemory:
        """A changed memory as it may be stored.

        Raises:
            ValidationError: It may not.
        """
        kept = self.admitted(memory)
        if kept is None:
            raise ValidationError("before_store has held this back; nothing was changed")
        return kept

    @contextmanager
    def transaction(self, *within: str) -> Iterator[None]:
        """Several changes together: all of them are kept, or none; one inside another is part of that.

        Args:
            within: The scopes that are changed, as for ``Ledger.transaction``.
        """
        if getattr(self._together, "gone", None) is not None:
            with self.ledger.transaction(*within):
                yield
            return
        gone: list[Passage] = []
        self._together.gone = gone
        try:
            with self.ledger.transaction(*within):
                yield
        finally:
            self._together.gone = None
            self.let_go(gone)

    def unindexed(
        self,
        scope: str,
        *,
        id: str | None = None,
        include_child_scopes: bool = False,
        parts: Container[str] | None = None,
    ) -> list[Passage]:
        """Passages that the keyword index has given up, and the ledger is about to; inside a transaction.

        Args:
            scope: Of this scope.
            id: Of this memory alone.
            include_child_scopes: Also of every scope below.
            parts: Only these parts of the memories.
        """
        passages = [
            passage
            for passage in self.ledger.passages_of(scope, id=id, include_child_scopes=include_child_scopes)
            if parts is None or passage.part in parts
        ]
        self.keyword.remove(passages)
        return passages

    def let_go(self, passages: Sequence[Passage]) -> None:
        """Keep nothing in memory of passages that are gone for good; at the end of :meth:`transaction`, or now."""
        waiting: list[Passage] | None = getattr(self._together, "gone", None)
        if waiting is not None:
            waiting += passages
            return
        if ids := [passage.id for passage in passages]:
            self.keyword.forget(ids)
            self.dense.forget(ids)

    def embed_query(self, query: str) -> Vector:
        """The vector of a question, by the store's embedder.

        Raises:
            EmbeddingError: The embedder failed.
            EmbeddingMismatchError: The embedder is not the store's.
        """
        return self.embedder.current().embed_query(query)

    def search(self, query: str, find: Callable[[Vector], FoundT]) -> FoundT:
        """What a search finds with the vector of a question, all stored vectors being of the same embedder as that.

        Args:
            query: The question.
            find: Searches the indexes; called once more if the store has moved to another embedder meanwhile.

        Raises:
            EmbeddingError: The embedder failed.
            EmbeddingMismatchError: The embedder is not the store's, or no longer.
        """
        while True:
            embedder = self.embedder.current()
            try:
                with stage(EMBED):
                    vector = embedder.embed_query(query)
                with self.ledger.reading():
                    found = find(vector)
                    if self.embedder.holds(embedder):
                        return found
            except Exception:
                if self.embedder.holds(embedder):
                    raise
                continue  # vectors of two lengths may have met

    def close(self) -> None:
        """Release everything."""
        self.dense.close()
        self.ledger.close()
