"""Diversified search: of many candidates the best, without those that say nearly the same as one already taken.

Pure: what is searched, and where vectors come from, is given (specification §4.3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from memory_retrievers.passages import Vectors

MIN_SCORE: Final = 0.1
DIVERSITY_THRESHOLD: Final = 0.8
EXPANSION: Final = 2.5
LARGEST_EXPANSION: Final = 5
MOST_CANDIDATES: Final = 100
MOST_CANDIDATES_AT_LAST: Final = 200
LOWEST_MIN_SCORE: Final = 0.05
MOST_LEFT_OUT: Final = 10
"""How many near-duplicates one taken item keeps out."""

_TOLERANCE: Final = 1e-6
"""A cosine in 32 bits may fall short by about this much."""

FoundT = TypeVar("FoundT")


def search(
    find: Callable[[int, float], Sequence[FoundT]], *, limit: int, min_score: float = MIN_SCORE
) -> Sequence[FoundT]:
    """Enough candidates to choose from: once deeper than asked, and once more, wider, if fewer than asked come back.

    Args:
        find: Given how many and from which score on, what a search finds, best first.
        limit: How many are wanted in the end.
        min_score: From which score on.
    """
    depth = min(max(int(limit * EXPANSION), limit + 10), MOST_CANDIDATES)
    found = find(max(depth, limit), min_score)
    if len(found) >= limit:
        return found
    depth = min(limit * LARGEST_EXPANSION, MOST_CANDIDATES_AT_LAST)
    # a caller who asked for less than the lowest floor already has it
    return find(max(depth, limit), min(min_score, max(0.5 * min_score, LOWEST_MIN_SCORE)))


def choose(
    candidates: Sequence[FoundT], vectors: Vectors, *, limit: int, threshold: float = DIVERSITY_THRESHOLD
) -> list[FoundT]:
    """Take the best, leave out the (at most ten) nearest to it from ``threshold`` on, and so on.

    Args:
        candidates: Best first.
        vectors: Their unit vectors, a row each, in the same order.
        limit: How many to take at most.
        threshold: From which cosine on two say nearly the same.
    """
    left = list(range(len(candidates)))
    taken: list[FoundT] = []
    while left and len(taken) < limit:
        best, *left = left
        taken.append(candidates[best])
        nearness = vectors @ vectors[best]
        near = [other for other in left if nearness[other] >= threshold - _TOLERANCE]
        out = set(sorted(near, key=lambda other: -nearness[other])[:MOST_LEFT_OUT])
        left = [other for other in left if other not in out]
    return taken
