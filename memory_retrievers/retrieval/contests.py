"""Contests: all memories of one kind that compete for a question, and what speaks for each, by score or by rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol
from typing import Final as Constant

import numpy as np

from memory_retrievers.models import Kind
from memory_retrievers.retrieval.explained import StageScore
from memory_retrievers.retrieval.fusion import best_possible, reciprocal_rank_fusion
from memory_retrievers.retrieval.legs import Legs
from memory_retrievers.retrieval.scoring import Scored
from memory_retrievers.retrieved import Explanation, Match
from memory_retrievers.settings import RetrievalSettings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_LEAST_SHARE: Constant = 0.05
"""What the best memory of a kind keeps, however far it is from the question."""


class Ranked(NamedTuple):
    """A memory, as a row of the ledger, with its score and why.

    Attributes:
        row: The memory.
        explanation: Its score, and what it is made of.
        matches: Its messages by how well they answer, best first.
    """

    row: int
    explanation: Explanation
    matches: tuple[Match, ...] = ()


class Final(NamedTuple):
    """What became of a memory's score.

    Attributes:
        score: The final score, after forgetting.
        retrievability: How well the memory is remembered, 0 to 1; 1 for facts.
    """

    score: float
    retrievability: float


class Contest(Protocol):
    """Who competes, before anything is forgotten."""

    @property
    def rows(self) -> list[int]:
        """The memories, as rows of the ledger, best first."""
        ...

    @property
    def scores(self) -> Mapping[int, float]:
        """The score of each, above 0 and at most 1."""
        ...

    def told(self, row: int, final: Final) -> Ranked:
        """A memory with its final score and the reasons for it."""
        ...

    def stages(self, row: int) -> tuple[StageScore, ...]:
        """What each stage gave a memory, and its place by that among all that compete."""
        ...


@dataclass(frozen=True)
class ContestByScore:
    """Scaled lists and boosts, added; a memory stands by its best passage, and what nothing speaks for is left out.

    Scores are relative to the best memory, which gets the share of its kind: what is best among the facts may still be
    far from the question, and the episodes nearer.

    Attributes:
        scored: A field that is not empty, with its sums.
        share: The score of the best memory, above 0 and at most 1.
    """

    scored: Scored
    share: float = 1.0

    @cached_property
    def _unit(self) -> float:
        """What a sum is multiplied with to be a score."""
        highest = float(self.scored.scores.max())
        return self.share / highest if highest > 0 else 0.0

    @cached_property
    def rows(self) -> list[int]:
        """See :class:`Contest`."""
        return list(self.scores)

    @cached_property
    def scores(self) -> dict[int, float]:
        """See :class:`Contest`; best first, equal ones in the order of their rows."""
        scores = np.minimum(self.scored.scores * self._unit, self.share)  # a product may be off by a rounding
        order = np.argsort(-scores, kind="stable")[: np.count_nonzero(scores)]
        return dict(zip(self.scored.rows[order].tolist(), scores[order].tolist(), strict=True))

    def told(self, row: int, final: Final) -> Ranked:
        """See :class:`Contest`."""
        scored, memory = self.scored, self._places[row]
        explanation = Explanation(
            dense_rank=self._dense_ranks[memory],
            bm25_rank=self._word_ranks[memory] if scored.best_words[memory] > 0 else None,
            fused_score=self.scores[row],
            retrievability=final.retrievability,
            score=final.score,
            stages=scored.told(memory, unit=self._unit),
        )
        return Ranked(row, explanation, scored.matches(memory, unit=self._unit))

    def stages(self, row: int) -> tuple[StageScore, ...]:
        """See :class:`Contest`."""
        memory = self._places[row]
        return tuple(
            StageScore(
                name=name,
                rank=_ranks(given)[memory] if given[memory] > 0 else None,
                score=self._unit * float(given[memory]),
            )
            for name, given in zip(self.scored.stages, self.scored.best_stages, strict=True)
        )

    @cached_property
    def _dense_ranks(self) -> list[int]:
        return _ranks(self.scored.best_dense)

    @cached_property
    def _word_ranks(self) -> list[int]:
        return _ranks(self.scored.best_words)

    @cached_property
    def _places(self) -> dict[int, int]:
        return {row: memory for memory, row in enumerate(self.scored.rows.tolist())}


@dataclass(frozen=True)
class ContestByRank:
    """Reciprocal rank fusion, to the last digit as the specification has it (§2.3) where weights are equal.

    ``fused`` names memories in the order in which the lists do, the dense list first, and sorting keeps that order
    among equals. No tie is left for the further keys of the specification (newer, lower id): within a list every
    place is taken once, so two memories with equal sums and equal places by vector are one and the same.

    Attributes:
        legs: The two lists.
        settings: What each weighs, and how many memories are taken.
    """

    legs: Legs
    settings: RetrievalSettings

    @cached_property
    def rows(self) -> list[int]:
        """See :class:`Contest`."""
        fused = self._fused
        named = [row for row in fused if fused[row] > 0]
        return sorted(named, key=fused.__getitem__, reverse=True)[: self.settings.candidate_depth]

    @cached_property
    def scores(self) -> dict[int, float]:
        """See :class:`Contest`."""
        most = best_possible(self._weights, k=self.settings.rrf_k)
        return {row: self._fused[row] / most for row in self.rows}

    def told(self, row: int, final: Final) -> Ranked:
        """See :class:`Contest`."""
        explanation = Explanation(
            dense_rank=_position(row, self.legs.dense),
            bm25_rank=_position(row, self.legs.bm25),
            fused_score=self._fused[row],
            retrievability=final.retrievability,
            score=final.score,
        )
        return Ranked(row, explanation)

    def stages(self, row: int) -> tuple[StageScore, ...]:
        """See :class:`Contest`."""
        lists = (("dense", self.legs.dense), ("bm25", self.legs.bm25))
        return tuple(
            StageScore(name=name, rank=rank, score=weight / (self.settings.rrf_k + rank) if rank else 0.0)
            for (name, leg), weight in zip(lists, self._weights, strict=True)
            for rank in [_position(row, leg)]
        )

    @cached_property
    def _fused(self) -> dict[int, float]:
        legs = (self.legs.dense, self.legs.bm25)
        return reciprocal_rank_fusion(legs, k=self.settings.rrf_k, weights=self._weights)

    @property
    def _weights(self) -> tuple[float, float]:
        return 2 * self.settings.dense_weight, 2 * (1 - self.settings.dense_weight)


def on_one_scale(contests: Mapping[Kind, Contest], *, dense_weight: float) -> dict[Kind, ContestByScore]:
    """The contests by score, each with its share: how the best evidence of its kind compares with the best of all.

    Each kind is scaled by itself, so that what the other kind holds changes no order within it. Only the kinds as
    wholes are weighed against each other, by the cosine of the nearest passage and by the words of the best. Where no
    memory has any of the words, scores are not above what nearness counts (specification §2.18).
    """
    scored = {kind: each for kind, each in contests.items() if isinstance(each, ContestByScore)}
    nearest = {kind: max(float(each.scored.best_dense.max()), 0.0) for kind, each in scored.items()}
    covered = {kind: each.scored.coverage for kind, each in scored.items()}
    return {
        kind: replace(
            each,
            share=max(
                dense_weight * _relative(nearest, kind) + (1 - dense_weight) * _relative(covered, kind), _LEAST_SHARE
            ),
        )
        for kind, each in scored.items()
    }


def _relative(values: Mapping[Kind, float], kind: Kind) -> float:
    highest = max(values.values())
    return values[kind] / highest if highest > 0 else 0.0


def _ranks(values: Floats) -> list[int]:
    """The place of each value, from 1, the highest first; equal ones in their order."""
    ranks = np.empty(len(values), np.int64)
    ranks[np.argsort(-values, kind="stable")] = np.arange(1, len(values) + 1)
    return ranks.tolist()


def _position(row: int, leg: list[int]) -> int | None:
    return leg.index(row) + 1 if row in leg else None
