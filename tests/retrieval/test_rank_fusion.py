import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_retrievers.retrieval.features import min_max
from memory_retrievers.retrieval.rank_fusion import reciprocal_rank_fusion

rankings = st.lists(st.lists(st.integers(0, 30), unique=True, max_size=20), min_size=1, max_size=4)
values = st.lists(st.floats(0, 1e6), min_size=1, max_size=50).map(np.array)


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
    assert fused["a"] == reciprocal_rank_fusion([["a"], ["a"]], k=60)["a"] / 2


def test_a_weight_multiplies_what_its_list_gives():
    fused = reciprocal_rank_fusion([["a", "b"], ["b", "c"]], k=10, weights=(1.5, 0.5))
    assert fused == pytest.approx({"a": 1.5 / 11, "b": 1.5 / 12 + 0.5 / 11, "c": 0.5 / 12})


def test_each_list_has_its_weight():
    with pytest.raises(ValueError, match="zip"):
        reciprocal_rank_fusion([["a"], ["b"]], k=60, weights=(1.0,))


@given(rankings, st.integers(1, 100), st.lists(st.floats(0.1, 4), min_size=4, max_size=4))
def test_every_item_is_kept_and_none_gets_more_than_the_best_possible(lists, k, weights):
    weights = weights[: len(lists)]
    fused = reciprocal_rank_fusion(lists, k=k, weights=weights)
    assert set(fused) == {item for items in lists for item in items}
    assert all(0 < score <= sum(weights) / (k + 1) + 1e-12 for score in fused.values())


@given(rankings, st.integers(1, 100))
def test_equal_weights_are_the_same_as_none(lists, k):
    assert reciprocal_rank_fusion(lists, k=k, weights=[1.0] * len(lists)) == reciprocal_rank_fusion(lists, k=k)


@given(rankings)
def test_within_one_list_the_order_is_kept(lists):
    fused = reciprocal_rank_fusion(lists[:1], k=60)
    assert sorted(fused, key=lambda item: -fused[item]) == lists[0]


def test_no_lists_give_nothing():
    assert reciprocal_rank_fusion([], k=60) == {}


class TestMinMax:
    def test_the_best_is_one_and_the_worst_keeps_the_share_of_one_value(self):
        assert min_max(np.array([0.0, 1.0])).tolist() == pytest.approx([1 / 3, 1])
        assert min_max(np.array([0.0, 1.0, 2.0])).tolist() == pytest.approx([1 / 4, 5 / 8, 1])
        assert min_max(np.arange(99.0))[0] == pytest.approx(1 / 100)

    def test_a_floor_stands_in_for_the_worst(self):
        assert min_max(np.array([1.0, 2.0, 4.0]), floor=0.0).tolist() == [0.25, 0.5, 1.0]

    def test_equal_values_are_all_one_or_all_nothing_at_the_floor(self):
        assert min_max(np.array([0.4])).tolist() == [1.0]
        assert min_max(np.full(3, 0.4)).tolist() == [1.0, 1.0, 1.0]
        assert min_max(np.full(3, 0.4), floor=0.0).tolist() == [1.0, 1.0, 1.0]
        assert min_max(np.zeros(3), floor=0.0).tolist() == [0.0, 0.0, 0.0]

    def test_what_roundings_leave_of_a_difference_is_not_scaled_up(self):
        third = 0.1 + 0.2 + 0.3
        assert third != 0.3 + 0.2 + 0.1
        assert min_max(np.array([third, 0.3 + 0.2 + 0.1])).tolist() == [1.0, 1.0]

    @given(values, st.sampled_from([None, 0.0]))
    def test_everything_is_from_zero_to_one_and_keeps_its_order(self, values, floor):
        scaled = min_max(values, floor=floor)
        assert ((scaled >= 0) & (scaled <= 1)).all()
        order = np.argsort(values, kind="stable")
        assert (np.diff(scaled[order]) >= 0).all()

    @given(values)
    def test_without_a_floor_nothing_is_quite_nothing(self, values):
        assert (min_max(values) > 0).all()
        assert min_max(values).max() == 1
