"""The exact vector index: the contract with snapshots and without, and scopes that are read in pieces."""

import numpy as np
import pytest
from contracts import VectorIndexContract
from contracts.samples import NOW, SCOPE, add, fact, facts_in, indexed, ranking
from kept import held_bytes

from memory_retrievers.backends import vectors as exact
from memory_retrievers.backends.sql.ledger import SQLLedger
from memory_retrievers.backends.sqlite import Database
from memory_retrievers.backends.vectors import ExactVectorIndex
from memory_retrievers.models import Category

NORTH = np.array([1, 0], np.float32)


@pytest.fixture
def ledger():
    ledger = SQLLedger(Database(None))
    yield ledger
    ledger.close()


@pytest.fixture
def index(ledger):
    return ExactVectorIndex(ledger)


class TestExactVectorIndex(VectorIndexContract):
    pass


class TestExactVectorIndexWithoutSnapshots(VectorIndexContract):
    @pytest.fixture
    def index(self, ledger):
        ledger.snapshots.most = -1
        return ExactVectorIndex(ledger)


def _store(ledger, number, *, scope=SCOPE, category=Category.NOTE):
    first = len(indexed(ledger, facts_in(scope)))
    memories = [fact(f"f{first + n}", scope=scope, category=category) for n in range(number)]
    return [passage.id for passage in add(ledger, memories, np.tile(NORTH, (number, 1)))]


def _found(index, selection=None):
    return list(ranking(index.search(NORTH, selection or facts_in(), limit=10_000)))


def test_a_scope_too_large_for_a_snapshot_is_read_in_pieces(ledger, index, monkeypatch):
    monkeypatch.setattr(exact, "_STREAMED", 3)
    ledger.snapshots.most = -1
    ids = _store(ledger, 10)
    goals = _store(ledger, 2, category=Category.GOAL)
    assert _found(index) == ids + goals
    assert _found(index, facts_in(category=Category.GOAL)) == goals
    assert index.similarities(NORTH, facts_in(), np.array([*ids[::-1], 10**6])).tolist() == [1.0] * 10 + [-1.0]
    assert held_bytes(ledger) == {}


def test_invalidated_facts_are_not_found(ledger, index):
    ids = _store(ledger, 500)
    assert _found(index) == ids
    with ledger.database.write():
        for n in range(490):
            ledger.invalidate(scope=SCOPE, id=f"f{n}", at=NOW)
    assert _found(index) == ids[490:]


@pytest.mark.parametrize("most", [2**20, -1], ids=["snapshots", "none"])
def test_passages_that_vanish_between_asking_and_reading_are_left_out(ledger, index, monkeypatch, most):
    ledger.snapshots.most = most
    lost, vectors = set(), ledger.vectors

    def read(passages):
        ids, matrix = vectors(passages)
        kept = [row for row, passage in enumerate(ids) if passage not in lost]
        return [ids[row] for row in kept], matrix[kept] if kept else np.empty((0, 0), np.float32)

    monkeypatch.setattr(ledger, "vectors", read)
    first, second = _store(ledger, 2)
    assert _found(index) == [first, second]
    third, fourth, *others = _store(ledger, 70)  # of a few all is read at once, and nothing comes between
    lost.add(fourth)
    assert _found(index) == [first, second, third, *others]
