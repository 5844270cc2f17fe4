"""Surprise: novelty and language, and the levels they make."""

import numpy as np
import pytest
from cases import tried_in_one

from memory_retrievers import Message
from memory_retrievers.ingestion.segmenters import EMPHASIS, language, novelty, surprises

PLAIN = ["The report is ready.", "Please send it.", "It is in the folder."]
NEWS = ["I quit my job today!!", "I can't believe it, finally!!", "Actually I got married too."]


def said(contents):
    return [Message(role="user", content=content) for content in contents]


def axis(number, dimension=8):
    return np.eye(1, dimension, number, dtype=np.float32)[0]


def near(number):
    """Four unit vectors around an axis."""
    vectors = np.array([axis(number) + 0.4 * axis(other) for other in range(4, 8)])
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


class TestLevels:
    def test_without_history_the_first_is_ordinary_whatever_is_said(self):
        nothing = np.empty((0, 8), dtype=np.float32)
        vectors = np.array([axis(0)] * 3 + [axis(1)] * 3)
        assert surprises([said(NEWS), said(NEWS)], vectors, nothing) == [0.2, pytest.approx(0.6)]

    @pytest.mark.parametrize(
        ("contents", "direction", "level"),
        [(PLAIN, 0, 0.2), (NEWS, 0, 0.6), (PLAIN, 1, 0.6), (NEWS, 1, 0.9)],
    )
    def test_ordinary_notable_and_extraordinary(self, contents, direction, level):
        found = surprises([said(contents)], np.array([axis(direction)] * 3), near(0))
        assert found == [pytest.approx(level)]

    def test_what_is_told_again_is_no_longer_new(self):
        found = surprises([said(PLAIN)] * 2, np.array([axis(1)] * 6), near(0))
        assert found == [pytest.approx(0.6), pytest.approx(0.2)]


class TestNovelty:
    def test_too_few_episodes_do_not_tell_what_is_usual(self):
        assert novelty(axis(1), list(near(0)[:2])) == 0.0

    def test_in_a_scope_of_many_topics_another_is_usual(self):
        assert novelty(axis(3), [axis(0), axis(1), axis(2)]) == 0.0


class TestLanguage:
    @tried_in_one(
        "text",
        [
            "She passed away on Monday",
            "We got married",
            "I quit",
            "I was diagnosed with cancer",
            "我们离婚了",
            "昨日結婚しました",
        ],
    )
    def test_a_rare_event_counts_in_full(self, text):
        assert language(said([text, *PLAIN])) == 1.0

    def test_a_corrected_number_counts_more_than_a_correction(self):
        number = language(said(["Actually the code is 4712", *PLAIN]))
        word = language(said(["Actually the code is secret", *PLAIN]))
        assert 0 < word < number < 1

    def test_talk_that_is_always_lively_is_not_emphatic(self):
        assert language(said(["Wow!", *PLAIN])) == 0.0
        assert language(said(["Wow!!", "Never!!", "OMG"])) == pytest.approx(EMPHASIS)
