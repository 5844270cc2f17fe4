import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memory_retrievers.tools import search


def asked(found, *, limit, min_score=search.MIN_SCORE):
    """What a diversified search asks of a search that finds so many, each time."""
    calls = []

    def find(depth, floor):
        calls.append((depth, floor))
        return list(range(found))

    search.search(find, limit=limit, min_score=min_score)
    return calls


def directions(*degrees):
    return np.array([[np.cos(np.radians(each)), np.sin(np.radians(each))] for each in degrees], dtype=np.float32)


def test_it_looks_deeper_than_asked():
    assert asked(50, limit=10) == [(25, 0.1)]
    assert asked(50, limit=2) == [(12, 0.1)]
    assert asked(200, limit=60) == [(100, 0.1)]


def test_it_looks_once_more_and_wider_if_too_little_was_found():
    assert asked(3, limit=10) == [(25, 0.1), (50, 0.05)]
    assert asked(3, limit=60, min_score=0.4) == [(100, 0.4), (200, 0.2)]
    assert asked(3, limit=10, min_score=0.0) == [(25, 0.0), (50, 0.0)]


def test_more_than_the_most_candidates_can_still_be_asked_for():
    assert asked(3, limit=500) == [(500, 0.1), (500, 0.05)]


def test_what_says_the_same_as_a_better_one_is_left_out():
    # 36 degrees apart have a cosine of 0.809, 37 of 0.799
    assert search.choose("abcd", directions(0, 36, 37, 90), limit=4) == ["a", "c", "d"]


def test_it_is_enough_to_be_near_to_any_that_was_taken():
    assert search.choose("abc", directions(0, 60, 30), limit=3) == ["a", "b"]


def test_what_is_left_out_leaves_out_nothing_itself():
    assert search.choose("abc", directions(0, 30, 60), limit=3) == ["a", "c"]


def test_the_limit_holds():
    assert search.choose("abcd", directions(0, 45, 90, 135), limit=2) == ["a", "b"]


def test_one_item_keeps_out_ten_others_at_most():
    kept = search.choose(list(range(14)), directions(*range(14)), limit=14)
    assert kept == [0, 11]  # 1 to 10 are nearest to 0; 11 then keeps out 12 and 13


def test_of_nothing_nothing_is_chosen():
    assert search.choose([], np.empty((0, 2), dtype=np.float32), limit=3) == []


@given(st.lists(st.floats(0, 360), max_size=11), st.integers(1, 11))
def test_no_two_chosen_are_near_and_the_best_is_among_them(degrees, limit):
    vectors = directions(*degrees) if degrees else np.empty((0, 2), dtype=np.float32)
    chosen = search.choose(list(range(len(degrees))), vectors, limit=limit)
    assert chosen[:1] == list(range(len(degrees)))[:1]
    assert chosen == sorted(chosen)
    assert len(chosen) <= limit
    assert all(vectors[a] @ vectors[b] < search.DIVERSITY_THRESHOLD for a in chosen for b in chosen if a < b)
