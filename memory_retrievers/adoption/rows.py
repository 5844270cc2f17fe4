"""From the row of a collection to a memory, or the reason why it cannot be one."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
import pydantic

from memory_retrievers import scopes
from memory_retrievers.adoption.collection import SourceRow
from memory_retrievers.adoption.settings import Adoption
from memory_retrievers.contents import StoredMemory
from memory_retrievers.drafts import completed
from memory_retrievers.errors import ValidationError
from memory_retrievers.models import AnyMemory, Origin, SemanticMemory
from memory_retrievers.passages import NewPassage
from memory_retrievers.store import MemoryStore

if TYPE_CHECKING:
    from memory_retrievers.passages import Vector


class Skip(StrEnum):
    """Why a row is no memory."""

    NO_TEXT = "no_text"
    ZERO_VECTOR = "zero_vector"
    NON_FINITE_VECTOR = "non_finite_vector"
    NO_SCOPE = "no_scope"
    INVALID_SCOPE = "invalid_scope"
    ID_TAKEN = "id_taken"
    INVALID_RECORD = "invalid_record"
    HELD_BACK = "held_back"


def memory_of(row: SourceRow, adoption: Adoption, store: MemoryStore) -> StoredMemory | Skip:
    """The fact that a row becomes, as the store admits it, with its passage.

    Raises:
        EmbeddingError: ``before_store`` has changed the text, and the embedder failed.
    """
    text = text_of(row, adoption)
    scope = _scope_of(row, adoption)
    vector = unit(row.vector)
    if isinstance(text, Skip):
        return text
    if isinstance(scope, Skip):
        return scope
    if isinstance(vector, Skip):
        return vector
    try:
        draft = SemanticMemory.new(
            id=row.id,
            scope=scope,
            fact=text,
            category=adoption.category,
            metadata=dict(row.metadata),
            origin=Origin.IMPORT,
        )
    except pydantic.ValidationError:
        return Skip.INVALID_RECORD
    admitted = store.admitted(draft)
    if admitted is None:
        return Skip.HELD_BACK
    memory = completed(admitted, now=store.now())
    if memory.search_text != draft.fact:
        (vector,) = store.embedder.current().embed_documents([memory.embedding_text])
    return StoredMemory(memory=memory, passages=(passage_of(memory, vector),))


def passage_of(memory: AnyMemory, vector: Vector) -> NewPassage:
    """The passage a memory is found by, in the shape the store gives it."""
    return NewPassage(part=memory.kind, text=memory.search_text, vector=vector)


def text_of(row: SourceRow, adoption: Adoption) -> str | Skip:
    """What the row says."""
    text = row.document if adoption.text_key is None else row.metadata.get(adoption.text_key)
    return text if isinstance(text, str) and text.strip() else Skip.NO_TEXT


def _scope_of(row: SourceRow, adoption: Adoption) -> str | Skip:
    if adoption.scope_key is None:
        assert adoption.scope is not None  # noqa: S101 - there is exactly one of them
        return adoption.scope
    named = row.metadata.get(adoption.scope_key)
    if isinstance(named, bool) or not isinstance(named, str | int):
        return Skip.NO_SCOPE
    try:
        return scopes.parse(str(named))
    except ValidationError:
        return Skip.INVALID_SCOPE


def unit(vector: Vector) -> Vector | Skip:
    """The vector at unit length, whatever the space of the collection: Chroma gives back what it was given."""
    length = np.linalg.norm(vector.astype(np.float64))
    if not np.isfinite(length):
        return Skip.NON_FINITE_VECTOR
    return (vector / length).astype(np.float32) if length else Skip.ZERO_VECTOR
