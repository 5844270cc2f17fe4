"""Ranking of the candidates of each kind: fusion, forgetting, the limits; with the trace of every stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from memory_retrievers import fsrs
from memory_retrievers.models import Kind
from memory_retrievers.models.fields import EPOCH, MICROSECOND
from memory_retrievers.models.selection import ForgettingState
from memory_retrievers.retrieval.candidates import Candidates, RankedLists
from memory_retrievers.retrieval.features import BOOSTS
from memory_retrievers.retrieval.fusion import FusedRanking, RankingByScore, Scored, normalise_across_kinds, score
from memory_retrievers.retrieval.late_interaction import token_nearness
from memory_retrievers.retrieval.rank_fusion import Ranked, RankingByRank
from memory_retrievers.retrieval.request import RetrievalPlan
from memory_retrievers.settings import RetrievalSettings
from memory_retrievers.storage.tracing import RANK, observer_of_stages

ForgettingStates: TypeAlias = Callable[[Sequence[int]], Mapping[int, ForgettingState]]
"""Reads the forgetting state of episodes, by row."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """Ranking of the memories of one kind, with its trace: what each stage gave each candidate.

    Attributes:
        fused: The candidates with their scores before forgetting, and what each stage gave them.
        final: The candidates after forgetting, best first: as many as the limit, or all of them for an explanation.
        returned: Those that are returned, best first.
    """

    fused: FusedRanking
    final: list[Ranked]
    returned: list[Ranked]


def rank(
    candidates: Mapping[Kind, Candidates | RankedLists],
    plan: RetrievalPlan,
    *,
    states: ForgettingStates,
    settings: RetrievalSettings,
    is_traced: bool = False,
) -> dict[Kind, Ranking]:
    """Rank the candidates of each kind, best first; kinds without candidates are left out.

    Args:
        candidates: What was found of each kind.
        plan: The search plan: query, selections and limits.
        states: Reads the forgetting state of episodes.
        settings: Weights and fusion.
        is_traced: Weigh every candidate by its retrievability, also those that forgetting cannot bring among the best.
    """
    with observer_of_stages.get()(RANK):
        fused = _fuse(candidates, plan, settings)
        final = {
            kind: _forget(each, kind, plan, states=states, settings=settings, is_traced=is_traced)
            for kind, each in fused.items()
        }
        best = {kind: each[: plan.limits[kind]] for kind, each in final.items()}
        kept = dict(
            zip(
                (Kind.SEMANTIC, Kind.EPISODIC),
                joint_cut(best.get(Kind.SEMANTIC, []), best.get(Kind.EPISODIC, []), plan.joint_limit),
                strict=True,
            )
        )
        return {kind: Ranking(each, final[kind], kept[kind]) for kind, each in fused.items()}


def _fuse(
    candidates: Mapping[Kind, Candidates | RankedLists], plan: RetrievalPlan, settings: RetrievalSettings
) -> dict[Kind, FusedRanking]:
    """Score the candidates of each kind, on one scale where scores are added up."""
    fused: dict[Kind, FusedRanking] = {}
    scored: dict[Kind, Scored] = {}
    for kind, each in candidates.items():
        if isinstance(each, RankedLists):
            fused[kind] = RankingByRank(each, settings)
        elif len(each):
            boosts = BOOSTS if kind is Kind.EPISODIC else ()
            scored[kind] = score(each, plan.question, settings, boosts=boosts)
    by_tokens = {
        k: (each.candidates, each.passages) for k, each in scored.items() if each.candidates.tokens is not None
    }
    for kind, near in token_nearness(by_tokens).items() if by_tokens else ():
        unit = settings.token_weight * float(scored[kind].passages.max())
        scored[kind] = scored[kind].with_stage("tokens", unit * near)
    fused |= {kind: RankingByScore(each) for kind, each in scored.items()}
    return {**fused, **normalise_across_kinds(fused, dense_weight=settings.dense_weight)}


def _forget(
    fused: FusedRanking,
    kind: Kind,
    plan: RetrievalPlan,
    *,
    states: ForgettingStates,
    settings: RetrievalSettings,
    is_traced: bool,
) -> list[Ranked]:
    """Weigh the scores of episodes by their retrievability; facts do not decay."""
    limit = len(fused.rows) if is_traced else plan.limits[kind]
    decay_weight = settings.decay_weight if kind is Kind.EPISODIC else 0.0
    # Forgetting takes at most this share of a score: what is below that of the last of the best cannot pass it.
    scores = fused.leading(limit, share=1 - decay_weight)
    known = states(list(scores)) if kind is Kind.EPISODIC else {}
    retrievability = retrievabilities(known, now=plan.selections[kind].now, settings=settings)
    return apply_decay(scores, retrievability=retrievability, decay_weight=decay_weight, limit=limit)


def retrievabilities(
    states: Mapping[int, ForgettingState], *, now: datetime, settings: RetrievalSettings
) -> dict[int, float]:
    """Retrievability of each episode now, 0 to 1 (specification §2.4).

    Args:
        states: Stability in days and last review in microseconds since 1970, by row.
        now: The moment to reckon for.
        settings: ``whole_days`` rounds elapsed time down to days.
    """
    moment = (now - EPOCH) // MICROSECOND
    return {
        row: fsrs.retrievability(
            fsrs.elapsed_days(moment - last_reviewed_at, whole_days=settings.whole_days), stability
        )
        for row, (stability, last_reviewed_at) in states.items()
    }


def apply_decay(
    scores: Mapping[int, float],
    *,
    retrievability: Mapping[int, float],
    decay_weight: float,
    limit: int,
) -> list[Ranked]:
    """Weigh scores by retrievability, and take the best ``limit`` memories, best first.

    ``final = score × (1 − w × (1 − R))``: with w = 1 this is the specification's ``rrf × R`` (§2.3, §2.5). Facts do
    not decay: where nothing is known, R = 1. Ties keep the order of ``scores``.

    Args:
        scores: Score of each candidate, as a row of the ledger, before forgetting; best first.
        retrievability: R of each, 0 to 1; a missing row counts as 1.
        decay_weight: The weight w of forgetting, 0 to 1.
        limit: Number of memories wanted, 0 or more.

    Returns:
        The memories with their final scores.
    """
    known = {row: retrievability.get(row, 1.0) for row in scores}
    final = {row: score * (1 - decay_weight * (1 - known[row])) for row, score in scores.items()}
    best = sorted(scores, key=final.__getitem__, reverse=True)[:limit]
    return [Ranked(row, final[row], known[row]) for row in best]


def joint_cut(semantic: list[Ranked], episodic: list[Ranked], limit: int | None) -> tuple[list[Ranked], list[Ranked]]:
    """Cut both kinds to the best ``limit`` together; at equal scores facts come first.

    Args:
        semantic: Ranked facts, best first.
        episodic: Ranked episodes, best first.
        limit: Number of memories of both kinds; None keeps all.

    Returns:
        The facts and the episodes that remain, best first.
    """
    if limit is None or len(semantic) + len(episodic) <= limit:
        return semantic, episodic
    together = sorted((*semantic, *episodic), key=lambda ranked: -ranked.score)[:limit]
    kept = {ranked.row for ranked in together}
    return (
        [ranked for ranked in semantic if ranked.row in kept],
        [ranked for ranked in episodic if ranked.row in kept],
    )
