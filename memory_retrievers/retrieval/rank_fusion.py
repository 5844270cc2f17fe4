"""Rank fusion: reciprocal ranks of two lists, added up.

The fusion of Cormack, Clarke and Büttcher (SIGIR 2009).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar

from memory_retrievers.models.messages import Message
from memory_retrievers.models.results import Explanation, Match
from memory_retrievers.retrieval.candidates import RankedLists
from memory_retrievers.retrieval.explanations import StageScore
from memory_retrievers.retrieval.relevance import Weights
from memory_retrievers.settings import RetrievalSettings

Item = TypeVar("Item", bound=Hashable)


class Ranked(NamedTuple):
    """A memory, as a row of the ledger, with its final score."""

    row: int  # the memory
    score: float  # the score after forgetting, above 0 and at most 1
    retrievability: float = 1.0  # how well the memory is remembered, 0 to 1; 1 for facts


@dataclass(frozen=True)
class RankingByRank:
    """Ranking by reciprocal rank fusion, to the last digit as the specification has it (§2.3) where weights are equal.

    ``fused`` names memories in the order in which the lists do, the dense list first, and sorting keeps that order
    among equals. No tie is left for the further keys of the specification (newer, lower id): within a list every
    place is taken once, so two memories with equal sums and equal places by vector are one and the same.
    """

    lists: RankedLists
    settings: RetrievalSettings

    @cached_property
    def rows(self) -> list[int]:
        """The memories, as rows of the ledger, best first."""
        fused = self._fused
        named = [row for row in fused if fused[row] > 0]
        return sorted(named, key=fused.__getitem__, reverse=True)[: self.settings.candidate_depth]

    @cached_property
    def scores(self) -> dict[int, float]:
        """Score of each, above 0 and at most 1."""
        most = sum(self._weights) / (self.settings.rrf_k + 1)  # of a memory that is first in both lists
        return {row: self._fused[row] / most for row in self.rows}

    def leading(self, limit: int, *, share: float) -> dict[int, float]:
        """Score of each memory with at least a share, 0 to 1, of that of the last of the best ``limit``; best first."""
        if not 0 < limit < len(self.rows):
            return self.scores
        least = self.scores[self.rows[limit - 1]] * share
        return {row: score for row, score in self.scores.items() if score >= least}

    def explanation(self, ranked: Ranked) -> Explanation:
        """Explain the final score of a candidate."""
        return Explanation(
            dense_rank=_position(ranked.row, self.lists.dense),
            bm25_rank=_position(ranked.row, self.lists.bm25),
            fused_score=self._fused[ranked.row],
            retrievability=ranked.retrievability,
            score=ranked.score,
        )

    def relevances(self, ranked: Sequence[Ranked], *, weights: Weights | None) -> list[float]:  # noqa: ARG002
        """The scores: ranks are no evidence of relevance."""
        return [each.score for each in ranked]

    def matches(self, row: int, messages: Sequence[Message]) -> tuple[Match, ...]:  # noqa: ARG002
        """No messages: ranks are of memories."""
        return ()

    def stages(self, row: int) -> tuple[StageScore, ...]:
        """Contribution of each list to a candidate, with its rank in that list."""
        lists = (("dense", self.lists.dense), ("bm25", self.lists.bm25))
        return tuple(
            StageScore(name=name, rank=rank, score=weight / (self.settings.rrf_k + rank) if rank else 0.0)
            for (name, ranked), weight in zip(lists, self._weights, strict=True)
            for rank in [_position(row, ranked)]
        )

    @cached_property
    def _fused(self) -> dict[int, float]:
        lists = (self.lists.dense, self.lists.bm25)
        return reciprocal_rank_fusion(lists, k=self.settings.rrf_k, weights=self._weights)

    @property
    def _weights(self) -> tuple[float, float]:
        return 2 * self.settings.dense_weight, 2 * (1 - self.settings.dense_weight)


def _position(row: int, ranked: list[int]) -> int | None:
    return ranked.index(row) + 1 if row in ranked else None


def reciprocal_rank_fusion(
    lists: Sequence[Sequence[Item]], *, k: int, weights: Sequence[float] | None = None
) -> dict[Item, float]:
    """Give each item the sum of ``weight / (k + rank)`` over the lists that hold it, ranks counted from 1.

    Args:
        lists: Ranked lists, best first; each names an item at most once.
        k: Rank offset, 0 or more; the larger, the less the first ranks stand out.
        weights: A weight per list; None weighs each 1.

    >>> fused = reciprocal_rank_fusion([["a", "b"], ["b"]], k=60)
    >>> round(fused["a"], 6), round(fused["b"], 6)
    (0.016393, 0.032522)
    """
    fused: dict[Item, float] = {}
    for items, weight in zip(lists, weights or [1.0] * len(lists), strict=True):
        for rank, item in enumerate(items, start=1):
            fused[item] = fused.get(item, 0.0) + weight / (k + rank)
    return fused
