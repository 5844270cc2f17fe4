"""What a keyword index must do.

The suite asks for no particular score, since engines may differ by a constant factor and in their idf, but for
everything that the order of the results and the statistics behind it have to obey.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from itertools import chain
from typing import Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_retrievers.models import AnyMemory, Category
from memory_retrievers.passages import NewPassage, Selection
from memory_retrievers.protocols import KeywordIndex, Ledger
from memory_retrievers.testing.contracts.samples import (
    BELOW,
    BESIDE,
    LOOKALIKES,
    NOW,
    SCOPE,
    THREADS,
    add,
    at_once,
    episode,
    episodes_in,
    exploring,
    fact,
    facts_in,
    fresh_scope,
    ranking,
)
from memory_retrievers.text import analyze

_FACTS: Final = facts_in()
_NO_VECTOR: Final = np.zeros(4, np.float32)
_WORDS: Final = ("tea", "coffee", "milk", "sugar", "lemon", "honey")
_WORDS_OF_EVERY_KIND: Final = (
    *("東京", "コーヒー", "커피", "Größe", "чай", "\N{CJK UNIFIED IDEOGRAPH-20BB7}野家"),
    *("c++", "v1.5.9", "o'brien's", "a_b", "user@host", "100%"),
)

_texts = st.lists(st.lists(st.sampled_from(_WORDS), min_size=1, max_size=6).map(" ".join), min_size=1, max_size=6)
_queries = st.lists(st.sampled_from(_WORDS), min_size=1, max_size=4).map(" ".join)


def _store(ledger: Ledger, index: KeywordIndex, memories: Sequence[AnyMemory]) -> list[int]:
    with ledger.transaction():
        passages = add(ledger, memories)
        index.add(passages)
    return [passage.id for passage in passages]


def _store_facts(ledger: Ledger, index: KeywordIndex, texts: Sequence[str], *, scope: str = SCOPE) -> list[int]:
    first = len(ledger.indexed(facts_in(scope)))
    return _store(ledger, index, [fact(f"f{first + n}", text, scope=scope) for n, text in enumerate(texts)])


def _remove(ledger: Ledger, index: KeywordIndex, scope: str, id: str) -> None:
    with ledger.transaction():
        passages = ledger.passages_of(scope, id=id)
        index.remove(passages)
        ledger.remove(scope=scope, id=id)
    index.forget([passage.id for passage in passages])


def _search(index: KeywordIndex, query: str, selection: Selection = _FACTS, *, limit: int = 100) -> dict[int, float]:
    return ranking(index.search(analyze(query), selection, limit=limit))


def _found(index: KeywordIndex, query: str, selection: Selection = _FACTS, *, limit: int = 100) -> list[int]:
    return list(_search(index, query, selection, limit=limit))


def _same(left: dict[int, float], right: dict[int, float]) -> bool:
    """Whether both have the same passages with the same scores in the same order."""
    return list(left) == list(right) and left == pytest.approx(right, rel=1e-9)


class KeywordIndexContract:
    """Everything a ``protocols.KeywordIndex`` promises.

    Supply the fixtures ``ledger``, an empty one, and ``index``, built over it.
    """

    def test_the_passages_that_share_a_term_are_found_and_no_others(self, ledger: Ledger, index: KeywordIndex) -> None:
        tea, _, both = _store_facts(ledger, index, ["green tea", "black coffee", "tea before milk"])
        assert set(_found(index, "Teas with biscuits")) == {tea, both}

    def test_a_term_that_every_passage_has_still_finds_them_all(self, ledger: Ledger, index: KeywordIndex) -> None:
        ids = _store_facts(ledger, index, ["tea"] * 20)
        scores = _search(index, "tea")
        assert list(scores) == ids
        assert min(scores.values()) > 0

    @pytest.mark.parametrize("query", ["", "?!", "coffee"])
    def test_a_query_without_a_known_term_finds_nothing(self, ledger: Ledger, index: KeywordIndex, query: str) -> None:
        _store_facts(ledger, index, ["green tea", "..."])
        assert _found(index, query) == []

    def test_an_empty_scope_finds_nothing(self, ledger: Ledger, index: KeywordIndex) -> None:
        assert _found(index, "tea") == []
        _store_facts(ledger, index, ["tea"])
        for selection in (episodes_in(), facts_in("nobody"), facts_in("nobody", include_child_scopes=True)):
            assert _found(index, "tea", selection) == []

    def test_a_scope_without_a_single_term_finds_nothing(self, ledger: Ledger, index: KeywordIndex) -> None:
        _store_facts(ledger, index, ["...", "☕"])
        assert _found(index, "tea") == []

    def test_the_only_passage_of_a_scope_is_found(self, ledger: Ledger, index: KeywordIndex) -> None:
        ids = _store_facts(ledger, index, ["tea"])
        ((found, score),) = _search(index, "tea").items()
        assert [found] == ids
        assert score > 0

    def test_a_passage_comes_with_the_memory_it_belongs_to(self, ledger: Ledger, index: KeywordIndex) -> None:
        turns = [NewPassage(part=f"turn {n}", text=text, vector=_NO_VECTOR) for n, text in enumerate(["tea", "tea"])]
        with ledger.transaction():
            index.add(ledger.add([episode("e1"), episode("e2")], [turns, turns[:1]]))
        hits = index.search(["tea"], episodes_in(), limit=10)
        owner = ledger.owners(hits.passages)
        assert hits.memories == [owner[passage] for passage in hits.passages]
        assert [ledger.load([row])[row].id for row in hits.memories] == ["e1", "e1", "e2"]

    def test_the_rarer_term_counts_more(self, ledger: Ledger, index: KeywordIndex) -> None:
        *teas, lemon = _store_facts(ledger, index, ["tea time", "tea pot", "tea leaf", "lemon tree"])
        assert _found(index, "tea lemon") == [lemon, *teas]

    def test_a_term_that_stands_more_often_counts_more(self, ledger: Ledger, index: KeywordIndex) -> None:
        once, twice = _store_facts(ledger, index, ["tea milk sugar", "tea tea sugar"])
        assert _found(index, "tea") == [twice, once]

    def test_the_shorter_of_two_passages_comes_first(self, ledger: Ledger, index: KeywordIndex) -> None:
        long, short = _store_facts(ledger, index, ["tea milk sugar lemon honey", "tea milk"])
        assert _found(index, "tea") == [short, long]

    def test_a_passage_with_more_of_the_terms_comes_first(self, ledger: Ledger, index: KeywordIndex) -> None:
        tea, milk, both = _store_facts(ledger, index, ["tea sugar", "milk sugar", "tea milk"])
        assert _found(index, "milk tea") == [both, tea, milk]

    def test_a_term_that_is_asked_twice_counts_twice(self, ledger: Ledger, index: KeywordIndex) -> None:
        tea, coffee = _store_facts(ledger, index, ["tea", "coffee"])
        assert _found(index, "coffee tea") == [tea, coffee]
        assert _found(index, "coffee tea coffee") == [coffee, tea]

    def test_ties_go_to_the_lower_id_also_where_the_limit_cuts(self, ledger: Ledger, index: KeywordIndex) -> None:
        ids = _store_facts(ledger, index, ["tea with milk and honey"] * 30)
        for limit in (1, 7, 29, 30):
            assert _found(index, "honey tea", limit=limit) == ids[:limit]

    @exploring
    @given(texts=_texts, query=_queries)
    def test_hits_are_all_candidates_best_first(
        self, ledger: Ledger, index: KeywordIndex, texts: list[str], query: str
    ) -> None:
        scope = fresh_scope()
        ids = _store_facts(ledger, index, texts, scope=scope)
        scores = _search(index, query, facts_in(scope))
        shares_a_term = {
            passage: not set(query.split()).isdisjoint(text.split()) for passage, text in zip(ids, texts, strict=True)
        }
        assert set(scores) == {passage for passage in ids if shares_a_term[passage]}
        assert list(scores) == sorted(scores, key=lambda passage: (-scores[passage], passage))
        assert all(score > 0 for score in scores.values())
        assert _found(index, query, facts_in(scope), limit=2) == list(scores)[:2]

    @exploring
    @given(texts=_texts, noise=_texts, query=_queries)
    def test_what_other_scopes_and_kinds_hold_changes_nothing(
        self, ledger: Ledger, index: KeywordIndex, texts: list[str], noise: list[str], query: str
    ) -> None:
        scope = fresh_scope()
        _store_facts(ledger, index, texts, scope=scope)
        before = _search(index, query, facts_in(scope))
        for other in (f"{scope}/below", f"{scope}0", f"0{scope}"):
            _store_facts(ledger, index, noise, scope=other)
        _store(ledger, index, [episode(f"e{n}", text, scope=scope) for n, text in enumerate(noise)])
        assert _same(_search(index, query, facts_in(scope)), before)

    @exploring
    @given(texts=_texts, query=_queries)
    def test_a_scope_with_its_children_is_searched_as_if_it_were_one(
        self, ledger: Ledger, index: KeywordIndex, texts: list[str], query: str
    ) -> None:
        scope, whole = fresh_scope(), fresh_scope()
        scopes = [scope, f"{scope}/below", f"{scope}/below/deep", f"{scope}/other"]
        spread = [fact(f"f{n}", text, scope=scopes[n % len(scopes)]) for n, text in enumerate(texts)]
        ids = _store(ledger, index, spread)
        ids_in_whole = _store_facts(ledger, index, texts, scope=whole)
        scores = _search(index, query, facts_in(scope, include_child_scopes=True))
        place = dict(zip(ids, ids_in_whole, strict=True))
        moved = {place[passage]: score for passage, score in scores.items()}
        assert _same(moved, _search(index, query, facts_in(whole)))

    @exploring
    @given(texts=_texts, query=_queries)
    def test_an_invalidated_fact_is_not_found_and_the_others_keep_their_scores(
        self, ledger: Ledger, index: KeywordIndex, texts: list[str], query: str
    ) -> None:
        scope = fresh_scope()
        ids = _store_facts(ledger, index, texts, scope=scope)
        scores = _search(index, query, facts_in(scope))
        ledger.invalidate(scope=scope, id="f0", at=NOW)
        scores.pop(ids[0], None)
        assert _same(_search(index, query, facts_in(scope)), scores)

    def test_an_expired_memory_is_not_found(self, ledger: Ledger, index: KeywordIndex) -> None:
        soon = NOW + timedelta(microseconds=1)
        _, kept = _store(ledger, index, [fact("f1", expires_at=NOW), fact("f2", expires_at=soon)])
        assert _found(index, "tea") == [kept]
        assert _found(index, "tea", facts_in(now=soon)) == []

    def test_a_category_filters_and_leaves_the_scores_as_they_are(self, ledger: Ledger, index: KeywordIndex) -> None:
        memories = [fact(category, f"tea {category}", category=category) for category in Category]
        ids = _store(ledger, index, memories)
        scores = _search(index, "tea")
        for category, passage in zip(Category, ids, strict=True):
            assert _same(_search(index, "tea", facts_in(category=category)), {passage: scores[passage]})

    def test_filters_come_before_the_limit(self, ledger: Ledger, index: KeywordIndex) -> None:
        best = [fact(f"invalidated {n}", "tea tea", invalid_at=NOW) for n in range(10)]
        best += [fact(f"expired {n}", "tea tea", expires_at=NOW) for n in range(10)]
        best += [fact(f"goal {n}", "tea tea", category=Category.GOAL) for n in range(10)]
        *_, kept = _store(ledger, index, [*best, fact("kept", "a pot of tea", category=Category.INTEREST)])
        assert _found(index, "tea", facts_in(category=Category.INTEREST), limit=1) == [kept]

    def test_new_passages_are_found_at_once(self, ledger: Ledger, index: KeywordIndex) -> None:
        ids: list[int] = []
        for _ in range(5):
            assert _found(index, "tea") == ids
            ids += _store_facts(ledger, index, ["green tea"])
        (told,) = _store(ledger, index, [episode("e1", "They had tea")])
        assert _found(index, "tea", episodes_in()) == [told]

    def test_a_new_passage_counts_in_the_statistics(self, ledger: Ledger, index: KeywordIndex) -> None:
        first, _ = _store_facts(ledger, index, ["tea time", "tea pot"])
        before = _search(index, "tea")
        _store_facts(ledger, index, ["lemon tree"] * 5)
        assert _search(index, "tea")[first] > before[first]  # tea has become rarer

    def test_a_failed_transaction_leaves_no_trace(self, ledger: Ledger, index: KeywordIndex) -> None:
        def store_and_fail() -> None:
            with ledger.transaction():
                _store_facts(ledger, index, ["tea tea", "lemon"])
                assert len(_search(index, "tea")) == 2
                raise ZeroDivisionError

        (tea,) = _store_facts(ledger, index, ["tea time"])
        with pytest.raises(ZeroDivisionError):
            store_and_fail()
        coffee, milk = _store_facts(ledger, index, ["coffee", "milk"])
        assert set(_found(index, "tea lemon coffee milk")) == {tea, coffee, milk}

    @exploring
    @given(texts=_texts, gone=_texts, query=_queries)
    def test_removing_is_the_exact_inverse_of_adding(
        self, ledger: Ledger, index: KeywordIndex, texts: list[str], gone: list[str], query: str
    ) -> None:
        scope = fresh_scope()
        _store_facts(ledger, index, texts, scope=scope)
        before = _search(index, query, facts_in(scope))
        _store(ledger, index, [fact(f"gone {n}", text, scope=scope) for n, text in enumerate(["...", *gone])])
        _search(index, query, facts_in(scope))
        for n in range(len(gone) + 1):
            _remove(ledger, index, scope, f"gone {n}")
        assert _same(_search(index, query, facts_in(scope)), before)

    def test_a_scope_that_lost_all_its_passages_finds_nothing_until_there_are_new_ones(
        self, ledger: Ledger, index: KeywordIndex
    ) -> None:
        _store_facts(ledger, index, ["tea", "green tea"])
        for number in range(2):
            _remove(ledger, index, SCOPE, f"f{number}")
        assert _found(index, "tea") == []
        ids = _store_facts(ledger, index, ["green tea"])
        assert _found(index, "tea") == ids

    def test_a_removal_that_fails_is_undone(self, ledger: Ledger, index: KeywordIndex) -> None:
        def remove_and_fail() -> None:
            with ledger.transaction():
                index.remove(ledger.passages_of(SCOPE))
                ledger.remove_scope(SCOPE, include_child_scopes=True)
                raise ZeroDivisionError

        _store_facts(ledger, index, ["tea time", "lemon"])
        before = _search(index, "tea lemon")
        with pytest.raises(ZeroDivisionError):
            remove_and_fail()
        assert _same(_search(index, "tea lemon"), before)

    @pytest.mark.parametrize(("scope", "other"), LOOKALIKES)
    def test_a_scope_is_compared_exactly(self, ledger: Ledger, index: KeywordIndex, scope: str, other: str) -> None:
        (mine,) = _store_facts(ledger, index, ["tea"], scope=scope)
        (theirs,) = _store_facts(ledger, index, ["tea"], scope=other)
        assert _found(index, "tea", facts_in(scope)) == [mine]
        assert _found(index, "tea", facts_in(other)) == [theirs]

    def test_child_scopes_are_all_below_and_none_beside(self, ledger: Ledger, index: KeywordIndex) -> None:
        inside = _store(ledger, index, [fact("f1", scope=scope) for scope in (SCOPE, *BELOW)])
        _store(ledger, index, [fact("f1", scope=scope) for scope in BESIDE])
        assert _found(index, "tea", facts_in(include_child_scopes=True)) == inside

    @pytest.mark.parametrize("word", _WORDS_OF_EVERY_KIND)
    def test_words_of_every_script_and_shape_are_found(self, ledger: Ledger, index: KeywordIndex, word: str) -> None:
        (passage, _) = _store_facts(ledger, index, [f"about {word} today", "nothing of the kind"])
        assert _found(index, f"{word}?") == [passage]

    def test_a_query_of_a_thousand_terms_is_answered(self, ledger: Ledger, index: KeywordIndex) -> None:
        ids = _store_facts(ledger, index, ["tea", "word500"])
        assert sorted(_found(index, " ".join(f"word{n}" for n in range(1_000)) + " tea")) == ids

    def test_eight_threads_add_and_search_at_once(self, ledger: Ledger, index: KeywordIndex) -> None:
        def store_and_search(number: int) -> list[int]:
            ids: list[int] = []
            for n in range(5):
                ids += _store(ledger, index, [fact(f"{number}-{n}", f"tea thread{number}")])
                assert _found(index, f"thread{number}") == ids
                assert set(ids) <= set(_found(index, "tea"))
            return ids

        ids = list(chain.from_iterable(at_once(store_and_search)))
        assert _found(index, "tea") == sorted(ids)
        assert len(ids) == 5 * THREADS
