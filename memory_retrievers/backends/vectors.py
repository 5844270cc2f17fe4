"""Exact nearest neighbours: dot products with the vectors of a scope's snapshot, or with all stored ones in turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memory_retrievers.backends.snapshot import finite, rounded, similarities
from memory_retrievers.backends.terms import positions_of
from memory_retrievers.models.contents import VerificationReport
from memory_retrievers.models.selection import Hits, Selection, Vector, Vectors

if TYPE_CHECKING:
    from memory_retrievers.backends.sql.ledger import SQLLedger

_FEW: Final = 256  # up to so many vectors are compared at once, without a first pass that leaves out what is far
_STREAMED: Final = 8_192  # rows per piece where a scope is too large for a snapshot
_ROUNDING: Final = 1e-5  # more than the product of two unit vectors can be off by


class _Block(NamedTuple):
    """Vectors as parallel arrays: ascending passage ids, memory rows, and a matrix (n, d)."""

    ids: NDArray[np.int64]
    memories: NDArray[np.int64]
    matrix: Vectors


class ExactVectorIndex:
    """Nearest-neighbour search by cosine that compares with every vector in scope; there is no similarity threshold.

    Indexes that ask an approximate one in wide scopes inherit from it: in small scopes, and where the approximate one
    cannot answer, they are exact.
    """

    exact_limit: int | None = None
    """Up to so many passages that a selection lets through, a search misses none; None is any number."""

    def __init__(self, ledger: SQLLedger) -> None:
        self._ledger = ledger

    def search(self, vector: Vector, selection: Selection, *, limit: int) -> Hits:
        """Find the nearest passages, nearest first, ties by lower id.

        Args:
            vector: Unit vector of the query, shape (d,).
            selection: The scope, kind and filters that passages must match.
            limit: Maximum number of passages.
        """
        if self.is_approximate(selection) and (hits := self._approximate(vector, selection, limit)) is not None:
            return hits
        seen = self._ledger.snapshots.seen(selection)
        if seen is None:
            return self._streamed(np.array(self._ledger.eligible(selection), np.int64), vector, limit)
        snapshot, mask = seen
        rows = np.flatnonzero(mask)
        if not len(rows):
            return Hits([], [], [])
        if len(snapshot) > _FEW:
            rows = rows[_near(similarities(snapshot.matrix, vector)[rows], limit)]
        return _ranked(_Block(snapshot.ids, snapshot.memories, snapshot.matrix), rows, vector, limit)

    def is_approximate(self, selection: Selection) -> bool:
        """Return True if a search of this selection may miss near passages, in return for speed."""
        limit = self.exact_limit
        return limit is not None and self._ledger.size(selection, at_most=limit) > limit

    def _approximate(self, vector: Vector, selection: Selection, limit: int) -> Hits | None:  # noqa: ARG002
        """Search an index that may miss near passages; None where it cannot be relied on."""
        return None

    def similarities(self, vector: Vector, selection: Selection, passages: NDArray[np.int64]) -> NDArray[np.float32]:
        """Compute cosines, rounded so that equal vectors have equal cosines in any block.

        Args:
            vector: Unit vector of the query, shape (d,).
            selection: The scope, kind and filters that the passages match.
            passages: Passage ids, shape (n,).

        Returns:
            Cosines of shape (n,), in the order given; -1 for a passage that no longer exists.
        """
        found = np.full(len(passages), -1.0, np.float32)
        snapshot = self._ledger.snapshots.of(selection)
        if snapshot is not None:
            rows, is_here = positions_of(passages, snapshot.ids)
            if is_here.any():
                found[is_here] = rounded(similarities(snapshot.matrix, vector)[rows[is_here]])
            return found
        order = np.argsort(passages, kind="stable")
        for start in range(0, len(passages), _STREAMED):
            piece = order[start : start + _STREAMED]
            block = self._read(passages[piece].tolist())
            rows, is_here = positions_of(passages[piece], block.ids)
            if is_here.any():
                found[piece[is_here]] = rounded(similarities(block.matrix, vector)[rows[is_here]])
        return found

    def _streamed(self, passages: NDArray[np.int64], vector: Vector, limit: int) -> Hits:
        """Search a scope too large for a snapshot in pieces, keeping only the ids of the best."""
        ids, cosines = np.empty(0, np.int64), np.empty(0, np.float32)
        for start in range(0, len(passages), _STREAMED):
            block = self._read(passages[start : start + _STREAMED].tolist())
            ids, cosines = np.append(ids, block.ids), np.append(cosines, similarities(block.matrix, vector))
            near = _near(cosines, limit)
            ids, cosines = ids[near], cosines[near]
        return self._best(ids.tolist(), vector, limit)

    def _best(self, passages: Sequence[int], vector: Vector, limit: int) -> Hits:
        """Score those passages that were found and that are still there."""
        block = self._read(passages)
        rows = np.flatnonzero(block.memories)
        return _ranked(block, rows, vector, limit) if len(rows) else Hits([], [], [])

    def verify(self) -> VerificationReport:
        """Compare the stored data with the ledger's passages; here the vectors are the ledger's own."""
        return VerificationReport()

    def purge(self) -> None:
        """Erase every byte of removed passages from the index's files; here there are none."""

    def close(self) -> None:
        """Release all resources; further calls do nothing."""
        self._ledger.snapshots.forget(None)

    def rebuild(self) -> None:
        """Recreate all stored and cached data from the ledger's vectors; here only snapshots are made anew."""
        self._ledger.snapshots.forget(None)

    def _read(self, passages: Sequence[int]) -> _Block:
        ids, matrix = self._ledger.vectors(passages)
        owners = self._ledger.owners(ids)
        return _Block(
            np.array(ids, np.int64), np.array([owners.get(passage, 0) for passage in ids], np.int64), finite(matrix)
        )


def _near(cosines: NDArray[np.float32], limit: int) -> NDArray[np.int64]:
    """Rows of the most similar, shape (k,), with those that only rounding may exclude."""
    if len(cosines) <= limit:
        return np.arange(len(cosines))
    cut = np.partition(cosines, -limit)[-limit]
    return np.flatnonzero(cosines >= cut - _ROUNDING)


def _ranked(block: _Block, rows: NDArray[np.int64], vector: Vector, limit: int) -> Hits:
    """Rank the rows by similarity, ties by id, also where the limit cuts between equal ones.

    BLAS rounds the same vector differently in different rows, so what is near is added up again, every row alike.
    """
    matrix = block.matrix if len(rows) == len(block.ids) else block.matrix[rows]
    cosines = np.einsum("ij,j->i", matrix, vector)
    order = np.argsort(-cosines, kind="stable")[:limit]
    best = rows[order]
    return Hits(block.ids[best].tolist(), block.memories[best].tolist(), cosines[order].tolist())
