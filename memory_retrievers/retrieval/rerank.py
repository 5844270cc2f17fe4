"""Re-ranking: what is well remembered rises, what is half forgotten sinks, and every tie is broken the same way."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from memory_retrievers import fsrs
from memory_retrievers.fields import microseconds
from memory_retrievers.passages import ForgettingState
from memory_retrievers.retrieval.fusion import best_possible
from memory_retrievers.retrieval.legs import Legs
from memory_retrievers.retrieved import Explanation
from memory_retrievers.settings import RetrievalSettings


class Ranked(NamedTuple):
    """A memory, as a row of the ledger, with its score and why."""

    row: int
    explanation: Explanation


def by_fused_score(fused: Mapping[int, float], *, depth: int) -> list[int]:
    """The best ``depth`` by fused score; ties go to the nearer vector.

    ``fused`` names memories in the order in which the lists do, the dense list first, and sorting keeps that order
    among equals. No tie is left for the further keys of the specification (§2.3: newer, lower id): within a list
    every place is taken once, so two memories with equal sums and equal places by vector are one and the same.
    """
    return sorted(fused, key=fused.__getitem__, reverse=True)[:depth]


def contenders(rows: list[int], fused: Mapping[int, float], *, decay_weight: float, limit: int) -> list[int]:
    """Those of the rows, given best first, that forgetting can still bring among the best ``limit``.

    Forgetting takes at most the share ``decay_weight`` of a fused score: what is below that of the last of the best
    cannot pass it, so nothing need be read about it.
    """
    if len(rows) <= limit:
        return rows
    reach = fused[rows[limit - 1]] * (1 - decay_weight)
    return [row for row in rows if fused[row] >= reach]


def retrievabilities(
    states: Mapping[int, ForgettingState], *, now: datetime, settings: RetrievalSettings
) -> dict[int, float]:
    """How well each episode is remembered now, 0 to 1 (specification §2.4)."""
    moment = microseconds(now)
    return {
        row: fsrs.retrievability(
            fsrs.elapsed_days(moment - last_reviewed_at, whole_days=settings.whole_days), stability
        )
        for row, (stability, last_reviewed_at) in states.items()
    }


def rerank(
    rows: list[int],
    fused: Mapping[int, float],
    legs: Legs,
    *,
    retrievability: Mapping[int, float],
    settings: RetrievalSettings,
    limit: int,
) -> list[Ranked]:
    """Weigh fused scores by how well each memory is remembered, and keep the best ``limit``, best first.

    ``score = fused / best × (1 − w × (1 − R))``: with w = 1 this is the specification's ``rrf × R`` (§2.3, §2.5).
    Facts do not decay: where nothing is known, R = 1. Ties keep the order of ``rows``.
    """
    best, decay_weight = best_possible(2, k=settings.rrf_k), settings.decay_weight
    score = {row: fused[row] / best * (1 - decay_weight * (1 - retrievability.get(row, 1.0))) for row in rows}
    kept = sorted(rows, key=score.__getitem__, reverse=True)[:limit]
    return [
        Ranked(
            row,
            Explanation(
                dense_rank=_place(row, legs.dense),
                bm25_rank=_place(row, legs.bm25),
                fused_score=fused[row],
                retrievability=retrievability.get(row, 1.0),
                score=score[row],
            ),
        )
        for row in kept
    ]


def _place(row: int, leg: list[int]) -> int | None:
    return leg.index(row) + 1 if row in leg else None
