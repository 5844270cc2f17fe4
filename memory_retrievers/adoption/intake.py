"""Take in a collection page by page, and follow its changes.

Rows are told by their ids and digests, so whatever is there already is left alone: a copy that was killed goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from memory_retrievers.adoption import collection as source
from memory_retrievers.adoption.collection import PAGE, Collection, SourceRow
from memory_retrievers.adoption.embedder import check_embedder
from memory_retrievers.adoption.rows import Skip, memory_of, passage_of
from memory_retrievers.adoption.settings import Adoption
from memory_retrievers.contents import AdoptionReport, Progress, SkippedRows, StoredMemory
from memory_retrievers.errors import ConfigurationError, ValidationError
from memory_retrievers.models import AnyMemory, EpisodicMemory
from memory_retrievers.passages import Passage
from memory_retrievers.protocols import AdoptedRow, AdoptedRows
from memory_retrievers.store import MemoryStore
from memory_retrievers.updates import changed

_EXAMPLES: Final = 5


def adopt(
    store: MemoryStore, rows: AdoptedRows, collection: Collection, adoption: Adoption, *, progress: Progress | None
) -> AdoptionReport:
    """Take in what the store does not hold yet, or holds otherwise; nothing is forgotten.

    Raises:
        BackendError: The collection could not be read; what is in stays, and a further call goes on.
    """
    intake = Intake(store, rows, adoption)
    for page in _told(source.pages(collection), collection, progress):
        intake.take_in(page)
    return intake.report()


def sync(
    store: MemoryStore,
    rows: AdoptedRows,
    collection: Collection,
    adoption: Adoption,
    *,
    confirm: bool,
    progress: Progress | None,
) -> AdoptionReport:
    """Take in what is new, follow what has changed, forget what is gone.

    Everything is read before anything is written.

    Raises:
        ValidationError: More than half would be forgotten, and that was not confirmed.
        EmbeddingMismatchError: The collection's vectors are not from the store's embedder.
        BackendError: The collection could not be read.
    """
    check_embedder(collection, adoption, store.embedder.current().embed_documents)
    intake = Intake(store, rows, adoption)
    to_read: list[str] = []
    gone = _gone(rows, collection)
    for page in _told(source.pages(collection), collection, progress):
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
        intake.take_in(source.read(collection, ids=ids))
    for ids in _in_pages(gone):
        intake.forget(ids)
    return intake.report()


class Intake:
    """Turns rows into memories, and counts.

    Args:
        store: Where the memories go.
        rows: Which rows it has.
        adoption: How rows become memories.
    """

    def __init__(self, store: MemoryStore, rows: AdoptedRows, adoption: Adoption) -> None:
        self._store = store
        self._rows = rows
        self._adoption = adoption
        self._counts: Counter[str] = Counter()
        self._skipped: Counter[Skip] = Counter()
        self._examples: dict[Skip, list[str]] = {}

    def report(self) -> AdoptionReport:
        """What has become of the rows so far."""
        return AdoptionReport(
            **self._counts,
            skipped=tuple(
                SkippedRows(reason=str(reason), rows=self._skipped[reason], examples=tuple(self._examples[reason]))
                for reason in Skip
                if reason in self._skipped
            ),
        )

    def look_at(self, page: Sequence[SourceRow]) -> tuple[list[str], list[str]]:
        """The ids of rows to be taken in, and of adopted ones that are of no use any more; writes nothing."""
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
        """Store what is new in a page and what has changed, in one transaction."""
        embedder = self._store.embedder.current()
        replaced: list[Passage] = []
        with self._rows.quiet_transaction():
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
                elif held is not None and (before := self._in_place(held, stored)) is not None:
                    replaced += self._overwrite(row, before, stored)
                    self._counts["updated"] += 1
                else:
                    replaced += self._removed(held)  # it has moved to another scope
                    if self._store.ledger.get(scope=stored.memory.scope, id=stored.memory.id) is None:
                        new[row.id] = (row, stored)
                        self._counts["adopted" if held is None else "updated"] += 1
                    else:
                        self._skip(row, Skip.ID_TAKEN)
                        self._counts["forgotten"] += held is not None
            self._add(new)
        self._store.let_go(replaced)

    def forget(self, ids: Sequence[str]) -> None:
        """Forget the memories that stand under these ids in the collection, in one transaction."""
        gone: list[Passage] = []
        with self._rows.quiet_transaction():
            for held in self._rows.known(ids).values():
                gone += self._removed(held)
                self._counts["forgotten"] += 1
        self._store.let_go(gone)

    def _in_place(self, held: AdoptedRow, stored: StoredMemory) -> AnyMemory | None:
        """The memory a row has become, unless the row has moved to another scope."""
        before = self._memory(held)
        return before if before.scope == stored.memory.scope else None

    def _overwrite(self, row: SourceRow, before: AnyMemory, stored: StoredMemory) -> list[Passage]:
        text = "summary" if isinstance(before, EpisodicMemory) else "fact"
        fields = {text: stored.passages[0].text, "metadata": stored.memory.metadata}
        after = changed(before, fields, now=self._store.now())
        replaced = self._store.unindexed(after.scope, id=after.id, parts={after.kind})
        passages = self._store.ledger.replace(after, [passage_of(after, stored.passages[0].vector)])
        self._store.keyword.add(passages)
        self._rows.note({row.id: AdoptedRow(memory=passages[0].memory, digest=row.digest)})
        return replaced

    def _add(self, new: dict[str, tuple[SourceRow, StoredMemory]]) -> None:
        stored = [stored for _, stored in new.values()]
        passages = self._store.ledger.add([each.memory for each in stored], [each.passages for each in stored])
        self._store.keyword.add(passages)
        self._rows.note(
            {
                row.id: AdoptedRow(memory=passage.memory, digest=row.digest)
                for (row, _), passage in zip(new.values(), passages, strict=True)
            }
        )

    def _removed(self, held: AdoptedRow | None) -> list[Passage]:
        if held is None:
            return []
        memory = self._memory(held)
        gone = self._store.unindexed(memory.scope, id=memory.id)
        self._store.ledger.remove(scope=memory.scope, id=memory.id)
        return gone

    def _memory(self, held: AdoptedRow) -> AnyMemory:
        return self._store.ledger.load([held.memory])[held.memory]

    def _skip(self, row: SourceRow, reason: Skip) -> None:
        self._skipped[reason] += 1
        examples = self._examples.setdefault(reason, [])
        if len(examples) < _EXAMPLES:
            examples.append(row.id)


def _gone(rows: AdoptedRows, collection: Collection) -> list[str]:
    """The adopted ids that the collection no longer has; asked by id, since pages may shift while they are read."""
    gone: list[str] = []
    after = ""
    while ids := rows.page(after=after, limit=PAGE):
        gone += source.missing(collection, ids)
        after = ids[-1]
    return gone


def _in_pages(ids: list[str]) -> Iterator[list[str]]:
    return (ids[start : start + PAGE] for start in range(0, len(ids), PAGE))


def _told(
    pages: Iterator[list[SourceRow]], collection: Collection, progress: Progress | None
) -> Iterator[list[SourceRow]]:
    """The pages, telling after each how far the reading has come."""
    if progress is None:
        yield from pages
        return
    with source.reached(collection):
        total = collection.count()
    done = 0
    for page in pages:
        yield page
        done += len(page)
        progress(done, max(done, total))
