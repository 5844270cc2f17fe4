"""The four lists of a field: how near each passage is and how well its words fit, alone and with its neighbours.

A window of three messages needs no index of its own: its words are the words of its messages, and the mean of their
similarities does as well as a vector of the three together (``memory-retrievers eval locomo --ablation``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from memory_retrievers.retrieval.field import Field

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def nearness(field: Field) -> Floats:
    """The cosine of each passage and the question."""
    return field.similarities


def window_nearness(field: Field) -> Floats:
    """The mean cosine of each passage and the messages around it."""
    around = np.ones(len(field))
    around = around + field.before(around) + field.after(around)
    cosines = field.similarities
    mean: Floats = (cosines + field.before(cosines) + field.after(cosines)) / around
    return mean


def words(field: Field, *, k1: float, b: float) -> Floats:
    """BM25 of each passage, with the statistics of the searched scope."""
    statistics = field.statistics
    frequencies = np.array(list(statistics.frequencies.values()), np.float64)
    weights = field.repeats * idf(frequencies, statistics.passages)
    return bm25(field.counts, field.lengths, weights, average_length=statistics.average_length, k1=k1, b=b)


def window_words(field: Field, *, k1: float, b: float) -> Floats:
    """BM25 of each passage and the messages around it, as one text."""
    counts = field.counts + field.before(field.counts) + field.after(field.counts)
    lengths = field.lengths + field.before(field.lengths) + field.after(field.lengths)
    return bm25(counts, lengths, _weights(field, counts), average_length=_mean(lengths), k1=k1, b=b)


def memory_words(field: Field, *, k1: float, b: float) -> Floats:
    """BM25 of each memory as one text of all its messages, or of what stands for it where it has none."""
    has_messages = np.maximum.reduceat(field.is_message, field.starts)[field.groups]
    told = field.is_message | ~has_messages
    counts = np.add.reduceat(field.counts * told, field.starts, axis=1)
    lengths = np.add.reduceat(field.lengths * told, field.starts)
    return bm25(counts, lengths, _weights(field, counts), average_length=_mean(lengths), k1=k1, b=b)


def idf(frequencies: Floats, total: int) -> Floats:
    """Lucene's inverse document frequency of terms; 0 for one that stands nowhere."""
    weights: Floats = np.log1p((total - frequencies + 0.5) / (frequencies + 0.5))
    return np.where(frequencies > 0, weights, 0.0)


def bm25(counts: Floats, lengths: Floats, weights: Floats, *, average_length: float, k1: float, b: float) -> Floats:
    """Lucene's BM25 of texts (columns) by the counts of weighted terms (rows)."""
    norms = k1 * (1 - b + b * lengths / max(average_length, 1e-9))
    gains: Floats = counts / np.where(counts > 0, counts + norms, 1.0)
    scores: Floats = weights @ gains
    return scores


def _weights(field: Field, counts: Floats) -> Floats:
    """What each term weighs among texts that are put together here.

    Candidates from a wide search were chosen because they share terms with the question, so counting among them would
    take the rarest terms for common ones: the statistics of single passages stand in.
    """
    if field.is_whole:
        return field.repeats * idf(np.count_nonzero(counts, axis=1).astype(np.float64), counts.shape[1])
    frequencies = np.array(list(field.statistics.frequencies.values()), np.float64)
    return field.repeats * idf(frequencies, field.statistics.passages)


def _mean(lengths: Floats) -> float:
    return float(lengths.mean()) if len(lengths) else 1.0
