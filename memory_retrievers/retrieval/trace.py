"""Trace of a ranking by scores: what each stage gave each candidate, its evidence, and the messages that match."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from memory_retrievers.models.messages import Message
from memory_retrievers.models.results import Evidence, Explanation, Match
from memory_retrievers.models.selection import TURN, Vector
from memory_retrievers.retrieval.candidates import Candidates
from memory_retrievers.retrieval.explanations import StageScore
from memory_retrievers.retrieval.rank_fusion import Ranked, RankingByRank
from memory_retrievers.retrieval.ranking import FusedRanking, RankingByScore, Scored
from memory_retrievers.retrieval.relevance import (
    FEW_PASSAGES,
    MOST_DEVIATIONS,
    Weights,
    coverages,
    falling,
    match,
    middle,
)
from memory_retrievers.retrieval.times import dated

if TYPE_CHECKING:
    from memory_retrievers.storage.store import MemoryStore

    Floats = NDArray[np.float64]


ANSWER_SHARE: Final = 0.6  # share of what a question is ahead of its answer that the answer gains
QUESTION_DISCOUNT: Final = 0.05  # share of its score that a question loses where it is answered

_SOME: Final = 500  # facts of a scope, evenly chosen, that tell which cosines are low there

_ASKS: Final = re.compile(r"[?？؟][^.!?…。！？؟]*$")


def trace_of(fused: FusedRanking) -> ScoreTrace | RankingByRank:
    """What each stage gave each candidate of a ranking."""
    return ScoreTrace(fused) if isinstance(fused, RankingByScore) else fused


def vectors_of(rows: Sequence[int], fused: FusedRanking, store: MemoryStore) -> dict[int, Vector]:
    """Vector of the passage of each candidate that matches best, shape (d,), by its row; what has none is left out.

    Args:
        rows: The candidates.
        fused: Their ranking; one by ranks has no passages.
        store: Where the vectors of stored passages are.
    """
    if not isinstance(fused, RankingByScore):
        return {}
    candidates, best = fused.scored.candidates, ScoreTrace(fused).best_passages(rows)
    turns = [turn for episode in candidates.open.values() for turn in episode.turns]
    waiting = [(-turn.row, turn.embedded.vector) for turn in turns if turn.embedded is not None and -turn.row in best]
    stored = zip(*store.ledger.vectors([passage for passage in best if passage > 0]), strict=True)
    return {best[passage]: vector for passage, vector in (*waiting, *stored)}


def low_cosines(vectors: Sequence[Vector], facts: FusedRanking) -> list[float]:
    """Lower quartile of the cosines of each vector, shape (d,), with the facts of a scope; 0 where these are few.

    Facts that all begin with the same name are near each other, whatever they are about. Messages are left out: a
    question that is asked again and again may be most of them, and facts are known once.
    """
    snapshot = facts.scored.candidates.snapshot if isinstance(facts, RankingByScore) else None
    if snapshot is None or len(snapshot) < FEW_PASSAGES:
        return [0.0] * len(vectors)
    some = snapshot.matrix[:: len(snapshot) // _SOME + 1]
    return [float(np.quantile(some @ each, 0.25)) if each.shape == some[0].shape else 0.0 for each in vectors]


@dataclass(frozen=True)
class ScoreTrace:
    """What speaks for the candidates of a ranking by scores; nothing is computed before it is asked for."""

    ranking: RankingByScore

    @property
    def scored(self) -> Scored:
        """The candidates with their sums."""
        return self.ranking.scored

    def explanation(self, ranked: Ranked) -> Explanation:
        """Explain the final score of a candidate."""
        memory = self._places[ranked.row]
        return Explanation(
            dense_rank=self._dense_ranks[memory],
            bm25_rank=self._bm25_ranks[memory] if self._best_bm25[memory] > 0 else None,
            fused_score=self.ranking.scores[ranked.row],
            retrievability=ranked.retrievability,
            score=ranked.score,
            stages={name: self.ranking.unit * float(given[memory]) for name, given in self._best_stages.items()},
            evidence=self.evidence(ranked.row),
        )

    def relevances(self, ranked: Sequence[Ranked], *, weights: Weights | None) -> list[float]:
        """Relevance of candidates of this kind, best first, falling; all 0 without weights, since none can bear."""
        if weights is None:
            return [0.0] * len(ranked)
        alone = [weights.relevance(self.evidence(each.row)) for each in ranked]
        repeated = [self._places[each.row] in self.scored.repeated for each in ranked]
        # A repetition is as near as what it repeats, and stands behind others: it must not lift them.
        lifted = falling([0.0 if again else each for each, again in zip(alone, repeated, strict=True)])
        for place in (place for place, again in enumerate(repeated) if again):
            lifted[place] = max(lifted[place], min(alone[place], lifted[place - 1] if place else 1.0))
        return lifted

    def matches(self, row: int, messages: Sequence[Message]) -> tuple[Match, ...]:
        """Messages of a candidate by score, best first; equal ones in the order they were said."""
        first, behind = self._candidates.span(self._places[row])
        passages = np.flatnonzero(self._candidates.layout.is_message[first:behind]) + first
        places = self._candidates.layout.places[passages].tolist()
        scores = dict(zip(places, self.ranking.message_scores[passages].tolist(), strict=True))
        best_first = sorted(with_answers(scores, messages).items(), key=lambda match: (-match[1], match[0]))
        return tuple(Match(part=TURN, messages=(place,), score=score) for place, score in best_first)

    def stages(self, row: int) -> tuple[StageScore, ...]:
        """Contribution of each stage to a candidate, with its rank by that stage among all of them."""
        memory = self._places[row]
        return tuple(
            StageScore(
                name=name,
                rank=ranks[memory] if given[memory] > 0 else None,
                score=self.ranking.unit * float(given[memory]),
            )
            for (name, given), ranks in zip(self._best_stages.items(), self._stage_ranks.values(), strict=True)
        )

    @cached_property
    def _stage_ranks(self) -> dict[str, list[int]]:
        return {name: _ranks(given) for name, given in self._best_stages.items()}

    @cached_property
    def _dense_ranks(self) -> list[int]:
        return _ranks(self.scored.best_dense)

    @cached_property
    def _bm25_ranks(self) -> list[int]:
        return _ranks(self._best_bm25)

    @cached_property
    def _places(self) -> dict[int, int]:
        return {row: memory for memory, row in enumerate(self.scored.rows.tolist())}

    def evidence(self, row: int) -> Evidence:
        """What speaks for a candidate, whatever it competes with."""
        memory = self._places[row]
        passage = int(self._best_matches[memory])
        at, spread = self._middle
        return Evidence(
            cosine=float(self._candidates.similarities[passage]),
            coverage=float(self._coverages[passage]),
            deviations=min((float(self.scored.best_dense[memory]) - at) / spread, MOST_DEVIATIONS),
            passages=self._candidates.statistics.passages,
            dated=self._is_of_time(memory, int(self._candidates.layout.began[passage])),
            tokens=self.ranking.nearness.get(row),
            personal=self.scored.question.is_personal,
        )

    def _is_of_time(self, memory: int, began: int) -> bool:
        """Whether it began when the query says, or tells of a plan for then; if plans are asked for, these alone."""
        planned, question = self.scored.planned, self.scored.question
        if planned is not None and planned[slice(*self._candidates.span(memory))].any():
            return True
        return began > 0 and not question.asks_for_plans and bool(dated(np.array([began]), question)[0] == 1)

    def best_passages(self, rows: Sequence[int]) -> dict[int, int]:
        """Candidates by the id of the passage that matches best."""
        places = [self._best_matches[self._places[row]] for row in rows]
        return dict(zip(self._candidates.layout.passages[places].tolist(), rows, strict=True))

    @cached_property
    def _coverages(self) -> Floats:
        return coverages(self._candidates, self.scored.question)

    @cached_property
    def _best_matches(self) -> NDArray[np.int64]:
        """Index of the passage of each memory that matches best by meaning and words together, shape (m,)."""
        groups, matched = self._candidates.layout.groups, match(self._candidates.similarities, self._coverages)
        best = np.flatnonzero(matched == np.maximum.reduceat(matched, self._candidates.layout.starts)[groups])
        return best[np.searchsorted(groups[best], np.arange(len(self._candidates.layout.starts)))]

    @cached_property
    def _middle(self) -> tuple[float, float]:
        return middle(self._candidates)

    @cached_property
    def _best_passages(self) -> NDArray[np.int64]:
        """Index of the best passage of each memory, the first of equal ones; shape (m,)."""
        groups = self._candidates.layout.groups
        best = np.flatnonzero(self.scored.passages == self.scored.scores[groups])
        return best[np.searchsorted(groups[best], np.arange(len(self.scored.scores)))]

    @cached_property
    def _best_stages(self) -> dict[str, Floats]:
        """Contribution of each stage to the best passage of each memory, and of late interaction to it: (m,) each."""
        given = {name: values[self._best_passages] for name, values in self.scored.stages.items()}
        return given if self.ranking.tokens is None else {**given, "tokens": self.ranking.tokens}

    @cached_property
    def _best_bm25(self) -> Floats:
        """BM25 of each memory's best passage by BM25, shape (m,)."""
        best: Floats = np.maximum.reduceat(self.scored.bm25, self._candidates.layout.starts)
        return best

    @property
    def _candidates(self) -> Candidates:
        return self.scored.candidates


def with_answers(scores: Mapping[int, float], messages: Sequence[Message]) -> dict[int, float]:
    """Scores of messages by their places, with an answer raised towards the question before it, which is no evidence.

    A question often has the words that are searched for, and what somebody else answers leaves them out.
    """
    given = dict(scores)
    for place, (asked, answer) in enumerate(pairwise(messages)):
        if place in scores and place + 1 in scores and asked.role != answer.role and _ASKS.search(asked.content):
            raised = scores[place + 1] + ANSWER_SHARE * (scores[place] - scores[place + 1])
            given[place + 1] = max(given[place + 1], raised)
            given[place] *= 1 - QUESTION_DISCOUNT
    return given


def _ranks(values: Floats) -> list[int]:
    """Rank of each value, from 1, the highest first; equal ones keep their order. ``values`` has shape (m,)."""
    ranks = np.empty(len(values), np.int64)
    ranks[np.argsort(-values, kind="stable")] = np.arange(1, len(values) + 1)
    return ranks.tolist()
