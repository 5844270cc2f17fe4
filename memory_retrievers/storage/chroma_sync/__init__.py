"""Imports an existing Chroma collection, page by page, follows its changes, and optionally writes changes back.

Collections are recognised by their methods alone; nothing here imports chromadb.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import uuid_utils

from memory_retrievers.errors import BackendError, ConfigurationError, ValidationError
from memory_retrievers.models import AnyMemory, EpisodicMemory
from memory_retrievers.models.contents import AdoptionReport, Progress, SkippedRows, StoredMemory
from memory_retrievers.models.management import MemoryEventType, changes_of
from memory_retrievers.models.memories import changed
from memory_retrievers.models.selection import Vector
from memory_retrievers.models.storage import AdoptedRow, Unwritten
from memory_retrievers.storage.chroma_sync import collection as source
from memory_retrievers.storage.chroma_sync.collection import PAGE, Collection, Metadata, SourceRow, Where
from memory_retrievers.storage.chroma_sync.rows import Adoption, Skip, check_embedder, memory_of, passage_of
from memory_retrievers.storage.store import MemoryStore

if TYPE_CHECKING:
    from memory_retrievers.backends.sql.sync import SQLAdoptedRows

_EXAMPLES: Final = 5


def adopt(
    store: MemoryStore, collection: Collection, adoption: Adoption, *, progress: Progress | None
) -> AdoptionReport:
    """Import new and changed rows of a collection; nothing is deleted.

    Args:
        store: The store to import into.
        collection: The collection to read.
        adoption: How rows become memories, and which rows do.
        progress: Called after every page; None is not called.

    Raises:
        BackendError: The collection could not be read; what is in stays, and a further call goes on.
    """
    intake = Intake(store, adoption)
    for page in _pages(collection, adoption.where, progress):
        intake.take_in(page)
    return intake.report()


def sync(
    store: MemoryStore,
    collection: Collection,
    adoption: Adoption,
    *,
    where: Where | None,
    confirm: bool,
    progress: Progress | None,
) -> AdoptionReport:
    """Import new rows, follow changed ones, and delete the memories of deleted ones.

    Everything is read before anything is written.

    Args:
        store: The store to import into.
        collection: The collection to follow.
        adoption: How rows become memories, and which rows do.
        where: Further filter of this call; rows that do not match are left as they are.
        confirm: Allow more than half of the memories to be deleted.
        progress: Called after every page; None is not called.

    Raises:
        ValidationError: More than half would be forgotten, and that was not confirmed.
    """
    check_embedder(collection, adoption, store.embedder.current().embed_documents)
    intake, rows = Intake(store, adoption), store.ledger.adopted
    to_read: list[str] = []
    gone = _gone(rows, collection, adoption.where)
    selected = source.both(adoption.where, where)
    for page in _pages(collection, selected, progress):
        new_or_changed, useless = intake.look_at(page)
        to_read += new_or_changed
        gone += useless
    if not confirm and len(gone) * 2 > (count := rows.count()):
        raise ValidationError(
            f"{len(gone)} of the {count} adopted memories are gone from the collection {collection.name!r}, or of no "
            "use any more: if that is right, call sync_chroma(collection, confirm=True); nothing was changed"
        )
    adoption.of(collection).note(store.ledger)
    for ids in _in_pages(to_read):
        intake.take_in(source.read(collection, ids=ids, where=selected))
    for ids in _in_pages(gone):
        intake.forget(ids)
    return intake.report()


class Intake:
    """Turns rows into memories of a store and counts the outcomes."""

    def __init__(self, store: MemoryStore, adoption: Adoption) -> None:
        self._store = store
        self._rows = store.ledger.adopted
        self._adoption = adoption
        self._counts: Counter[str] = Counter()
        self._skipped: Counter[Skip] = Counter()
        self._examples: dict[Skip, list[str]] = {}

    def report(self) -> AdoptionReport:
        """Report the outcomes so far."""
        return AdoptionReport(
            **self._counts,
            skipped=tuple(
                SkippedRows(reason=str(reason), rows=self._skipped[reason], examples=tuple(self._examples[reason]))
                for reason in Skip
                if reason in self._skipped
            ),
        )

    def look_at(self, page: Sequence[SourceRow]) -> tuple[list[str], list[str]]:
        """Return the ids of rows to import, and of imported ones that are no longer usable; writes nothing."""
        known = self._rows.known([row.id for row in page])
        to_take_in, useless = [], []
        for row in page:
            held = known.get(row.id)
            if held is not None and held.digest == row.digest:
                self._counts["unchanged"] += 1
            elif isinstance(reason := memory_of(row, self._adoption, self._store), Skip):
                self._skip(row, reason)
                useless += [row.id] if held else []
            else:
                to_take_in.append(row.id)
        return to_take_in, useless

    def take_in(self, page: Sequence[SourceRow]) -> None:
        """Store the new and changed rows of a page in one transaction."""
        before = self._counts.copy()

        def work() -> None:
            self._counts = before.copy()
            self._take_in(page)

        self._store.attempt(work)

    def _take_in(self, page: Sequence[SourceRow]) -> None:
        embedder = self._store.embedder.current()
        with self._store.transaction(), self._rows.quiet_transaction():
            if not self._store.embedder.admits(embedder):
                raise ConfigurationError("the store has just moved to another embedder: its vectors no longer fit")
            known = self._rows.known([row.id for row in page])
            new: dict[str, tuple[SourceRow, StoredMemory]] = {}
            for row in page:
                held = known.get(row.id)
                if held is not None and held.digest == row.digest:
                    self._counts["unchanged"] += 1
                elif isinstance(stored := memory_of(row, self._adoption, self._store), Skip):
                    self._skip(row, stored)
                elif held is not None and (before := self._memory(held)).scope == stored.memory.scope:
                    self._overwrite(row, before, stored)
                    self._counts["updated"] += 1
                else:
                    self._remove(held)  # it has moved to another scope
                    if self._store.ledger.get(scope=stored.memory.scope, id=stored.memory.id) is None:
                        new[row.id] = (row, stored)
                        self._counts["adopted" if held is None else "updated"] += 1
                    else:
                        self._skip(row, Skip.ID_TAKEN)
                        self._counts["forgotten"] += held is not None
            self._add(new)

    def forget(self, ids: Sequence[str]) -> None:
        """Delete the memories of these collection ids in one transaction."""
        with self._store.transaction(), self._rows.quiet_transaction():
            for held in self._rows.known(ids).values():
                self._remove(held)
                self._counts["forgotten"] += 1

    def _overwrite(self, row: SourceRow, before: AnyMemory, stored: StoredMemory) -> None:
        text = "summary" if isinstance(before, EpisodicMemory) else "fact"
        fields = {text: stored.passages[0].text, "metadata": stored.memory.metadata}
        after = changed(before, fields, now=self._store.now())
        passage = passage_of(after, stored.passages[0].vector)
        (overwritten,) = self._store.overwrite(after, [passage], outdated={after.kind})
        names = changes_of(before, after)
        self._store.ledger.events.note([after.key], MemoryEventType.UPDATED, at=self._store.now(), fields=names)
        self._rows.note({row.id: AdoptedRow(memory=overwritten.memory, digest=row.digest)})

    def _add(self, new: dict[str, tuple[SourceRow, StoredMemory]]) -> None:
        stored = [stored for _, stored in new.values()]
        passages = self._store.add([each.memory for each in stored], [each.passages for each in stored])
        self._rows.note(
            {
                row.id: AdoptedRow(memory=passage.memory, digest=row.digest)
                for (row, _), passage in zip(new.values(), passages, strict=True)
            }
        )

    def _remove(self, held: AdoptedRow | None) -> None:
        if held is not None:
            memory = self._memory(held)
            self._store.forget(memory.id, scope=memory.scope)

    def _memory(self, held: AdoptedRow) -> AnyMemory:
        return self._store.ledger.load([held.memory])[held.memory]

    def _skip(self, row: SourceRow, reason: Skip) -> None:
        self._skipped[reason] += 1
        examples = self._examples.setdefault(reason, [])
        if len(examples) < _EXAMPLES:
            examples.append(row.id)


def _gone(rows: SQLAdoptedRows, collection: Collection, where: Where | None) -> list[str]:
    """Imported ids that the collection no longer has; asked by id, since pages may shift while they are read.

    A row that the filter of the adoption no longer selects is gone too, unless it is as we left it: what was made or
    changed here may never have been selected.
    """
    gone: list[str] = []
    after = ""
    while ids := rows.page(after=after, limit=PAGE):
        left = source.missing(collection, ids, where)
        if left and where is not None:
            known = rows.known(left)
            outside = source.read(collection, ids=left)
            as_we_left_it = {row.id for row in outside if row.id in known and known[row.id].digest == row.digest}
            left = [row for row in left if row not in as_we_left_it]
        gone += left
        after = ids[-1]
    return gone


def _in_pages(ids: list[str]) -> Iterator[list[str]]:
    return (ids[start : start + PAGE] for start in range(0, len(ids), PAGE))


def _pages(collection: Collection, where: Where | None, progress: Progress | None) -> Iterator[list[SourceRow]]:
    """Yield the rows that match a filter in pages; one that moves meanwhile may be missed until the next reading."""
    total, done = 0 if progress is None else source.count(collection, where), 0
    while page := source.read(collection, where=where, limit=PAGE, offset=done):
        yield page
        done += len(page)
        if progress is not None:
            progress(done, max(done, total))


_LOGGER: Final = logging.getLogger("memory_retrievers")
_NOT_READ_YET: Final = b""
_SLOW: Final = 1.0  # seconds


class WriteThrough:
    """Writes changes of the store to a collection, touching only ids that were imported or created here.

    The store records each change in the transaction that makes it, so what cannot be written now is written later.
    """

    def __init__(self, store: MemoryStore, collection: Collection, adoption: Adoption) -> None:
        self._store = store
        self._rows = store.ledger.adopted
        self._collection = collection
        self._adoption = adoption
        self._writing = threading.Lock()
        self._pause_until = 0.0

    def attempt(self) -> None:
        """Write waiting changes; failures are logged and retried later, after as long as one took that took seconds."""
        if (begun := time.monotonic()) < self._pause_until:
            return
        try:
            self.flush()
        except BackendError as error:
            if (took := time.monotonic() - begun) >= _SLOW:  # it does not answer: each change would wait as long
                self._pause_until = begun + 2 * took
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
        # what is gone, so that its ids are free again
        if changes.gone:
            with source.reached(self._collection):
                self._collection.delete(ids=list(changes.gone))
        # what is new or changed, under ids that are noted as ours before anything is written there
        memories = self._store.ledger.load(changes.memories)
        if vectors := self._vectors(memories):
            self._upsert({row: memories[row] for row in vectors}, vectors)
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
        own = source.own_fields(before)
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
        metadata = {**source.with_changes(own, before=users, after=metadata), **metadata}
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
