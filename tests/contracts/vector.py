"""What a vector index must do.

The expected rankings are computed here, by brute force. Most vectors have components of equal size, so that their
products are exact in any order of summation and many of them tie.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

from contracts.filtering import filtered, memories_to_filter
from contracts.samples import (
    ALIKE,
    BELOW,
    BESIDE,
    NOW,
    SCOPE,
    THREADS,
    add,
    at_once,
    episode,
    episodes_in,
    fact,
    facts_in,
    indexed,
    ranking,
)
from memory_retrievers.backends.sql.ledger import SQLLedger
from memory_retrievers.backends.vectors import ExactVectorIndex
from memory_retrievers.models import AnyMemory, Category, Kind, MemoryKey
from memory_retrievers.models.selection import NewPassage, Selection

if TYPE_CHECKING:
    from memory_retrievers.models.selection import Vector, Vectors

_DIMENSION: Final = 16
_TOLERANCE: Final = 1e-5
_FACTS: Final = facts_in()
_NORTH: Final[Vector] = np.array([1, 0], np.float32)


def _signs(generator: np.random.Generator, count: int) -> Vectors:
    """Random unit vectors whose products with each other are exact."""
    return generator.choice(np.array([-0.25, 0.25], np.float32), (count, _DIMENSION))


def _directions(generator: np.random.Generator, count: int, dimension: int) -> Vectors:
    """Random unit vectors of any direction."""
    vectors = generator.standard_normal((count, dimension))
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def _at(*degrees: float) -> Vectors:
    """Unit vectors in the plane, so many degrees away from north."""
    radians = np.radians(degrees)
    return np.column_stack((np.cos(radians), np.sin(radians))).astype(np.float32)


def _store(ledger: SQLLedger, memories: Sequence[AnyMemory], vectors: Vectors) -> list[int]:
    return [passage.id for passage in add(ledger, memories, vectors)]


def _store_facts(ledger: SQLLedger, vectors: Vectors, *, scope: str = SCOPE) -> list[int]:
    first = len(indexed(ledger, facts_in(scope)))
    return _store(ledger, [fact(f"f{first + n}", scope=scope) for n in range(len(vectors))], vectors)


def _brute_force(ids: Sequence[int], vectors: Vectors, query: Vector) -> dict[int, float]:
    """The cosines of all passages, nearest first, ties by lower id."""
    cosine = dict(zip(ids, (vectors.astype(np.float64) @ query.astype(np.float64)).tolist(), strict=True))
    return {passage: cosine[passage] for passage in sorted(ids, key=lambda passage: (-cosine[passage], passage))}


def _first(scores: dict[int, float], limit: int) -> dict[int, float]:
    return dict(islice(scores.items(), limit))


def _search(
    index: ExactVectorIndex, query: Vector = _NORTH, selection: Selection = _FACTS, *, limit: int = 100
) -> dict[int, float]:
    return ranking(index.search(query, selection, limit=limit))


def _found(index: ExactVectorIndex, selection: Selection = _FACTS, *, limit: int = 100) -> list[int]:
    return list(_search(index, selection=selection, limit=limit))


def _same(left: dict[int, float], right: dict[int, float]) -> bool:
    """Whether both have the same passages with the same scores in the same order."""
    return list(left.items()) == list(right.items())


class VectorIndexContract:
    """Everything a vector index promises.

    Supply the fixtures ``ledger``, an empty one, and ``index``, built over it.
    """

    @pytest.mark.parametrize("size", [1, 2, 7, 300, 1_000])
    def test_the_ranking_is_that_of_brute_force_ties_included(
        self, ledger: SQLLedger, index: ExactVectorIndex, size: int
    ) -> None:
        generator = np.random.default_rng(size)
        scopes = ("user/1", "user/10", "user/1/work")
        stored = {}
        for scope in scopes:
            vectors = _signs(generator, size)
            stored[scope] = (_store_facts(ledger, vectors, scope=scope), vectors)
        for query in _signs(generator, 5):
            for scope, (ids, vectors) in stored.items():
                expected = _brute_force(ids, vectors, query)
                for limit in (1, 5, 100, 2_000):
                    assert _same(_search(index, query, facts_in(scope), limit=limit), _first(expected, limit))

    @pytest.mark.parametrize("dimension", [3, 100, 384])
    def test_the_scores_are_cosines_and_nothing_nearer_is_left_out(
        self, ledger: SQLLedger, index: ExactVectorIndex, dimension: int
    ) -> None:
        generator = np.random.default_rng(dimension)
        vectors = _directions(generator, 500, dimension)
        ids = _store_facts(ledger, vectors)
        for query in _directions(generator, 5, dimension):
            cosine = _brute_force(ids, vectors, query)
            scores = _search(index, query, limit=50)
            assert scores == pytest.approx({passage: cosine[passage] for passage in scores}, abs=_TOLERANCE)
            assert list(scores.values()) == sorted(scores.values(), reverse=True)
            left_out = cosine.keys() - scores.keys()
            assert max(cosine[passage] for passage in left_out) <= min(scores.values()) + _TOLERANCE

    @pytest.mark.parametrize("dimension", [3, 8, 100, 384, 1_024])
    def test_equal_vectors_are_equally_near_wherever_they_are_stored(
        self, ledger: SQLLedger, index: ExactVectorIndex, dimension: int
    ) -> None:
        generator = np.random.default_rng(dimension)
        vectors = _directions(generator, 303, dimension)
        vectors[::3] = vectors[0]
        ids = _store_facts(ledger, vectors)
        for query in _directions(generator, 20, dimension):
            scores = _search(index, query, limit=303)
            assert [passage for passage in scores if passage in ids[::3]] == ids[::3]
            assert len({scores[passage] for passage in ids[::3]}) == 1
            place = list(scores).index(ids[0])
            for limit in (place + 1, place + 50, place + 100):
                assert _same(_search(index, query, limit=limit), _first(scores, limit))

    def test_the_opposite_direction_is_returned_as_well(self, ledger: SQLLedger, index: ExactVectorIndex) -> None:
        ids = _store_facts(ledger, _at(180, 90, 0, 120))
        scores = _search(index)
        assert list(scores) == [ids[2], ids[1], ids[3], ids[0]]
        assert list(scores.values()) == pytest.approx([1.0, 0.0, -0.5, -1.0], abs=_TOLERANCE)

    def test_a_passage_comes_with_the_memory_it_belongs_to(self, ledger: SQLLedger, index: ExactVectorIndex) -> None:
        turns = [NewPassage(part=f"turn {n}", text="", vector=vector) for n, vector in enumerate(_at(0, 20))]
        ledger.add([episode("e1"), episode("e2")], [turns, turns[:1]])
        hits = index.search(_NORTH, replace(episodes_in(), every_passage=True), limit=10)
        owner = ledger.owners(hits.passages)
        assert hits.memories == [owner[passage] for passage in hits.passages]
        assert [ledger.load([row])[row].id for row in hits.memories] == ["e1", "e2", "e1"]

    def test_an_empty_scope_finds_nothing(self, ledger: SQLLedger, index: ExactVectorIndex) -> None:
        assert _found(index) == []
        _store_facts(ledger, _at(0))
        for selection in (episodes_in(), facts_in("nobody"), facts_in("nobody", include_child_scopes=True)):
            assert _found(index, selection) == []

    def test_new_passages_are_found_at_once(self, ledger: SQLLedger, index: ExactVectorIndex) -> None:
        generator = np.random.default_rng(0)
        query, *_ = _signs(generator, 1)
        ids: list[int] = []
        vectors = np.empty((0, _DIMENSION), np.float32)
        for size in (1, 3, 200, 1, 300):
            new = _signs(generator, size)
            ids, vectors = ids + _store_facts(ledger, new), np.concatenate((vectors, new))
            assert _same(_search(index, query, limit=50), _first(_brute_force(ids, vectors, query), 50))

    def test_the_kinds_are_apart(self, ledger: SQLLedger, index: ExactVectorIndex) -> None:
        of_fact, of_episode = _store(ledger, [fact("f1"), episode("e1")], _at(0, 0))
        assert _found(index) == [of_fact]
        assert _found(index, episodes_in()) == [of_episode]

    def test_what_is_removed_is_not_found_and_the_others_stay(self, ledger: SQLLedger, index: ExactVectorIndex) -> None:
        first, gone, last = _store_facts(ledger, _at(0, 10, 20))
        assert _found(index) == [first, gone, last]
        ledger.remove([MemoryKey(scope=SCOPE, id="f1")])
        assert _found(index) == [first, last]
        ledger.snapshots.forget([gone])
        assert _found(index) == [first, last]
        (new,) = _store(ledger, [fact("f1")], _at(5))
        assert _found(index) == [first, new, last]

    def test_a_scope_is_compared_exactly(self, ledger: SQLLedger, index: ExactVectorIndex) -> None:
        own = {scope: _store(ledger, [fact("f1", scope=scope)], _at(0)) for scope in ALIKE}
        assert {scope: _found(index, facts_in(scope)) for scope in ALIKE} == own

    def test_child_scopes_are_all_below_and_none_beside(self, ledger: SQLLedger, index: ExactVectorIndex) -> None:
        inside: list[int] = []
        for n in range(3):  # each time the index is asked, passages of all scopes have come in between
            for scope in (*BESIDE, SCOPE, *BELOW):
                stored = _store(ledger, [fact(f"f{n}", scope=scope)], _at(30))
                inside += stored if scope in {SCOPE, *BELOW} else []
            assert _found(index, facts_in(include_child_scopes=True)) == inside
            assert len(_found(index)) == n + 1

    def test_an_invalidated_fact_is_not_found(self, ledger: SQLLedger, index: ExactVectorIndex) -> None:
        first, second, third = _store_facts(ledger, _at(0, 10, 20))
        assert _found(index) == [first, second, third]
        ledger.invalidate(scope=SCOPE, id="f1", at=NOW)
        assert _found(index) == [first, third]

    def test_an_expired_memory_is_not_found(self, ledger: SQLLedger, index: ExactVectorIndex) -> None:
        soon = NOW + timedelta(microseconds=1)
        _, kept = _store(ledger, [fact("f1", expires_at=NOW), fact("f2", expires_at=soon)], _at(0, 0))
        assert _found(index) == [kept]
        assert _found(index, facts_in(now=soon)) == []

    @pytest.mark.parametrize("kind", Kind)
    def test_tags_metadata_and_times_are_filters(self, ledger: SQLLedger, index: ExactVectorIndex, kind: Kind) -> None:
        memories = memories_to_filter(kind)
        passages = _store(ledger, memories, _at(*range(len(memories))))
        for filters, selection in filtered(Selection(scope=SCOPE, kind=kind, now=NOW)):
            expected = [
                passage for passage, each in zip(passages, memories, strict=True) if filters.obstacle(each) is None
            ]
            assert 0 < len(expected) < len(memories), filters
            assert sorted(_found(index, selection)) == sorted(expected), filters
            assert _found(index, selection, limit=1)[0] in expected, filters

    def test_filters_come_before_the_limit(self, ledger: SQLLedger, index: ExactVectorIndex) -> None:
        nearer = [fact(f"invalidated {n}", invalid_at=NOW) for n in range(10)]
        nearer += [fact(f"expired {n}", expires_at=NOW) for n in range(10)]
        nearer += [fact(f"goal {n}", category=Category.GOAL) for n in range(10)]
        kept = fact("kept", category=Category.INTEREST)
        *_, passage = _store(ledger, [*nearer, kept], _at(*[0] * len(nearer), 170))
        assert _found(index, facts_in(category=Category.INTEREST), limit=1) == [passage]

    def test_searches_with_and_without_a_category_may_alternate(
        self, ledger: SQLLedger, index: ExactVectorIndex
    ) -> None:
        generator = np.random.default_rng(0)
        categories: list[Category | None] = [Category.GOAL, None, Category.NOTE]
        memories = [fact(f"f{n}", category=Category.NOTE if n % 50 else Category.GOAL) for n in range(1_200)]
        vectors, query = _signs(generator, len(memories)), _signs(generator, 1)[0]
        ids: list[int] = []
        for batch in range(0, len(memories), 120):
            stored = slice(batch, batch + 120)
            ids += _store(ledger, memories[stored], vectors[stored])
            for category in categories:
                rows = [n for n in range(len(ids)) if category in {None, memories[n].category}]
                expected = _brute_force([ids[n] for n in rows], vectors[rows], query)
                assert _same(_search(index, query, facts_in(category=category), limit=20), _first(expected, 20))

    def test_most_of_a_scope_may_be_invalidated(self, ledger: SQLLedger, index: ExactVectorIndex) -> None:
        generator = np.random.default_rng(0)
        vectors, query = _signs(generator, 1_000), _signs(generator, 1)[0]
        ids = _store_facts(ledger, vectors)
        assert _same(_search(index, query, limit=5), _first(_brute_force(ids, vectors, query), 5))
        with ledger.database.write():
            for n in range(990):
                ledger.invalidate(scope=SCOPE, id=f"f{n}", at=NOW)
        for _ in range(2):
            assert _same(_search(index, query), _brute_force(ids[990:], vectors[990:], query))

    def test_a_failed_transaction_leaves_no_trace(self, ledger: SQLLedger, index: ExactVectorIndex) -> None:
        def store_and_fail() -> None:
            with ledger.database.write():
                _store_facts(ledger, _at(0, 0))
                assert len(_found(index)) == 3
                raise ZeroDivisionError

        (before,) = _store_facts(ledger, _at(20))
        with pytest.raises(ZeroDivisionError):
            store_and_fail()
        after = _store_facts(ledger, _at(90, 180))
        scores = _search(index)
        assert list(scores) == [before, *after]
        assert [scores[passage] for passage in after] == pytest.approx([0, -1], abs=_TOLERANCE)

    def test_eight_threads_add_and_search_at_once(self, ledger: SQLLedger, index: ExactVectorIndex) -> None:
        def store_and_search(number: int) -> list[int]:
            ids: list[int] = []
            for n in range(5):
                ids += _store(ledger, [fact(f"{number}-{n}")], _at(number))
                assert list(_search(index, _at(number)[0], limit=len(ids)))[:1] == ids[:1]
                assert set(ids) <= set(_found(index))
            return ids

        ids = list(chain.from_iterable(at_once(store_and_search)))
        assert _found(index) == ids  # by thread, since thread 0 stands nearest to north, then by id
        assert len(ids) == 5 * THREADS
