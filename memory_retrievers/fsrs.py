"""FSRS-6: the forgetting curve of an episode and how reviews change it. The only module that imports py-fsrs.

Forgetting follows the power curve R(t, S) = (1 + F · t / S)^(−w20), with F such that R(S, S) = 0.9: stability S is the
number of days until nine of ten such memories could still be recalled. Parameters and formulas are those of
https://github.com/open-spaced-repetition/py-fsrs with its defaults, restated in specification §2.4.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, cast

from memory_retrievers.models import EpisodicMemory, Rating

if TYPE_CHECKING:
    import fsrs

DECAY = 0.1542  # w20, the last of the 21 default parameters

MIN_STABILITY = 0.001
MAX_STABILITY = 36_500.0
MAX_ELAPSED_DAYS = 36_500

SURPRISE_BOOST = 0.5  # how much of the stability of a fresh memory full surprise adds

_MICROSECONDS_PER_DAY = 86_400_000_000
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)  # py-fsrs counts in dates; only the days between two of them matter


@dataclass(frozen=True, slots=True)
class FsrsState:
    """FSRS state of a memory."""

    stability: float  # days until retrievability has fallen to 0.9; from 0.001 to 36,500
    difficulty: float  # how hard it is to make the memory more stable; from 1 to 10


def initial_state(*, surprise: float = 0.0) -> FsrsState:
    """Return the state of a new memory; a surprise of 1 lets it last half as long again. It is clamped to 0 to 1.

    >>> initial_state(surprise=0.9)
    FsrsState(stability=3.344425, difficulty=2.118103970459016)
    """
    import fsrs

    card, _ = _scheduler().review_card(fsrs.Card(card_id=0), fsrs.Rating.Good, _EPOCH)
    fresh = _state_of(card)
    boost = 1 + SURPRISE_BOOST * min(max(surprise, 0.0), 1.0)
    return FsrsState(stability=_clamped_stability(fresh.stability * boost), difficulty=fresh.difficulty)


def elapsed_days(microseconds: int, *, whole_days: bool) -> float:
    """Convert microseconds to days, rounded down if ``whole_days``; 0 for a time in the future.

    >>> elapsed_days(129_600_000_000, whole_days=False), elapsed_days(129_600_000_000, whole_days=True)
    (1.5, 1)
    """
    elapsed = max(microseconds, 0)
    return elapsed // _MICROSECONDS_PER_DAY if whole_days else elapsed / _MICROSECONDS_PER_DAY


def retrievability(elapsed_days: float, stability: float, *, decay: float = DECAY) -> float:
    """Compute the probability, in (0, 1], that a memory can still be recalled.

    Args:
        elapsed_days: Days since the last review; clamped to 0 to 36,500.
        stability: In days; clamped to 0.001 to 36,500.
        decay: The exponent w20 of the forgetting curve, as a positive number.

    >>> retrievability(0, 2.3065)
    1.0
    >>> round(retrievability(30, 2.3065), 4)
    0.6675
    """
    elapsed = min(max(elapsed_days, 0.0), MAX_ELAPSED_DAYS)
    factor = _forgetting_factor(decay)
    return float((1 + factor * elapsed / _clamped_stability(stability)) ** -decay)


def apply_rating(state: FsrsState, rating: Rating, *, elapsed_days: float) -> FsrsState:
    """Return the state after a review.

    Args:
        state: The state before.
        rating: How the memory served.
        elapsed_days: Days since the review before. Whole days count: less than one is a review on the same day.
    """
    import fsrs

    card = fsrs.Card(
        card_id=0,  # without an id, py-fsrs makes one from the time and sleeps
        state=fsrs.State.Review,
        stability=_clamped_stability(state.stability),
        difficulty=state.difficulty,
        due=_EPOCH,
        last_review=_EPOCH,
    )
    whole_days = int(min(max(elapsed_days, 0.0), MAX_ELAPSED_DAYS))
    grade = fsrs.Rating[Rating(rating).name.title()]
    reviewed, _ = _scheduler().review_card(card, grade, _EPOCH + timedelta(days=whole_days))
    if rating == Rating.HARD and whole_days == 0:
        reviewed.stability = _hard_on_the_same_day(cast("float", card.stability))
    return _state_of(reviewed)


@functools.cache
def _scheduler() -> fsrs.Scheduler:
    """Build a scheduler without learning steps, so that cards are in review at once, and without randomness."""
    import fsrs

    return fsrs.Scheduler(learning_steps=(), relearning_steps=(), enable_fuzzing=False)


def _hard_on_the_same_day(stability: float) -> float:
    # The specification, like fsrs-rs 5.2, lets a hard review on the same day shorten stability; py-fsrs 6.3 does not.
    weights = _scheduler().parameters
    grade_from_good = -1
    return math.exp(weights[17] * (grade_from_good + weights[18])) * math.pow(stability, 1 - weights[19])


def _state_of(card: fsrs.Card) -> FsrsState:
    stability, difficulty = cast("float", card.stability), cast("float", card.difficulty)  # None only before a review
    return FsrsState(stability=_clamped_stability(stability), difficulty=difficulty)


def _clamped_stability(stability: float) -> float:
    # py-fsrs has no upper bound of its own.
    return min(max(stability, MIN_STABILITY), MAX_STABILITY)


@functools.cache
def _forgetting_factor(decay: float) -> float:
    return float(0.9 ** (-1 / decay) - 1)


LEAST_AHEAD: Final = 30.0
"""Days that are shown of the future at least; an older episode is followed as far ahead as it goes back."""

_STEPS: Final = 32
_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgettingCurve:
    """A curve over days, counted from now: -2 is the day before yesterday."""

    created: float  # when the episode was made
    reviewed: float | None  # when it was last reviewed; None if it never was
    ahead: float  # where the curve ends
    now: float  # retrievability today, 0 to 1
    later: float  # retrievability where the curve ends
    # pairs of day and retrievability, in the order of days. The first is the last review, or when the episode was made:
    # what it was before a review is not kept.
    points: tuple[tuple[float, float], ...]


def curve_of(episode: EpisodicMemory, *, now: datetime) -> ForgettingCurve:
    """The curve of an episode, by FSRS-6 in exact days from now; one that never fades has a straight line at 1.

    What lies in the future, by a clock that runs fast, counts as now.
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
