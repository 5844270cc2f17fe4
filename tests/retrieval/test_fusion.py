import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_retrievers.retrieval.fusion import best_possible, reciprocal_rank_fusion

rankings = st.lists(st.lists(st.integers(0, 30), unique=True, max_size=20), min_size=1, max_size=4)


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [((1, 1), 0.0327869), ((1, 3), 1 / 61 + 1 / 63), ((2, 2), 2 / 62), ((1, 8), 0.031099), ((4, 4), 0.03125)],
)
def test_two_lists_give_the_figures_of_the_specification(ranks, expected):
    lists = [
        [*(f"filler {number} {rank}" for rank in range(1, its_rank)), "x"] for number, its_rank in enumerate(ranks)
    ]
    assert reciprocal_rank_fusion(lists, k=60)["x"] == pytest.approx(expected, abs=1e-6)


def test_first_in_one_list_alone_gets_half_of_the_best():
    fused = reciprocal_rank_fusion([["a"], []], k=60)
    assert fused["a"] == pytest.approx(0.0163934, abs=1e-7)
    assert fused["a"] / best_possible(2, k=60) == 0.5


@given(rankings, st.integers(1, 100))
def test_every_item_is_kept_and_none_gets_more_than_the_best_possible(lists, k):
    fused = reciprocal_rank_fusion(lists, k=k)
    assert set(fused) == {item for items in lists for item in items}
    assert all(0 < score <= best_possible(len(lists), k=k) + 1e-12 for score in fused.values())


@given(rankings)
def test_within_one_list_the_order_is_kept(lists):
    fused = reciprocal_rank_fusion(lists[:1], k=60)
    assert sorted(fused, key=lambda item: -fused[item]) == lists[0]


def test_no_lists_give_nothing():
    assert reciprocal_rank_fusion([], k=60) == {}
