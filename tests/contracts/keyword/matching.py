"""Which passages a keyword index finds, and which it does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import pytest

from contracts.keyword.filling import found, search, store_facts
from contracts.samples import episode, episodes_in, facts_in
from memory_retrievers.backends.sql.keyword import PostingsKeywordIndex
from memory_retrievers.backends.sql.ledger import SQLLedger
from memory_retrievers.models.selection import NewPassage

_NO_VECTOR: Final = np.zeros(4, np.float32)
_WORDS_OF_EVERY_KIND: Final = (
    *("東京", "コーヒー", "커피", "Größe", "чай", "\N{CJK UNIFIED IDEOGRAPH-20BB7}野家"),
    *("c++", "v1.5.9", "o'brien's", "a_b", "user@host", "100%"),
)


class MatchingContract:
    """Terms of the question and of the passages."""

    def test_the_passages_that_share_a_term_are_found_and_no_others(
        self, ledger: SQLLedger, index: PostingsKeywordIndex
    ) -> None:
        tea, _, both = store_facts(ledger, index, ["green tea", "black coffee", "tea before milk"])
        assert set(found(index, "Teas with biscuits")) == {tea, both}

    def test_a_term_that_every_passage_has_still_finds_them_all(
        self, ledger: SQLLedger, index: PostingsKeywordIndex
    ) -> None:
        ids = store_facts(ledger, index, ["tea"] * 20)
        scores = search(index, "tea")
        assert list(scores) == ids
        assert min(scores.values()) > 0

    @pytest.mark.parametrize("query", ["", "?!", "coffee"])
    def test_a_query_without_a_known_term_finds_nothing(
        self, ledger: SQLLedger, index: PostingsKeywordIndex, query: str
    ) -> None:
        store_facts(ledger, index, ["green tea", "..."])
        assert found(index, query) == []

    def test_an_empty_scope_finds_nothing(self, ledger: SQLLedger, index: PostingsKeywordIndex) -> None:
        assert found(index, "tea") == []
        store_facts(ledger, index, ["tea"])
        for selection in (episodes_in(), facts_in("nobody"), facts_in("nobody", include_child_scopes=True)):
            assert found(index, "tea", selection) == []

    def test_a_scope_without_a_single_term_finds_nothing(self, ledger: SQLLedger, index: PostingsKeywordIndex) -> None:
        store_facts(ledger, index, ["...", "☕"])
        assert found(index, "tea") == []

    def test_the_only_passage_of_a_scope_is_found(self, ledger: SQLLedger, index: PostingsKeywordIndex) -> None:
        ids = store_facts(ledger, index, ["tea"])
        ((found, score),) = search(index, "tea").items()
        assert [found] == ids
        assert score > 0

    def test_a_passage_comes_with_the_memory_it_belongs_to(
        self, ledger: SQLLedger, index: PostingsKeywordIndex
    ) -> None:
        turns = [NewPassage(part=f"turn {n}", text=text, vector=_NO_VECTOR) for n, text in enumerate(["tea", "tea"])]
        with ledger.database.write():
            index.add(ledger.add([episode("e1"), episode("e2")], [turns, turns[:1]]))
        hits = index.search(["tea"], replace(episodes_in(), every_passage=True), limit=10)
        owner = ledger.owners(hits.passages)
        assert hits.memories == [owner[passage] for passage in hits.passages]
        assert [ledger.load([row])[row].id for row in hits.memories] == ["e1", "e1", "e2"]

    @pytest.mark.parametrize("word", _WORDS_OF_EVERY_KIND)
    def test_words_of_every_script_and_shape_are_found(
        self, ledger: SQLLedger, index: PostingsKeywordIndex, word: str
    ) -> None:
        (passage, _) = store_facts(ledger, index, [f"about {word} today", "nothing of the kind"])
        assert found(index, f"{word}?") == [passage]

    def test_a_query_of_a_thousand_terms_is_answered(self, ledger: SQLLedger, index: PostingsKeywordIndex) -> None:
        ids = store_facts(ledger, index, ["tea", "word500"])
        assert sorted(found(index, " ".join(f"word{n}" for n in range(1_000)) + " tea")) == ids
