"""A keyword index follows what is stored and removed, also when that fails or happens at once."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given

from contracts.keyword.filling import (
    found,
    queries_of_words,
    remove,
    same,
    search,
    store,
    store_facts,
    texts_of_words,
)
from contracts.samples import (
    SCOPE,
    THREADS,
    at_once,
    episode,
    episodes_in,
    exploring,
    fact,
    facts_in,
    fresh_scope,
)
from memory_retrievers.backends.sql.keyword import PostingsKeywordIndex
from memory_retrievers.backends.sql.ledger import SQLLedger


class KeywordChangeContract:
    """Passages that come and go."""

    def test_new_passages_are_found_at_once(self, ledger: SQLLedger, index: PostingsKeywordIndex) -> None:
        ids: list[int] = []
        for _ in range(5):
            assert found(index, "tea") == ids
            ids += store_facts(ledger, index, ["green tea"])
        (told,) = store(ledger, index, [episode("e1", "They had tea")])
        assert found(index, "tea", episodes_in()) == [told]

    def test_a_new_passage_counts_in_the_statistics(self, ledger: SQLLedger, index: PostingsKeywordIndex) -> None:
        first, _ = store_facts(ledger, index, ["tea time", "tea pot"])
        before = search(index, "tea")
        store_facts(ledger, index, ["lemon tree"] * 5)
        assert search(index, "tea")[first] > before[first]  # tea has become rarer

    def test_a_failed_transaction_leaves_no_trace(self, ledger: SQLLedger, index: PostingsKeywordIndex) -> None:
        def store_and_fail() -> None:
            with ledger.database.write():
                store_facts(ledger, index, ["tea tea", "lemon"])
                assert len(search(index, "tea")) == 2
                raise ZeroDivisionError

        (tea,) = store_facts(ledger, index, ["tea time"])
        with pytest.raises(ZeroDivisionError):
            store_and_fail()
        coffee, milk = store_facts(ledger, index, ["coffee", "milk"])
        assert set(found(index, "tea lemon coffee milk")) == {tea, coffee, milk}

    @exploring
    @given(texts=texts_of_words, gone=texts_of_words, query=queries_of_words)
    def test_removing_is_the_exact_inverse_of_adding(
        self, ledger: SQLLedger, index: PostingsKeywordIndex, texts: list[str], gone: list[str], query: str
    ) -> None:
        scope = fresh_scope()
        store_facts(ledger, index, texts, scope=scope)
        before = search(index, query, facts_in(scope))
        store(ledger, index, [fact(f"gone {n}", text, scope=scope) for n, text in enumerate(["...", *gone])])
        search(index, query, facts_in(scope))
        for n in range(len(gone) + 1):
            remove(ledger, index, scope, f"gone {n}")
        assert same(search(index, query, facts_in(scope)), before)

    def test_a_scope_that_lost_all_its_passages_finds_nothing_until_there_are_new_ones(
        self, ledger: SQLLedger, index: PostingsKeywordIndex
    ) -> None:
        store_facts(ledger, index, ["tea", "green tea"])
        for number in range(2):
            remove(ledger, index, SCOPE, f"f{number}")
        assert found(index, "tea") == []
        ids = store_facts(ledger, index, ["green tea"])
        assert found(index, "tea") == ids

    def test_a_removal_that_fails_is_undone(self, ledger: SQLLedger, index: PostingsKeywordIndex) -> None:
        def remove_and_fail() -> None:
            with ledger.database.write():
                index.remove(ledger.passages_of(SCOPE))
                ledger.remove_scope(SCOPE, include_child_scopes=True)
                raise ZeroDivisionError

        store_facts(ledger, index, ["tea time", "lemon"])
        before = search(index, "tea lemon")
        with pytest.raises(ZeroDivisionError):
            remove_and_fail()
        assert same(search(index, "tea lemon"), before)

    def test_eight_threads_add_and_search_at_once(self, ledger: SQLLedger, index: PostingsKeywordIndex) -> None:
        def store_and_search(number: int) -> list[int]:
            ids: list[int] = []
            for n in range(5):
                ids += store(ledger, index, [fact(f"{number}-{n}", f"tea thread{number}")])
                assert found(index, f"thread{number}") == ids
                assert set(ids) <= set(found(index, "tea"))
            return ids

        ids = list(chain.from_iterable(at_once(store_and_search)))
        assert found(index, "tea") == sorted(ids)
        assert len(ids) == 5 * THREADS
