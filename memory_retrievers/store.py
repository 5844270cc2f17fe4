"""The store: records are the truth, indexes are kept in step with them, and every write is whole or not at all."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from memory_retrievers import scopes
from memory_retrievers.drafts import completed
from memory_retrievers.errors import EmbeddingMismatchError, NotFoundError, ValidationError
from memory_retrievers.models import AnyMemory, Draft, PendingReview, SemanticMemory
from memory_retrievers.passages import NewPassage, Passage
from memory_retrievers.protocols import Clock, Embedder, KeywordIndex, Ledger, VectorIndex
from memory_retrievers.updates import changed

if TYPE_CHECKING:
    from memory_retrievers.passages import Vector, Vectors

_PROBE: Final = "The quick brown fox jumps over the lazy dog."
_PROBE_COMPONENTS: Final = 16
_PROBE_MIN_COSINE: Final = 0.95
"""Quantised models vary a little between processors; another model is nowhere near."""


class MemoryStore:
    """The ledger and its indexes, and the embedder that fills them.

    Args:
        ledger: Keeps the records.
        keyword: The BM25 index.
        dense: The vector index.
        embedder: Must be the one the store was filled with.
        clock: Tells what time it is.

    Raises:
        EmbeddingMismatchError: The store was filled with an embedder of another id.
    """

    def __init__(
        self, ledger: Ledger, *, keyword: KeywordIndex, dense: VectorIndex, embedder: Embedder, clock: Clock
    ) -> None:
        self.ledger = ledger
        self.keyword = keyword
        self.dense = dense
        self.clock = clock
        self._embedder = embedder
        self._fingerprint_lock = threading.Lock()
        self._dimension: int | None = None
        self._fingerprint: dict[str, str] = {}
        self._refuse_other_embedder(ledger.notes())

    def now(self) -> datetime:
        """The current moment in UTC."""
        moment = self.clock.now()
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)

    def put(self, drafts: Sequence[Draft]) -> list[AnyMemory]:
        """Store drafts: one embedding batch, one transaction; all of them or none.

        Returns:
            The stored memories, complete, in the order given.

        Raises:
            ValidationError: A scope is malformed, or an id is taken.
            EmbeddingError: The embedder failed, or gave unusable vectors.
            EmbeddingMismatchError: The embedder is not the store's.
        """
        now = self.now()
        memories = [completed(draft, now=now) for draft in drafts]
        if not memories:
            return []
        passages = self._passages(memories)
        with self.ledger.transaction():
            self._note_embedder()
            self.keyword.add(self.ledger.add(memories, passages))
        return memories

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
            passages = None if _texts(after) == _texts(before) else self._passages([after])[0]
            replaced: list[Passage] = []
            with self.ledger.transaction():
                if self.ledger.get(scope=scope, id=id) != before:
                    continue  # somebody else was faster: begin with what they left
                if passages is not None:
                    self._note_embedder()
                    replaced = self._unindexed(scope, id=id)
                self.keyword.add(self.ledger.replace(after, passages))
            self._let_go(replaced)
            return after

    def forget(self, id: str, *, scope: str) -> None:
        """Remove a memory and every trace of it, in one transaction.

        Raises:
            NotFoundError: There is no such memory in this scope.
            ValidationError: The scope is malformed.
        """
        scopes.parse(scope)
        with self.ledger.transaction():
            gone = self._unindexed(scope, id=id)
            if not self.ledger.remove(scope=scope, id=id):
                raise NotFoundError(f"Memory not found: {id}")
        self._let_go(gone)

    def forget_scope(self, scope: str, *, include_child_scopes: bool) -> int:
        """Remove all that a scope holds, in one transaction, and give the number of memories.

        Raises:
            ValidationError: The scope is malformed.
        """
        scopes.parse(scope)
        with self.ledger.transaction():
            gone = self._unindexed(scope, include_child_scopes=include_child_scopes)
            removed = self.ledger.remove_scope(scope, include_child_scopes=include_child_scopes)
        self._let_go(gone)
        return removed

    def purge(self) -> None:
        """Remove what has expired, and leave no byte of what was removed.

        Raises:
            BackendError: It could not be done now.
        """
        gone: list[Passage] = []
        with self.ledger.transaction():
            for key in self.ledger.expired(self.now()):
                gone += self._unindexed(key.scope, id=key.id)
                self.ledger.remove(scope=key.scope, id=key.id)
        self._let_go(gone)
        self.ledger.purge()

    def add_pending_reviews(self, reviews: Sequence[PendingReview]) -> None:
        """File retrievals for later review, without the memories that have been forgotten meanwhile."""
        with self.ledger.transaction():
            present = [self._without_forgotten(review) for review in reviews]
            self.ledger.add_pending_reviews([review for review in present if review.memories])

    def _without_forgotten(self, review: PendingReview) -> PendingReview:
        kept = tuple(key for key in review.memories if self.ledger.get(scope=key.scope, id=key.id) is not None)
        return replace(review, memories=kept)

    def _unindexed(self, scope: str, *, id: str | None = None, include_child_scopes: bool = False) -> list[Passage]:
        """Passages that the keyword index has given up, and the ledger is about to; inside a transaction."""
        passages = self.ledger.passages_of(scope, id=id, include_child_scopes=include_child_scopes)
        self.keyword.remove(passages)
        return passages

    def _let_go(self, passages: Sequence[Passage]) -> None:
        """Keep nothing in memory of passages that are gone for good; after the transaction."""
        if ids := [passage.id for passage in passages]:
            self.keyword.forget(ids)
            self.dense.forget(ids)

    def _passages(self, memories: Sequence[AnyMemory]) -> list[list[NewPassage]]:
        vectors = self._embed([memory.embedding_text for memory in memories])
        return [
            [NewPassage(part=memory.kind, text=memory.search_text, vector=vector)]
            for memory, vector in zip(memories, vectors, strict=True)
        ]

    def embed_query(self, query: str) -> Vector:
        """The vector of a question, by the store's embedder.

        Raises:
            EmbeddingError: The embedder failed.
            EmbeddingMismatchError: The embedder is not the store's.
        """
        self._check_embedder()
        vector = self._embedder.embed_query(query)
        self._require_dimension(len(vector))
        return vector

    def close(self) -> None:
        """Release everything."""
        self.ledger.close()

    def _embed(self, texts: Sequence[str]) -> Vectors:
        self._check_embedder()
        vectors = self._embedder.embed_documents(texts)
        self._require_dimension(vectors.shape[1])
        return vectors

    def _require_dimension(self, dimension: int) -> None:
        if dimension != self._dimension:
            raise EmbeddingMismatchError(
                f"{self._embedder.id} gave a vector of {dimension} numbers; this store holds vectors of "
                f"{self._dimension}. Open it with the embedder it was filled with."
            )

    def _check_embedder(self) -> None:
        """Compare the embedder with the one the store was filled with, once, at the first embedding.

        Its name is known when the store is opened; its vectors only now, so that opening loads no model.
        """
        if self._dimension is not None:
            return
        with self._fingerprint_lock:
            if self._dimension is not None:
                return
            probe = self._embedder.embed_query(_PROBE)
            components = [float(component) for component in probe[:_PROBE_COMPONENTS]]
            self._fingerprint = {
                "embedder_id": self._embedder.id,
                "dimension": str(len(probe)),
                "probe": json.dumps(components),
            }
            notes = self.ledger.notes()
            self._refuse_other_embedder(notes)
            self._refuse_other_vectors(notes, len(probe), components)
            self._dimension = len(probe)

    def _note_embedder(self) -> None:
        """Remember the embedder with the first memories it embeds, in their transaction."""
        if "embedder_id" not in self.ledger.notes():
            self.ledger.write_notes(self._fingerprint)

    def _refuse_other_embedder(self, notes: dict[str, str]) -> None:
        if notes.get("embedder_id", self._embedder.id) != self._embedder.id:
            raise EmbeddingMismatchError(
                f"this store was filled with the embedder {notes['embedder_id']!r}, not {self._embedder.id!r}: open it "
                f"with that one (or, if it is the same model under another name, with embedder_id="
                f"{notes['embedder_id']!r})"
            )

    def _refuse_other_vectors(self, notes: dict[str, str], dimension: int, components: list[float]) -> None:
        if "dimension" not in notes:
            return
        if int(notes["dimension"]) != dimension:
            problem = f"gives vectors of {dimension} numbers, and this store holds {notes['dimension']}"
        elif _cosine(json.loads(notes["probe"]), components) < _PROBE_MIN_COSINE:
            problem = "gives other vectors than the ones this store was filled with"
        else:
            return
        raise EmbeddingMismatchError(
            f"the embedder {self._embedder.id!r} {problem}: open the store with the embedder it was filled with"
        )


def _texts(memory: AnyMemory) -> tuple[str, str]:
    return memory.embedding_text, memory.search_text


def _cosine(left: Sequence[float], right: Sequence[float]) -> float:
    product = sum(a * b for a, b in zip(left, right, strict=True))
    return product / (math.hypot(*left) * math.hypot(*right) or 1.0)
