"""Fusion: many lists become one, by rank (Cormack, Clarke and Büttcher, SIGIR 2009) or by score."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_EQUAL: Final = 1e-9
"""Values that differ by no more are equal: what roundings leave of a difference must not be scaled up to a whole."""

Item = TypeVar("Item", bound=Hashable)


def reciprocal_rank_fusion(
    lists: Sequence[Sequence[Item]], *, k: int, weights: Sequence[float] | None = None
) -> dict[Item, float]:
    """Give each item the sum of ``weight / (k + rank)`` over the lists that hold it, ranks counted from 1.

    >>> fused = reciprocal_rank_fusion([["a", "b"], ["b"]], k=60)
    >>> round(fused["a"], 6), round(fused["b"], 6)
    (0.016393, 0.032522)
    """
    fused: dict[Item, float] = {}
    for items, weight in zip(lists, weights or [1.0] * len(lists), strict=True):
        for rank, item in enumerate(items, start=1):
            fused[item] = fused.get(item, 0.0) + weight / (k + rank)
    return fused


def best_possible(weights: Sequence[float], *, k: int) -> float:
    """What an item gets that is first in every list that was asked; scores are shown relative to it."""
    return sum(weights) / (k + 1)


def min_max(values: Floats, *, floor: float | None = None) -> Floats:
    """Scale values so that the best is 1 and the worst nearly 0: by the share of one of them above it.

    Among many values that is the usual scaling by minimum and maximum; among few, the worst keeps something, since
    being second of two says little. Values that are all equal are all 1, or 0 if they are at the floor.

    Args:
        values: At least one.
        floor: What counts for nothing, in place of the smallest value.

    >>> min_max(np.array([0.2, 0.6])).tolist()
    [0.3333333333333333, 1.0]
    >>> min_max(np.array([0.0, 2.0, 4.0]), floor=0.0).tolist()
    [0.0, 0.5, 1.0]
    """
    highest, lowest = float(values.max()), float(values.min())
    if floor is not None:
        lowest = floor
    else:
        lowest -= (highest - lowest) / len(values)
    if highest - lowest <= _EQUAL:
        return np.full(len(values), 1.0 if floor is None else 0.0)
    scaled: Floats = (values - lowest) / (highest - lowest)
    return scaled
