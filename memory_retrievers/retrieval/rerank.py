"""Re-ranking: what is well remembered rises, what is half forgotten sinks, and every tie is broken the same way."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from memory_retrievers import fsrs
from memory_retrievers.fields import microseconds
from memory_retrievers.passages import ForgettingState
from memory_retrievers.settings import RetrievalSettings

if TYPE_CHECKING:
    from memory_retrievers.retrieval.contests import Ranked


def contenders(rows: list[int], scores: Mapping[int, float], *, decay_weight: float, limit: int) -> list[int]:
    """Those of the rows, given best first, that forgetting can still bring among the best ``limit``.

    Forgetting takes at most the share ``decay_weight`` of a score: what is below that of the last of the best cannot
    pass it, so nothing need be read about it.
    """
    if len(rows) <= limit:
        return rows
    reach = scores[rows[limit - 1]] * (1 - decay_weight)
    return [row for row in rows if scores[row] >= reach]


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


def remembered(
    rows: list[int],
    scores: Mapping[int, float],
    *,
    retrievability: Mapping[int, float],
    decay_weight: float,
    limit: int,
) -> list[tuple[int, float]]:
    """The best ``limit`` rows with their final scores, weighed by how well each memory is remembered, best first.

    ``final = score × (1 − w × (1 − R))``: with w = 1 this is the specification's ``rrf × R`` (§2.3, §2.5). Facts do
    not decay: where nothing is known, R = 1. Ties keep the order of ``rows``.
    """
    final = {row: scores[row] * (1 - decay_weight * (1 - retrievability.get(row, 1.0))) for row in rows}
    return [(row, final[row]) for row in sorted(rows, key=final.__getitem__, reverse=True)[:limit]]


def joint_cut(semantic: list[Ranked], episodic: list[Ranked], limit: int | None) -> tuple[list[Ranked], list[Ranked]]:
    """The best ``limit`` of both kinds together; at equal scores facts come first."""
    if limit is None or len(semantic) + len(episodic) <= limit:
        return semantic, episodic
    together = sorted((*semantic, *episodic), key=lambda ranked: -ranked.explanation.score)[:limit]
    kept = {ranked.row for ranked in together}
    return (
        [ranked for ranked in semantic if ranked.row in kept],
        [ranked for ranked in episodic if ranked.row in kept],
    )
