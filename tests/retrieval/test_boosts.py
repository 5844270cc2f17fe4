"""What each boost gives each passage, by hand; in the story of the fixture, and in ones made for it."""

from datetime import UTC, datetime

import numpy as np
import pytest

from memory_retrievers import RetrievalSettings
from memory_retrievers.models.selection import WHOLE
from memory_retrievers.retrieval import features, times
from memory_retrievers.retrieval.features import BOOSTS, FusedLists
from memory_retrievers.retrieval.question import Question

FUSED = np.array([0.1, 0.5, 0.2, 0.9, 0.3, 0.4, 0.6, 0.7])


def date(fused):
    return times.dated(fused.candidates.layout.began, fused.question)


def fused(candidates, text="basil", scores=FUSED):
    return FusedLists(candidates, scores, Question.parse(text), RetrievalSettings())


def given(boost, candidates, text="basil", scores=FUSED):
    return boost(fused(candidates, text, scores)).tolist()


def test_neighbour_is_the_better_of_the_messages_around(story):
    assert given(features.neighbour, story) == [0, 0.2, 0.9, 0.2, 0, 0.6, 0.4, 0]


def test_episode_is_the_sum_of_its_three_best_passages_scaled(story):
    # 0.9 + 0.5 + 0.2 = 1.6; 0.6 + 0.4 + 0.3 = 1.3; 0.7; the lowest is moved down by a third of 0.9
    expected = [1.0] * 4 + [(1.3 - 0.4) / 1.2] * 3 + [0.3 / 1.2]
    assert given(features.episode, story) == pytest.approx(expected)


def test_episode_words_are_the_same_for_all_passages_of_an_episode_and_one_for_the_best(story):
    scores = given(features.episode_words, story)
    assert len(set(scores[:4])) == len(set(scores[4:7])) == 1
    assert max(scores) == 1
    assert min(scores) > 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What did ann plant?", [0, 1, 0, 1, 0, 0, 1, 0]),
        ("What did Bob's boat cost?", [0, 0, 1, 0, 0, 1, 0, 0]),
        ("What do Ann and Bob like?", [0] * 8),
        ("What does Anna like?", [0] * 8),
    ],
)
def test_speaker_is_one_for_what_the_only_speaker_named_says(story, text, expected):
    assert given(features.speaker, story, text) == expected


def test_a_speaker_in_other_letters_is_the_same_speaker(make_candidates):
    passages = [(0, "a", 0.0, "ann"), (1, "b", 0.0, "Ann"), (2, "c", 0.0, "Bob")]
    candidates = make_candidates([passages], names=("ann", "Ann", "Bob"))
    assert given(features.speaker, candidates, "What did Ann plant?") == [1, 1, 0]
    assert not any(given(features.speaker, candidates, "What did Ann and Bob plant?"))


def test_length_grows_with_the_logarithm_of_the_terms(make_candidates):
    candidates = make_candidates([[(0, "a", 0.0), (1, "a b c", 0.0)], [(0, "a b c d e f g", 0.0)]])
    low, high = np.log(2), np.log(8)
    lowest = low - (high - low) / 3
    expected = [(np.log(1 + n) - lowest) / (high - lowest) for n in (1, 3, 7)]
    assert given(features.length, candidates, scores=np.zeros(3)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("in May 2023", [1, 0.5, 0]),  # the month itself, and the one after it
        ("in May", [1, 0.5, 1]),
        ("in June 2023", [0, 1, 0]),
        ("in 2022", [0, 0, 1]),
        ("in April 2022 or in May 2023", [1, 0.5, 0.5]),
        ("in December 2023", [0, 0, 0]),
        ("whenever", [0, 0, 0]),
    ],
)
def test_date_is_one_in_the_month_that_is_named_and_half_in_the_next(story, text, expected):
    assert given(date, story, text) == [expected[0]] * 4 + [expected[1]] * 3 + [expected[2]]


def test_date_is_one_within_a_period_and_half_beside_it(make_candidates):
    now = datetime(2026, 3, 4, 9, tzinfo=UTC)
    began = ["2026-02-22T23:59", "2026-02-23T00:00", "2026-03-01T23:59", "2026-03-02T00:00", "2026-02-15", "2026-03-10"]
    candidates = make_candidates([[(WHOLE, "a", 0.0)]] * 6, began=began)
    question = Question.parse("What did I buy last week?", now=now)
    assert times.dated(candidates.layout.began, question).tolist() == [0.5, 1, 1, 0.5, 0, 0]


def test_the_month_after_december_is_january_of_the_next_year(make_candidates):
    began = ["2023-12-31T23:59", "2024-01-01T00:00", "2023-01-15T12:00", "1969-12-31T23:00"]
    candidates = make_candidates([[(WHOLE, "a", 0.0)]] * 4, began=began)
    assert given(date, candidates, "December 2023", np.zeros(4)) == [1, 0.5, 0, 0]
    assert given(date, candidates, "December 1969", np.zeros(4)) == [0, 0, 0, 1]


def test_time_is_for_questions_that_ask_when_and_messages_that_tell_it(make_candidates):
    candidates = make_candidates([[(0, "a", 0.0), (1, "b", 0.0)]], tells_time=[False, True])
    assert given(features.time_expression, candidates, "When was it?", np.zeros(2)) == [0, 1]
    assert features.time_expression(fused(candidates, "What was it?", np.zeros(2))) is None


def test_every_boost_has_a_weight_in_the_settings():
    assert all(f"{name}_weight" in RetrievalSettings.model_fields for name in BOOSTS)


def test_dates_and_times_concern_only_questions_that_ask_for_them(story):
    asked = {
        text: [name for name, boost in BOOSTS.items() if boost(fused(story, text)) is not None]
        for text in ("Who?", "When?", "Who came in May 2023?")
    }
    assert set(asked["When?"]) - set(asked["Who?"]) == {"time"}
    assert set(asked["Who came in May 2023?"]) - set(asked["Who?"]) == {"date"}
