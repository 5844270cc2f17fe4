"""The store: records are the truth, indexes are kept in step with them, and every write is whole or not at all."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import uuid_utils

from memory_retrievers import fsrs, scopes
from memory_retrievers.errors import EmbeddingMismatchError, NotFoundError, ValidationError
from memory_retrievers.models import AnyMemory, Draft, EpisodicDraft, EpisodicMemory, Message, SemanticMemory
from memory_retrievers.passages import NewPassage
from memory_retrievers.protocols import Clock, Embedder, KeywordIndex, Ledger, VectorIndex

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
        memories = [_completed(draft, now=now) for draft in drafts]
        if not memories:
            return []
        vectors = self._embed([memory.embedding_text for memory in memories])
        passages = [
            [NewPassage(part=memory.kind, text=memory.search_text, vector=vector)]
            for memory, vector in zip(memories, vectors, strict=True)
        ]
        with self.ledger.transaction():
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
            fingerprint = {
                "embedder_id": self._embedder.id,
                "dimension": str(len(probe)),
                "probe": json.dumps(components),
            }
            with self.ledger.transaction():
                notes = self.ledger.notes()
                if "embedder_id" not in notes:
                    self.ledger.write_notes(fingerprint)
            self._refuse_other_embedder(notes)
            self._refuse_other_vectors(notes, len(probe), components)
            self._dimension = len(probe)

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


def _completed(draft: Draft, *, now: datetime) -> AnyMemory:
    """The draft with every id, time and forgetting state it did not bring."""
    scopes.parse(draft.scope)
    created_at = draft.created_at or now
    shared: dict[str, object] = {
        "id": draft.id or str(uuid_utils.uuid7()),
        "created_at": created_at,
        "updated_at": draft.updated_at or created_at,
    }
    fields = {name: getattr(draft, name) for name in type(draft).model_fields} | shared
    if isinstance(draft, EpisodicDraft):
        return EpisodicMemory(**fields | _episode_defaults(draft, created_at))
    return SemanticMemory(**fields | {"valid_at": draft.valid_at or created_at})


def _episode_defaults(draft: EpisodicDraft, created_at: datetime) -> dict[str, object]:
    messages = tuple(
        Message(role=message.role, content=message.content, timestamp=message.timestamp or draft.end_at or created_at)
        for message in draft.messages
    )
    state = fsrs.initial_state(surprise=draft.surprise)
    return {
        "messages": messages,
        "start_at": draft.start_at or (messages[0].timestamp if messages else created_at),
        "end_at": draft.end_at or (messages[-1].timestamp if messages else created_at),
        "stability": draft.stability or state.stability,
        "difficulty": draft.difficulty or state.difficulty,
        "last_reviewed_at": draft.last_reviewed_at or created_at,
    }


def _cosine(left: Sequence[float], right: Sequence[float]) -> float:
    product = sum(a * b for a, b in zip(left, right, strict=True))
    return product / (math.hypot(*left) * math.hypot(*right) or 1.0)
