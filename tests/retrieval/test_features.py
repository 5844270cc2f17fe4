"""The lists of candidates, by hand: windows are made of neighbours within one episode."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as settings_of_hypothesis
from hypothesis import strategies as st

from memory_retrievers.models.selection import WHOLE
from memory_retrievers.retrieval import features
from memory_retrievers.settings import RetrievalSettings

TEXTBOOK = RetrievalSettings(bm25_k1=1.2, bm25_b=0.75)


def lucene(df, total):
    return math.log(1 + (total - df + 0.5) / (df + 0.5))


def gain(count, length, average, *, k1=1.2, b=0.75):
    return count / (count + k1 * (1 - b + b * length / average))


def test_neighbours_are_messages_said_one_after_the_other_in_one_episode(story):
    values = np.arange(1.0, 9.0)
    before, after = np.array([0, 0, 2, 3, 0, 0, 6, 0]), np.array([0, 3, 4, 0, 0, 7, 0, 0])
    assert replace(story, lengths=values).windows[2].tolist() == (values + before + after).tolist()


def test_a_message_that_is_not_indexed_leaves_a_gap(make_candidates):
    candidates = make_candidates([[(0, "a", 0.1), (2, "b", 0.2), (3, "c", 0.3)]])
    assert candidates.windows[0].tolist() == [0.1, 0.25, 0.25]
    assert candidates.windows[2].tolist() == [1, 2, 2]


def test_a_window_is_as_near_as_its_messages_are_on_average(story):
    expected = [0.2, 0.25, 1.1 / 3, 0.35, 0.0, 0.25, 0.25, 0.5]
    assert story.windows[0].tolist() == pytest.approx(expected)


def test_the_words_of_a_passage_are_weighed_by_the_statistics_of_the_scope(story):
    basil, average = lucene(4, 8), 16 / 8
    scores = features.bm25(story, TEXTBOOK)
    assert story.statistics.average_length == average
    assert scores[1] == pytest.approx(basil * gain(1, 2, average))
    assert scores[3] == pytest.approx(basil * gain(2, 3, average))
    assert scores[4] == pytest.approx(lucene(2, 8) * gain(1, 2, average))
    assert scores[[0, 2]].tolist() == [0, 0]


def test_a_term_that_is_asked_twice_counts_twice(make_candidates):
    memories = [[(WHOLE, "basil", 0.0)], [(WHOLE, "boat", 0.0)]]
    once, twice = (features.bm25(make_candidates(memories, ("basil",), repeats=[times]), TEXTBOOK) for times in (1, 2))
    assert twice.tolist() == pytest.approx((2 * once).tolist())


def test_a_window_has_the_words_of_its_messages_and_statistics_of_windows(story):
    # the windows: summary | 0+1 | 0+1+2 | 1+2 | summary | 0+1 | 0+1 | summary
    average = (2 + 3 + 6 + 4 + 2 + 4 + 4 + 2) / 8
    basil = lucene(6, 8)
    scores = features.window_bm25(story, TEXTBOOK)
    assert scores[1] == pytest.approx(basil * gain(1, 3, average))
    assert scores[2] == pytest.approx(basil * gain(3, 6, average))
    assert scores[3] == pytest.approx(basil * gain(2, 4, average))
    assert scores[5] == scores[6] == pytest.approx(basil * gain(1, 4, average) + lucene(3, 8) * gain(1, 4, average))


def test_a_memory_has_the_words_of_its_messages_or_else_of_what_stands_for_it(story):
    # 6 words of messages, 4 of messages, 2 of a summary; "boat" of the second summary is not counted again
    average = 12 / 3
    scores = features.memory_bm25(story, TEXTBOOK)
    basil = lucene(3, 3)
    assert scores.tolist() == pytest.approx(
        [
            basil * gain(3, 6, average),
            basil * gain(1, 4, average) + lucene(1, 3) * gain(1, 4, average),
            basil * gain(1, 2, average),
        ]
    )


def test_candidates_of_a_wide_search_are_weighed_by_the_statistics_of_the_scope(make_candidates):
    memories = [[(0, "basil", 0.0), (1, "basil", 0.0)], [(0, "basil boat", 0.0)]]
    candidates = make_candidates(memories, ("basil", "boat"), is_whole=False)
    candidates.statistics.frequencies.update({"basil": 1, "boat": 1})
    scores = features.window_bm25(candidates, TEXTBOOK)
    assert scores[2] == pytest.approx(2 * lucene(1, 3) * gain(1, 2, 2))  # every window is two terms long


def test_no_term_gives_no_words(make_candidates):
    candidates = make_candidates([[(0, "a", 0.1)], [(WHOLE, "b", 0.2)]])
    for scores in (features.bm25, features.window_bm25, features.memory_bm25):
        assert not scores(candidates, RetrievalSettings()).any()


@pytest.mark.parametrize(("k1", "b"), [(0, 0.4), (1.2, 1), (0, 1)])
def test_a_text_that_is_empty_has_no_words_also_where_only_its_length_is_its_norm(make_candidates, k1, b):
    candidates = make_candidates([[(WHOLE, "basil", 0.1)], [(WHOLE, "", 0.2)]], ("basil",))
    scores = features.bm25(candidates, RetrievalSettings(bm25_k1=k1, bm25_b=b))
    assert scores[0] > 0
    assert scores[1] == 0


passages = st.tuples(st.sampled_from(["basil", "boat basil", "sea", "boat boat sea"]), st.floats(-1, 1))
memories = st.lists(st.tuples(st.booleans(), st.lists(passages, min_size=1, max_size=5)), min_size=1, max_size=5)


def laid_out(memories):
    return [
        [(place - with_summary, text, cosine) for place, (text, cosine) in enumerate(each)]
        for with_summary, each in memories
    ]


@settings_of_hypothesis(max_examples=60, deadline=None)
@given(memories=memories, changed=st.integers(0, 4), cosine=st.floats(-1, 1))
def test_windows_never_cross_episodes(make_candidates, memories, changed, cosine):
    changed %= len(memories)
    other = [
        (summary, [("boat", cosine)] * len(each) if place == changed else each)
        for place, (summary, each) in enumerate(memories)
    ]
    before, after = (
        make_candidates(laid_out(memories), ("basil", "boat")),
        make_candidates(laid_out(other), ("basil", "boat")),
    )
    elsewhere = before.layout.groups != changed
    for tell in (lambda candidates: candidates.windows[0], lambda candidates: candidates.windows[1][1]):
        assert tell(before)[elsewhere].tolist() == tell(after)[elsewhere].tolist()


@settings_of_hypothesis(max_examples=60, deadline=None)
@given(memories=memories)
def test_a_window_counts_the_words_of_its_messages(make_candidates, memories):
    candidates = make_candidates(laid_out(memories), ("basil", "boat", "garden"))
    is_next, counts = candidates.layout.is_next, candidates.counts
    expected = [
        sum(counts[:, other] for other in (place - 1, place, place + 1) if _is_beside(is_next, place, other))
        for place in range(len(candidates))
    ]
    assert candidates.windows[1].T.tolist() == np.array(expected).tolist()


def _is_beside(is_next, place, other):
    return place == other or (
        min(place, other) >= 0 and max(place, other) < len(is_next) and is_next[max(place, other)]
    )


@pytest.mark.parametrize("terms", [0, 1, 3, 17, 2_000])
@pytest.mark.parametrize("columns", [0, 1, 63, 21_824, 65_536, 65_537, 150_001])
def test_a_sum_in_blocks_is_the_sum_as_a_whole(terms, columns):
    if terms * columns > 4_000_000:
        columns //= 100
    random = np.random.default_rng(terms + columns)
    weights, rows = random.random(terms), random.random((terms, columns))
    found = features.weighed_sum(weights, rows)
    assert found.shape == (columns,)
    expected = sum((w * row for w, row in zip(weights, rows, strict=True)), np.zeros(columns))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=0)


def test_a_passage_among_many_is_scored_as_among_few():
    """A product that BLAS gives to several threads may be added up in another order: a score would depend on cores."""
    random = np.random.default_rng(3)
    weights, rows = random.random(17), random.random((17, 128_003))
    found = features.weighed_sum(weights, rows)
    for first in range(0, 128_000, 64):
        few = np.ascontiguousarray(rows[:, first : first + 64])
        assert np.array_equal(found[first : first + 64], weights @ few)
