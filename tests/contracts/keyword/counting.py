"""What a keyword index tells of terms: how rare they are in a scope, and how often they stand in a passage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.keyword.filling import remove, store, store_facts, texts_of_words
from contracts.samples import (
    NOW,
    SCOPE,
    episode,
    episodes_in,
    exploring,
    fact,
    facts_in,
    fresh_scope,
)
from memory_retrievers.backends.sql.keyword import PostingsKeywordIndex
from memory_retrievers.backends.sql.ledger import SQLLedger
from memory_retrievers.models import AnyMemory
from memory_retrievers.models.selection import NewPassage, Selection
from memory_retrievers.text.analysis import analyze

_TERMS: Final = tuple(analyze("tea coffee milk pepper"))
_NO_VECTOR: Final = np.zeros(4, np.float32)
_WHOLE: Final = episodes_in()
_EVERY: Final = replace(_WHOLE, every_passage=True)


class CountingContract:
    """Statistics of terms and counts in passages: what a search of several words in a row is made of."""

    def test_statistics_and_counts_by_hand(self, ledger: SQLLedger, index: PostingsKeywordIndex) -> None:
        ids = store_facts(ledger, index, ["green tea", "tea tea milk sugar", "..."])
        statistics = index.statistics(["tea", "milk", "pepper"], facts_in())
        assert (statistics.passages, statistics.average_length) == (3, 2)
        assert statistics.frequencies == {"tea": 2, "milk": 1, "pepper": 0}
        counts = index.counts(["milk", "tea"], facts_in(), np.array(ids))
        assert counts.lengths.tolist() == [2, 4, 0]
        assert counts.counts.tolist() == [[0, 1, 0], [1, 2, 0]]

    @exploring
    @given(texts=texts_of_words, places=st.lists(st.integers(0, 5), max_size=8))
    def test_they_are_those_of_the_texts(
        self, ledger: SQLLedger, index: PostingsKeywordIndex, texts: list[str], places: list[int]
    ) -> None:
        scope = fresh_scope()
        ids = store_facts(ledger, index, texts, scope=scope)
        asked = [place % len(texts) for place in places]
        _tells(index, facts_in(scope), texts, [ids[place] for place in asked], [texts[place] for place in asked])

    def test_what_is_added_in_one_call_counts_as_one_by_one(
        self, ledger: SQLLedger, index: PostingsKeywordIndex
    ) -> None:
        def memories(one: str, other: str) -> list[AnyMemory]:
            return [
                fact("f1", "green tea tea", scope=one),
                episode("e1", "tea milk", scope=other),
                fact("f2", "pepper", scope=other),
                episode("e2", "coffee, milk and milk", scope=one),
                fact("f3", "milk", scope=one),
                fact("f4", "...", scope=other),
            ]

        together = store(ledger, index, memories("a", "b"))
        alone = [passage for memory in memories("c", "d") for passage in store(ledger, index, [memory])]
        for selected in (facts_in, episodes_in):
            for scope, same_scope in (("a", "c"), ("b", "d")):
                assert index.statistics(_TERMS, selected(scope)) == index.statistics(_TERMS, selected(same_scope))
                left = index.counts(_TERMS, selected(scope), np.array(together))
                right = index.counts(_TERMS, selected(same_scope), np.array(alone))
                assert (left.lengths.tolist(), left.counts.tolist()) == (right.lengths.tolist(), right.counts.tolist())
        assert index.statistics(_TERMS, facts_in("a")).frequencies == {"tea": 1, "coffe": 0, "milk": 1, "pepper": 0}
        assert index.verify().problems == ()

    def test_nothing_is_known_of_an_empty_scope(self, ledger: SQLLedger, index: PostingsKeywordIndex) -> None:
        for selection in (facts_in(), _EVERY, facts_in(include_child_scopes=True)):
            statistics = index.statistics(_TERMS, selection)
            assert (statistics.passages, statistics.average_length) == (0, 1)
            assert statistics.frequencies == dict.fromkeys(_TERMS, 0)
            assert index.counts(_TERMS, selection, np.empty(0, np.int64)).counts.shape == (4, 0)
        (passage,) = store_facts(ledger, index, ["tea"])
        assert index.statistics([], facts_in()).frequencies == {}
        assert index.counts([], facts_in(), np.array([passage])).lengths.tolist() == [1]

    def test_both_fields_count_together_or_the_whole_alone(
        self, ledger: SQLLedger, index: PostingsKeywordIndex
    ) -> None:
        whole, turns = "They had tea", ["tea and milk", "coffee", "more milk"]
        ids = _store_with_turns(ledger, index, whole, turns)
        _tells(index, _WHOLE, [whole], ids, [whole, "", "", ""])
        _tells(index, _EVERY, [whole, *turns], ids[::-1], [whole, *turns][::-1])

    @pytest.mark.parametrize("selection", [_WHOLE, _EVERY], ids=["whole", "every passage"])
    def test_a_search_sees_the_fields_that_are_asked_for(
        self, ledger: SQLLedger, index: PostingsKeywordIndex, selection: Selection
    ) -> None:
        ids = _store_with_turns(ledger, index, "They had milk", ["tea time", "milk"])
        assert sorted(index.search(["milk"], selection, limit=9).passages) == [
            passage for passage in ids if passage != ids[1] and (selection.every_passage or passage == ids[0])
        ]
        assert index.search(["tea"], selection, limit=9).passages == ([ids[1]] if selection.every_passage else [])

    def test_a_removed_passage_is_counted_no_more(self, ledger: SQLLedger, index: PostingsKeywordIndex) -> None:
        first, gone, last = store_facts(ledger, index, ["tea", "tea pepper", "milk"])
        _tells(index, facts_in(), ["tea", "tea pepper", "milk"], [gone], ["tea pepper"])
        remove(ledger, index, SCOPE, "f1")
        _tells(index, facts_in(), ["tea", "milk"], [last, gone, first], ["milk", "", "tea"])

    def test_an_episode_that_is_removed_takes_its_turns_along(
        self, ledger: SQLLedger, index: PostingsKeywordIndex
    ) -> None:
        gone = _store_with_turns(ledger, index, "They had tea", ["tea and milk", "coffee"])
        (kept,) = store(ledger, index, [episode("e2", "milk")])
        index.statistics(_TERMS, _EVERY)
        remove(ledger, index, SCOPE, "e1")
        _tells(index, _EVERY, ["milk"], [*gone, kept], ["", "", "", "milk"])

    def test_what_is_expired_or_invalid_counts_in_the_statistics(
        self, ledger: SQLLedger, index: PostingsKeywordIndex
    ) -> None:
        texts = ["tea", "tea milk", "coffee"]
        soon = NOW + timedelta(hours=1)
        memories = [fact("f1", texts[0], expires_at=soon), fact("f2", texts[1]), fact("f3", texts[2])]
        ids = store(ledger, index, memories)
        ledger.invalidate(scope=SCOPE, id="f2", at=NOW)
        _tells(index, facts_in(now=soon), texts, ids[2:], texts[2:])

    def test_the_scopes_below_count_along_when_they_are_searched(
        self, ledger: SQLLedger, index: PostingsKeywordIndex
    ) -> None:
        texts = {SCOPE: "tea", f"{SCOPE}/work": "tea milk", f"{SCOPE}0": "pepper tea", "user": "coffee"}
        ids = store(ledger, index, [fact("f1", text, scope=scope) for scope, text in texts.items()])
        _tells(index, facts_in(), ["tea"], ids, ["tea", "", "", ""])
        _tells(index, facts_in(include_child_scopes=True), ["tea", "tea milk"], ids, ["tea", "tea milk", "", ""])

    def test_new_passages_count_at_once_and_those_that_are_undone_do_not(
        self, ledger: SQLLedger, index: PostingsKeywordIndex
    ) -> None:
        def store_and_fail() -> None:
            with ledger.database.write():
                ids = store_facts(ledger, index, ["tea milk"])
                _tells(index, facts_in(), ["tea", "tea milk"], ids, ["tea milk"])
                raise ZeroDivisionError

        (first,) = store_facts(ledger, index, ["tea"])
        with pytest.raises(ZeroDivisionError):
            store_and_fail()
        _tells(index, facts_in(), ["tea"], [first], ["tea"])
        (last,) = store_facts(ledger, index, ["pepper pepper"])
        _tells(index, facts_in(), ["tea", "pepper pepper"], [last, first], ["pepper pepper", "tea"])

    def test_a_removal_that_is_undone_counts_again(self, ledger: SQLLedger, index: PostingsKeywordIndex) -> None:
        def remove_and_fail() -> None:
            with ledger.database.write():
                index.remove(ledger.passages_of(SCOPE))
                index.statistics(_TERMS, facts_in())
                ledger.remove_scope(SCOPE, include_child_scopes=True)
                assert index.statistics(_TERMS, facts_in()).passages == 0
                raise ZeroDivisionError

        ids = store_facts(ledger, index, ["tea", "milk milk"])
        with pytest.raises(ZeroDivisionError):
            remove_and_fail()
        _tells(index, facts_in(), ["tea", "milk milk"], ids, ["tea", "milk milk"])


def _store_with_turns(ledger: SQLLedger, index: PostingsKeywordIndex, whole: str, turns: Sequence[str]) -> list[int]:
    """Store an episode with its messages, and give the ids of the passages: the whole first."""
    parts = [("episodic", whole), *((f"turn {place}", text) for place, text in enumerate(turns))]
    with ledger.database.write():
        new = [NewPassage(part=part, text=text, vector=_NO_VECTOR) for part, text in parts]
        passages = ledger.add([episode("e1", whole)], [new])
        index.add(passages)
    return [passage.id for passage in passages]


def _tells(
    index: PostingsKeywordIndex,
    selection: Selection,
    texts: Sequence[str],
    passages: Sequence[int],
    theirs: Sequence[str],
) -> None:
    """Check what the index says of a scope of these texts, and of these passages, whose texts are given."""
    documents = [Counter(analyze(text)) for text in texts]
    statistics = index.statistics(_TERMS, selection)
    assert statistics.passages == len(texts)
    assert statistics.average_length == pytest.approx(sum(map(Counter.total, documents)) / len(texts))
    assert statistics.frequencies == {term: sum(term in document for document in documents) for term in _TERMS}
    asked = [Counter(analyze(text)) for text in theirs]
    counts = index.counts(_TERMS, selection, np.array(passages, np.int64))
    assert counts.lengths.tolist() == [document.total() for document in asked]
    assert counts.counts.tolist() == [[document[term] for document in asked] for term in _TERMS]
