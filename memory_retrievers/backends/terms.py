"""Terms of passages as in-memory arrays: postings, and BM25 over them."""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from memory_retrievers.models.selection import Hits, TermCounts, TermStatistics
from memory_retrievers.text import STOP_WORDS
from memory_retrievers.text.languages import COMMON_WORDS, language_of_terms, word_form

if TYPE_CHECKING:
    from numpy.typing import NDArray


TERM_BYTES: Final = 250
"""What a term takes beside its letters and the places where it stands: an array, and an entry of a mapping."""

_PASSAGE_BYTES: Final = 24
"""What a passage takes beside its terms: its id, its memory, its length."""


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


_LEAST_RECENT: Final = 512
_MOST_RECENT: Final = 1 / 8
"""So many terms, or this share of all, are kept apart before they join the rest."""


Forms: TypeAlias = dict[str, list[str]]
"""Terms by the form of a word that they are of, without those that are that form themselves."""


class LayeredPostings(Mapping[str, "NDArray[np.int32]"]):
    """Postings by term that never change: those of the terms that were added to last stand before those of all.

    To copy all of them with every addition would touch each term of the scope.

    Args:
        all_terms: Postings by term.
        recent: Those that stand before them.
        hidden: Bytes of what they stand before.
        forms: The forms of ``all_terms``, as far as they have been asked for.
    """

    __slots__ = ("_all", "_forms", "_language", "_recent", "_recent_forms", "hidden")

    def __init__(
        self,
        all_terms: dict[str, NDArray[np.int32]],
        recent: dict[str, NDArray[np.int32]] | None = None,
        *,
        hidden: int = 0,
        forms: dict[str | None, Forms] | None = None,
    ) -> None:
        self._all = all_terms
        self._recent = recent or {}
        self.hidden = hidden
        self._forms: dict[str | None, Forms] = {} if forms is None else forms
        self._language: tuple[str | None] | None = None
        self._recent_forms: dict[str | None, Forms] = {}

    def __getitem__(self, term: str) -> NDArray[np.int32]:
        found = self._recent.get(term)
        return self._all[term] if found is None else found

    def __iter__(self) -> Iterator[str]:
        return iter(self._joined())

    def __len__(self) -> int:
        return len(self._joined())

    def appended(self, postings: Mapping[str, NDArray[np.int32]]) -> LayeredPostings:
        """Return postings in which these stand for those of the same terms."""
        recent = {**self._recent, **postings}
        if len(recent) > max(_LEAST_RECENT, len(self._all) * _MOST_RECENT):
            return LayeredPostings({**self._all, **recent})
        hidden = sum(self._all[term].nbytes for term in postings if term in self._all and term not in self._recent)
        return LayeredPostings(self._all, recent, hidden=self.hidden + hidden, forms=self._forms)

    def of_form(self, form: str, language: str | None) -> set[str]:
        """Terms of a form of words; see :func:`~memory_retrievers.text.languages.word_form`.

        Args:
            form: The form.
            language: The language whose form it is; None is any.
        """
        found = {form} if form in self and word_form(form, language) == form else set()
        for known, terms in ((self._forms, self._all), (self._recent_forms, self._recent)):
            if language not in known:
                known[language] = _forms_of(terms, language)
            found.update(known[language].get(form, ()))
        return found

    def language(self, passages: int) -> str | None:
        """The language of most of so many passages; see ``language_of_terms``."""
        if self._language is None:
            found = ((word, self._recent.get(word, self._all.get(word))) for word in COMMON_WORDS)
            holding = {word: each.shape[1] for word, each in found if each is not None}
            self._language = (language_of_terms(holding, passages=passages, english=STOP_WORDS),)
        return self._language[0]

    def _joined(self) -> dict[str, NDArray[np.int32]]:
        return {**self._all, **self._recent} if self._recent else self._all

    def items(self) -> ItemsView[str, NDArray[np.int32]]:
        """Terms and their postings."""
        return self._joined().items()

    def values(self) -> ValuesView[NDArray[np.int32]]:
        """Postings of all terms."""
        return self._joined().values()


@dataclass(frozen=True, slots=True)
class TermBlock:
    """Immutable term index of the n passages of one scope and its fields.

    Attributes:
        ids: Passage ids, ascending, shape (n,). A position is an index into this array.
        memories: Rows of their memories, shape (n,).
        lengths: Number of terms of each passage, shape (n,).
        postings: For each term an array of shape (2, number of passages with it): positions, and occurrences below
            them.
        shown: Approximate size in bytes, without postings that others stand before.
    """

    ids: NDArray[np.int64]
    memories: NDArray[np.int64]
    lengths: NDArray[np.float64]
    postings: LayeredPostings
    shown: int

    @property
    def size(self) -> int:
        """Approximate size in bytes."""
        return self.shown + self.postings.hidden

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
        postings: dict[str, NDArray[np.int32]] = {}
        size = self.shown + _PASSAGE_BYTES * len(owners)
        for term, pairs in added.items():
            known, new = self.postings.get(term), np.array(pairs, np.int32).T
            postings[term] = np.ascontiguousarray(new) if known is None else np.concatenate((known, new), axis=1)
            size += new.nbytes + (_term_size(term) if known is None else 0)
        return TermBlock(
            np.append(self.ids, np.fromiter(owners.keys(), np.int64, len(owners))),
            np.append(self.memories, np.fromiter(owners.values(), np.int64, len(owners))),
            np.append(self.lengths, np.array([sum(counts.values()) for counts in terms], np.float64)),
            self.postings.appended(postings),
            size,
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
        return _block(self.ids[stays], self.memories[stays], self.lengths[stays], postings)

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
        positions, is_here = positions_of(passages, self.ids)
        # The last entry stands for all that are not in here.
        return self.counts_at(terms, np.where(is_here, positions, len(self.ids)))

    def counts_at(self, terms: Sequence[str], positions: NDArray[np.int64]) -> TermCounts:
        """Count the occurrences of terms in the passages at these positions; 0 at the position after the last.

        Args:
            terms: The t terms.
            positions: Positions in this block, shape (m,).

        Returns:
            Lengths of shape (m,) and counts of shape (t, m).
        """
        counts = np.zeros((len(terms), len(positions)))
        found = [(row, self.postings[term]) for row, term in enumerate(terms) if term in self.postings]
        if is_whole(positions, len(self.ids)):
            for row, (places, frequencies) in found:
                counts[row, places] = frequencies
            return TermCounts(self.lengths, counts)
        standing = np.zeros(len(self.ids) + 1)
        for row, (places, frequencies) in found:
            standing[places] = frequencies
            counts[row] = standing[positions]
            standing[places] = 0
        return TermCounts(np.append(self.lengths, 0.0)[positions], counts)


EMPTY: Final = TermBlock(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float64), LayeredPostings({}), 0)


def block_of(owners: Mapping[int, int], postings: Postings) -> TermBlock:
    """Build a block from postings.

    Args:
        owners: Memory rows by passage id, ascending by id.
        postings: Postings of these passages; postings of other passages are ignored.
    """
    ids = np.fromiter(owners.keys(), np.int64, len(owners))
    positions, is_here = positions_of(postings.passages, ids)  # other passages may have come meanwhile
    numbers = {term: number for number, term in enumerate(dict.fromkeys(postings.terms))}
    number_of_list = np.fromiter((numbers[term] for term in postings.terms), np.int64, len(postings.terms))
    number_of_term = np.repeat(number_of_list, postings.sizes)[is_here]
    order = np.argsort(number_of_term, kind="stable")
    flat = np.stack((positions, postings.frequencies))[:, is_here][:, order].astype(np.int32)
    return _block(
        ids,
        np.fromiter(owners.values(), np.int64, len(owners)),
        np.bincount(flat[0], weights=flat[1], minlength=len(ids)).astype(np.float64),
        _by_term(numbers, number_of_term, flat),
    )


def _block(
    ids: NDArray[np.int64],
    memories: NDArray[np.int64],
    lengths: NDArray[np.float64],
    postings: dict[str, NDArray[np.int32]],
) -> TermBlock:
    size = _PASSAGE_BYTES * len(ids) + sum(each.nbytes for each in postings.values()) + sum(map(_term_size, postings))
    return TermBlock(ids, memories, lengths, LayeredPostings(postings), size)


def _forms_of(terms: Iterable[str], language: str | None) -> Forms:
    forms: Forms = {}
    for term in terms:
        if (language is not None or not term.isascii()) and (form := word_form(term, language)) != term:
            forms.setdefault(form, []).append(term)
    return forms


def _term_size(term: str) -> int:
    return TERM_BYTES + sys.getsizeof(term)


def is_whole(positions: NDArray[np.int64], size: int) -> bool:
    """True if distinct positions, of shape (m,), are all from 0 to ``size`` in order."""
    return len(positions) == size and bool(
        (positions[1:] > positions[:-1]).all() and (not size or positions[-1] < size)
    )


def positions_of(passages: NDArray[np.int64], ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """For each passage its insertion position among the ids, and whether it is there.

    Args:
        passages: Passage ids, shape (m,).
        ids: Passage ids, ascending, shape (n,).

    Returns:
        Both of shape (m,).
    """
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
