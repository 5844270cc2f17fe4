"""How much each event of a story matters now: golden numbers."""

import math

import pytest
from cases import tried_in_one
from hypothesis import given
from hypothesis import strategies as st

from memory_retrievers.models.scenes import SceneDetails
from memory_retrievers.scene.events import score


def details(stars, position=0):
    return SceneDetails(importance=stars, message_ids=[position])


@tried_in_one(
    "stars, distance, expected",
    [
        (1, 0, 1.0),
        (1, 10, 0.6065307),
        (1, 100, 0.0067379),
        (2, 100, 0.5730096),
        (3, 100, 1.7212603),
        (4, 100, 2.9264626),
        (4, 1000, 0.1757477),
        (5, 0, 5.0),
        (5, 100, 5.0),
        (5, 100_000, 5.0),
    ],
)
def test_stars_fade_with_the_messages_since_but_five_of_them_never(stars, distance, expected):
    assert score(details(stars), chat_length=distance) == pytest.approx(expected, abs=1e-7)


def test_what_is_told_later_than_the_chat_is_long_does_not_count_for_more():
    assert score(details(3, 500), chat_length=100) == 3.0


@tried_in_one("cosine, added", [(None, 0), (-1, 0), (0, 0), (0.5, 0), (0.6, 3), (0.75, 7.5), (0.9, 12), (1, 15)])
def test_what_is_like_the_question_counts_for_more(cosine, added):
    assert score(details(3), chat_length=0, cosine=cosine) == pytest.approx(3 + added)


def test_each_point_of_the_keywords_counts_three():
    assert score(details(1), chat_length=0, bm25=1.5) == 5.5


@given(st.integers(1, 5), st.integers(0, 5_000), st.integers(0, 5_000), st.floats(-1, 1), st.floats(0, 50))
def test_a_score_is_finite_and_falls_with_the_distance(stars, near, far, cosine, bm25):
    near, far = sorted((near, far))
    nearer = score(details(stars), chat_length=near, cosine=cosine, bm25=bm25)
    farther = score(details(stars), chat_length=far, cosine=cosine, bm25=bm25)
    assert 0 <= farther <= nearer < math.inf
