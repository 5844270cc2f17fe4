"""Forgetting: the golden numbers of FSRS-6, and agreement with py-fsrs."""

import math
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import fsrs as py_fsrs
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from memory_retrievers import fsrs
from memory_retrievers.fsrs import FsrsState, apply_rating, elapsed_days, initial_state, retrievability
from memory_retrievers.models import Rating

RATINGS = tuple(Rating)
PARAMETERS = (
    0.212, 1.2931, 2.3065, 8.2956, 6.4133, 0.8334, 3.0194, 0.001, 1.8722, 0.1666, 0.796, 1.4835, 0.0614, 0.2629, 1.6483,
    0.6014, 1.8729, 0.5425, 0.0912, 0.0658, 0.1542,
)  # fmt: skip
DAY = 86_400_000_000  # microseconds
START = datetime(2026, 1, 1, tzinfo=UTC)

ratings = st.sampled_from(RATINGS)
stabilities = st.floats(0.001, 36_500)
difficulties = st.floats(1, 10)


def near(value):
    return pytest.approx(value, rel=1e-5, abs=1e-6)


def values(state):
    return state.stability, state.difficulty


def first_reviewed(rating):
    """The state of a card of the scheduler after its first review."""
    card, _ = fsrs._scheduler().review_card(py_fsrs.Card(card_id=0), py_fsrs.Rating[rating.name.title()], START)
    return FsrsState(card.stability, card.difficulty)


class TestRetrievability:
    @pytest.mark.parametrize(
        ("days", "stability", "expected"),
        [(0, 1, 1.0), (1, 2, 0.9403443), (2, 3, 0.9253786), (3, 4, 0.9185229), (4, 4, 0.9), (5, 2, 0.8261359)],
    )
    def test_it_follows_the_forgetting_curve(self, days, stability, expected):
        assert retrievability(days, stability) == near(expected)

    @pytest.mark.parametrize(("days", "expected"), [(0, 1), (1, 0.9), (2, 0.84028935), (3, 0.7985001)])
    def test_the_decay_can_be_another(self, days, expected):
        assert retrievability(days, 1, decay=0.2) == near(expected)

    @pytest.mark.parametrize(
        ("stability", "expected"),
        [
            (2.53715, {1: 0.9509, 2: 0.9155, 3: 0.888081, 7: 0.8171, 30: 0.6767, 365: 0.4657}),
            (3.344425, {1: 0.961136, 2: 0.9313, 3: 0.907291, 7: 0.8419, 30: 0.703388, 365: 0.4858}),
            (3.5, {2: 0.933709}),
        ],
    )
    def test_it_gives_the_specified_values_for_fresh_memories(self, stability, expected):
        for days, value in expected.items():
            decimals = len(str(value)) - 2
            assert round(retrievability(days, stability), decimals) == value

    @given(stabilities)
    def test_after_as_many_days_as_the_stability_it_is_nine_tenths(self, stability):
        assert retrievability(stability, stability) == pytest.approx(0.9)

    @given(st.floats(0, 36_500), st.floats(0, 36_500), stabilities)
    def test_it_never_rises_with_time(self, days, more_days, stability):
        early, late = sorted((days, more_days))
        assert 0 < retrievability(late, stability) <= retrievability(early, stability) <= 1

    @pytest.mark.parametrize(
        ("given_days", "given_stability", "days", "stability"),
        [(-5, 1, 0, 1), (1e9, 1, 36_500, 1), (math.inf, 1, 36_500, 1), (1, 0, 1, 0.001), (1, 1e9, 1, 36_500)],
    )
    def test_days_and_stability_are_clamped(self, given_days, given_stability, days, stability):
        assert retrievability(given_days, given_stability) == retrievability(days, stability)

    @given(st.integers(0, 36_500), stabilities)
    def test_it_equals_that_of_py_fsrs_for_whole_days(self, days, stability):
        card = py_fsrs.Card(card_id=0, state=py_fsrs.State.Review, stability=stability, difficulty=5, last_review=START)
        expected = py_fsrs.Scheduler().get_card_retrievability(card, START + timedelta(days=days))
        assert retrievability(days, stability) == pytest.approx(expected)


class TestElapsedDays:
    def test_whole_days_are_rounded_down(self):
        assert elapsed_days(2 * DAY - 1, whole_days=True) == 1

    def test_parts_of_days_count_otherwise(self):
        assert elapsed_days(3 * DAY // 2, whole_days=False) == 1.5

    @pytest.mark.parametrize("whole_days", [True, False])
    def test_the_future_is_now(self, whole_days):
        assert elapsed_days(-DAY, whole_days=whole_days) == 0

    def test_nothing_is_forgotten_within_the_first_whole_day(self):
        assert retrievability(elapsed_days(DAY - 1, whole_days=True), 2.3065) == 1.0


class TestInitialState:
    @pytest.mark.parametrize(
        ("rating", "stability", "difficulty"),
        [
            (Rating.AGAIN, 0.212, 6.4133),
            (Rating.HARD, 1.2931, 5.1121707),
            (Rating.GOOD, 2.3065, 2.1181039705),
            (Rating.EASY, 8.2956, 1.0),
        ],
    )
    def test_a_first_review_leads_to_the_known_state(self, rating, stability, difficulty):
        assert values(first_reviewed(rating)) == near((stability, difficulty))

    def test_a_new_memory_has_that_of_a_good_first_review(self):
        assert initial_state() == first_reviewed(Rating.GOOD)

    @pytest.mark.parametrize(
        ("surprise", "stability"), [(0, 2.3065), (0.2, 2.53715), (0.6, 2.99845), (0.9, 3.344425), (1, 3.45975)]
    )
    def test_surprise_raises_the_stability_alone(self, surprise, stability):
        assert values(initial_state(surprise=surprise)) == near((stability, 2.1181039705))

    @pytest.mark.parametrize(("surprise", "clamped"), [(-1, 0), (7, 1)])
    def test_surprise_is_clamped(self, surprise, clamped):
        assert initial_state(surprise=surprise) == initial_state(surprise=clamped)


class Review(NamedTuple):
    days: int
    again: tuple[float, float]
    hard: tuple[float, float]
    good: tuple[float, float]
    easy: tuple[float, float]


class TestApplyRating:
    @pytest.mark.parametrize(
        "review",
        [
            Review(1, (0.711914, 7.394503), (6.329259, 4.752858), (8.307567, 2.111214), (12.639893, 1.0)),
            Review(3, (0.777986, 7.394503), (10.620237, 4.752858), (15.442550, 2.111214), (26.003003, 1.0)),
            Review(30, (1.088769, 7.394503), (28.643463, 4.752858), (45.411332, 2.111214), (82.131535, 1.0)),
        ],
        ids=lambda review: f"after {review.days} days",
    )
    @pytest.mark.parametrize("rating", RATINGS)
    def test_a_fresh_very_surprising_memory_is_reviewed_as_specified(self, review, rating):
        reviewed = apply_rating(initial_state(surprise=0.9), rating, elapsed_days=review.days)
        assert values(reviewed) == near(getattr(review, rating.value))

    @pytest.mark.parametrize(
        ("rating", "stability"),
        [(Rating.AGAIN, 0.671136), (Rating.HARD, 9.568600), (Rating.GOOD, 14.228952), (Rating.EASY, 24.434726)],
    )
    def test_a_fresh_unsurprising_memory_is_reviewed_as_specified(self, rating, stability):
        assert apply_rating(initial_state(surprise=0.2), rating, elapsed_days=3).stability == near(stability)

    def test_being_good_every_three_days_makes_it_last(self):
        state = initial_state(surprise=0.2)
        for stability in (14.228952, 26.377948, 37.835478, 48.808969):
            state = apply_rating(state, Rating.GOOD, elapsed_days=3)
            assert state.stability == near(stability)

    @pytest.mark.parametrize(
        ("rating", "days", "stability", "difficulty"),
        [
            (Rating.AGAIN, 1, 0.10088589, 8.806304),
            (Rating.HARD, 1, 3.2494123, 6.7404594),
            (Rating.GOOD, 1, 7.3153, 2.1112142),
            (Rating.EASY, 1, 18.014914, 1.0),
            (Rating.AGAIN, 2, 0.112798, 8.806304),
            (Rating.HARD, 2, 4.4694576, 6.7404594),
        ],
    )
    def test_two_equal_ratings_give_the_known_states(self, rating, days, stability, difficulty):
        reviewed = apply_rating(first_reviewed(rating), rating, elapsed_days=days)
        assert values(reviewed) == near((stability, difficulty))

    @pytest.mark.parametrize(
        ("rating", "stability"),
        [(Rating.AGAIN, 1.596818), (Rating.HARD, 2.7470093), (Rating.GOOD, 5.0), (Rating.EASY, 8.12961)],
    )
    @pytest.mark.parametrize("days", [0, 0.99, -3])
    def test_less_than_a_day_is_a_review_on_the_same_day(self, rating, stability, days):
        assert apply_rating(FsrsState(5.0, 5.0), rating, elapsed_days=days).stability == near(stability)

    @pytest.mark.parametrize(
        ("rating", "before_reversion", "difficulty"),
        [
            (Rating.AGAIN, 8.354889, 8.341763),
            (Rating.HARD, 6.6774445, 6.6659956),
            (Rating.GOOD, 5.0, 4.990228),
            (Rating.EASY, 3.3225555, 3.3144615),
        ],
    )
    def test_difficulty_moves_and_reverts_to_the_mean(self, rating, before_reversion, difficulty):
        reviewed = apply_rating(FsrsState(5.0, 5.0), rating, elapsed_days=1)
        assert reviewed.difficulty == near(difficulty)
        weight, easiest = PARAMETERS[7], PARAMETERS[4] - math.exp(3 * PARAMETERS[5]) + 1
        assert easiest == pytest.approx(-4.7717, abs=1e-4)
        assert (reviewed.difficulty - weight * easiest) / (1 - weight) == near(before_reversion)

    def test_a_part_of_a_day_does_not_count(self):
        state = initial_state()
        assert apply_rating(state, Rating.HARD, elapsed_days=3.9) == apply_rating(state, Rating.HARD, elapsed_days=3)

    def test_stability_stays_within_its_bounds(self):
        assert apply_rating(FsrsState(36_000.0, 1.0), Rating.EASY, elapsed_days=36_500).stability == 36_500
        assert apply_rating(FsrsState(0.001, 10.0), Rating.AGAIN, elapsed_days=1e9).stability == 0.001

    @pytest.mark.parametrize("stability", [1e-300, 1e300])
    def test_a_state_out_of_bounds_is_brought_back(self, stability):
        assert 0.001 <= apply_rating(FsrsState(stability, 5.0), Rating.GOOD, elapsed_days=2).stability <= 36_500

    @given(stabilities, difficulties, ratings, st.floats(-10, 40_000))
    def test_every_state_leads_to_a_state_within_bounds(self, stability, difficulty, rating, days):
        reviewed = apply_rating(FsrsState(stability, difficulty), rating, elapsed_days=days)
        assert 0.001 <= reviewed.stability <= 36_500
        assert 1 <= reviewed.difficulty <= 10

    @given(stabilities, difficulties, st.integers(1, 36_500))
    def test_a_better_rating_never_makes_it_last_shorter(self, stability, difficulty, days):
        state = FsrsState(stability, difficulty)
        after = [apply_rating(state, rating, elapsed_days=days).stability for rating in RATINGS]
        assert after[1:] == sorted(after[1:])
        assert after[0] <= stability <= after[1] or math.isclose(stability, after[1])


class TestAgreement:
    @given(ratings, st.lists(st.tuples(ratings, st.integers(0, 1_000)), max_size=12))
    def test_any_sequence_of_reviews_ends_where_py_fsrs_ends(self, first, reviews):
        assume((Rating.HARD, 0) not in reviews)  # there py-fsrs 6.3 departs from the specification
        scheduler = py_fsrs.Scheduler(learning_steps=(), relearning_steps=(), enable_fuzzing=False)
        card, _ = scheduler.review_card(py_fsrs.Card(card_id=1), py_fsrs.Rating[first.name.title()], START)
        state, now = first_reviewed(first), START
        for rating, days in reviews:
            now += timedelta(days=days, hours=5)
            card, _ = scheduler.review_card(card, py_fsrs.Rating[rating.name.title()], now)
            card.stability = min(card.stability, fsrs.MAX_STABILITY)
            state = apply_rating(state, rating, elapsed_days=days + 5 / 24)
        assert values(state) == pytest.approx((card.stability, card.difficulty))

    @given(stabilities, difficulties, ratings, st.integers(0, 36_500))
    def test_any_review_follows_the_written_formulas(self, stability, difficulty, rating, days):
        w, grade = PARAMETERS, RATINGS.index(rating) + 1
        recall = retrievability(days, stability)
        if days == 0:
            increase = math.exp(w[17] * (grade - 3 + w[18])) * stability ** -w[19]
            expected = stability * (increase if grade < 3 else max(increase, 1))
        elif grade == 1:
            lapse = w[11] * difficulty ** -w[12] * ((stability + 1) ** w[13] - 1) * math.exp(w[14] * (1 - recall))
            expected = min(lapse, stability / math.exp(w[17] * w[18]))
        else:
            factor = {2: w[15], 3: 1, 4: w[16]}[grade]
            gain = math.exp(w[8]) * (11 - difficulty) * stability ** -w[9] * (math.exp(w[10] * (1 - recall)) - 1)
            expected = stability * (1 + gain * factor)
        reviewed = apply_rating(FsrsState(stability, difficulty), rating, elapsed_days=days)
        assert reviewed.stability == pytest.approx(min(max(expected, 0.001), 36_500))

    @pytest.mark.parametrize(
        ("difficulty", "recall", "grade", "success", "failure"),
        [
            (1, 0.9, 1, 25.602541, 1.0525396),
            (2, 0.8, 2, 28.226582, 1.1894329),
            (3, 0.7, 3, 58.656002, 1.3680838),
            (4, 0.6, 4, 127.226685, 1.584989),
        ],
    )
    def test_the_formulas_inside_give_the_known_values(self, difficulty, recall, grade, success, failure):
        inside, rating = fsrs._scheduler(), py_fsrs.Rating(grade)
        known = {"difficulty": difficulty, "stability": 5.0, "retrievability": recall}
        assert inside._next_recall_stability(**known, rating=rating) == near(success)
        assert inside._next_forget_stability(**known) == near(failure)

    def test_the_parameters_are_the_specified_ones(self):
        scheduler = fsrs._scheduler()
        assert scheduler.parameters == PARAMETERS
        assert scheduler.parameters[20] == fsrs.DECAY
        assert (scheduler.learning_steps, scheduler.relearning_steps, scheduler.enable_fuzzing) == ((), (), False)
        assert round(scheduler._FACTOR, 10) == round(fsrs._forgetting_factor(fsrs.DECAY), 10) == 0.9803464944


def test_reading_a_memory_does_not_load_py_fsrs():
    program = (
        "import sys; from memory_retrievers.fsrs import retrievability as r; r(1, 1); assert 'fsrs' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
