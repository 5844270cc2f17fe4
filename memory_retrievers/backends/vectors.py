"""Exact nearest neighbours: dot products with the stored vectors of the passages in a selection.

The ledger decides which passages those are; this module only caches vectors. Passage ids are never reused and vectors
never change, so the cache needs no invalidation: missing vectors are read, deleted ones are not asked for.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from memory_retrievers.models.contents import VerificationReport
from memory_retrievers.models.selection import Hits, Selection

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memory_retrievers.backends.sql.ledger import SQLLedger
    from memory_retrievers.models.selection import Vector, Vectors

CACHE_BYTES: Final = 256 * 2**20

_CHUNK: Final = 256
"""Rows per product: below the size at which BLAS wakes its threads, which costs more than it brings (measured: 8 ms
against 0.5 ms for 10,000 rows of 384)."""

_STREAMED: Final = 8_192
"""Rows per piece where a scope is too large to be remembered."""

_ID_BYTES: Final = 16

_DECIMALS: Final = 6

_ROUNDING: Final = 1e-5
"""More than the product of two unit vectors can be off by."""


@dataclass(frozen=True, slots=True)
class _Block:
    """Vectors of one scope and kind as parallel arrays: ascending passage ids, memory rows, and a matrix (n, d)."""

    ids: NDArray[np.int64]
    memories: NDArray[np.int64]
    matrix: Vectors

    @property
    def size(self) -> int:
        return self.ids.nbytes + self.memories.nbytes + self.matrix.nbytes

    def rows_of(self, passages: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """For each passage its insertion row, and whether it is there; both of shape (m,)."""
        rows = np.searchsorted(self.ids, passages)
        if not len(self.ids):
            return rows, np.zeros(len(passages), np.bool_)
        return rows, self.ids[np.minimum(rows, len(self.ids) - 1)] == passages

    def taken(self, rows: NDArray[np.int64]) -> _Block:
        """Return a block of these rows alone, in their order."""
        return _Block(self.ids[rows], self.memories[rows], self.matrix[rows])

    def merged(self, other: _Block) -> _Block:
        """Merge two blocks that share no passage."""
        if not len(self.ids) or not len(other.ids):
            return self if len(self.ids) else other
        both = _Block(
            np.concatenate((self.ids, other.ids)),
            np.concatenate((self.memories, other.memories)),
            np.concatenate((self.matrix, other.matrix)),
        )
        return both if other.ids[0] > self.ids[-1] else both.taken(np.argsort(both.ids, kind="stable"))


_EMPTY: Final = _Block(np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, 0), np.float32))


class ExactVectorIndex:
    """A ``protocols.VectorIndex`` that compares with every vector in scope.

    Args:
        ledger: Where the vectors are.
        cache_bytes: How much memory the vectors of recently searched scopes may take.
    """

    def __init__(self, ledger: SQLLedger, *, cache_bytes: int = CACHE_BYTES) -> None:
        self._ledger = ledger
        self._cache_bytes = cache_bytes
        self._lock = threading.Lock()
        self._blocks: OrderedDict[tuple[object, ...], _Block] = OrderedDict()
        self._bytes = 0
        self._row_bytes = 0
        self._forgotten = 0  # how often something was

    def search(self, vector: Vector, selection: Selection, *, limit: int) -> Hits:
        """Find the nearest passages exactly, nearest first, ties by lower id.

        Args:
            vector: Unit vector of the query, shape (d,).
            selection: The scope, kind and filters that passages must match.
            limit: Maximum number of passages.
        """
        forgotten = self._forgotten
        passages = np.array(self._ledger.eligible(selection), dtype=np.int64)
        if self._is_too_large(passages):
            return self._streamed(passages, vector, limit)
        block, rows = self._block(selection, passages, forgotten=forgotten, are_all=True)
        if not len(rows):
            return Hits([], [], [])
        if len(block.ids) > _CHUNK:
            rows = rows[_near(_similarities(block.matrix, vector)[rows], limit)]
        return _ranked(block, rows, vector, limit)

    def is_approximate(self, selection: Selection) -> bool:  # noqa: ARG002
        """See ``protocols.VectorIndex``."""
        return False

    def similarities(self, vector: Vector, selection: Selection, passages: NDArray[np.int64]) -> NDArray[np.float32]:
        """Compute cosines, rounded so that equal vectors have equal cosines in any block.

        Args:
            vector: Unit vector of the query, shape (d,).
            selection: The scope, kind and filters that the passages match.
            passages: Passage ids, shape (n,).

        Returns:
            Cosines of shape (n,), in the order given; -1 for a passage that no longer exists.
        """
        forgotten = self._forgotten
        order = np.argsort(passages, kind="stable")
        ascending = passages[order]
        found = np.full(len(passages), -1.0, np.float32)
        if not self._is_too_large(ascending):
            block, _ = self._block(selection, ascending, forgotten=forgotten, are_all=False)
            return _measured(block, ascending, vector, order, found)
        for start in range(0, len(passages), _STREAMED):
            piece = slice(start, start + _STREAMED)
            block = self._read(ascending[piece].tolist())
            found = _measured(block, ascending[piece], vector, order[piece], found)
        return found

    def _streamed(self, passages: NDArray[np.int64], vector: Vector, limit: int) -> Hits:
        """Search a scope too large for the cache in pieces, keeping only the best."""
        best, rows = _EMPTY, np.empty(0, np.int64)
        for start in range(0, len(passages), _STREAMED):
            block = best.taken(rows).merged(self._read(passages[start : start + _STREAMED].tolist()))
            best, rows = block, _near(_similarities(block.matrix, vector), limit)
        return _ranked(best, rows, vector, limit) if len(rows) else Hits([], [], [])

    def _is_too_large(self, passages: NDArray[np.int64]) -> bool:
        if not self._row_bytes and len(passages) > _STREAMED:
            self._read(passages[:1].tolist())  # tells how long vectors are
        return len(passages) * self._row_bytes > self._cache_bytes

    def verify(self) -> VerificationReport:
        """See ``protocols.VectorIndex``; the vectors are the ledger's own."""
        return VerificationReport()

    def purge(self) -> None:
        """See ``protocols.VectorIndex``; nothing is stored."""

    def close(self) -> None:
        """See ``protocols.VectorIndex``; only the cache is cleared."""
        self.rebuild()

    def rebuild(self) -> None:
        """See ``protocols.VectorIndex``; the vectors are the ledger's own, so only the cache is cleared."""
        self.forget(None)

    def forget(self, passages: Sequence[int] | None) -> None:
        """See ``protocols.VectorIndex``."""
        gone = np.array(passages or (), np.int64)
        with self._lock:
            self._forgotten += 1
            if passages is None:
                self._blocks.clear()
                self._bytes = 0
            for key, block in list(self._blocks.items()):
                kept = np.flatnonzero(~np.isin(block.ids, gone))
                if not len(kept):  # its key would stay, and cost nothing by the count
                    self._bytes -= self._blocks.pop(key).size
                elif len(kept) < len(block.ids):
                    self._blocks[key] = block.taken(kept)
                    self._bytes += self._blocks[key].size - block.size

    def _block(
        self, selection: Selection, passages: NDArray[np.int64], *, forgotten: int, are_all: bool
    ) -> tuple[_Block, NDArray[np.int64]]:
        """Return the cached vectors, completed from the ledger, and the rows of the passages among them.

        ``are_all``: the passages are all that the selection lets through, so that there is no use for any other.
        """
        key = (selection.scope, selection.include_child_scopes, selection.fields)
        with self._lock:
            known = self._blocks.get(key)
            if known is not None:
                self._blocks.move_to_end(key)
        block = known or _EMPTY
        rows, present = block.rows_of(passages)
        if not present.all():
            block = block.merged(self._read(passages[~present].tolist()))
            rows, present = block.rows_of(passages)
            rows = rows[present]  # without what was deleted since the ledger was asked
        # What is gone for good would stay in memory: a block that is mostly that is cut down to what is seen.
        narrowed = selection.is_narrow or selection.category is not None or not are_all
        if not narrowed and len(block.ids) > 2 * len(rows) + _CHUNK:
            block, rows = block.taken(rows), np.arange(len(rows))
        if block is not known and block is not _EMPTY:
            self._keep(key, block, forgotten=forgotten)
        return block, rows

    def _read(self, passages: Sequence[int]) -> _Block:
        ids, matrix = self._ledger.vectors(passages)
        if ids:
            self._row_bytes = matrix[0].nbytes + _ID_BYTES
        owners = self._ledger.owners(ids)
        return _Block(np.array(ids, np.int64), np.array([owners.get(passage, 0) for passage in ids], np.int64), matrix)

    def _keep(self, key: tuple[object, ...], block: _Block, *, forgotten: int) -> None:
        with self._lock:
            if forgotten != self._forgotten:  # it may have been read before that
                return
            replaced = self._blocks.pop(key, None)
            self._bytes += block.size - (replaced.size if replaced else 0)
            self._blocks[key] = block
            while self._bytes > self._cache_bytes:
                self._bytes -= self._blocks.popitem(last=False)[1].size


def _similarities(matrix: Vectors, vector: Vector) -> NDArray[np.float32]:
    similarities = np.empty(len(matrix), np.float32)
    for start in range(0, len(matrix), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        np.dot(matrix[chunk], vector, out=similarities[chunk])
    return similarities


def _measured(
    block: _Block,
    passages: NDArray[np.int64],
    vector: Vector,
    positions: NDArray[np.int64],
    found: NDArray[np.float32],
) -> NDArray[np.float32]:
    """Fill in the cosines of these passages at their positions, and return the array, shape (n,)."""
    rows, present = block.rows_of(passages)
    if present.any():
        found[positions[present]] = np.round(_similarities(block.matrix, vector)[rows[present]], _DECIMALS)
    return found


def _near(similarities: NDArray[np.float32], limit: int) -> NDArray[np.int64]:
    """Rows of the most similar, shape (k,), with those that only rounding may exclude."""
    if len(similarities) <= limit:
        return np.arange(len(similarities))
    cut = np.partition(similarities, -limit)[-limit]
    return np.flatnonzero(similarities >= cut - _ROUNDING)


def _ranked(block: _Block, rows: NDArray[np.int64], vector: Vector, limit: int) -> Hits:
    """Rank the rows by similarity, ties by id, also where the limit cuts between equal ones.

    BLAS rounds the same vector differently in different rows, so what is near is added up again, every row alike.
    """
    matrix = block.matrix if len(rows) == len(block.ids) else block.matrix[rows]
    similarities = np.einsum("ij,j->i", matrix, vector)
    order = np.argsort(-similarities, kind="stable")[:limit]
    best = rows[order]
    return Hits(block.ids[best].tolist(), block.memories[best].tolist(), similarities[order].tolist())
