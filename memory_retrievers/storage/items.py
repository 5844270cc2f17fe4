"""Items of a store: values under keys, each of them a fact of origin ``store``."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from memory_retrievers.backends.snapshot import similarities
from memory_retrievers.errors import ValidationError
from memory_retrievers.models import AnyMemory, Kind, MemoryKey, SemanticDraft, SemanticMemory, scopes
from memory_retrievers.models.fields import storable
from memory_retrievers.models.filters import MAX_FILTER_BYTES
from memory_retrievers.models.management import MemoryEventType
from memory_retrievers.models.selection import NewPassage, Selection, Vector
from memory_retrievers.models.storage import ItemCondition, StoredItem
from memory_retrievers.storage.store import affected_scopes, complete
from memory_retrievers.text.passages import passage_texts

if TYPE_CHECKING:
    from memory_retrievers.storage.store import MemoryStore

VALUE: Final = "value"  # the metadata key of an item's value
Fits: TypeAlias = Callable[[Any], bool]  # says of an item's value whether it fits
_PAGE: Final = 256  # items that are read at a time at most
_DECIMALS: Final = 6  # of a cosine; more are of the way it was computed
_FEW: Final = 256  # up to so many items that fit are found first, and then compared

_LIKELY: Final = 4
"""How many times as many of the nearest items are looked at first as are asked for, since a filter fits many or few."""


class FoundItem(NamedTuple):
    """An item, and its cosine with the query; None without one."""

    item: StoredItem
    score: float | None


class StoredItems:
    """Reads the items of a store by key, by time and by meaning, and writes them."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._ledger = store.ledger.items

    def get(self, keys: Sequence[MemoryKey]) -> dict[MemoryKey, StoredItem]:
        """What is there under these keys and has not expired, items or not."""
        return self._ledger.get(keys, now=self._store.now()) if keys else {}

    def scopes(self, scope: str) -> list[str]:
        """The scopes that hold items, of a scope and those below it, sorted."""
        return self._ledger.scopes(scopes.parse(scope), now=self._store.now())

    def newest(
        self, scope: str, *, conditions: Sequence[ItemCondition], fits: Fits | None, offset: int, limit: int
    ) -> list[FoundItem]:
        """The items of a scope and those below it, the last changed first.

        Args:
            scope: The scope.
            conditions: What the database looks at of a value, see :func:`is_comparable`.
            fits: What else a value must be; None for nothing.
            offset: Leave out so many of the first.
            limit: At most so many.
        """
        if limit <= 0:
            return []
        found = self._ledger.newest(
            scopes.parse(scope),
            now=self._store.now(),
            conditions=conditions,
            offset=0 if fits is not None else offset,
            limit=None if fits is not None else limit,
        )
        fitting = (FoundItem(item, None) for item in found if _fits(item, fits))
        return _part(fitting, 0 if fits is None else offset, limit)

    def nearest(
        self, query: str, scope: str, *, conditions: Sequence[ItemCondition], fits: Fits | None, offset: int, limit: int
    ) -> list[FoundItem]:
        """The items of a scope and those below it by their cosine with a query, the greatest first.

        Args:
            query: What is looked for.
            scope: The scope.
            conditions: As for :meth:`newest`.
            fits: As for :meth:`newest`.
            offset: Leave out so many of the first.
            limit: At most so many.
        """
        selection = Selection(
            scope=scopes.parse(scope),
            kind=Kind.SEMANTIC,
            now=self._store.now(),
            include_child_scopes=True,
            every_field=True,
        )

        def among(vector: Vector, rows: Sequence[int]) -> list[FoundItem]:
            near = self._measured(vector, selection, rows)
            return _part(self._scored(near, (), fits, first=offset + limit), offset, limit)

        def find(vector: Vector) -> list[FoundItem]:
            if conditions:
                rows = self._ledger.rows(selection.scope, now=selection.now, conditions=conditions, limit=_FEW + 1)
                if len(rows) <= _FEW:  # what fits is rare: only that is compared
                    return among(vector, rows)
            # all facts of the scope are ranked in memory, and what is no item, or does not fit, is passed over
            ranked, is_all = self._first(vector, selection, _LIKELY * (offset + limit))
            first = len(ranked) if conditions else offset + limit
            found = _part(self._scored(ranked, conditions, fits, first=first), offset, limit)
            if is_all or len(found) == limit:
                return found
            return among(vector, self._ledger.rows(selection.scope, now=selection.now, conditions=conditions))

        return [] if limit <= 0 else self._store.search(storable(query), find)

    def put(self, drafts: Sequence[SemanticDraft], *, removed: Sequence[MemoryKey] = ()) -> None:
        """Store items in place of what has their keys, and delete others, in one transaction.

        Raises:
            ValidationError: Two of them have the same key, one has that of a memory that is no item, or
                ``before_store`` held one back in a way it may not.
            EmbeddingError: The embedder failed; nothing was stored.
        """
        store = self._store
        now = store.now()
        items: list[AnyMemory]
        if store.before_store is not None:
            keys = [MemoryKey(scope=draft.scope, id=draft.id or "") for draft in drafts]
            made = {key: {"created_at": item.created_at} for key, item in self.get(keys).items()}
            offered = [draft.model_copy(update=made.get(key)) for key, draft in zip(keys, drafts, strict=True)]
            admitted = [kept for draft in offered if (kept := store.admitted(draft)) is not None]
            items = [complete(draft, now=now) for draft in admitted]
        else:
            alone = {"duplicate_of": None, "near": ()}  # nobody has seen them since they were checked
            items = [SemanticMemory.trusted({**vars(e), "valid_at": e.created_at or now, **alone}) for e in drafts]
        keys = [item.key for item in items]
        if len(set(keys)) < len(keys):
            raise ValidationError("an id is taken twice among what is to be stored; nothing was stored")

        def change(passages: list[list[NewPassage]]) -> None:
            there = self._ledger.there(items, removed=removed, now=now, as_made=store.before_store is not None)
            store.remove(there.gone, event=None)
            if outdated := [row for key, (_, row) in there.stays.items() if key not in there.same]:
                store.remove_passages(self._ledger.passages(outdated))
            new = [() if key in there.same else each for key, each in zip(keys, passages, strict=True)]
            made = {key: {"created_at": at, "valid_at": at} for key, at in there.made.items()}
            kept = [type(item).trusted({**vars(item), **made.get(item.key, {})}) for item in items]
            if added := self._ledger.put(kept, new, there=there):
                store.keyword.add(added)
            events = store.ledger.events
            events.note([key for key in keys if key not in there.stays], MemoryEventType.CREATED, at=now)
            events.note([*there.stays], MemoryEventType.CORRECTED, at=now, places=there.stays.values())
            events.note(set(there.gone).difference(keys), MemoryEventType.FORGOTTEN, at=now)

        if not items:
            store.remove(removed)
        else:
            texts = [passage_texts(item, searched=store.searched) for item in items]
            store.write(texts, change, within=affected_scopes((key.scope, True) for key in (*keys, *removed)))

    def prolong(self, until: Mapping[int, datetime]) -> None:
        """Let items live until a time, by row; those that ``before_store`` holds back by now do not."""
        kept: dict[MemoryKey, datetime] = {}
        for row, memory in self._store.ledger.load([*until]).items():
            with suppress(ValidationError):
                if self._store.admitted(memory.model_copy(update={"expires_at": until[row]})) is not None:
                    kept[memory.key] = until[row]
        if kept:
            self._ledger.prolong(kept)

    def sweep(self, scope: str) -> int:
        """Delete the items of a scope and those below it that have expired; returns how many."""
        return self._store.remove(
            self._ledger.expired(scopes.parse(scope), now=self._store.now()), event=MemoryEventType.EXPIRED
        )

    def _first(self, vector: Vector, selection: Selection, wanted: int) -> tuple[dict[int, float], bool]:
        """The nearest items by row, at least so many if there are, and whether these are certainly all.

        An item is as near as the nearest of its fields.
        """
        dense, limit = self._store.dense, wanted
        while True:
            hits = dense.search(vector, selection, limit=limit)
            ranked: dict[int, float] = {}
            for row, score in zip(hits.memories, np.round(np.array(hits.scores), _DECIMALS).tolist(), strict=True):
                ranked.setdefault(row, score)
            is_all = len(hits.memories) < limit
            if is_all or len(ranked) >= wanted:
                return ranked, is_all and not dense.is_approximate(selection)
            limit *= 2

    def _measured(self, vector: Vector, selection: Selection, rows: Sequence[int]) -> dict[int, float]:
        """The cosine of each of these items that is indexed, by row, the greatest first; ties by row."""
        snapshot = self._store.ledger.snapshots.of(selection)
        if snapshot is None:
            layout = self._store.ledger.layout(selection, memories=rows)
            memories, near = layout.memories, self._store.dense.similarities(vector, selection, layout.passages)
        else:
            found = np.flatnonzero(np.isin(snapshot.memories, rows))
            memories, near = snapshot.memories[found], similarities(snapshot.matrix[found], vector)
        cosines = np.round(near.astype(float), _DECIMALS)
        order = np.lexsort((memories, -cosines))
        _, nearest = np.unique(memories[order], return_index=True)
        order = order[np.sort(nearest)]
        return dict(zip(memories[order].tolist(), cosines[order].tolist(), strict=True))

    def _scored(
        self, ranked: Mapping[int, float], conditions: Sequence[ItemCondition], fits: Fits | None, *, first: int
    ) -> Iterator[FoundItem]:
        """Those that are items and fit, read page by page as they are asked for; ``first`` is the first page's size."""
        rows, now, size = iter(ranked), self._store.now(), first
        while page := [*itertools.islice(rows, size)]:
            items = self._ledger.load(page, now=now, conditions=conditions)
            size = min(2 * size, _PAGE)
            for row in page:
                if (item := items.get(row)) is not None and _fits(item, fits):
                    yield FoundItem(item, ranked[row])


def value_of(item: StoredItem | None) -> dict[str, Any] | None:
    """The value of an item that holds; None of anything else."""
    value = item.metadata.get(VALUE) if item is not None and item.is_put and item.holds else None
    return value if isinstance(value, dict) else None


def _fits(item: StoredItem, fits: Fits | None) -> bool:
    value = value_of(item)
    return value is not None and (fits is None or fits(value))


def _part(found: Iterator[FoundItem], offset: int, limit: int) -> list[FoundItem]:
    """The items from ``offset`` on; reading stops with the last of them."""
    return [*itertools.islice(found, offset, offset + limit)]


def is_comparable(key: object, value: object) -> bool:
    """True if the database can compare the value under a key with another."""
    texts = [text for text in (key, value) if isinstance(text, str)]
    if not isinstance(key, str) or any(
        # what reads as an escape of JSON's is not told from one in a column of PostgreSQL
        not text.isprintable() or r"\u00" in text or len(text.encode()) > MAX_FILTER_BYTES
        for text in texts
    ):
        return False
    if isinstance(value, bool | str):
        return True
    return isinstance(value, int | float) and abs(value) < 2**63  # NaN is not
