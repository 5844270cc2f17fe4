"""How rows of a Chroma collection become memories: settings that the store notes, conversion, embedder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from statistics import median
from typing import TYPE_CHECKING, Final, Self

import numpy as np
import pydantic
from pydantic import BaseModel, ConfigDict

from memory_retrievers.errors import ConfigurationError, EmbeddingMismatchError, ValidationError
from memory_retrievers.models import AnyMemory, Category, Origin, SemanticMemory, scopes
from memory_retrievers.models.contents import StoredMemory
from memory_retrievers.models.selection import NewPassage, Vector, Vectors
from memory_retrievers.storage.chroma_sync import collection as source
from memory_retrievers.storage.store import MemoryStore, complete

if TYPE_CHECKING:
    from memory_retrievers.backends.sql.ledger import SQLLedger

_NOTE: Final = "adoption"  # the triggers of the store look into this note for ``write_through``


class Adoption(BaseModel):
    """Identity of an imported collection, and how its rows become memories."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    collection_id: str  # the id Chroma gave it
    collection_name: str  # its name
    scope: str | None  # the scope of all memories; None if each row names its own
    scope_key: str | None  # the metadata key under which it does
    text_key: str | None  # the metadata key of the text; None takes the document
    category: Category  # the category of all facts
    where: source.Where | None = None  # only the rows that this filter of Chroma's selects; None are all
    write_through: bool  # whether changes of the memories are written to the collection

    @classmethod
    def chosen(
        cls,
        collection: source.Collection,
        *,
        scope: str | None,
        scope_key: str | None,
        text_key: str | None,
        category: Category | str,
        where: source.Where | None,
        write_through: bool,
    ) -> Self:
        """Validate the settings a caller has given.

        Args:
            collection: The collection to import.
            scope: Scope of all memories; None if each row names its own.
            scope_key: Metadata key that holds the scope of each row; None if ``scope`` is given.
            text_key: Metadata key that holds the text; None takes the document.
            category: Category of all facts.
            where: Import only rows that match this filter; None imports all.
            write_through: Write changes of the memories to the collection.

        Raises:
            ConfigurationError: Not exactly one of scope and scope_key, or a key is empty.
            ValidationError: The scope is malformed, there is no such category, or Chroma does not take the filter.
            BackendError: The collection could not be read.
        """
        if (scope is None) == (scope_key is None):
            raise ConfigurationError(
                "give either scope=, for all rows, or scope_key=, the metadata key that holds the scope of each row"
            )
        if scope_key == "" or text_key == "":
            raise ConfigurationError("scope_key and text_key are metadata keys: they must not be empty")
        source.check_where(collection, where)
        try:
            return cls(
                collection_id=str(collection.id),
                collection_name=collection.name,
                scope=None if scope is None else scopes.parse(scope),
                scope_key=scope_key,
                text_key=text_key,
                category=Category(category),
                where=where,
                write_through=write_through,
            )
        except pydantic.ValidationError as error:
            raise ValidationError.from_pydantic(error) from error
        except ValueError as error:
            if isinstance(error, ValidationError):
                raise
            raise ValidationError(f"unknown category {category!r}; one of: {', '.join(Category)}") from error

    @classmethod
    def noted(cls, ledger: SQLLedger) -> Self | None:
        """Read the settings from the store; None if it has imported nothing."""
        note = ledger.notes().get(_NOTE)
        return None if note is None else cls.model_validate_json(note)

    def note(self, ledger: SQLLedger) -> None:
        """Write the settings to the store."""
        ledger.write_notes({_NOTE: self.model_dump_json()})

    def of(self, collection: source.Collection) -> Self:
        """Return the settings for a collection that replaces the imported one."""
        return self.model_copy(update={"collection_id": str(collection.id), "collection_name": collection.name})

    def refuse_other_collection(self, collection: source.Collection) -> None:
        """Raise an error unless it is the imported collection, which the name alone does not show."""
        if self.collection_id != str(collection.id):
            raise ConfigurationError(
                f"this is not the collection that was adopted, {self.collection_name!r} with the id "
                f"{self.collection_id}: if it has taken that one's place, call sync_chroma(collection, confirm=True)"
            )

    def refuse_other(self, noted: Adoption | None) -> None:
        """Raise an error for other settings; only write-through may change."""
        if noted is None:
            return
        if noted.collection_id != self.collection_id:
            raise ConfigurationError(
                f"this store has adopted the collection {noted.collection_name!r} ({noted.collection_id}) already: "
                "give another path, one store for each collection"
            )
        if noted.model_copy(update={"write_through": self.write_through}) != self:
            raise ConfigurationError(
                f"the collection {noted.collection_name!r} was adopted with scope={noted.scope!r}, "
                f"scope_key={noted.scope_key!r}, text_key={noted.text_key!r}, category={str(noted.category)!r}, "
                f"where={noted.where!r}: give the same again, or another path"
            )


class Skip(StrEnum):
    """Reason why a row becomes no memory."""

    NO_TEXT = "no_text"
    ZERO_VECTOR = "zero_vector"
    NON_FINITE_VECTOR = "non_finite_vector"
    NO_SCOPE = "no_scope"
    INVALID_SCOPE = "invalid_scope"
    ID_TAKEN = "id_taken"
    INVALID_RECORD = "invalid_record"
    HELD_BACK = "held_back"


def memory_of(row: source.SourceRow, adoption: Adoption, store: MemoryStore) -> StoredMemory | Skip:
    """Convert a row to a fact with its passage, as the store admits it, or return the reason why it becomes none.

    Args:
        row: The row.
        adoption: How rows become memories.
        store: The store it is for.

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
            metadata=source.without_own_fields(row.metadata),
            origin=Origin.IMPORT,
        )
    except ValidationError:
        return Skip.INVALID_RECORD
    admitted = store.admitted(draft)
    if admitted is None:
        return Skip.HELD_BACK
    memory = complete(admitted, now=store.now())
    if memory.search_text != draft.fact:
        (vector,) = store.embed([memory.embedding_text])
    return StoredMemory(memory=memory, passages=(passage_of(memory, vector),))


def passage_of(memory: AnyMemory, vector: Vector) -> NewPassage:
    """Build the passage of a memory as the store would, with its unit vector of shape (d,)."""
    return NewPassage(part=memory.kind, text=memory.search_text, vector=vector)


def text_of(row: source.SourceRow, adoption: Adoption) -> str | Skip:
    """Return the text of a row."""
    text = row.document if adoption.text_key is None else row.metadata.get(adoption.text_key)
    if text is None and adoption.text_key is None:
        text = source.node_text(row.metadata)
    return text if isinstance(text, str) and text.strip() else Skip.NO_TEXT


def _scope_of(row: source.SourceRow, adoption: Adoption) -> str | Skip:
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
    """Normalise a vector of shape (d,) to unit length, since Chroma returns vectors as they were given."""
    length = np.linalg.norm(vector.astype(np.float64))
    if not np.isfinite(length):
        return Skip.NON_FINITE_VECTOR
    return (vector / length).astype(np.float32) if length else Skip.ZERO_VECTOR


_SAMPLES: Final = 5
_MIN_COSINE: Final = 0.90  # quantised or newer builds of a model stay above it; another model is nowhere near


def check_embedder(
    collection: source.Collection, adoption: Adoption, embed: Callable[[Sequence[str]], Vectors]
) -> None:
    """Check that a collection's vectors are from an embedder, by up to five texts of the first page.

    Args:
        collection: The collection.
        adoption: How rows become memories, and which rows do.
        embed: Returns the unit vectors of n texts, shape (n, d).

    Raises:
        EmbeddingMismatchError: The vectors have another length, or point elsewhere.
        EmbeddingError: The embedder failed.
        BackendError: The collection could not be read.
    """
    cosines = []
    page = source.read(collection, where=adoption.where, limit=source.PAGE, offset=0)
    for row, text, stored in _samples(page, adoption):
        alike = _cosine(collection, stored, embed([text]))
        if alike < _MIN_COSINE:
            alike = max(alike, _cosine(collection, stored, embed(_other_forms(row, text))))
        cosines.append(alike)
    if cosines and (middle := median(cosines)) < _MIN_COSINE:
        raise _mismatch(collection, f"gives other vectors than the ones in it (median cosine {middle:.2f})")


def _cosine(collection: source.Collection, stored: Vector, embedded: Vectors) -> float:
    if embedded.shape[1] != stored.size:
        raise _mismatch(collection, f"gives vectors of {embedded.shape[1]} numbers, and it holds {stored.size}")
    return float((embedded @ stored).max())


def _mismatch(collection: source.Collection, problem: str) -> EmbeddingMismatchError:
    return EmbeddingMismatchError(
        f"this embedder is not the one the collection {collection.name!r} was filled with: it {problem}. Give that one "
        "with embedder=; nothing was changed"
    )


def _samples(page: list[source.SourceRow], adoption: Adoption) -> list[tuple[source.SourceRow, str, Vector]]:
    usable = []
    for row in page:
        text, vector = text_of(row, adoption), unit(row.vector)
        if not isinstance(text, Skip) and not isinstance(vector, Skip):
            usable.append((row, text, vector))
    return usable[:: max(1, len(usable) // _SAMPLES)][:_SAMPLES]


def _other_forms(row: source.SourceRow, text: str) -> list[str]:
    """Other texts that may have been embedded for a row: the form of our own facts and of LlamaIndex's nodes."""
    facts = [f"{category}: {text}" for category in Category]
    of_node = source.embedded_text(row.metadata, text)
    return facts if of_node is None else [*facts, of_node]
