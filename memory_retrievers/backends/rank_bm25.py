"""BM25 by the rank_bm25 package, over the terms of the scope that is searched.

It keeps nothing that the ledger does not know: terms and models are caches, and a model is built anew when the
passages of its scope have changed.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import rank_bm25

from memory_retrievers.backends.term_cache import TermCache
from memory_retrievers.contents import VerificationReport
from memory_retrievers.passages import Hits, Passage, Selection, TermCounts, TermStatistics
from memory_retrievers.protocols import KeywordIndex, Ledger

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memory_retrievers.backends.term_block import TermBlock

_SMALLEST_K1: Final = 1e-300

_MODELS: Final = 64
"""How many scopes keep their model."""


class _Model:
    """The model of a block's passages."""

    def __init__(self, block: TermBlock, *, k1: float, b: float) -> None:
        self.block = block
        documents: list[list[str]] = [[] for _ in block.ids]
        for term, (positions, frequencies) in block.postings.items():
            for position, frequency in zip(positions.tolist(), frequencies.tolist(), strict=True):
                documents[position] += [term] * frequency
        # BM25Plus with delta 0 has Lucene's form up to a constant factor and idf = ln((N + 1) / df), always positive.
        # With k1 = 0 it would divide nothing by nothing where a term is missing.
        k1 = max(k1, _SMALLEST_K1)
        self._bm25 = rank_bm25.BM25Plus(documents, k1=k1, b=b, delta=0) if block.postings else None

    def best(self, query: Sequence[str], visible: NDArray[np.bool_], *, limit: int) -> Hits:
        """Those of the visible passages that share a term with the query, best first, ties by lower id."""
        terms = [term for term in query if term in self.block.postings]
        candidates = visible & self.block.holding(terms)
        scores = np.zeros(len(candidates))
        if self._bm25 is not None and candidates.any():
            scores[candidates] = self._bm25.get_batch_scores(terms, np.flatnonzero(candidates).tolist())
        return self.block.best(scores, candidates, limit=limit)


class RankBM25KeywordIndex:
    """A ``protocols.KeywordIndex`` on rank_bm25: right for small stores and as the yardstick of the others.

    Args:
        ledger: Where the passages are.
        k1: Saturation of term counts.
        b: How strongly long passages are discounted.
        postings: An engine whose postings are stored with the records; it is kept up, so that the store can be opened
            with it later and nothing forgotten stays in them. None where there are no such postings.
    """

    def __init__(self, ledger: Ledger, *, k1: float, b: float, postings: KeywordIndex | None = None) -> None:
        self._ledger = ledger
        self._postings = postings
        self._k1 = k1
        self._b = b
        self._cache = TermCache(ledger)
        self._lock = threading.Lock()
        self._models: OrderedDict[tuple[object, ...], _Model] = OrderedDict()

    def add(self, passages: Sequence[Passage]) -> None:
        """Only the stored postings; the next search here sees what the ledger holds."""
        if self._postings is not None:
            self._postings.add(passages)

    def remove(self, passages: Sequence[Passage]) -> None:
        """Only the stored postings; the next search here sees what the ledger holds."""
        if self._postings is not None:
            self._postings.remove(passages)

    def forget(self, passages: Sequence[int]) -> None:
        """See ``protocols.KeywordIndex``."""
        if self._postings is not None:
            self._postings.forget(passages)
        self._cache.forget(passages)
        gone = np.array(passages, np.int64)
        with self._lock:
            for key, model in list(self._models.items()):
                if np.isin(model.block.ids, gone).any():
                    del self._models[key]

    def search(self, terms: Sequence[str], selection: Selection, *, limit: int) -> Hits:
        """See ``protocols.KeywordIndex``."""
        if not terms:
            return Hits([], [], [])
        block, visible = self._cache.visible(selection)
        return self._model(selection, block).best(terms, visible, limit=limit)

    def statistics(self, terms: Sequence[str], selection: Selection) -> TermStatistics:
        """See ``protocols.KeywordIndex``."""
        return self._cache.block(selection).statistics(terms)

    def counts(self, terms: Sequence[str], selection: Selection, passages: NDArray[np.int64]) -> TermCounts:
        """See ``protocols.KeywordIndex``."""
        return self._cache.block(selection).counts(terms, passages)

    def verify(self) -> VerificationReport:
        """See ``protocols.KeywordIndex``; of this engine's own nothing is stored, so only postings can be wrong."""
        return VerificationReport() if self._postings is None else self._postings.verify()

    def rebuild(self) -> None:
        """See ``protocols.KeywordIndex``; of this engine's own only what is remembered is dropped."""
        if self._postings is not None:
            self._postings.rebuild()
        self._cache.clear()
        with self._lock:
            self._models.clear()

    def _model(self, selection: Selection, block: TermBlock) -> _Model:
        key = (selection.scope, selection.include_child_scopes, selection.fields)
        with self._lock:
            model = self._models.get(key)
        if model is None or model.block is not block:
            model = _Model(block, k1=self._k1, b=self._b)
        with self._lock:
            if self._cache.remembers(block):  # else something of it may be forgotten by now
                self._models[key] = model
                self._models.move_to_end(key)
                while len(self._models) > _MODELS:
                    self._models.popitem(last=False)
        return model
