"""Keyword index on rank_bm25: the engine of in-memory stores, and the reference implementation in tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import rank_bm25

from memory_retrievers.backends.sql.keyword import PostingsKeywordIndex
from memory_retrievers.models.selection import Hits, Selection

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memory_retrievers.backends.snapshot import ScopeSnapshot
    from memory_retrievers.backends.terms import TermBlock


_SMALLEST_K1: Final = 1e-300

_POSTING_BYTES: Final = 100
_PASSAGE_BYTES: Final = 400
"""What rank_bm25 takes for a passage, and for each term that stands in it: entries of mappings."""


class _Model:
    """The rank_bm25 model of a block's passages."""

    def __init__(self, block: TermBlock, *, k1: float, b: float) -> None:
        self.block = block
        postings = sum(each.shape[1] for each in block.postings.values())
        self.size = _POSTING_BYTES * (postings + len(block.postings)) + _PASSAGE_BYTES * (1 + len(block.ids))
        documents: list[list[str]] = [[] for _ in block.ids]
        for term, (positions, frequencies) in block.postings.items():
            for position, frequency in zip(positions.tolist(), frequencies.tolist(), strict=True):
                documents[position] += [term] * frequency
        # BM25Plus with delta 0 has Lucene's form up to a constant factor and idf = ln((N + 1) / df), always positive.
        # With k1 = 0 it would divide nothing by nothing where a term is missing.
        k1 = max(k1, _SMALLEST_K1)
        self._bm25 = rank_bm25.BM25Plus(documents, k1=k1, b=b, delta=0) if block.postings else None

    def best(self, query: Sequence[str], visible: NDArray[np.bool_], *, limit: int) -> Hits:
        """Rank the visible passages that share a term with the query, best first, ties by lower id."""
        terms = [term for term in query if term in self.block.postings]
        candidates = visible & self.block.holding(terms)
        scores = np.zeros(len(candidates))
        if self._bm25 is not None and candidates.any():
            scores[candidates] = self._bm25.get_batch_scores(terms, np.flatnonzero(candidates).tolist())
        return self.block.best(scores, candidates, limit=limit)


class RankBM25KeywordIndex(PostingsKeywordIndex):
    """A ``protocols.KeywordIndex`` that searches by rank_bm25: for small stores, and as the reference for the others.

    The postings are kept up all the same, so that the store, or a copy of it, can be opened with either engine.

    Args:
        ledger: Where the passages are.
        k1: Saturation of term counts.
        b: How strongly long passages are discounted.
    """

    def search(self, terms: Sequence[str], selection: Selection, *, limit: int) -> Hits:
        """See ``protocols.KeywordIndex``."""
        if not terms:
            return Hits([], [], [])
        snapshot = self._snapshot(selection)
        matching = self._ledger.matching(selection) if selection.needs_ledger else None
        model = self._ledger.snapshots.attach(
            snapshot,
            f"rank_bm25 {self._k1} {self._b}",
            lambda: _Model(snapshot.terms, k1=self._k1, b=self._b),
            lambda model: model.size,
        )
        return model.best(terms, snapshot.visible(selection, matching=matching), limit=limit)

    def _snapshot(self, selection: Selection) -> ScopeSnapshot:
        """The snapshot of a scope of any size: this engine has no other way to answer."""
        snapshot = self._ledger.snapshots.of(selection, at_any_size=True)
        assert snapshot is not None  # noqa: S101 - asked for at any size
        return snapshot
