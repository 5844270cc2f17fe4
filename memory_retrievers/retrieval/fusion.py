"""Reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009): many ranked lists become one."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeVar

Item = TypeVar("Item", bound=Hashable)


def reciprocal_rank_fusion(lists: Sequence[Sequence[Item]], *, k: int) -> dict[Item, float]:
    """Give each item the sum of ``1 / (k + rank)`` over the lists that hold it, ranks counted from 1.

    >>> fused = reciprocal_rank_fusion([["a", "b"], ["b"]], k=60)
    >>> round(fused["a"], 6), round(fused["b"], 6)
    (0.016393, 0.032522)
    """
    fused: dict[Item, float] = {}
    for items in lists:
        for rank, item in enumerate(items, start=1):
            fused[item] = fused.get(item, 0.0) + 1 / (k + rank)
    return fused


def best_possible(number_of_lists: int, *, k: int) -> float:
    """What an item gets that is first in every list that was asked; scores are shown relative to it."""
    return number_of_lists / (k + 1)
