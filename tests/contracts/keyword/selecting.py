"""What a keyword index may see: scopes, kinds, states and filters."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given

from contracts.filtering import filtered, memories_to_filter
from contracts.keyword.filling import (
    found,
    queries_of_words,
    same,
    search,
    store,
    store_facts,
    texts_of_words,
)
from contracts.samples import (
    ALIKE,
    BELOW,
    BESIDE,
    NOW,
    SCOPE,
    episode,
    exploring,
    fact,
    facts_in,
    fresh_scope,
)
from memory_retrievers.backends.sql.keyword import PostingsKeywordIndex
from memory_retrievers.backends.sql.ledger import SQLLedger
from memory_retrievers.models import Category, Kind
from memory_retrievers.models.selection import Selection


class SelectingContract:
    """Selections, which leave the scores of what they let through as they are."""

    @exploring
    @given(texts=texts_of_words, noise=texts_of_words, query=queries_of_words)
    def test_what_other_scopes_and_kinds_hold_changes_nothing(
        self, ledger: SQLLedger, index: PostingsKeywordIndex, texts: list[str], noise: list[str], query: str
    ) -> None:
        scope = fresh_scope()
        store_facts(ledger, index, texts, scope=scope)
        before = search(index, query, facts_in(scope))
        for other in (f"{scope}/below", f"{scope}0", f"0{scope}"):
            store_facts(ledger, index, noise, scope=other)
        store(ledger, index, [episode(f"e{n}", text, scope=scope) for n, text in enumerate(noise)])
        assert same(search(index, query, facts_in(scope)), before)

    @exploring
    @given(texts=texts_of_words, query=queries_of_words)
    def test_a_scope_with_its_children_is_searched_as_if_it_were_one(
        self, ledger: SQLLedger, index: PostingsKeywordIndex, texts: list[str], query: str
    ) -> None:
        scope, whole = fresh_scope(), fresh_scope()
        scopes = [scope, f"{scope}/below", f"{scope}/below/deep", f"{scope}/other"]
        spread = [fact(f"f{n}", text, scope=scopes[n % len(scopes)]) for n, text in enumerate(texts)]
        ids = store(ledger, index, spread)
        ids_in_whole = store_facts(ledger, index, texts, scope=whole)
        scores = search(index, query, facts_in(scope, include_child_scopes=True))
        place = dict(zip(ids, ids_in_whole, strict=True))
        moved = {place[passage]: score for passage, score in scores.items()}
        assert same(moved, search(index, query, facts_in(whole)))

    @exploring
    @given(texts=texts_of_words, query=queries_of_words)
    def test_an_invalidated_fact_is_not_found_and_the_others_keep_their_scores(
        self, ledger: SQLLedger, index: PostingsKeywordIndex, texts: list[str], query: str
    ) -> None:
        scope = fresh_scope()
        ids = store_facts(ledger, index, texts, scope=scope)
        scores = search(index, query, facts_in(scope))
        ledger.invalidate(scope=scope, id="f0", at=NOW)
        scores.pop(ids[0], None)
        assert same(search(index, query, facts_in(scope)), scores)

    @pytest.mark.parametrize("kind", Kind)
    def test_tags_metadata_and_times_are_filters(
        self, ledger: SQLLedger, index: PostingsKeywordIndex, kind: Kind
    ) -> None:
        memories = memories_to_filter(kind)
        passages = store(ledger, index, memories)
        selected = Selection(scope=SCOPE, kind=kind, now=NOW)
        scores = search(index, "tea", selected)
        for filters, selection in filtered(selected):
            expected = [
                passage for passage, each in zip(passages, memories, strict=True) if filters.obstacle(each) is None
            ]
            scored = search(index, "tea", selection)
            assert same(scored, {passage: scores[passage] for passage in expected}), filters

    def test_an_expired_memory_is_not_found(self, ledger: SQLLedger, index: PostingsKeywordIndex) -> None:
        soon = NOW + timedelta(microseconds=1)
        _, kept = store(ledger, index, [fact("f1", expires_at=NOW), fact("f2", expires_at=soon)])
        assert found(index, "tea") == [kept]
        assert found(index, "tea", facts_in(now=soon)) == []

    def test_a_category_filters_and_leaves_the_scores_as_they_are(
        self, ledger: SQLLedger, index: PostingsKeywordIndex
    ) -> None:
        memories = [fact(category, f"tea {category}", category=category) for category in Category]
        ids = store(ledger, index, memories)
        scores = search(index, "tea")
        for category, passage in zip(Category, ids, strict=True):
            assert same(search(index, "tea", facts_in(category=category)), {passage: scores[passage]})

    def test_filters_come_before_the_limit(self, ledger: SQLLedger, index: PostingsKeywordIndex) -> None:
        best = [fact(f"invalidated {n}", "tea tea", invalid_at=NOW) for n in range(10)]
        best += [fact(f"expired {n}", "tea tea", expires_at=NOW) for n in range(10)]
        best += [fact(f"goal {n}", "tea tea", category=Category.GOAL) for n in range(10)]
        *_, kept = store(ledger, index, [*best, fact("kept", "a pot of tea", category=Category.INTEREST)])
        assert found(index, "tea", facts_in(category=Category.INTEREST), limit=1) == [kept]

    def test_a_scope_is_compared_exactly(self, ledger: SQLLedger, index: PostingsKeywordIndex) -> None:
        own = {scope: store_facts(ledger, index, ["tea"], scope=scope) for scope in ALIKE}
        assert {scope: found(index, "tea", facts_in(scope)) for scope in ALIKE} == own

    def test_child_scopes_are_all_below_and_none_beside(self, ledger: SQLLedger, index: PostingsKeywordIndex) -> None:
        inside = store(ledger, index, [fact("f1", scope=scope) for scope in (SCOPE, *BELOW)])
        store(ledger, index, [fact("f1", scope=scope) for scope in BESIDE])
        assert found(index, "tea", facts_in(include_child_scopes=True)) == inside
