from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import settings as settings_of_hypothesis
from hypothesis import strategies as st

from memory_retrievers import RetrievalSettings
from memory_retrievers.fields import microseconds
from memory_retrievers.passages import ForgettingState
from memory_retrievers.retrieval.fusion import reciprocal_rank_fusion
from memory_retrievers.retrieval.legs import Legs
from memory_retrievers.retrieval.rerank import by_fused_score, contenders, rerank, retrievabilities

NOW = datetime(2026, 3, 1, 9, tzinfo=UTC)
SEED = RetrievalSettings.seed()


def ranked(legs, retrievability=None, *, settings=SEED, limit=100):
    fused = reciprocal_rank_fusion((legs.dense, legs.bm25), k=settings.rrf_k)
    rows = by_fused_score(fused, depth=settings.candidate_depth)
    return rerank(rows, fused, legs, retrievability=retrievability or {}, settings=settings, limit=limit)


def state(stability, *, days):
    return ForgettingState(stability, microseconds(NOW - timedelta(days=days)))


def test_the_seed_example_of_rank_one_and_three_after_two_days_scores_0_92():
    (retrievability,) = retrievabilities({7: state(3.5, days=2)}, now=NOW, settings=SEED).values()
    assert retrievability == pytest.approx(0.933709, abs=1e-6)
    hit = next(hit for hit in ranked(Legs([7, 1, 2], [3, 4, 7]), {7: retrievability}) if hit.row == 7)
    assert f"{hit.explanation.score:.2f}" == "0.92"


@pytest.mark.parametrize("rank", [1, 2, 50, 100])
def test_a_memory_in_one_list_only_scores_half_of_r_times_61_over_60_plus_rank(rank):
    hit = ranked(Legs(list(range(1, rank + 1)), []), {rank: 0.8})[-1]
    assert hit.row == rank
    assert hit.explanation.score == pytest.approx(0.8 * 0.5 * 61 / (60 + rank))


def test_the_explanation_tells_both_ranks_the_sum_and_the_retrievability():
    hits = {hit.row: hit.explanation for hit in ranked(Legs([1, 2], [2]), {2: 0.9})}
    assert (hits[2].dense_rank, hits[2].bm25_rank) == (2, 1)
    assert hits[2].fused_score == pytest.approx(1 / 62 + 1 / 61)
    assert hits[2].retrievability == 0.9
    assert hits[2].score == pytest.approx((1 / 62 + 1 / 61) / (2 / 61) * 0.9)
    assert (hits[1].dense_rank, hits[1].bm25_rank, hits[1].retrievability) == (1, None, 1.0)


def test_equal_sums_go_to_the_nearer_vector():
    assert [hit.row for hit in ranked(Legs([5, 9], [9, 5]))] == [5, 9]
    assert [hit.row for hit in ranked(Legs([9, 5], [5, 9]))] == [9, 5]


def test_a_place_in_the_vector_list_wins_over_the_same_place_by_words():
    assert [hit.row for hit in ranked(Legs([5], [9]))] == [5, 9]


def test_equal_scores_after_decay_go_to_the_higher_sum():
    fused = reciprocal_rank_fusion(([1], [2]), k=60)
    equal = {1: 1.0, 2: 1.0}
    legs = Legs([1], [2])
    assert fused[1] == fused[2]
    assert [hit.row for hit in ranked(legs, equal)] == [1, 2]
    nothing_left = {1: 0.0, 2: 0.0}
    assert [hit.row for hit in ranked(Legs([1, 2], [2]), nothing_left)] == [2, 1]


def test_only_the_best_candidates_by_sum_are_reranked():
    settings = SEED.model_copy(update={"candidate_depth": 2})
    hits = ranked(Legs([1, 2, 3], []), {1: 0.1, 2: 0.1, 3: 1.0}, settings=settings)
    assert [hit.row for hit in hits] == [1, 2]


def test_without_decay_forgetting_changes_nothing():
    settings = RetrievalSettings(decay_weight=0)
    assert [hit.explanation.score for hit in ranked(Legs([1], [1]), {1: 0.01}, settings=settings)] == [1.0]


def test_the_default_weight_takes_at_most_a_fifth():
    (hit,) = ranked(Legs([1], [1]), {1: 0.0}, settings=RetrievalSettings())
    assert hit.explanation.score == pytest.approx(0.8)


def test_the_seed_counts_whole_days_and_the_default_does_not():
    states = {1: state(2.3065, days=0.9)}
    assert retrievabilities(states, now=NOW, settings=SEED)[1] == 1.0
    assert retrievabilities(states, now=NOW, settings=RetrievalSettings())[1] < 1.0


def test_a_review_in_the_future_counts_as_now():
    assert retrievabilities({1: state(2.3065, days=-5)}, now=NOW, settings=SEED)[1] == 1.0


@settings_of_hypothesis(deadline=None)
@given(
    st.lists(st.integers(0, 40), unique=True, max_size=30),
    st.lists(st.integers(0, 40), unique=True, max_size=30),
    st.lists(st.floats(0, 1), min_size=41, max_size=41),
    st.sampled_from([0.0, 0.2, 0.7, 1.0]),
    st.integers(1, 8),
)
def test_leaving_out_what_cannot_get_there_changes_nothing(dense, bm25, retrievability, decay_weight, limit):
    settings = RetrievalSettings(decay_weight=decay_weight)
    legs, remembered = Legs(dense, bm25), dict(enumerate(retrievability))
    fused = reciprocal_rank_fusion((dense, bm25), k=60)
    rows = by_fused_score(fused, depth=100)
    few = contenders(rows, fused, decay_weight=decay_weight, limit=limit)
    assert rerank(few, fused, legs, retrievability=remembered, settings=settings, limit=limit) == rerank(
        rows, fused, legs, retrievability=remembered, settings=settings, limit=limit
    )
