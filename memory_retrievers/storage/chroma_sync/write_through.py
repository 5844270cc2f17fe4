"""Writes changes of memories to the collection they came from, touching only ids imported or created here.

The store records each change in the transaction that makes it, so what cannot be written now is written later.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import uuid_utils

from memory_retrievers.errors import BackendError
from memory_retrievers.models import AnyMemory
from memory_retrievers.models.storage import AdoptedRow, Unwritten
from memory_retrievers.storage.chroma_sync import collection as source
from memory_retrievers.storage.chroma_sync.collection import PAGE, Collection, Metadata, own_fields, with_changes
from memory_retrievers.storage.chroma_sync.rows import Adoption
from memory_retrievers.storage.store import MemoryStore

if TYPE_CHECKING:
    from memory_retrievers.models.selection import Vector

_LOGGER: Final = logging.getLogger("memory_retrievers")
_NOT_READ_YET: Final = b""


class WriteThrough:
    """Writes changes of the store to a collection.

    Args:
        store: The store of the memories.
        collection: The imported collection.
        adoption: How memories become rows.
    """

    def __init__(self, store: MemoryStore, collection: Collection, adoption: Adoption) -> None:
        self._store = store
        self._rows = store.ledger.adopted
        self._collection = collection
        self._adoption = adoption
        self._writing = threading.Lock()

    def attempt(self) -> None:
        """Write waiting changes; failures are logged and retried later."""
        try:
            self.flush()
        except BackendError as error:
            # without its message, in which Chroma may repeat a text
            problem = type(error.__cause__ or error).__name__
            _LOGGER.warning("changes wait in the store until the collection can be written again: %s", problem)

    def flush(self) -> None:
        """Write waiting changes.

        Raises:
            BackendError: The collection could not be written; nothing is lost.
        """
        with self._writing:
            while (changes := self._rows.unwritten(limit=PAGE)) is not None:
                self._write(changes)

    def _write(self, changes: Unwritten) -> None:
        # 1. what is gone, so that its ids are free again
        if changes.gone:
            with source.reached(self._collection):
                self._collection.delete(ids=list(changes.gone))
        # 2. what is new or changed, under ids that are noted as ours before anything is written there
        memories = self._store.ledger.load(changes.memories)
        if vectors := self._vectors(memories):
            self._upsert({row: memories[row] for row in vectors}, vectors)
        # 3. done
        self._rows.settle(last=changes.last)

    def _upsert(self, memories: dict[int, AnyMemory], vectors: dict[int, Vector]) -> None:
        ids = self._ids(memories)
        memories = {row: memory for row, memory in memories.items() if row in ids}
        if not memories:
            return
        before = source.metadata_of(self._collection, list(ids.values()))
        texts = {row: memory.search_text for row, memory in memories.items()}
        with source.reached(self._collection):
            self._collection.upsert(
                ids=[ids[row] for row in memories],
                embeddings=[vectors[row].tolist() for row in memories],
                metadatas=[self._metadata(memory, before.get(ids[row], {})) for row, memory in memories.items()],
                documents=None if self._adoption.text_key else list(texts.values()),
            )
        numbers = {written: row for row, written in ids.items()}
        written = source.read(self._collection, ids=list(numbers))
        with self._rows.quiet_transaction():
            there = self._rows.known(list(numbers))  # without those that were forgotten meanwhile
            self._rows.note(
                {row.id: AdoptedRow(memory=numbers[row.id], digest=row.digest) for row in written if row.id in there}
            )

    def _ids(self, memories: dict[int, AnyMemory]) -> dict[int, str]:
        """Collection ids of the memories; a new one keeps its own id unless the collection uses it already.

        One that was forgotten meanwhile gets none: nothing would ever take it out of the collection again.
        """
        ids = self._rows.ids_of(list(memories))
        new = {row: memory.id for row, memory in memories.items() if row not in ids}
        if new:
            taken = {
                *source.metadata_of(self._collection, list(set(new.values()))),
                *self._rows.known(list(new.values())),
            }
            for row, wanted in new.items():
                new[row] = str(uuid_utils.uuid7()) if wanted in taken else wanted
                taken.add(new[row])
            with self._rows.quiet_transaction():
                alive = self._store.ledger.load(list(new))
                self._rows.note({new[row]: AdoptedRow(memory=row, digest=_NOT_READ_YET) for row in alive})
            ids |= {row: new[row] for row in alive}
        return ids

    def _vectors(self, memories: dict[int, AnyMemory]) -> dict[int, Vector]:
        """Vectors of the whole memories, by row; a memory without one is not found by vectors."""
        found: dict[int, Vector] = {}
        for row, memory in memories.items():
            passages = self._store.ledger.passages_of(memory.scope, id=memory.id)
            _, vectors = self._store.ledger.vectors([each.id for each in passages if each.part == memory.kind])
            if len(vectors):
                found[row] = vectors[0]
        return found

    def _metadata(self, memory: AnyMemory, before: Metadata) -> Mapping[str, Any]:
        """Metadata to merge into the stored: None deletes a key; LlamaIndex's own is kept."""
        own = own_fields(before)
        metadata: dict[str, Any] = {
            key: value
            for key, value in memory.metadata.items()
            if _holds(value) and key not in own and not _REFUSED.match(key)
        }
        key, text_key = self._adoption.scope_key, self._adoption.text_key
        if key is not None and str(own.get(key, metadata.get(key))) != memory.scope:
            metadata[key] = memory.scope
        if text_key is not None:
            metadata[text_key] = memory.search_text
        users = {each: value for each, value in before.items() if each not in own}
        metadata = {**with_changes(own, before=users, after=metadata), **metadata}
        return {**dict.fromkeys(before), **metadata} or cast("Mapping[str, Any]", None)  # it refuses an empty one


_REFUSED: Final = re.compile(r"[#$]|\Z|chroma:document\Z")
"""Keys of metadata that Chroma refuses, and a whole page of changes with them."""


def _holds(value: object) -> bool:
    """Return True if Chroma can store a value: text, a number, a boolean, or a list of one of these types."""
    if isinstance(value, list):
        return bool(value) and all(_is_plain(each) for each in value) and len(set(map(type, value))) == 1
    return _is_plain(value)


def _is_plain(value: object) -> bool:
    return isinstance(value, str | bool | float) or (isinstance(value, int) and -(2**63) <= value < 2**63)
