"""Ranking the memories of one kind: what competes is fused, by score or by rank, and weighed by forgetting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from memory_retrievers.models import Kind
from memory_retrievers.retrieval.asking import Asked
from memory_retrievers.retrieval.boosts import BOOSTS
from memory_retrievers.retrieval.contests import Contest, ContestByRank, ContestByScore, Final, Ranked, on_one_scale
from memory_retrievers.retrieval.field import Field, read_field
from memory_retrievers.retrieval.legs import Legs, run_legs
from memory_retrievers.retrieval.question import Question
from memory_retrievers.retrieval.rerank import contenders, remembered, retrievabilities
from memory_retrievers.retrieval.scoring import score
from memory_retrievers.settings import RetrievalSettings
from memory_retrievers.stages import RANK, stage
from memory_retrievers.store import MemoryStore

if TYPE_CHECKING:
    from memory_retrievers.passages import Vector


@dataclass(frozen=True)
class Ranking:
    """How memories are ranked.

    Attributes:
        store: Where to search.
        settings: How.
    """

    store: MemoryStore
    settings: RetrievalSettings

    def best(self, asked: Asked, *, vector: Vector, limits: Mapping[Kind, int]) -> dict[Kind, list[Ranked]]:
        """The best memories of each kind, best first; without the kinds that have none.

        Args:
            asked: The question, and what may answer it.
            vector: The vector of what is embedded of it.
            limits: How many of each kind are wanted.
        """
        competitors = self._competitors(asked, vector)
        with stage(RANK):
            return {
                kind: [
                    contest.told(row, each)
                    for row, each in self.final(
                        contest, kind, now=asked.selections[kind].now, limit=limits[kind]
                    ).items()
                ]
                for kind, contest in self._contests(competitors, asked.question).items()
            }

    def contests(self, asked: Asked, *, vector: Vector) -> dict[Kind, Contest]:
        """Everything that competes, kind by kind, with scores before forgetting; without the kinds that have nothing.

        Args:
            asked: The question, and what may answer it.
            vector: The vector of what is embedded of it.
        """
        return self._contests(self._competitors(asked, vector), asked.question)

    def _competitors(self, asked: Asked, vector: Vector) -> dict[Kind, Field | Legs]:
        settings, question = self.settings, asked.question
        if settings.fusion == "rrf":
            return {
                kind: run_legs(self.store, each, vector=vector, terms=question.terms, depth=settings.candidate_depth)
                for kind, each in asked.selections.items()
            }
        return {
            kind: read_field(
                self.store, each, question, vector=vector, settings=settings, statistics=asked.statistics.get(kind)
            )
            for kind, each in asked.selections.items()
        }

    def _contests(self, competitors: Mapping[Kind, Field | Legs], question: Question) -> dict[Kind, Contest]:
        entered = {kind: self._contest(each, question, kind) for kind, each in competitors.items()}
        contests = {kind: contest for kind, contest in entered.items() if contest is not None}
        return {**contests, **on_one_scale(contests, dense_weight=self.settings.dense_weight)}

    def _contest(self, competitors: Field | Legs, question: Question, kind: Kind) -> Contest | None:
        if isinstance(competitors, Legs):
            return ContestByRank(competitors, self.settings)
        if not len(competitors):
            return None
        boosts = BOOSTS if kind is Kind.EPISODIC else ()
        return ContestByScore(score(competitors, question, self.settings, boosts=boosts))

    def final(self, contest: Contest, kind: Kind, *, now: datetime, limit: int) -> dict[int, Final]:
        """The best ``limit`` with their final scores, best first: episodes by how well each is remembered."""
        decay_weight = self.settings.decay_weight if kind is Kind.EPISODIC else 0.0
        near = contenders(contest.rows, contest.scores, decay_weight=decay_weight, limit=limit)
        states = self.store.ledger.forgetting_states(near) if kind is Kind.EPISODIC else {}
        retrievability = retrievabilities(states, now=now, settings=self.settings)
        best = remembered(near, contest.scores, retrievability=retrievability, decay_weight=decay_weight, limit=limit)
        return {row: Final(score, retrievability.get(row, 1.0)) for row, score in best}
