"""The exact vector index: the contract with a large and with the smallest cache, and what the cache keeps."""

import numpy as np
import pytest
from contracts import VectorIndexContract
from contracts.samples import NOW, SCOPE, add, fact, facts_in, ranking

from memory_retrievers.backends import vectors as exact
from memory_retrievers.backends.sqlite import SQLiteLedger
from memory_retrievers.backends.vectors import ExactVectorIndex
from memory_retrievers.models import Category

NORTH = np.array([1, 0], np.float32)


class CountingLedger(SQLiteLedger):
    """Counts the vectors that are read from it."""

    def __init__(self):
        super().__init__(None)
        self.read = 0
        self.lost = set()

    def vectors(self, passages):
        ids, matrix = super().vectors(passages)
        kept = [row for row, passage in enumerate(ids) if passage not in self.lost]
        self.read += len(kept)
        return [ids[row] for row in kept], matrix[kept] if kept else np.empty((0, 0), np.float32)


@pytest.fixture
def ledger():
    ledger = CountingLedger()
    yield ledger
    ledger.close()


class TestExactVectorIndex(VectorIndexContract):
    @pytest.fixture
    def index(self, ledger):
        return ExactVectorIndex(ledger)


class TestExactVectorIndexWithTheSmallestCache(VectorIndexContract):
    @pytest.fixture
    def index(self, ledger):
        return ExactVectorIndex(ledger, cache_bytes=1)


def _store(ledger, number, *, scope=SCOPE, category=Category.NOTE):
    first = len(ledger.indexed(facts_in(scope)))
    memories = [fact(f"f{first + n}", scope=scope, category=category) for n in range(number)]
    return [passage.id for passage in add(ledger, memories, np.tile(NORTH, (number, 1)))]


def _found(index, selection=None):
    return list(ranking(index.search(NORTH, selection or facts_in(), limit=10_000)))


def test_measuring_a_few_leaves_the_others_remembered(ledger):
    ids = _store(ledger, 1_000)
    index = ExactVectorIndex(ledger)
    _found(index)
    assert ledger.read == 1_000
    for start in range(0, 1_000, 100):
        index.similarities(NORTH, facts_in(), np.array(ids[start : start + 5], np.int64))
        _found(index)
    assert ledger.read == 1_000


def test_each_vector_is_read_once(ledger):
    index = ExactVectorIndex(ledger)
    _store(ledger, 10)
    for _ in range(3):
        _found(index)
    assert ledger.read == 10
    _store(ledger, 2)
    for _ in range(3):
        _found(index)
    assert ledger.read == 12


def test_a_search_by_category_and_one_without_share_their_vectors(ledger):
    index = ExactVectorIndex(ledger)
    goals, notes = _store(ledger, 3, category=Category.GOAL), _store(ledger, 300)
    for _ in range(3):
        assert _found(index, facts_in(category=Category.GOAL)) == goals
        assert _found(index) == goals + notes
    assert ledger.read == 303


def test_the_cache_keeps_to_its_limit_and_forgets_what_was_searched_longest_ago(ledger):
    size = 10 * (2 * 4 + 2 * 8)
    index = ExactVectorIndex(ledger, cache_bytes=2 * size)
    for scope in ("a", "b", "c"):
        _store(ledger, 10, scope=scope)
    for scope in ("a", "b", "a", "c"):
        _found(index, facts_in(scope))
    assert ledger.read == 30
    assert index._bytes <= 2 * size
    _found(index, facts_in("a"))
    assert ledger.read == 30
    _found(index, facts_in("b"))
    assert ledger.read == 40


def test_the_cache_counts_what_it_holds(ledger):
    index = ExactVectorIndex(ledger, cache_bytes=1_000)
    for scope in ("a", "b", "c"):
        for _ in range(3):
            _store(ledger, 7, scope=scope)
            _found(index, facts_in(scope))
            assert index._bytes == sum(block.size for block in index._blocks.values())


def test_a_scope_larger_than_the_cache_takes_no_room_and_is_read_with_every_search(ledger, monkeypatch):
    monkeypatch.setattr(exact, "_STREAMED", 3)
    index = ExactVectorIndex(ledger, cache_bytes=100)
    ids = _store(ledger, 10)
    for _ in range(3):
        assert _found(index) == ids
    assert ledger.read == 31  # the first tells how long vectors are
    assert not index._blocks


def test_what_is_gone_for_good_leaves_the_cache(ledger):
    index = ExactVectorIndex(ledger)
    ids = _store(ledger, 500)
    _found(index)
    with ledger.transaction():
        for n in range(490):
            ledger.invalidate(scope=SCOPE, id=f"f{n}", at=NOW)
    assert _found(index) == ids[490:]
    (block,) = index._blocks.values()
    assert block.ids.tolist() == ids[490:]


def test_unknown_scopes_take_no_room(ledger):
    index = ExactVectorIndex(ledger)
    for n in range(5):
        _found(index, facts_in(f"nobody/{n}"))
    assert not index._blocks


def test_passages_that_vanish_between_asking_and_reading_are_left_out(ledger):
    index = ExactVectorIndex(ledger)
    first, second, third = _store(ledger, 3)
    ledger.lost = {first, second, third}
    assert _found(index) == []
    ledger.lost = {second}
    assert _found(index) == [first, third]
    (fourth,) = _store(ledger, 1)
    ledger.lost = {second, fourth}
    assert _found(index) == [first, third]
    ledger.lost = set()
    assert _found(index) == [first, second, third, fourth]


def test_scopes_that_were_forgotten_whole_leave_nothing_behind(ledger):
    index = ExactVectorIndex(ledger)
    for n in range(5):
        ids = _store(ledger, 3, scope=f"user/{n}")
        _found(index, facts_in(f"user/{n}"))
        index.forget(ids)
    assert not index._blocks
    assert index._bytes == 0
