import itertools
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_retrievers import EpisodicMemory
from memory_retrievers.fsrs import curve_of, retrievability

NOW = datetime(2026, 3, 1, 9, tzinfo=UTC)


def episode(*, created, reviewed=None, stability=2.3065, is_flashbulb=False):
    """An episode that was made, and reviewed, so many days ago."""
    made = NOW - timedelta(days=created)
    last = made if reviewed is None else NOW - timedelta(days=reviewed)
    times = dict.fromkeys(("created_at", "updated_at", "start_at", "end_at"), made)
    return EpisodicMemory(
        scope="c1", id="e", summary="x", stability=stability, difficulty=5, last_reviewed_at=last,
        is_flashbulb=is_flashbulb, **times,
    )  # fmt: skip


def test_a_curve_has_the_figures_of_fsrs():
    curve = curve_of(episode(created=30), now=NOW)

    assert curve.now == pytest.approx(0.6675, abs=1e-4)
    assert curve.later == pytest.approx(retrievability(60, 2.3065))
    assert (curve.created, curve.reviewed, curve.ahead) == (-30, None, 30)
    assert curve.points[0] == (-30, 1.0)
    assert curve.points[-1] == (30, curve.later)
    assert (0.0, curve.now) in curve.points


def test_a_curve_begins_at_the_last_review():
    curve = curve_of(episode(created=90, reviewed=4, stability=20), now=NOW)

    assert (curve.created, curve.reviewed, curve.ahead) == (-90, -4, 90)
    assert curve.points[0] == (-4, 1.0)
    assert curve.now == pytest.approx(retrievability(4, 20))


def test_what_never_fades_has_a_straight_line():
    curve = curve_of(episode(created=400, stability=0.1, is_flashbulb=True), now=NOW)

    assert {value for _, value in curve.points} == {1.0}
    assert (curve.now, curve.later) == (1.0, 1.0)


def test_a_new_episode_is_followed_for_a_month_and_one_of_the_future_counts_as_new():
    fresh, early = curve_of(episode(created=0), now=NOW), curve_of(episode(created=-3), now=NOW)

    assert (fresh.ahead, fresh.now) == (30, 1.0)
    assert early == fresh


@given(created=st.floats(0, 40_000), share=st.floats(0, 1), stability=st.floats(0.001, 36_500), flashbulb=st.booleans())
def test_a_curve_falls_from_one_and_stays_above_zero(created, share, stability, flashbulb):
    curve = curve_of(
        episode(created=created, reviewed=created * share, stability=stability, is_flashbulb=flashbulb), now=NOW
    )
    days, values = zip(*curve.points, strict=True)

    assert list(days) == sorted(set(days))
    assert values[0] == 1.0
    assert all(0 < later <= earlier for earlier, later in itertools.pairwise(values))
    assert days[0] <= 0 < days[-1] == curve.ahead
    assert dict(curve.points)[0.0] == curve.now
