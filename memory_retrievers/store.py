"""The store: records are the truth, indexes are kept in step with them, and every write is whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from memory_retrievers import scopes
from memory_retrievers.drafts import completed
from memory_retrievers.errors import ConfigurationError, NotFoundError, ValidationError
from memory_retrievers.fingerprint import ProbedEmbedder, StoreEmbedder
from memory_retrievers.models import AnyMemory, Draft, Message, PendingReview, SemanticMemory
from memory_retrievers.passages import NewPassage, Passage
from memory_retrievers.protocols import Clock, Embedder, KeywordIndex, Ledger, VectorIndex
from memory_retrievers.updates import changed

if TYPE_CHECKING:
    from memory_retrievers.passages import Vector

FoundT = TypeVar("FoundT")
RecordT = TypeVar("RecordT", bound="Message | Draft | AnyMemory")


class MemoryStore:
    """The ledger and its indexes, and the embedder that fills them.

    Args:
        ledger: Keeps the records.
        keyword: The BM25 index.
        dense: The vector index.
        embedder: Must be the one the store was filled with.
        clock: Tells what time it is.
        before_store: Sees every record before it is stored, and gives it, changed or not, or None.

    Raises:
        EmbeddingMismatchError: The store was filled with an embedder of another id.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        keyword: KeywordIndex,
        dense: VectorIndex,
        embedder: Embedder,
        clock: Clock,
        before_store: Callable[[Any], Any] | None = None,
    ) -> None:
        self.ledger = ledger
        self.keyword = keyword
        self.dense = dense
        self.clock = clock
        self._before_store = before_store
        self.embedder = StoreEmbedder(ledger, embedder, forget_vectors=lambda: dense.forget(None))

    def now(self) -> datetime:
        """The current moment in UTC."""
        moment = self.clock.now()
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)

    def put(
        self,
        drafts: Sequence[Draft],
        *,
        replace: bool = False,
        together: Callable[[list[AnyMemory]], None] | None = None,
    ) -> list[AnyMemory]:
        """Store drafts: one embedding batch, one transaction; all of them or none.

        Args:
            drafts: What to store.
            replace: Forget the memories whose scope and id the drafts have, in the same transaction.
            together: Called with the stored memories inside the transaction, to write what belongs with them: kept
                and undone with them. It may be called again, after what it wrote was undone.

        Returns:
            The stored memories, complete, in the order given; what ``before_store`` has held back is not among them.

        Raises:
            ValidationError: A scope is malformed, or an id is taken, twice among the drafts if not in the store.
            EmbeddingError: The embedder failed, or gave unusable vectors.
            EmbeddingMismatchError: The embedder is not the store's.
        """
        now = self.now()
        admitted = [kept for draft in drafts if (kept := self.admitted(draft)) is not None]
        memories = [completed(draft, now=now) for draft in admitted]
        if not memories:
            if together is not None:
                with self.ledger.transaction():
                    together([])
            return []
        while True:
            embedder = self.embedder.current()
            passages = _passages(memories, embedder)
            replaced: list[Passage] = []
            with self.ledger.transaction():
                if not self.embedder.admits(embedder):
                    continue  # the store has just moved to another embedder
                for memory in memories if replace else ():
                    replaced += self.unindexed(memory.scope, id=memory.id)
                    self.ledger.remove(scope=memory.scope, id=memory.id)
                self.keyword.add(self.ledger.add(memories, passages))
                if together is not None:
                    together(memories)
            self.let_go(replaced)
            return memories

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

    def invalidate(self, id: str, *, scope: str) -> SemanticMemory:
        """Mark a fact as no longer true; it stays in the store and is no longer found.

        Raises:
            NotFoundError: There is no such memory in this scope.
            ValidationError: It is an episode, or the scope is malformed.
        """
        if not isinstance(self.get(id, scope=scope), SemanticMemory):
            raise ValidationError(f"{id} is an episode; only facts can be invalidated")
        self.ledger.invalidate(scope=scope, id=id, at=self.now())
        memory = self.get(id, scope=scope)
        assert isinstance(memory, SemanticMemory)  # noqa: S101 - the kind of a memory never changes
        return memory

    def update(self, id: str, *, scope: str, fields: Mapping[str, object]) -> AnyMemory:
        """Change some fields of a memory; a new text is embedded and indexed in the same transaction.

        Raises:
            NotFoundError: There is no such memory in this scope.
            ValidationError: A field is not one of its kind, or breaks a rule.
            EmbeddingError: The embedder failed.
        """
        while True:
            before = self.get(id, scope=scope)
            after = changed(before, fields, now=self.now())
            if after is before:
                return before
            after = self._required(after)
            embedder = None if _texts(after) == _texts(before) else self.embedder.current()
            passages = None if embedder is None else _passages([after], embedder)[0]
            replaced: list[Passage] = []
            with self.ledger.transaction():
                if self.ledger.get(scope=scope, id=id) != before:
                    continue  # somebody else was faster: begin with what they left
                if embedder is not None:
                    if not self.embedder.admits(embedder):
                        continue  # the store has just moved to another embedder
                    replaced = self.unindexed(scope, id=id)
                self.keyword.add(self.ledger.replace(after, passages))
            self.let_go(replaced)
            return after

    def _required(self, memory: AnyMemory) -> AnyMemory:
        kept = self.admitted(memory)
        if kept is None:
            raise ValidationError("before_store has held this back; nothing was changed")
        return kept

    def forget(self, id: str, *, scope: str) -> None:
        """Remove a memory and every trace of it, in one transaction.

        Raises:
            NotFoundError: There is no such memory in this scope.
            ValidationError: The scope is malformed.
        """
        scopes.parse(scope)
        with self.ledger.transaction():
            gone = self.unindexed(scope, id=id)
            if not self.ledger.remove(scope=scope, id=id):
                raise NotFoundError(f"Memory not found: {id}")
        self.let_go(gone)

    def forget_scope(self, scope: str, *, include_child_scopes: bool) -> int:
        """Remove all that a scope holds, in one transaction, and give the number of memories.

        Raises:
            ValidationError: The scope is malformed.
        """
        scopes.parse(scope)
        with self.ledger.transaction():
            gone = self.unindexed(scope, include_child_scopes=include_child_scopes)
            removed = self.ledger.remove_scope(scope, include_child_scopes=include_child_scopes)
        self.let_go(gone)
        return removed

    def purge(self) -> None:
        """Remove what has expired, and leave no byte of what was removed.

        Raises:
            BackendError: It could not be done now.
        """
        gone: list[Passage] = []
        with self.ledger.transaction():
            for key in self.ledger.expired(self.now()):
                gone += self.unindexed(key.scope, id=key.id)
                self.ledger.remove(scope=key.scope, id=key.id)
        self.let_go(gone)
        self.dense.purge()
        self.ledger.purge()

    def add_pending_reviews(self, reviews: Sequence[PendingReview]) -> None:
        """File retrievals for later review, without the memories that have been forgotten meanwhile."""
        with self.ledger.transaction():
            present = [self._without_forgotten(review) for review in reviews]
            self.ledger.add_pending_reviews([review for review in present if review.memories])

    def _without_forgotten(self, review: PendingReview) -> PendingReview:
        kept = tuple(key for key in review.memories if self.ledger.get(scope=key.scope, id=key.id) is not None)
        return replace(review, memories=kept)

    def unindexed(self, scope: str, *, id: str | None = None, include_child_scopes: bool = False) -> list[Passage]:
        """Passages that the keyword index has given up, and the ledger is about to; inside a transaction."""
        passages = self.ledger.passages_of(scope, id=id, include_child_scopes=include_child_scopes)
        self.keyword.remove(passages)
        return passages

    def let_go(self, passages: Sequence[Passage]) -> None:
        """Keep nothing in memory of passages that are gone for good; after the transaction."""
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
                found = find(embedder.embed_query(query))
            except Exception:
                if self.embedder.holds(embedder):
                    raise
                continue  # vectors of two lengths may have met
            if self.embedder.holds(embedder):
                return found

    def close(self) -> None:
        """Release everything."""
        self.dense.close()
        self.ledger.close()


def embedded_text(memory: AnyMemory, *, part: str, text: str) -> str:
    """What a passage of a memory is embedded as, which for the memory itself is not what its words are found by."""
    return memory.embedding_text if part == memory.kind else text


def _passages(memories: Sequence[AnyMemory], embedder: ProbedEmbedder) -> list[list[NewPassage]]:
    texts = [memory.embedding_text for memory in memories if memory.is_searchable]
    vectors = iter(embedder.embed_documents(texts)) if texts else iter(())
    return [
        [NewPassage(part=memory.kind, text=memory.search_text, vector=next(vectors))] if memory.is_searchable else []
        for memory in memories
    ]


def _texts(memory: AnyMemory) -> tuple[bool, str, str]:
    return memory.is_searchable, memory.embedding_text, memory.search_text
