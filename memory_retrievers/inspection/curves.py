"""Forgetting curves: how well an episode is remembered, from its last review on, today and in time to come."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from memory_retrievers.fsrs import MAX_ELAPSED_DAYS, retrievability
from memory_retrievers.models import EpisodicMemory

LEAST_AHEAD: Final = 30.0
"""Days that are shown of the future at least; an older episode is followed as far ahead as it goes back."""

_STEPS: Final = 32
_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgettingCurve:
    """A curve over days, counted from now: -2 is the day before yesterday.

    Attributes:
        created: When the episode was made.
        reviewed: When it was last reviewed; None if it never was.
        ahead: Where the curve ends.
        now: Retrievability today, 0 to 1.
        later: Retrievability where the curve ends.
        points: Pairs of day and retrievability, in the order of days. The first is the last review, or when the episode
            was made: what it was before a review is not kept.
    """

    created: float
    reviewed: float | None
    ahead: float
    now: float
    later: float
    points: tuple[tuple[float, float], ...]


def curve_of(episode: EpisodicMemory, *, now: datetime) -> ForgettingCurve:
    """The curve of an episode, by FSRS-6 in exact days; one that never fades has a straight line at 1.

    Args:
        episode: Which.
        now: Day 0. What lies behind it, by a clock that runs fast, counts as now.
    """
    created, began = (min((at - now) / _DAY, 0.0) for at in (episode.created_at, episode.last_reviewed_at))
    ahead = min(max(-created, LEAST_AHEAD), float(MAX_ELAPSED_DAYS))
    # a curve is steepest where it begins, so its points are nearer to each other there
    days = sorted({0.0, ahead, *(began + (ahead - began) * (step / _STEPS) ** 2 for step in range(_STEPS))})
    points = tuple(
        (day, 1.0 if episode.is_flashbulb else retrievability(day - began, episode.stability)) for day in days
    )
    return ForgettingCurve(
        created=created,
        reviewed=began if episode.last_reviewed_at > episode.created_at else None,
        ahead=ahead,
        now=dict(points)[0.0],
        later=points[-1][1],
        points=points,
    )
