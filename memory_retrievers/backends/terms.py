"""Terms of passages as in-memory arrays: postings, and BM25 over them."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, compress, islice
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from memory_retrievers.models.selection import Hits, TermCounts, TermStatistics
from memory_retrievers.text.analysis import STOP_WORDS
from memory_retrievers.text.languages import COMMON_WORDS, language_of_most, languages_of_terms, word_form

_NUMBER_BYTES: Final = 32  # what the number of a term takes, beside its letters and its entry
_PASSAGE_BYTES: Final = 24  # what a passage takes beside its terms: its id, its memory, its length


@dataclass(frozen=True, slots=True)
class Postings:
    """Postings of several terms as concatenated arrays, one term after the other."""

    terms: Collection[str]  # the t terms; one that occurs in several scopes or fields is listed once for each
    sizes: NDArray[np.int64]  # number of passages per term, at least 1, shape (t,)
    passages: NDArray[np.int64]  # passage ids of all terms, one term after the other, shape (sum of sizes,)
    frequencies: NDArray[np.int64]  # occurrences of the term in each of these passages, shape (sum of sizes,)


_MOST_LAYERS: Final = 16  # so many layers of additions are kept apart before some are joined


class _Layer:
    """Postings of t terms as concatenated arrays, one term after the other.

    Args:
        numbers: Number of each term, from 0 in the order of the mapping.
        starts: Where the entries of each term begin, and at last how many there are, shape (t + 1,).
        entries: Positions, and occurrences below them, shape (2, e); ascending by position within a term.
    """

    def __init__(self, numbers: dict[str, int], starts: NDArray[np.int64], entries: NDArray[np.int32]) -> None:
        self.numbers = numbers
        self.starts = starts
        self.entries = entries
        own = sum(map(sys.getsizeof, self.numbers), sys.getsizeof(self.numbers)) + _NUMBER_BYTES * len(self.numbers)
        self.size = own + self.starts.nbytes + self.entries.nbytes
        self.forms: dict[str | None, Forms] = {}

    @classmethod
    def of(cls, numbers: dict[str, int], of_entries: NDArray[np.int64], entries: NDArray[np.integer]) -> _Layer:
        """A layer of entries whose terms come in any order; terms without entries are left out.

        Args:
            numbers: As in the layer.
            of_entries: Number of the term that each entry is of, shape (e,).
            entries: As in the layer.
        """
        sizes = np.bincount(of_entries, minlength=len(numbers))
        if not sizes.all():
            numbers = {term: number for number, term in enumerate(compress(numbers, sizes))}
        starts = np.append(0, np.cumsum(sizes[sizes > 0]))
        return cls(numbers, starts, entries[:, np.argsort(of_entries, kind="stable")].astype(np.int32))

    @classmethod
    def joined(cls, layers: Sequence[_Layer]) -> _Layer:
        """Several layers as one, whose positions ascend from one to the next."""
        if len(layers) == 1:
            return layers[0]
        numbers, number_of = dict(layers[0].numbers), [np.arange(len(layers[0].numbers))]
        number_of += [
            np.array([numbers.setdefault(term, len(numbers)) for term in each.numbers], np.int64) for each in layers[1:]
        ]
        sizes = np.zeros(len(numbers), np.int64)
        for own, layer in zip(number_of, layers, strict=True):
            sizes[own] += np.diff(layer.starts)
        starts = np.append(0, np.cumsum(sizes))
        entries, free = np.empty((2, starts[-1]), np.int32), starts[:-1].copy()
        for own, layer in zip(number_of, layers, strict=True):
            of_layer = np.diff(layer.starts)
            entries[:, np.repeat(free[own] - layer.starts[:-1], of_layer) + np.arange(layer.starts[-1])] = layer.entries
            free[own] += of_layer
        joined = cls(numbers, starts, entries)
        for language, forms in list(layers[0].forms.items()):  # only those of the words that are new are looked for
            new = _forms_of(islice(numbers, len(layers[0].numbers), None), language)
            joined.forms[language] = forms | {form: [*forms.get(form, ()), *terms] for form, terms in new.items()}
        return joined

    def __len__(self) -> int:
        return int(self.starts[-1])

    def forms_in(self, language: str | None) -> Forms:
        """The forms of words of a language; None is any."""
        if language not in self.forms:
            self.forms[language] = _forms_of(self.numbers, language)
        return self.forms[language]

    @cached_property
    def languages(self) -> Counter[str]:
        """In how many passages the common words of each language stand."""
        sizes, common = np.diff(self.starts), COMMON_WORDS.keys() & self.numbers.keys()
        return languages_of_terms({word: int(sizes[self.numbers[word]]) for word in common}, english=STOP_WORDS)


Forms: TypeAlias = dict[str, list[str]]
"""Terms by the form of a word that they are of, without those that are that form themselves."""


class LayeredPostings(Mapping[str, "NDArray[np.int32]"]):
    """Postings by term that never change: those of the last additions lie above the rest, whose positions are lower.

    To copy all of them with every addition would touch each term of the scope.
    """

    __slots__ = ("_language", "layers")

    def __init__(self, layers: tuple[_Layer, ...] = ()) -> None:
        self.layers = layers
        self._language: tuple[str | None] | None = None

    def __getitem__(self, term: str) -> NDArray[np.int32]:
        """Positions and occurrences of a term, shape (2, number of passages with it)."""
        if not (found := [entries for _, entries in self.parts((term,))]):
            raise KeyError(term)
        return np.concatenate(found, axis=1) if len(found) > 1 else found[0]

    def parts(self, terms: Sequence[str]) -> list[tuple[int, NDArray[np.int32]]]:
        """The same of several terms layer by layer, as far as they have it; each with the place of its term."""
        return [
            (place, layer.entries[:, layer.starts.item(number) : layer.starts.item(number + 1)])
            for layer in self.layers
            for place, term in enumerate(terms)
            if (number := layer.numbers.get(term)) is not None
        ]

    def frequencies(self, terms: Iterable[str]) -> dict[str, int]:
        """Number of passages with each term."""
        found = dict.fromkeys(terms, 0)
        for layer in self.layers:
            numbers, starts = layer.numbers, layer.starts
            for term in found:
                if (number := numbers.get(term)) is not None:
                    found[term] += starts.item(number + 1) - starts.item(number)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(chain.from_iterable(layer.numbers for layer in self.layers)))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def of_form(self, form: str, language: str | None) -> set[str]:
        """Terms of a form of words, as :func:`~memory_retrievers.text.languages.word_form` gives it for a language."""
        found = {form} if form in self and word_form(form, language) == form else set[str]()
        for layer in self.layers:
            found.update(layer.forms_in(language).get(form, ()))
        return found

    def has_forms(self, language: str | None) -> bool:
        """True if any term is another one than its form."""
        return any([layer.forms_in(language) for layer in self.layers])  # noqa: C419 - a list is the faster one

    def language(self, passages: int) -> str | None:
        """The language of most of so many passages; see ``language_of_most``."""
        if self._language is None:
            hits = sum([layer.languages for layer in self.layers], Counter[str]())
            self._language = (language_of_most(hits, passages=passages),)
        return self._language[0]

    @property
    def size(self) -> int:
        """Size in bytes."""
        return sum(layer.size for layer in self.layers)

    def appended(self, layer: _Layer) -> LayeredPostings:
        """Return postings with a further layer, whose positions are higher than all in these."""
        layers = [*self.layers, layer]
        if len(layers) > _MOST_LAYERS:  # the last two, and those below as long as they are smaller than all above them
            first, above = len(layers) - 2, len(layer)
            while first and len(layers[first - 1]) <= above + len(layers[first]):
                above += len(layers[first])
                first -= 1
            layers[first:] = [_Layer.joined(layers[first:])]
        return LayeredPostings(tuple(layers))


@dataclass(frozen=True)
class TermBlock:
    """Immutable term index of the n passages of one scope and its fields."""

    # passage ids, ascending, shape (n,). A position is an index into this array.
    ids: NDArray[np.int64]
    memories: NDArray[np.int64]  # rows of their memories, shape (n,)
    lengths: NDArray[np.float64]  # number of terms of each passage, shape (n,)
    # for each term an array of shape (2, number of passages with it): positions, and occurrences below them
    postings: LayeredPostings

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self.postings.size + _PASSAGE_BYTES * len(self.ids)

    @cached_property
    def average_length(self) -> float:
        """Mean number of terms per passage; never 0."""
        return max(float(np.add.reduce(self.lengths)), 1.0) / max(len(self.ids), 1)

    def appended(self, owners: Mapping[int, int], terms: Sequence[Mapping[str, int]]) -> TermBlock:
        """Return a block with the terms of more passages, whose ids are ascending and higher than all in this block."""
        numbers: dict[str, int] = {}
        of_entries = [numbers.setdefault(term, len(numbers)) for counts in terms for term in counts]
        positions = np.repeat(np.arange(len(self.ids), len(self.ids) + len(terms)), [len(counts) for counts in terms])
        frequencies = np.fromiter(chain.from_iterable(counts.values() for counts in terms), np.int64, len(positions))
        layer = _Layer.of(numbers, np.array(of_entries, np.int64), np.stack((positions, frequencies)))
        return TermBlock(
            np.append(self.ids, np.fromiter(owners.keys(), np.int64, len(owners))),
            np.append(self.memories, np.fromiter(owners.values(), np.int64, len(owners))),
            np.append(self.lengths, np.array([sum(counts.values()) for counts in terms], np.float64)),
            self.postings.appended(layer),
        )

    def without(self, passages: NDArray[np.int64]) -> TermBlock:
        """Return a block without these passages, shape (m,), as far as it has them, and without terms of no other."""
        stays = ~np.isin(self.ids, passages)
        if stays.all():
            return self
        layer = _Layer.joined(self.postings.layers)
        of_entries = np.repeat(np.arange(len(layer.numbers)), np.diff(layer.starts))
        kept = stays[layer.entries[0]]
        entries = layer.entries[:, kept]
        entries[0] = (np.cumsum(stays) - 1)[entries[0]]  # the positions that they have then
        postings = LayeredPostings((_Layer.of(layer.numbers, of_entries[kept], entries),))
        return TermBlock(self.ids[stays], self.memories[stays], self.lengths[stays], postings)

    def scores(self, repeats: Mapping[str, int], *, k1: float, b: float) -> NDArray[np.float64]:
        """Compute the BM25 score of every passage, shape (n,); 0 for one that contains none of the terms.

        Args:
            repeats: Query terms, with the number of times each occurs in the query.
            k1: Saturation of term frequencies.
            b: Strength of the length normalisation, 0 to 1.
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
        return TermStatistics(len(self.ids), self.average_length, self.postings.frequencies(terms))

    def counts(self, terms: Sequence[str], passages: NDArray[np.int64]) -> TermCounts:
        """Lengths of passages, shape (m,), and counts of t terms in them, shape (t, m); 0 for those not in it."""
        positions, is_here = positions_of(passages, self.ids)
        # The last entry stands for all that are not in here.
        return self.counts_at(terms, np.where(is_here, positions, len(self.ids)))

    def counts_at(self, terms: Sequence[str], positions: NDArray[np.int64] | slice) -> TermCounts:
        """Like :meth:`counts`, by the positions of passages in this block, shape (m,), or a slice; 0 after the last."""
        parts = self.postings.parts(terms)
        if isinstance(positions, slice):
            counts = np.zeros((len(terms), len(self.ids)))
            for row, part in parts:
                counts[row].put(part[0], part[1])
            return TermCounts(self.lengths, counts)
        counts, standing = np.zeros((len(terms), len(positions))), np.zeros(len(self.ids) + 1)
        for row, (places, frequencies) in parts:  # one term at a time: a wide scope has room for no table of all
            standing[places] = frequencies
            counts[row] += standing[positions]
            standing[places] = 0
        return TermCounts(np.append(self.lengths, 0.0)[positions], counts)


EMPTY: Final = TermBlock(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float64), LayeredPostings())


def block_of(owners: Mapping[int, int], postings: Postings) -> TermBlock:
    """Build a block from postings, by the rows of memories by passage id, ascending; other passages are ignored."""
    ids = np.fromiter(owners.keys(), np.int64, len(owners))
    positions, is_here = positions_of(postings.passages, ids)  # other passages may have come meanwhile
    numbers = {term: number for number, term in enumerate(dict.fromkeys(postings.terms))}
    number_of_list = np.fromiter((numbers[term] for term in postings.terms), np.int64, len(postings.terms))
    of_entries = np.repeat(number_of_list, postings.sizes)[is_here]
    entries = np.stack((positions, postings.frequencies))[:, is_here]
    lengths = np.bincount(entries[0], weights=entries[1], minlength=len(ids)).astype(np.float64)
    owning = np.fromiter(owners.values(), np.int64, len(owners))
    return TermBlock(ids, owning, lengths, LayeredPostings((_Layer.of(numbers, of_entries, entries),)))


def _forms_of(terms: Iterable[str], language: str | None) -> Forms:
    forms: Forms = {}
    for term in terms:
        if (language is not None or not term.isascii()) and (form := word_form(term, language)) != term:
            forms.setdefault(form, []).append(term)
    return forms


def positions_of(passages: NDArray[np.int64], ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Where passages, shape (m,), are or would be among ascending ids, shape (n,), and whether: both of shape (m,)."""
    positions = np.searchsorted(ids, passages)
    if not len(ids):
        return positions, np.zeros(len(passages), np.bool_)
    return positions, ids[np.minimum(positions, len(ids) - 1)] == passages
