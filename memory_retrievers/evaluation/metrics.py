"""Metrics of ranked lists by the textbook formulas, and confidence intervals."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Collection, Hashable, Sequence
from typing import Final, NamedTuple

CONFIDENCE_95: Final = 1.959964
"""The quantile of the normal distribution that leaves 2.5 % on either side."""

RESAMPLES: Final = 2_000
"""Number of draws of a bootstrap: enough for two digits."""


class Interval(NamedTuple):
    """Bounds of a figure with 95 % confidence."""

    low: float
    high: float


def any_at(ranked: Sequence[Hashable], gold: Collection[Hashable], k: int) -> float:
    """1 if any relevant item is among the first ``k``, else 0.

    Args:
        ranked: Items, best first.
        gold: Relevant items.
        k: Number of first items that count, 1 or more.

    >>> any_at(["a", "b", "c"], {"b", "z"}, 1), any_at(["a", "b", "c"], {"b", "z"}, 2)
    (0.0, 1.0)
    """
    return float(any(item in gold for item in ranked[:k]))


def recall_at(ranked: Sequence[Hashable], gold: Collection[Hashable], k: int) -> float:
    """Share of the relevant items that are among the first ``k``, 0 to 1.

    Args:
        ranked: Items, best first.
        gold: Relevant items, at least one.
        k: Number of first items that count, 1 or more.

    >>> recall_at(["a", "b", "c"], {"b", "z"}, 3)
    0.5
    """
    return len(set(ranked[:k]) & set(gold)) / len(set(gold))


def all_at(ranked: Sequence[Hashable], gold: Collection[Hashable], k: int) -> float:
    """1 if all relevant items are among the first ``k``, else 0.

    Args:
        ranked: Items, best first.
        gold: Relevant items.
        k: Number of first items that count, 1 or more.

    >>> all_at(["a", "b", "c"], {"b", "c"}, 2), all_at(["a", "b", "c"], {"b", "c"}, 3)
    (0.0, 1.0)
    """
    return float(set(gold) <= set(ranked[:k]))


def reciprocal_rank(ranked: Sequence[Hashable], gold: Collection[Hashable]) -> float:
    """One divided by the place of the first right one, from 1; 0 if there is none.

    >>> reciprocal_rank(["a", "b", "c"], {"b", "c"})
    0.5
    """
    return next((1 / place for place, item in enumerate(ranked, start=1) if item in gold), 0.0)


def ndcg_at(ranked: Sequence[Hashable], gold: Collection[Hashable], k: int) -> float:
    """Normalised discounted cumulative gain (Järvelin and Kekäläinen 2002) with gains of 0 and 1.

    A relevant item at rank i gains ``1 / log2(i + 1)``; the sum is divided by that of the best order.

    Args:
        ranked: Items, best first, each at most once.
        gold: Relevant items, at least one.
        k: Number of first items that count, 1 or more.

    >>> round(ndcg_at(["a", "b", "c"], {"b", "z"}, 3), 4)
    0.3869
    """
    gained = math.fsum(1 / math.log2(place + 1) for place, item in enumerate(ranked[:k], start=1) if item in gold)
    best = math.fsum(1 / math.log2(place + 1) for place in range(1, min(k, len(set(gold))) + 1))
    return gained / best


def wilson(share: float, number: int) -> Interval:
    """The 95 % score interval of a share of so many trials (Wilson 1927).

    >>> low, high = wilson(0.8, 10)
    >>> round(low, 4), round(high, 4)
    (0.4902, 0.9433)
    """
    if not number:
        return Interval(0.0, 1.0)
    square = CONFIDENCE_95**2
    middle = (share + square / (2 * number)) / (1 + square / number)
    spread = math.sqrt(share * (1 - share) / number + square / (4 * number**2))
    half = CONFIDENCE_95 * spread / (1 + square / number)
    return Interval(max(0.0, middle - half), min(1.0, middle + half))


def bootstrap(differences: Sequence[float]) -> Interval:
    """The 95 % percentile interval of the mean of paired differences (Efron 1979); the same for the same ones.

    >>> bootstrap([0.5, 0.5, 0.5])
    Interval(low=0.5, high=0.5)
    """
    source = random.Random(0)  # noqa: S311 - nothing is kept secret here
    means = sorted(statistics.fmean(source.choices(differences, k=len(differences))) for _ in range(RESAMPLES))
    return Interval(means[RESAMPLES * 25 // 1_000], means[RESAMPLES * 975 // 1_000 - 1])
