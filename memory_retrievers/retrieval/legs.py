"""The two legs of a search, dense and BM25: memories of one kind, best first in each list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memory_retrievers.passages import Selection
from memory_retrievers.stages import BM25, DENSE, stage
from memory_retrievers.store import MemoryStore

if TYPE_CHECKING:
    from memory_retrievers.passages import Vector


@dataclass(frozen=True, slots=True)
class Legs:
    """Two ranked lists of memories, as rows of the ledger; in each, every memory stands once."""

    dense: list[int]
    bm25: list[int]


def run_legs(store: MemoryStore, selection: Selection, *, vector: Vector, terms: Sequence[str], depth: int) -> Legs:
    """Search both indexes among the passages the selection lets through.

    A memory takes the place of its best passage in each list.

    Args:
        store: Where to search.
        selection: Scope, kind and filters; they come before ranking in both lists.
        vector: The question's vector.
        terms: The question's terms; none leaves the BM25 list empty.
        depth: How many passages each list contributes.
    """
    with stage(DENSE):
        dense = store.dense.search(vector, selection, limit=depth)
    with stage(BM25):
        bm25 = store.keyword.search(terms, selection, limit=depth)
    return Legs(list(dict.fromkeys(dense.memories)), list(dict.fromkeys(bm25.memories)))
