"""BM25 by the rank_bm25 package, over the term lists of the scope that is searched.

It keeps nothing that the ledger does not know: term lists and models are caches, and a model is built anew when the
passages of its scope have changed.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import rank_bm25

from memory_retrievers.contents import VerificationReport
from memory_retrievers.passages import Hits, Passage, Selection
from memory_retrievers.protocols import KeywordIndex, Ledger
from memory_retrievers.text import analyze

_SMALLEST_K1: Final = 1e-300

_MODELS: Final = 64
"""How many scopes keep their model."""


class _Model:
    """The passages of one scope and kind, with their term lists."""

    def __init__(self, terms: dict[int, list[str]], *, k1: float, b: float) -> None:
        self.terms = terms
        self._positions = {passage: position for position, passage in enumerate(terms)}
        self._known = {term for its_terms in terms.values() for term in its_terms}
        # BM25Plus with delta 0 has Lucene's form up to a constant factor and idf = ln((N + 1) / df), always positive.
        # With k1 = 0 it would divide nothing by nothing where a term is missing.
        k1 = max(k1, _SMALLEST_K1)
        self._bm25 = rank_bm25.BM25Plus(list(terms.values()), k1=k1, b=b, delta=0) if self._known else None

    def best(self, query: Sequence[str], passages: Sequence[int], limit: int) -> list[tuple[int, float]]:
        """Those of the passages that share a term with the query, with their scores, best first, ties by lower id."""
        asked = self._known.intersection(query)
        matching = [passage for passage in passages if not asked.isdisjoint(self.terms.get(passage, ()))]
        if self._bm25 is None or not matching:
            return []
        terms = [term for term in query if term in asked]
        scores = self._bm25.get_batch_scores(terms, [self._positions[passage] for passage in matching])
        return sorted(zip(matching, map(float, scores), strict=True), key=lambda hit: (-hit[1], hit[0]))[:limit]


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
        self._lock = threading.Lock()
        self._models: OrderedDict[tuple[object, ...], _Model] = OrderedDict()
        self._forgotten = 0  # how often something was

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
        with self._lock:
            self._forgotten += 1
            for key, model in list(self._models.items()):
                if not model.terms.keys().isdisjoint(passages):
                    del self._models[key]

    def search(self, terms: Sequence[str], selection: Selection, *, limit: int) -> Hits:
        """See ``protocols.KeywordIndex``."""
        if not terms:
            return Hits([], [], [])
        best = self._model(selection).best(terms, self._ledger.eligible(selection), limit)
        owners = self._ledger.owners([passage for passage, _ in best])
        hits = [(passage, owners[passage], score) for passage, score in best if passage in owners]
        passages, memories, scores = (list(column) for column in zip(*hits, strict=True)) if hits else ([], [], [])
        return Hits(passages, memories, scores)

    def verify(self) -> VerificationReport:
        """See ``protocols.KeywordIndex``; of this engine's own nothing is stored, so only postings can be wrong."""
        return VerificationReport() if self._postings is None else self._postings.verify()

    def rebuild(self) -> None:
        """See ``protocols.KeywordIndex``; of this engine's own only what is remembered is dropped."""
        if self._postings is not None:
            self._postings.rebuild()
        with self._lock:
            self._models.clear()

    def _model(self, selection: Selection) -> _Model:
        key = (selection.scope, selection.include_child_scopes, selection.kind)
        forgotten = self._forgotten
        passages = self._ledger.indexed(selection)
        with self._lock:
            model = self._models.get(key)
        if model is None or list(model.terms) != passages:
            model = self._build(passages, {} if model is None else model.terms)
        with self._lock:
            if forgotten != self._forgotten:  # its words may have been read before that
                return model
            self._models[key] = model
            self._models.move_to_end(key)
            while len(self._models) > _MODELS:
                self._models.popitem(last=False)
        return model

    def _build(self, passages: Sequence[int], known: dict[int, list[str]]) -> _Model:
        texts = self._ledger.texts([passage for passage in passages if passage not in known])
        terms = {
            passage: known[passage] if passage in known else analyze(texts[passage])
            for passage in passages
            if passage in known or passage in texts
        }
        return _Model(terms, k1=self._k1, b=self._b)
