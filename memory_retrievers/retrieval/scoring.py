"""Ranking by score: lists are scaled and added, boosts come on top, and a memory stands by its best passage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from memory_retrievers.passages import TURN
from memory_retrievers.retrieval import evidence
from memory_retrievers.retrieval.boosts import NamedBoost
from memory_retrievers.retrieval.field import Field
from memory_retrievers.retrieval.fusion import min_max
from memory_retrievers.retrieval.question import Question
from memory_retrievers.retrieved import Match
from memory_retrievers.settings import RetrievalSettings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Scored:
    """A field with a score for every passage; memories are counted from 0, in the order of the field.

    Attributes:
        field: What competed.
        stages: What each list and each boost gave each passage, by name.
        passages: The sum of these for each passage, 0 or more.
        words: BM25 of each passage alone.
    """

    field: Field
    stages: dict[str, Floats]
    passages: Floats
    words: Floats

    @cached_property
    def scores(self) -> Floats:
        """The sum for each memory: that of its best passage."""
        best: Floats = np.maximum.reduceat(self.passages, self.field.starts)
        return best

    @cached_property
    def best_passages(self) -> NDArray[np.int64]:
        """Where the best passage of each memory stands in the field; the first of equal ones."""
        groups = self.field.groups
        best = np.flatnonzero(self.passages == self.scores[groups])
        return best[np.searchsorted(groups[best], np.arange(len(self.scores)))]

    @cached_property
    def best_stages(self) -> Floats:
        """What each stage (rows) gave the best passage of each memory (columns)."""
        return np.stack([values[self.best_passages] for values in self.stages.values()])

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """The row of each memory in the ledger."""
        return self.field.layout.memories[self.field.starts]

    @cached_property
    def best_dense(self) -> Floats:
        """The cosine of each memory's nearest passage."""
        best: Floats = np.maximum.reduceat(self.field.similarities, self.field.starts)
        return best

    @cached_property
    def best_words(self) -> Floats:
        """BM25 of each memory's best passage by words."""
        best: Floats = np.maximum.reduceat(self.words, self.field.starts)
        return best

    def told(self, memory: int, *, unit: float) -> dict[str, float]:
        """What each stage gave the best passage of a memory, in the same unit as its score."""
        return dict(zip(self.stages, (unit * self.best_stages[:, memory]).tolist(), strict=True))

    @cached_property
    def coverage(self) -> float:
        """How much of the question's words the best passage has, each weighed by how rare it is: 0 to nearly 1."""
        frequencies = np.maximum(np.array(list(self.field.statistics.frequencies.values()), np.float64), 0.5)
        most = float(self.field.repeats @ evidence.idf(frequencies, self.field.statistics.passages))
        return float(self.words.max()) / most if most else 0.0

    def matches(self, memory: int, *, unit: float) -> tuple[Match, ...]:
        """The messages of a memory by score, best first; equal ones in the order they were said.

        Args:
            memory: Which.
            unit: What a sum is multiplied with to be a score.
        """
        if not self.field.has_messages:
            return ()
        span = self._span(memory)
        messages = np.flatnonzero(self.field.is_message[span]) + span.start
        places, scores = self.field.layout.places[messages].tolist(), (unit * self.passages[messages]).tolist()
        best_first = sorted(zip(places, scores, strict=True), key=lambda match: (-match[1], match[0]))
        return tuple(Match(part=TURN, messages=(place,), score=score) for place, score in best_first)

    def _span(self, memory: int) -> slice:
        starts = self.field.starts
        return slice(int(starts[memory]), int(starts[memory + 1]) if memory + 1 < len(starts) else len(self.field))


def score(field: Field, question: Question, settings: RetrievalSettings, *, boosts: Sequence[NamedBoost]) -> Scored:
    """Score all that competes.

    Args:
        field: At least one passage.
        question: The question.
        settings: What each list and boost weighs; what weighs nothing is not reckoned.
        boosts: What may come on top of the lists.
    """
    # 1. the lists, which share a weight of 1
    words = evidence.words(field, k1=settings.bm25_k1, b=settings.bm25_b)
    stages = dict(_lists(field, words, settings))
    fused: Floats = np.sum(list(stages.values()), axis=0)
    # 2. the boosts, each with a weight of its own
    for boost in boosts:
        weight: float = getattr(settings, boost.setting)
        if weight and boost.concerns(question):
            stages[boost.name] = weight * boost.add(field, fused, question, settings)
    # 3. their sum
    total: Floats = np.sum(list(stages.values()), axis=0)
    return Scored(field, stages, total, words)


def _lists(field: Field, words: Floats, settings: RetrievalSettings) -> Iterator[tuple[str, Floats]]:
    """The lists with their shares, by name; without messages there are no windows."""
    dense, window = settings.dense_weight, settings.window_weight if field.has_messages else 0.0
    if dense * (1 - window):
        yield "dense", dense * (1 - window) * min_max(evidence.nearness(field))
    if dense * window:
        yield "window_dense", dense * window * min_max(evidence.window_nearness(field))
    if (1 - dense) * (1 - window):
        yield "bm25", (1 - dense) * (1 - window) * min_max(words, floor=0.0)
    if (1 - dense) * window:
        windows = evidence.window_words(field, k1=settings.bm25_k1, b=settings.bm25_b)
        yield "window_bm25", (1 - dense) * window * min_max(windows, floor=0.0)
