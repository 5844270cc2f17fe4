"""In which order a keyword index gives what it finds."""

from __future__ import annotations

from hypothesis import given

from contracts.keyword.filling import (
    found,
    queries_of_words,
    search,
    store_facts,
    texts_of_words,
)
from contracts.samples import exploring, facts_in, fresh_scope
from memory_retrievers.backends.sql.keyword import PostingsKeywordIndex
from memory_retrievers.backends.sql.ledger import SQLLedger


class OrderContract:
    """What makes a passage come before another."""

    def test_the_rarer_term_counts_more(self, ledger: SQLLedger, index: PostingsKeywordIndex) -> None:
        *teas, lemon = store_facts(ledger, index, ["tea time", "tea pot", "tea leaf", "lemon tree"])
        assert found(index, "tea lemon") == [lemon, *teas]

    def test_a_term_that_stands_more_often_counts_more(self, ledger: SQLLedger, index: PostingsKeywordIndex) -> None:
        once, twice = store_facts(ledger, index, ["tea milk sugar", "tea tea sugar"])
        assert found(index, "tea") == [twice, once]

    def test_the_shorter_of_two_passages_comes_first(self, ledger: SQLLedger, index: PostingsKeywordIndex) -> None:
        long, short = store_facts(ledger, index, ["tea milk sugar lemon honey", "tea milk"])
        assert found(index, "tea") == [short, long]

    def test_a_passage_with_more_of_the_terms_comes_first(self, ledger: SQLLedger, index: PostingsKeywordIndex) -> None:
        tea, milk, both = store_facts(ledger, index, ["tea sugar", "milk sugar", "tea milk"])
        assert found(index, "milk tea") == [both, tea, milk]

    def test_a_term_that_is_asked_twice_counts_twice(self, ledger: SQLLedger, index: PostingsKeywordIndex) -> None:
        tea, coffee = store_facts(ledger, index, ["tea", "coffee"])
        assert found(index, "coffee tea") == [tea, coffee]
        assert found(index, "coffee tea coffee") == [coffee, tea]

    def test_ties_go_to_the_lower_id_also_where_the_limit_cuts(
        self, ledger: SQLLedger, index: PostingsKeywordIndex
    ) -> None:
        ids = store_facts(ledger, index, ["tea with milk and honey"] * 30)
        for limit in (1, 7, 29, 30):
            assert found(index, "honey tea", limit=limit) == ids[:limit]

    @exploring
    @given(texts=texts_of_words, query=queries_of_words)
    def test_hits_are_all_candidates_best_first(
        self, ledger: SQLLedger, index: PostingsKeywordIndex, texts: list[str], query: str
    ) -> None:
        scope = fresh_scope()
        ids = store_facts(ledger, index, texts, scope=scope)
        scores = search(index, query, facts_in(scope))
        shares_a_term = {
            passage: not set(query.split()).isdisjoint(text.split()) for passage, text in zip(ids, texts, strict=True)
        }
        assert set(scores) == {passage for passage in ids if shares_a_term[passage]}
        assert list(scores) == sorted(scores, key=lambda passage: (-scores[passage], passage))
        assert all(score > 0 for score in scores.values())
        assert found(index, query, facts_in(scope), limit=2) == list(scores)[:2]
