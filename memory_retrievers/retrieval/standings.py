"""Standings: how all memories that compete for a question stand in the end, not only the first few."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memory_retrievers.models import AnyMemory, Kind, SemanticMemory
from memory_retrievers.passages import Selection
from memory_retrievers.retrieval.asking import Asked, limits
from memory_retrievers.retrieval.contests import Contest, Final, Ranked
from memory_retrievers.retrieval.explained import ExplainedMemory
from memory_retrievers.retrieval.field import field_of
from memory_retrievers.retrieval.question import Question
from memory_retrievers.retrieval.ranking import Ranking
from memory_retrievers.retrieval.request import RetrievalRequest
from memory_retrievers.retrieval.rerank import joint_cut
from memory_retrievers.store import MemoryStore

if TYPE_CHECKING:
    from memory_retrievers.passages import Vector


class Evidence(NamedTuple):
    """What of a question is in a memory: the cosine of its nearest passage, and the terms it shares."""

    cosine: float
    words: tuple[str, ...]


NO_EVIDENCE = Evidence(-1.0, ())
"""That of a memory that is gone by now."""


@dataclass(frozen=True)
class Standing:
    """How all memories of one kind stand.

    Attributes:
        limit: How many of them were asked for.
        contest: What competes; None if nothing does.
        final: All that competes with its final score, best first.
        returned: What of it is returned, as rows of the ledger, best first.
    """

    limit: int
    contest: Contest | None
    final: Mapping[int, Final]
    returned: tuple[int, ...] = ()

    def first(self) -> list[Ranked]:
        """As many as were asked for."""
        if self.contest is None:
            return []
        return [self.contest.told(row, final) for row, final in islice(self.final.items(), self.limit)]

    def told(self, row: int, memory: AnyMemory, evidence: Evidence) -> ExplainedMemory | None:
        """A memory with its place and score by every stage; None if it does not compete."""
        if self.contest is None or row not in self.final:
            return None
        why = self.contest.told(row, self.final[row]).explanation
        return ExplainedMemory(
            id=memory.id,
            scope=memory.scope,
            kind=memory.kind.value,
            text=memory.fact if isinstance(memory, SemanticMemory) else memory.title or memory.summary,
            cosine=evidence.cosine,
            words=evidence.words,
            dense_rank=why.dense_rank,
            bm25_rank=why.bm25_rank,
            stages=self.contest.stages(row),
            fused_score=why.fused_score,
            rank_before_forgetting=self.contest.rows.index(row) + 1,
            score_before_forgetting=self.contest.scores[row],
            retrievability=why.retrievability,
            rank=list(self.final).index(row) + 1,
            score=why.score,
        )


def standings_of(
    ranking: Ranking, request: RetrievalRequest, asked: Asked, *, vector: Vector, now: datetime
) -> dict[Kind, Standing]:
    """How the memories of both kinds stand, and which of them are returned, as in a retrieval."""
    contests = ranking.contests(asked, vector=vector)
    whole = {kind: _standing(ranking, contests.get(kind), kind, limit, now) for kind, limit in limits(request)}
    kept = joint_cut(whole[Kind.SEMANTIC].first(), whole[Kind.EPISODIC].first(), request.limit)
    return {
        kind: Standing(standing.limit, standing.contest, standing.final, tuple(ranked.row for ranked in first))
        for (kind, standing), first in zip(whole.items(), kept, strict=True)
    }


def evidence_of(
    store: MemoryStore, selection: Selection, question: Question, *, vector: Vector, rows: Sequence[int]
) -> dict[int, Evidence]:
    """What of a question is in those of some memories that the selection lets through."""
    field = field_of(store, selection, question, vector=vector, memories=rows)
    if not len(field):
        return {}
    terms = list(dict.fromkeys(question.terms))
    cosines = np.maximum.reduceat(field.similarities, field.starts).tolist()
    shares = np.logical_or.reduceat(field.counts > 0, field.starts, axis=1).T.tolist()
    return {
        row: Evidence(cosine, tuple(term for term, shared in zip(terms, its_shares, strict=True) if shared))
        for row, cosine, its_shares in zip(field.layout.memories[field.starts].tolist(), cosines, shares, strict=True)
    }


def _standing(ranking: Ranking, contest: Contest | None, kind: Kind, limit: int, now: datetime) -> Standing:
    if contest is None:
        return Standing(limit, None, {})
    return Standing(limit, contest, ranking.final(contest, kind, now=now, limit=len(contest.rows)))
