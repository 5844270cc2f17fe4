"""Terms of passages as in-memory arrays, with an LRU cache of them by scope."""

from __future__ import annotations

import math
import sys
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from memory_retrievers.models.selection import Hits, Selection, TermCounts, TermStatistics
from memory_retrievers.text import analyze

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memory_retrievers.backends.sql.ledger import SQLLedger


TERM_BYTES: Final = 250
"""What a term takes beside its letters and the places where it stands: an array, and an entry of a mapping."""


@dataclass(frozen=True, slots=True)
class Postings:
    """Postings of several terms as concatenated arrays, one term after the other.

    Attributes:
        terms: The t terms; one that occurs in several scopes or fields is listed once for each.
        sizes: Number of passages per term, at least 1, shape (t,).
        passages: Passage ids of all terms, one term after the other, shape (sum of sizes,).
        frequencies: Occurrences of the term in each of these passages, shape (sum of sizes,).
    """

    terms: Collection[str]
    sizes: NDArray[np.int64]
    passages: NDArray[np.int64]
    frequencies: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TermBlock:
    """Immutable term index of the n passages of one scope and its fields.

    Attributes:
        ids: Passage ids, ascending, shape (n,). A position is an index into this array.
        memories: Rows of their memories, shape (n,).
        lengths: Number of terms of each passage, shape (n,).
        postings: For each term an array of shape (2, number of passages with it): positions, and occurrences below
            them.
    """

    ids: NDArray[np.int64]
    memories: NDArray[np.int64]
    lengths: NDArray[np.float64]
    postings: Mapping[str, NDArray[np.int32]]

    @property
    def size(self) -> int:
        """Approximate size in bytes."""
        counted = sum(each.nbytes for each in self.postings.values()) + sum(map(sys.getsizeof, self.postings))
        return self.ids.nbytes + self.memories.nbytes + self.lengths.nbytes + counted + TERM_BYTES * len(self.postings)

    @property
    def average_length(self) -> float:
        """Mean number of terms per passage; never 0."""
        return max(float(self.lengths.sum()), 1.0) / max(len(self.ids), 1)

    def appended(self, owners: Mapping[int, int], terms: Sequence[Mapping[str, int]]) -> TermBlock:
        """Return a block with further passages.

        Args:
            owners: Memory rows by passage id; the ids are ascending and higher than all in this block.
            terms: Term frequencies of each of these passages.
        """
        added: dict[str, list[tuple[int, int]]] = {}
        for position, counts in enumerate(terms, start=len(self.ids)):
            for term, frequency in counts.items():
                added.setdefault(term, []).append((position, frequency))
        postings = dict(self.postings)
        for term, pairs in added.items():
            known, new = postings.get(term), np.array(pairs, np.int32).T
            postings[term] = np.ascontiguousarray(new) if known is None else np.concatenate((known, new), axis=1)
        return TermBlock(
            np.append(self.ids, np.fromiter(owners.keys(), np.int64, len(owners))),
            np.append(self.memories, np.fromiter(owners.values(), np.int64, len(owners))),
            np.append(self.lengths, np.array([sum(counts.values()) for counts in terms], np.float64)),
            postings,
        )

    def without(self, passages: NDArray[np.int64]) -> TermBlock:
        """Return a block without these passages, and without terms that occur in no other.

        Args:
            passages: Passage ids, shape (m,); ids that are not in this block are ignored.
        """
        stays = ~np.isin(self.ids, passages)
        if stays.all():
            return self
        # 1. All postings in a row, and where in it each term begins.
        flat = np.concatenate([*self.postings.values(), np.empty((2, 0), np.int32)], axis=1)
        sizes = np.fromiter((each.shape[1] for each in self.postings.values()), np.int64, len(self.postings))
        # 2. Those that stay, with the positions that they have then.
        kept = stays[flat[0]]
        flat = flat[:, kept]
        flat[0] = (np.cumsum(stays) - 1)[flat[0]]
        postings = _by_term(self.postings, np.repeat(np.arange(len(sizes)), sizes)[kept], flat)
        return TermBlock(self.ids[stays], self.memories[stays], self.lengths[stays], postings)

    def scores(self, repeats: Mapping[str, int], *, k1: float, b: float) -> NDArray[np.float64]:
        """Compute the BM25 score of every passage.

        Args:
            repeats: Query terms, with the number of times each occurs in the query.
            k1: Saturation of term frequencies.
            b: Strength of the length normalisation, 0 to 1.

        Returns:
            Scores of shape (n,); 0 for a passage that contains none of the terms.
        """
        scores = np.zeros(len(self.ids))
        norm, norm_per_term = k1 * (1 - b), k1 * b / self.average_length
        for term, repeated in repeats.items():
            if (found := self.postings.get(term)) is not None:
                positions, frequencies = found
                weight = repeated * math.log(1 + (len(self.ids) - len(positions) + 0.5) / (len(positions) + 0.5))
                scores[positions] += (
                    weight * frequencies / (frequencies + norm + norm_per_term * self.lengths[positions])
                )
        return scores

    def among(self, passages: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Test for each passage of the block whether it is in a list.

        Args:
            passages: Passage ids, ascending, shape (m,).

        Returns:
            Mask of shape (n,).
        """
        return _positions(passages, self.ids)[1]

    def holding(self, terms: Iterable[str]) -> NDArray[np.bool_]:
        """Test for each passage of the block whether it contains any of the terms; shape (n,)."""
        holding = np.zeros(len(self.ids), np.bool_)
        for term in terms:
            if (found := self.postings.get(term)) is not None:
                holding[found[0]] = True
        return holding

    def best(self, scores: NDArray[np.float64], candidates: NDArray[np.bool_], *, limit: int) -> Hits:
        """Select the candidates with the highest scores, best first, ties by lower id.

        Args:
            scores: Scores of all passages of the block, shape (n,).
            candidates: Mask of the passages to choose from, shape (n,).
            limit: Maximum number of hits.
        """
        positions = np.flatnonzero(candidates)
        of_candidates = scores[positions]
        if len(positions) > limit:
            near = of_candidates >= np.partition(of_candidates, -limit)[-limit]
            positions, of_candidates = positions[near], of_candidates[near]
        order = np.argsort(-of_candidates, kind="stable")[:limit]
        chosen = positions[order]
        return Hits(self.ids[chosen].tolist(), self.memories[chosen].tolist(), of_candidates[order].tolist())

    def statistics(self, terms: Iterable[str]) -> TermStatistics:
        """Return the document frequencies of the terms and the average length."""
        frequencies = {term: self.postings[term].shape[1] if term in self.postings else 0 for term in terms}
        return TermStatistics(len(self.ids), self.average_length, frequencies)

    def counts(self, terms: Sequence[str], passages: NDArray[np.int64]) -> TermCounts:
        """Count the occurrences of terms in passages; 0 for a passage that is not in this block.

        Args:
            terms: The t terms.
            passages: Passage ids, shape (m,).

        Returns:
            Lengths of shape (m,) and counts of shape (t, m).
        """
        positions, is_here = _positions(self.ids, passages)
        # The last entry stands for all that are not in here.
        positions = np.where(is_here, positions, len(self.ids))
        lengths = np.append(self.lengths, 0.0)[positions]
        counts, standing = np.zeros((len(terms), len(passages))), np.zeros(len(self.ids) + 1)
        for row, term in enumerate(terms):
            if (found := self.postings.get(term)) is not None:
                standing[found[0]] = found[1]
                counts[row] = standing[positions]
                standing[found[0]] = 0
        return TermCounts(lengths, counts)


EMPTY: Final = TermBlock(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float64), {})


def block_of(owners: Mapping[int, int], postings: Postings) -> TermBlock:
    """Build a block from postings.

    Args:
        owners: Memory rows by passage id, ascending by id.
        postings: Postings of these passages; postings of other passages are ignored.
    """
    ids = np.fromiter(owners.keys(), np.int64, len(owners))
    positions, is_here = _positions(ids, postings.passages)  # other passages may have come meanwhile
    numbers = {term: number for number, term in enumerate(dict.fromkeys(postings.terms))}
    number_of_list = np.fromiter((numbers[term] for term in postings.terms), np.int64, len(postings.terms))
    number_of_term = np.repeat(number_of_list, postings.sizes)[is_here]
    order = np.argsort(number_of_term, kind="stable")
    flat = np.stack((positions, postings.frequencies))[:, is_here][:, order].astype(np.int32)
    return TermBlock(
        ids,
        np.fromiter(owners.values(), np.int64, len(owners)),
        np.bincount(flat[0], weights=flat[1], minlength=len(ids)).astype(np.float64),
        _by_term(numbers, number_of_term, flat),
    )


def _positions(ids: NDArray[np.int64], passages: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """For each passage its insertion position among the ids, and whether it is there; both of shape (m,)."""
    positions = np.searchsorted(ids, passages)
    if not len(ids):
        return positions, np.zeros(len(passages), np.bool_)
    return positions, ids[np.minimum(positions, len(ids) - 1)] == passages


def _by_term(
    terms: Collection[str], number_of_term: NDArray[np.int64], flat: NDArray[np.int32]
) -> dict[str, NDArray[np.int32]]:
    """Split concatenated postings by the number of their term; terms without postings are left out."""
    borders = [0, *np.cumsum(np.bincount(number_of_term, minlength=len(terms))).tolist()]
    return {
        term: flat[:, start:end] for term, (start, end) in zip(terms, pairwise(borders), strict=True) if end > start
    }


REMEMBERED_BYTES: Final = 128 * 2**20
"""Bytes that blocks may take in all: of 200,000 passages, about half a kilobyte each."""

_PASSAGE_BYTES: Final = 90
"""What a passage takes beside its block: its id in two lists of the ledger, and whether it is visible."""

_ENTRY_BYTES: Final = 1_000

_FEW: Final = 256
"""Up to so many new passages are taken from their texts, where there are stored postings: a scope's are read whole."""

ReadPostings: TypeAlias = Callable[[Selection], Postings]

_Key: TypeAlias = tuple[str, bool, tuple[str, ...]]


class _Entry:
    """A cached block with the ledger's lists it was compared with; an unchanged answer is the same list object."""

    __slots__ = ("block", "indexed", "size", "visible")

    def __init__(self, block: TermBlock, indexed: list[int]) -> None:
        self.block = block
        self.size = _ENTRY_BYTES + block.size + _PASSAGE_BYTES * len(block.ids)
        self.indexed = indexed
        self.visible: tuple[list[int], NDArray[np.bool_]] | None = None


class TermCache:
    """LRU cache of the term blocks of scopes.

    Args:
        ledger: Source of the passages.
        read: Reads the stored postings of all passages of a selection's scope and fields; None analyzes their texts.
    """

    def __init__(self, ledger: SQLLedger, *, read: ReadPostings | None = None) -> None:
        self._ledger = ledger
        self._read = read
        self._lock = threading.Lock()
        self._entries: OrderedDict[_Key, _Entry] = OrderedDict()
        self._size = 0
        self._forgotten = 0  # how often something was

    def block(self, selection: Selection) -> TermBlock:
        """Return all passages of the selection's scope and fields, whatever their state."""
        return self._entry(selection).block

    def visible(self, selection: Selection) -> tuple[TermBlock, NDArray[np.bool_]]:
        """Return the block of n passages, and a mask of shape (n,) of those that match the selection."""
        entry = self._entry(selection)
        eligible = self._ledger.eligible(selection)
        known = entry.visible
        if known is None or known[0] is not eligible:
            entry.visible = known = eligible, entry.block.among(np.array(eligible, np.int64))
        return entry.block, known[1]

    def remembers(self, block: TermBlock) -> bool:
        """Return True if the block is cached, and so holds no forgotten passage."""
        with self._lock:
            return any(entry.block is block for entry in self._entries.values())

    def forget(self, passages: Sequence[int]) -> None:
        """Evict these passages."""
        gone = np.array(passages, np.int64)
        with self._lock:
            self._forgotten += 1
            for key, entry in list(self._entries.items()):
                block = entry.block.without(gone)
                if block is not entry.block:
                    self._put(key, _Entry(block, block.ids.tolist()))

    def clear(self) -> None:
        """Evict everything."""
        with self._lock:
            self._forgotten += 1
            self._entries.clear()
            self._size = 0

    def _entry(self, selection: Selection) -> _Entry:
        key = (selection.scope, selection.include_child_scopes, selection.fields)
        forgotten = self._forgotten
        indexed = self._ledger.indexed(_whole(selection))
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                self._entries.move_to_end(key)
        if entry is not None and entry.indexed is indexed:
            return entry
        block = self._current(EMPTY if entry is None else entry.block, selection, indexed)
        entry = _Entry(block, indexed)
        with self._lock:
            if forgotten == self._forgotten:  # else something of it may have been read before that
                self._put(key, entry)
        return entry

    def _put(self, key: _Key, entry: _Entry) -> None:
        replaced = self._entries.get(key)
        self._size -= 0 if replaced is None else _cost(key, replaced)
        if _cost(key, entry) > REMEMBERED_BYTES:  # it must not cost all others their place
            self._entries.pop(key, None)
            return
        self._size += _cost(key, entry)
        self._entries[key] = entry
        while self._size > REMEMBERED_BYTES:
            self._size -= _cost(*self._entries.popitem(last=False))

    def _current(self, block: TermBlock, selection: Selection, indexed: Sequence[int]) -> TermBlock:
        """Return the block with new passages added and deleted ones removed."""
        # 1. What has gone. A passage that comes before one that is here was moved from another scope: all is read.
        wanted = np.array(indexed, np.int64)
        block = block.without(np.setdiff1d(block.ids, wanted, assume_unique=True))
        if not np.array_equal(block.ids, wanted[: len(block.ids)]):
            block = EMPTY
        # 2. What has come.
        new = indexed[len(block.ids) :]
        if not new:
            return block
        if self._read is not None and len(new) > _FEW:
            return self._stored(self._read, selection, indexed)
        return self._analyzed(block, new)

    def _stored(self, read: ReadPostings, selection: Selection, indexed: Sequence[int]) -> TermBlock:
        block = block_of(self._owners(indexed), read(selection))
        # Of a passage that a transaction is about to remove there is nothing left, and that may yet be undone.
        without = block.ids[block.lengths == 0].tolist()
        if any(analyze(text) for text in self._ledger.texts(without).values()):
            return self._analyzed(EMPTY, indexed)
        return block

    def _analyzed(self, block: TermBlock, new: Sequence[int]) -> TermBlock:
        texts = self._ledger.texts(new)
        owners = {passage: row for passage, row in self._owners(new).items() if passage in texts}
        return block.appended(owners, [Counter(analyze(texts[passage])) for passage in owners])

    def _owners(self, passages: Sequence[int]) -> dict[int, int]:
        """Map the passages to the rows of their memories, in this order; deleted ones are left out."""
        owners = self._ledger.owners(passages)
        return {passage: owners[passage] for passage in passages if passage in owners}


def _whole(selection: Selection) -> Selection:
    """Reduce a selection to its scope and fields, for which the ledger caches the answer."""
    return Selection(
        scope=selection.scope,
        kind=selection.kind,
        now=selection.now,
        include_child_scopes=selection.include_child_scopes,
        every_passage=selection.every_passage,
    )


def _cost(key: _Key, entry: _Entry) -> int:
    return sys.getsizeof(key[0]) + entry.size
