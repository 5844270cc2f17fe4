"""The least that any hybrid search must do when it already knows the scope.

Numpy dot products over the scope's vectors and BM25 as a sum of sparse columns over its documents: all in memory,
nothing fused, nothing ranked by forgetting, nothing read from disk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np
from corpus import Corpus, Text
from scipy import sparse

CANDIDATES: Final = 100


class Floor:
    """Every scope by itself, made when it is first asked for."""

    name = "floor"

    def __init__(self, corpus: Corpus) -> None:
        self._texts = corpus.texts
        self._scopes: dict[str, ScopeFloor] = {}

    def search(self, question: Text) -> None:
        self._scope(question.scope).search(question.vector, question.terms)

    def add_and_find(self, newcomer: Text) -> None:
        scope = self._scope(newcomer.scope)
        scope.add(newcomer.vector, newcomer.terms)
        nearest, _ = scope.search(newcomer.vector, newcomer.terms)
        assert nearest[0] == len(scope.terms) - 1

    def _scope(self, scope: str) -> ScopeFloor:
        if scope not in self._scopes:
            texts = self._texts[scope]
            vectors = np.array([text.vector for text in texts])
            self._scopes[scope] = ScopeFloor(vectors, [text.terms for text in texts])
        return self._scopes[scope]


class ScopeFloor:
    """One scope: a matrix of vectors and a sparse matrix of BM25 weights, as bm25s has it."""

    def __init__(self, vectors: np.ndarray, terms: list[list[str]]) -> None:
        self.vectors = vectors
        self.terms = terms
        self._rebuild()

    def add(self, vector: np.ndarray, terms: list[str]) -> None:
        self.vectors = np.vstack((self.vectors, vector))
        self.terms.append(terms)
        self._rebuild()

    def search(self, vector: np.ndarray, terms: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        columns = [self.columns[term] for term in terms if term in self.columns]
        keyword = np.asarray(self.weights[:, columns].sum(axis=1)).ravel()
        return _top(_dot(self.vectors, vector)), _top(keyword)

    def _rebuild(self, k1: float = 0.9, b: float = 0.4) -> None:
        self.columns: dict[str, int] = {}
        rows, columns, frequencies = [], [], []
        for row, terms in enumerate(self.terms):
            for term, frequency in Counter(terms).items():
                rows.append(row)
                columns.append(self.columns.setdefault(term, len(self.columns)))
                frequencies.append(frequency)
        total, frequency = len(self.terms), np.array(frequencies, np.float64)
        lengths = np.array([len(terms) for terms in self.terms])
        document_frequency = np.bincount(columns)
        idf = np.log(1 + (total - document_frequency + 0.5) / (document_frequency + 0.5))
        norm = k1 * (1 - b + b * lengths / lengths.mean())
        weights = idf[columns] * frequency / (frequency + norm[rows])
        self.weights = sparse.csc_matrix((weights, (rows, columns)), shape=(total, len(self.columns)))


def _dot(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """In chunks, since BLAS wakes its threads for a large product and takes ten times as long."""
    return np.concatenate([matrix[start : start + 256] @ vector for start in range(0, len(matrix), 256)])


def _top(scores: np.ndarray) -> np.ndarray:
    best = np.argpartition(-scores, CANDIDATES)[:CANDIDATES] if len(scores) > CANDIDATES else np.arange(len(scores))
    return best[np.argsort(-scores[best])]
