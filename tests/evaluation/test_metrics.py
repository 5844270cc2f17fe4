import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_retrievers.evaluation.measure import bootstrap, ndcg_at, recall_at, reciprocal_rank, wilson

RANKED = ["d3", "d1", "d7", "d2", "d9"]
GOLD = {"d1", "d2", "d8"}


@st.composite
def rankings(draw):
    items = list(range(12))
    ranked = draw(st.permutations(items))[: draw(st.integers(0, 12))]
    gold = draw(st.sets(st.sampled_from(items), min_size=1))
    return ranked, gold, draw(st.integers(1, 12))


@pytest.mark.parametrize(("k", "recall"), [(1, 0), (2, 1 / 3), (4, 2 / 3), (99, 2 / 3)])
def test_the_share_at_a_depth_is_that_of_the_textbook(k, recall):
    assert recall_at(RANKED, GOLD, k) == pytest.approx(recall)


def test_all_are_found_only_when_the_last_one_is():
    assert recall_at(RANKED, {"d1", "d2"}, 3) < 1
    assert recall_at(RANKED, {"d1", "d2"}, 4) == 1


def test_the_reciprocal_rank_is_that_of_the_first_right_one():
    assert reciprocal_rank(RANKED, GOLD) == 0.5
    assert reciprocal_rank(RANKED, {"elsewhere"}) == 0
    assert reciprocal_rank([], {"elsewhere"}) == 0


def test_ndcg_has_the_value_worked_out_by_hand():
    # Gains at places 2 and 4 of three right ones: (1/log2 3 + 1/log2 5) / (1 + 1/log2 3 + 1/log2 4).
    assert ndcg_at(RANKED, GOLD, 10) == pytest.approx((0.6309297536 + 0.4306765581) / (1 + 0.6309297536 + 0.5))
    assert ndcg_at(RANKED, GOLD, 10) == pytest.approx(0.498189, abs=1e-6)


def test_ndcg_counts_no_more_right_ones_than_there_are_places():
    many = set(range(50))
    assert ndcg_at(list(range(50)), many, 10) == pytest.approx(1)


def test_the_wilson_interval_has_the_published_values():
    # Newcombe (1998), table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29.
    for hits, trials, low, high in (
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ):
        assert wilson(hits / trials, trials) == pytest.approx((low, high), abs=5e-5)


def test_nothing_is_known_of_no_trials():
    assert wilson(0.0, 0) == (0.0, 1.0)


@given(rankings())
def test_every_measure_is_a_share(case):
    ranked, gold, k = case
    assert 0 <= recall_at(ranked, gold, k) <= 1
    assert 0 <= ndcg_at(ranked, gold, k) <= 1 + 1e-12
    assert (reciprocal_rank(ranked, gold) >= 1 / k) == (recall_at(ranked, gold, k) > 0)


@given(rankings())
def test_a_perfect_ranking_has_the_full_value(case):
    _, gold, k = case
    ranked = [*sorted(gold), "wrong"]
    assert ndcg_at(ranked, gold, k) == pytest.approx(1)
    assert recall_at(ranked, gold, len(gold)) == 1


@given(st.integers(1, 10_000).flatmap(lambda trials: st.tuples(st.integers(0, trials), st.just(trials))))
def test_the_share_lies_within_its_interval(case):
    hits, trials = case
    low, high = wilson(hits / trials, trials)
    assert 0 <= low <= hits / trials + 1e-12
    assert hits / trials - 1e-12 <= high <= 1


def test_the_bootstrap_agrees_with_the_normal_interval_where_there_are_many():
    differences = [1.0] * 300 + [0.0] * 700
    low, high = bootstrap(differences)
    half = 1.96 * math.sqrt(0.3 * 0.7 / 1000)
    assert low == pytest.approx(0.3 - half, abs=0.004)
    assert high == pytest.approx(0.3 + half, abs=0.004)
    assert bootstrap(differences) == (low, high)
