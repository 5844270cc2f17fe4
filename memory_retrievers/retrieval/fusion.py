"""Fusion of the candidates of one kind by the sum of scaled features and boosts, and the scale between kinds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from memory_retrievers.models import Kind
from memory_retrievers.models.results import Evidence, Explanation, Match
from memory_retrievers.models.selection import TURN
from memory_retrievers.retrieval import features
from memory_retrievers.retrieval.candidates import Candidates
from memory_retrievers.retrieval.explanations import StageScore
from memory_retrievers.retrieval.features import NamedBoost, min_max
from memory_retrievers.retrieval.question import Question
from memory_retrievers.retrieval.rank_fusion import Ranked, RankingByRank
from memory_retrievers.retrieval.relevance import MOST_DEVIATIONS, Weights, coverages, falling, match, middle
from memory_retrievers.settings import RetrievalSettings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_LEAST_KIND_WEIGHT: Final = 0.05
"""Least score of the best memory of a kind, however far it is from the query."""


@dataclass(frozen=True)
class Scored:
    """Candidates with a score for every passage; memories are indexed from 0, in the order of the candidates.

    Attributes:
        candidates: What competed.
        stages: What each list and each boost gave each passage, by name.
        passages: The sum of these for each passage, 0 or more.
        bm25: BM25 of each passage alone, shape (n,).
    """

    candidates: Candidates
    stages: dict[str, Floats]
    passages: Floats
    bm25: Floats

    def with_stage(self, name: str, values: Floats) -> Scored:
        """Add a stage.

        Args:
            name: Its name.
            values: What it gives each passage, 0 or more, shape (n,).
        """
        return replace(self, stages={**self.stages, name: values}, passages=self.passages + values)

    @cached_property
    def scores(self) -> Floats:
        """Score of each memory, that of its best passage; shape (m,)."""
        best: Floats = np.maximum.reduceat(self.passages, self.candidates.starts)
        return best

    @cached_property
    def best_passages(self) -> NDArray[np.int64]:
        """Index of the best passage of each memory, the first of equal ones; shape (m,)."""
        groups = self.candidates.groups
        best = np.flatnonzero(self.passages == self.scores[groups])
        return best[np.searchsorted(groups[best], np.arange(len(self.scores)))]

    @cached_property
    def best_stages(self) -> Floats:
        """Contribution of each stage to the best passage of each memory, shape (stages, m)."""
        return np.stack([values[self.best_passages] for values in self.stages.values()])

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """Row of each memory in the ledger, shape (m,)."""
        return self.candidates.layout.memories[self.candidates.starts]

    @cached_property
    def best_dense(self) -> Floats:
        """Cosine of each memory's nearest passage, shape (m,)."""
        best: Floats = np.maximum.reduceat(self.candidates.similarities, self.candidates.starts)
        return best

    @cached_property
    def best_bm25(self) -> Floats:
        """BM25 of each memory's best passage by BM25, shape (m,)."""
        best: Floats = np.maximum.reduceat(self.bm25, self.candidates.starts)
        return best

    def evidence(self, memory: int) -> Evidence:
        """What speaks for a memory, whatever it competes with.

        Args:
            memory: Index of the memory.
        """
        passage = int(self._best_matches[memory])
        at, spread = self._middle
        return Evidence(
            cosine=float(self.candidates.similarities[passage]),
            coverage=float(self._coverages[passage]),
            deviations=min((float(self.best_dense[memory]) - at) / spread, MOST_DEVIATIONS),
            passages=self.candidates.statistics.passages,
        )

    @cached_property
    def _coverages(self) -> Floats:
        return coverages(self.candidates)

    @cached_property
    def _best_matches(self) -> NDArray[np.int64]:
        """Index of the passage of each memory that matches best by meaning and words together, shape (m,)."""
        groups, matched = self.candidates.groups, match(self.candidates.similarities, self._coverages)
        best = np.flatnonzero(matched == np.maximum.reduceat(matched, self.candidates.starts)[groups])
        return best[np.searchsorted(groups[best], np.arange(len(self.candidates.starts)))]

    @cached_property
    def _middle(self) -> tuple[float, float]:
        return middle(self.candidates)

    def stage_scores(self, memory: int, *, unit: float) -> dict[str, float]:
        """Contribution of each stage to the best passage of a memory, in the same unit as its score."""
        return dict(zip(self.stages, (unit * self.best_stages[:, memory]).tolist(), strict=True))

    @cached_property
    def coverage(self) -> float:
        """Best BM25 score divided by the largest one possible for this query. In [0, 1)."""
        frequencies = np.maximum(np.array(list(self.candidates.statistics.frequencies.values()), np.float64), 0.5)
        most = float(self.candidates.repeats @ features.idf(frequencies, self.candidates.statistics.passages))
        return float(self.bm25.max()) / most if most else 0.0

    def matches(self, memory: int, *, unit: float) -> tuple[Match, ...]:
        """Messages of a memory by score, best first; equal ones in the order they were said.

        Args:
            memory: Index of the memory.
            unit: Factor that turns a sum into a score.
        """
        if not self.candidates.has_messages:
            return ()
        span = self._span(memory)
        messages = np.flatnonzero(self.candidates.is_message[span]) + span.start
        places, scores = self.candidates.layout.places[messages].tolist(), (unit * self.passages[messages]).tolist()
        best_first = sorted(zip(places, scores, strict=True), key=lambda match: (-match[1], match[0]))
        return tuple(Match(part=TURN, messages=(place,), score=score) for place, score in best_first)

    def _span(self, memory: int) -> slice:
        starts = self.candidates.starts
        return slice(int(starts[memory]), int(starts[memory + 1]) if memory + 1 < len(starts) else len(self.candidates))


def score(
    candidates: Candidates, question: Question, settings: RetrievalSettings, *, boosts: Sequence[NamedBoost]
) -> Scored:
    """Score every candidate passage.

    Args:
        candidates: At least one passage.
        question: The parsed query.
        settings: Weight of each list and boost; what weighs nothing is not computed.
        boosts: Boosts to add to the lists.
    """
    # 1. the lists, which share a weight of 1
    bm25 = features.bm25(candidates, k1=settings.bm25_k1, b=settings.bm25_b)
    stages = dict(_lists(candidates, bm25, settings))
    fused: Floats = np.sum(list(stages.values()), axis=0)
    # 2. the boosts, each with a weight of its own
    for boost in boosts:
        weight = getattr(settings, boost.setting)
        if weight and boost.concerns(question):
            stages[boost.name] = weight * boost.add(candidates, fused, question, settings)
    # 3. their sum
    total: Floats = np.sum(list(stages.values()), axis=0)
    return Scored(candidates, stages, total, bm25)


def _lists(candidates: Candidates, bm25: Floats, settings: RetrievalSettings) -> Iterator[tuple[str, Floats]]:
    """The lists with their shares, by name; without messages there are no windows."""
    dense, window = settings.dense_weight, settings.window_weight if candidates.has_messages else 0.0
    if dense * (1 - window):
        yield "dense", dense * (1 - window) * min_max(features.cosine(candidates))
    if dense * window:
        yield "window_dense", dense * window * min_max(features.window_cosine(candidates))
    if (1 - dense) * (1 - window):
        yield "bm25", (1 - dense) * (1 - window) * min_max(bm25, floor=0.0)
    if (1 - dense) * window:
        windows = features.window_bm25(candidates, k1=settings.bm25_k1, b=settings.bm25_b)
        yield "window_bm25", (1 - dense) * window * min_max(windows, floor=0.0)


@dataclass(frozen=True)
class RankingByScore:
    """Ranking by the sum of scaled lists and boosts; a memory takes its best passage, and sums of 0 are left out.

    Scores are relative to the best memory, which gets the share of its kind: what is best among the facts may still be
    far from the question, and the episodes nearer.

    Attributes:
        scored: Candidates, at least one, with their sums.
        kind_weight: The score of the best memory, above 0 and at most 1.
    """

    scored: Scored
    kind_weight: float = 1.0

    @cached_property
    def _unit(self) -> float:
        """Factor that turns a sum into a score."""
        highest = float(self.scored.scores.max())
        return self.kind_weight / highest if highest > 0 else 0.0

    @cached_property
    def rows(self) -> list[int]:
        """The memories, as rows of the ledger, best first."""
        return list(self.scores)

    @cached_property
    def scores(self) -> dict[int, float]:
        """Score of each, above 0 and at most 1; best first, equal ones in the order of their rows."""
        return self._best_first(np.flatnonzero(self._scores))

    def leading(self, limit: int, *, share: float) -> dict[int, float]:
        """Score of each memory that has at least a share of the score of the last of the best; best first.

        Args:
            limit: Number of the best, 0 or more.
            share: 0 to 1.
        """
        scores = self._scores
        if not 0 < limit < np.count_nonzero(scores):
            return self.scores
        least = np.partition(scores, -limit)[-limit] * share  # sorting all would cost more than scoring them
        return self._best_first(np.flatnonzero((scores >= least) & (scores > 0)))

    @cached_property
    def _scores(self) -> Floats:
        """Score of each memory, shape (m,)."""
        return np.minimum(self.scored.scores * self._unit, self.kind_weight)  # a product may be off by a rounding

    def _best_first(self, memories: NDArray[np.int64]) -> dict[int, float]:
        """Scores of these memories, given by their indexes, ascending: shape (k,)."""
        scores = self._scores[memories]
        order = np.argsort(-scores, kind="stable")
        return dict(zip(self.scored.rows[memories[order]].tolist(), scores[order].tolist(), strict=True))

    def explanation(self, ranked: Ranked) -> Explanation:
        """Explain the final score of a candidate."""
        scored, memory = self.scored, self._places[ranked.row]
        return Explanation(
            dense_rank=self._dense_ranks[memory],
            bm25_rank=self._bm25_ranks[memory] if scored.best_bm25[memory] > 0 else None,
            fused_score=self.scores[ranked.row],
            retrievability=ranked.retrievability,
            score=ranked.score,
            stages=scored.stage_scores(memory, unit=self._unit),
            evidence=scored.evidence(memory),
        )

    def relevances(self, ranked: Sequence[Ranked], *, weights: Weights | None) -> list[float]:
        """Relevance of candidates of this kind, falling with rank.

        Args:
            ranked: The candidates, best first.
            weights: Weights of the evidence for this kind; None if no memory can bear on the query.
        """
        if weights is None:
            return [0.0] * len(ranked)
        places = self._places
        return falling([weights.relevance(self.scored.evidence(places[each.row])) for each in ranked])

    def matches(self, row: int) -> tuple[Match, ...]:
        """Messages of a candidate by score, best first."""
        return self.scored.matches(self._places[row], unit=self._unit)

    def stages(self, row: int) -> tuple[StageScore, ...]:
        """Contribution of each stage to a candidate, with its rank by that stage among all of them."""
        memory = self._places[row]
        return tuple(
            StageScore(
                name=name,
                rank=ranks[memory] if given[memory] > 0 else None,
                score=self._unit * float(given[memory]),
            )
            for name, given, ranks in zip(self.scored.stages, self.scored.best_stages, self._stage_ranks, strict=True)
        )

    @cached_property
    def _stage_ranks(self) -> list[list[int]]:
        return [_ranks(given) for given in self.scored.best_stages]

    @cached_property
    def _dense_ranks(self) -> list[int]:
        return _ranks(self.scored.best_dense)

    @cached_property
    def _bm25_ranks(self) -> list[int]:
        return _ranks(self.scored.best_bm25)

    @cached_property
    def _places(self) -> dict[int, int]:
        return {row: memory for memory, row in enumerate(self.scored.rows.tolist())}


FusedRanking: TypeAlias = RankingByScore | RankingByRank
"""The candidates of one kind with their scores before forgetting, and what each stage gave them."""


def normalise_across_kinds(rankings: Mapping[Kind, FusedRanking], *, dense_weight: float) -> dict[Kind, RankingByScore]:
    """Scale the rankings by score so that kinds compare: by the best evidence of each, relative to the best of all.

    Each kind is scaled by itself, so that what the other kind holds changes no order within it. Only the kinds as
    wholes are weighed against each other, by the cosine of the nearest passage and by the words of the best. Where no
    memory has any of the words, scores are not above what nearness counts (specification §2.18).
    """
    scored = {kind: each for kind, each in rankings.items() if isinstance(each, RankingByScore)}
    nearest = {kind: max(float(each.scored.best_dense.max()), 0.0) for kind, each in scored.items()}
    covered = {kind: each.scored.coverage for kind, each in scored.items()}
    return {
        kind: replace(
            each,
            kind_weight=max(
                dense_weight * _relative(nearest, kind) + (1 - dense_weight) * _relative(covered, kind),
                _LEAST_KIND_WEIGHT,
            ),
        )
        for kind, each in scored.items()
    }


def _relative(values: Mapping[Kind, float], kind: Kind) -> float:
    highest = max(values.values())
    return values[kind] / highest if highest > 0 else 0.0


def _ranks(values: Floats) -> list[int]:
    """Rank of each value, from 1, the highest first; equal ones keep their order. ``values`` has shape (m,)."""
    ranks = np.empty(len(values), np.int64)
    ranks[np.argsort(-values, kind="stable")] = np.arange(1, len(values) + 1)
    return ranks.tolist()
