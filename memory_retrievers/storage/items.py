"""Items of a store: values under keys, each of them a fact of origin ``store``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from memory_retrievers.errors import ValidationError
from memory_retrievers.models import AnyMemory, Kind, MemoryKey, Origin, SemanticMemory, scopes
from memory_retrievers.models.fields import storable
from memory_retrievers.models.filters import MAX_FILTER_BYTES
from memory_retrievers.models.selection import Selection

if TYPE_CHECKING:
    from memory_retrievers.models.selection import Vector
    from memory_retrievers.models.storage import ItemCondition
    from memory_retrievers.storage.store import MemoryStore

VALUE: Final = "value"
"""The metadata key of an item's value."""

Fits: TypeAlias = Callable[[Any], bool]
"""Says of an item's value whether it fits."""

_PAGE: Final = 256
"""Items that are read at a time where conditions are left that the database does not look at."""


_DECIMALS: Final = 6
"""Of a cosine; more are of the way it was computed."""


class FoundItem(NamedTuple):
    """An item, and its cosine with the query; None without one."""

    item: SemanticMemory
    score: float | None


def as_item(memory: AnyMemory | None) -> SemanticMemory | None:
    """The memory, if it is an item that still holds."""
    if not isinstance(memory, SemanticMemory) or memory.origin is not Origin.STORE or memory.invalid_at is not None:
        return None
    return memory if isinstance(memory.metadata.get(VALUE), dict) else None


class StoredItems:
    """Reads the items of a store by key, by time and by meaning.

    Args:
        store: Where they are.
    """

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._ledger = store.ledger.items

    def get(self, keys: Sequence[MemoryKey]) -> dict[MemoryKey, AnyMemory]:
        """The memories of these keys that are there and have not expired, items or not."""
        now = self._store.now()
        return {key: memory for key, memory in self._ledger.get(keys).items() if not memory.has_expired(now)}

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
        page = {} if fits is not None else {"offset": offset, "limit": limit}
        rows = self._rows(scope, conditions, **page)
        found = ((item, None) for item in self._read(rows, fits))
        return _part(found, 0 if fits is None else offset, limit)

    def nearest(
        self,
        query: str,
        scope: str,
        *,
        conditions: Sequence[ItemCondition],
        fits: Fits | None,
        offset: int,
        limit: int,
    ) -> list[FoundItem]:
        """The items of a scope and those below it by their cosine with a query, the greatest first.

        Args:
            query: What is looked for.
            scope: The scope.
            conditions: As for :meth:`newest`.
            fits: As for :meth:`newest`.
            offset: Leave out so many of the first.
            limit: At most so many.

        Raises:
            EmbeddingError: The embedder failed.
        """
        selection = Selection(
            scope=scopes.parse(scope),
            kind=Kind.SEMANTIC,
            now=self._store.now(),
            include_child_scopes=True,
            origins=(Origin.STORE,),
        )

        def find(vector: Vector) -> list[FoundItem]:
            if fits is None and not conditions:
                hits = self._store.dense.search(vector, selection, limit=offset + limit)
                ranked = dict(zip(hits.memories, np.round(np.array(hits.scores), _DECIMALS).tolist(), strict=True))
            else:
                ranked = self._measured(vector, selection, self._rows(scope, conditions))
            return _part(self._scored(ranked, fits), offset, limit)

        return self._store.search(storable(query), find)

    def prolong(self, items: Sequence[SemanticMemory]) -> None:
        """Let items live until their new ``expires_at``; those that ``before_store`` holds back by now do not."""
        kept: list[AnyMemory] = []
        for item in items:
            try:
                admitted = self._store.admitted(item)
            except ValidationError:
                continue
            if admitted is not None:
                kept.append(item)
        if kept:
            self._ledger.prolong(kept)

    def sweep(self, scope: str) -> int:
        """Delete the items of a scope and those below it that have expired; returns how many."""
        return self._store.remove(self._ledger.expired(scopes.parse(scope), now=self._store.now()))

    def _rows(self, scope: str, conditions: Sequence[ItemCondition], **page: int) -> list[int]:
        return self._ledger.rows(scopes.parse(scope), now=self._store.now(), conditions=conditions, under=VALUE, **page)

    def _measured(self, vector: Vector, selection: Selection, rows: Sequence[int]) -> dict[int, float]:
        """The cosine of each of these items that is indexed, by row, the greatest first; ties by row."""
        layout = self._store.ledger.layout(selection, memories=rows)
        if not len(layout.passages):
            return {}
        cosines = np.round(self._store.dense.similarities(vector, selection, layout.passages).astype(float), _DECIMALS)
        order = np.lexsort((layout.memories, -cosines))
        return dict(zip(layout.memories[order].tolist(), cosines[order].tolist(), strict=True))

    def _scored(self, ranked: Mapping[int, float], fits: Fits | None) -> Iterator[FoundItem]:
        rows = [*ranked]
        for start in range(0, len(rows), _PAGE):
            page = rows[start : start + _PAGE]
            memories = self._store.ledger.load(page)
            for row in page:
                if (item := _fitting(memories.get(row), fits)) is not None:
                    yield FoundItem(item, ranked[row])

    def _read(self, rows: Sequence[int], fits: Fits | None) -> Iterator[SemanticMemory]:
        for found in self._scored(dict.fromkeys(rows, 0.0), fits):
            yield found.item


def _fitting(memory: AnyMemory | None, fits: Fits | None) -> SemanticMemory | None:
    item = as_item(memory)
    return item if item is not None and (fits is None or fits(item.metadata[VALUE])) else None


def _part(found: Iterator[tuple[SemanticMemory, float | None]], offset: int, limit: int) -> list[FoundItem]:
    """The items from ``offset`` on; reading stops with the last of them."""
    taken: list[FoundItem] = []
    if limit <= 0:
        return taken
    for place, each in enumerate(found):
        if place >= offset:
            taken.append(FoundItem(*each))
        if len(taken) == limit:
            break
    return taken


def is_comparable(key: object, value: object) -> bool:
    """True if the database can compare the value under a key with another."""
    texts = [text for text in (key, value) if isinstance(text, str)]
    if not isinstance(key, str) or any(
        not text.isprintable() or len(text.encode()) > MAX_FILTER_BYTES for text in texts
    ):
        return False
    if isinstance(value, bool | str):
        return True
    return isinstance(value, int | float) and math.isfinite(value) and abs(value) < 2**63
