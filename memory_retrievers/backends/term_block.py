"""Passages as postings in memory: all that BM25 counts in a scope, as arrays."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from memory_retrievers.passages import Hits, TermCounts, TermStatistics

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Postings:
    """Which terms stand in which passages, a term after the other.

    Attributes:
        terms: The terms; one that stands in several scopes or fields is here for each.
        sizes: How many passages each term stands in; at least one.
        passages: Their ids, for one term after the other.
        frequencies: How often the term stands in each.
    """

    terms: Collection[str]
    sizes: NDArray[np.int64]
    passages: NDArray[np.int64]
    frequencies: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TermBlock:
    """The passages of one scope and its fields, with their terms. It never changes; what comes or goes makes another.

    Attributes:
        ids: Their ids, ascending. A position is a place in this array.
        memories: The rows of their memories.
        lengths: How many terms each has.
        postings: For each term the positions at which it stands, and below them how often.
    """

    ids: NDArray[np.int64]
    memories: NDArray[np.int64]
    lengths: NDArray[np.float64]
    postings: Mapping[str, NDArray[np.int32]]

    @property
    def average_length(self) -> float:
        """How many terms a passage has; never 0."""
        return max(float(self.lengths.sum()), 1.0) / max(len(self.ids), 1)

    def appended(self, owners: Mapping[int, int], terms: Sequence[Mapping[str, int]]) -> TermBlock:
        """With more passages.

        Args:
            owners: Their ids, ascending and higher than all in here, each with the row of its memory.
            terms: How often each term stands in each of them.
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
        """Without these passages, and without the terms that stood in no other."""
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
        """BM25 of every passage for terms that are asked so often; 0 for one that has none of them."""
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
        """Which of the passages are among these, ascending ones."""
        return _positions(passages, self.ids)[1]

    def holding(self, terms: Iterable[str]) -> NDArray[np.bool_]:
        """Which of the passages have one of the terms."""
        holding = np.zeros(len(self.ids), np.bool_)
        for term in terms:
            if (found := self.postings.get(term)) is not None:
                holding[found[0]] = True
        return holding

    def best(self, scores: NDArray[np.float64], candidates: NDArray[np.bool_], *, limit: int) -> Hits:
        """The candidates with the highest scores, best first, ties by lower id."""
        positions = np.flatnonzero(candidates)
        of_candidates = scores[positions]
        if len(positions) > limit:
            near = of_candidates >= np.partition(of_candidates, -limit)[-limit]
            positions, of_candidates = positions[near], of_candidates[near]
        order = np.argsort(-of_candidates, kind="stable")[:limit]
        chosen = positions[order]
        return Hits(self.ids[chosen].tolist(), self.memories[chosen].tolist(), of_candidates[order].tolist())

    def statistics(self, terms: Iterable[str]) -> TermStatistics:
        """What a search for these terms is weighed by."""
        frequencies = {term: self.postings[term].shape[1] if term in self.postings else 0 for term in terms}
        return TermStatistics(len(self.ids), self.average_length, frequencies)

    def counts(self, terms: Sequence[str], passages: NDArray[np.int64]) -> TermCounts:
        """How often the terms stand in these passages; never in one that is not in here."""
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
    """A block of passages, given by ascending ids with the rows of their memories, and of the postings they have."""
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
    """Where each passage would stand among the ids, and whether it stands there."""
    positions = np.searchsorted(ids, passages)
    if not len(ids):
        return positions, np.zeros(len(passages), np.bool_)
    return positions, ids[np.minimum(positions, len(ids) - 1)] == passages


def _by_term(
    terms: Collection[str], number_of_term: NDArray[np.int64], flat: NDArray[np.int32]
) -> dict[str, NDArray[np.int32]]:
    """Postings that stand in a row, told apart by the number of their term; one that has none is left out."""
    borders = [0, *np.cumsum(np.bincount(number_of_term, minlength=len(terms))).tolist()]
    return {
        term: flat[:, start:end] for term, (start, end) in zip(terms, pairwise(borders), strict=True) if end > start
    }
