"""A ledger says which passages a search may see, and hands out what stands in them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.samples import (
    ALIKE,
    BELOW,
    BESIDE,
    NOW,
    SCOPE,
    add,
    episode,
    episodes_in,
    exploring,
    fact,
    facts_in,
    fresh_scope,
    indexed,
)
from memory_retrievers.backends.sql.ledger import SQLLedger
from memory_retrievers.models import AnyMemory, Category
from memory_retrievers.models.fields import microseconds
from memory_retrievers.models.selection import ForgettingState, NewPassage, Selection

_SOON = NOW + timedelta(microseconds=1)
_NOWHERE = 10**9

_NUMBERS = st.floats(width=32, allow_nan=False, allow_infinity=False)


class PassageContract:
    """Selections, texts, vectors and owners."""

    def test_passages_are_numbered_upwards_in_the_order_given(self, ledger: SQLLedger) -> None:
        memories: list[AnyMemory] = [fact("f1", "one"), episode("e1", "two", scope="other"), fact("f2", "three")]
        stored = add(ledger, memories) + add(ledger, [fact("f3", "four")])
        assert [passage.text for passage in stored] == ["one", "two", "three", "four"]
        assert [passage.scope for passage in stored] == [SCOPE, "other", SCOPE, SCOPE]
        assert [passage.kind for passage in stored] == ["semantic", "episodic", "semantic", "semantic"]
        ids = [passage.id for passage in stored]
        assert ids == sorted(set(ids))

    def test_a_memory_has_as_many_passages_as_it_is_given(self, ledger: SQLLedger) -> None:
        parts = [NewPassage(part=f"turn {n}", text=f"text {n}", vector=np.zeros(4, np.float32)) for n in range(3)]
        stored = ledger.add([episode("e1"), episode("e2")], [parts, []])
        ids = [passage.id for passage in stored]
        assert ledger.eligible(replace(episodes_in(), every_passage=True)) == ids
        assert ledger.texts(ids) == dict(zip(ids, ["text 0", "text 1", "text 2"], strict=True))
        (row,) = set(ledger.owners(ids).values())
        assert ledger.load([row]) == {row: episode("e1")}

    def test_texts_come_back_and_missing_ones_are_left_out(self, ledger: SQLLedger) -> None:
        text = "Fünf 咖啡\x00☕ 'quoted' \"twice\""
        (passage,) = add(ledger, [fact("f1", text)])
        assert ledger.texts([_NOWHERE, passage.id]) == {passage.id: text}
        assert ledger.texts([]) == {}

    @exploring
    @given(rows=st.lists(st.lists(_NUMBERS, min_size=3, max_size=3), min_size=1))
    def test_vectors_come_back_to_the_last_bit(self, ledger: SQLLedger, rows: list[list[float]]) -> None:
        vectors, scope = np.array(rows, np.float32), fresh_scope()
        stored = add(ledger, [fact(str(n), scope=scope) for n in range(len(rows))], vectors)
        ids, kept = ledger.vectors([passage.id for passage in stored])
        assert ids == [passage.id for passage in stored]
        assert kept.dtype == np.float32
        assert kept.shape == vectors.shape
        assert kept.tobytes() == vectors.tobytes()

    def test_vectors_are_ordered_by_id_and_missing_ones_left_out(self, ledger: SQLLedger) -> None:
        vectors = np.eye(3, dtype=np.float32)
        first, second, third = (each.id for each in add(ledger, [fact("f1"), fact("f2"), fact("f3")], vectors))
        ids, kept = ledger.vectors([third, _NOWHERE, first])
        assert ids == [first, third]
        assert kept.tolist() == vectors[[0, 2]].tolist()
        assert second not in ids

    def test_no_passages_have_no_vectors(self, ledger: SQLLedger) -> None:
        for passages in ([], [_NOWHERE]):
            ids, kept = ledger.vectors(passages)
            assert ids == []
            assert len(kept) == 0

    def test_owners_of_missing_passages_are_left_out(self, ledger: SQLLedger) -> None:
        first, second = (passage.id for passage in add(ledger, [fact("f1"), fact("f2")]))
        assert list(ledger.owners([_NOWHERE, second])) == [second]
        assert ledger.owners([]) == {}
        assert len(set(ledger.owners([first, second]).values())) == 2

    def test_forgetting_states_are_those_of_episodes_to_the_last_digit(self, ledger: SQLLedger) -> None:
        moved = episode("e1").model_copy(update={"last_reviewed_at": _SOON, "stability": 0.1 + 0.2})
        ids = [passage.id for passage in add(ledger, [fact("f1"), moved, episode("e2")])]
        of_fact, *of_episodes = (ledger.owners(ids)[passage] for passage in ids)
        states = ledger.forgetting_states([_NOWHERE, of_fact, *of_episodes])
        expected = [ForgettingState(0.1 + 0.2, microseconds(_SOON)), ForgettingState(2.5, microseconds(NOW))]
        assert states == dict(zip(of_episodes, expected, strict=True))
        assert ledger.forgetting_states([]) == {}

    def test_a_scope_is_compared_exactly(self, ledger: SQLLedger) -> None:
        passages = add(ledger, [fact(f"f{number}", scope=scope) for number, scope in enumerate(ALIKE)])
        own = {passage.scope: [passage.id] for passage in passages}
        assert {scope: ledger.eligible(facts_in(scope)) for scope in ALIKE} == own
        assert {scope: indexed(ledger, facts_in(scope)) for scope in ALIKE} == own

    def test_child_scopes_are_all_below_and_none_beside(self, ledger: SQLLedger) -> None:
        memories = [fact("f1", scope=scope) for scopes in zip(BESIDE, BELOW, strict=False) for scope in scopes]
        stored = add(ledger, [*memories, fact("f1"), *(fact("f2", scope=scope) for scope in BESIDE)])
        inside = [passage.id for passage in stored if passage.scope in {SCOPE, *BELOW}]
        selection = facts_in(include_child_scopes=True)
        assert len(inside) == 1 + len(BELOW)
        assert ledger.eligible(selection) == inside
        assert indexed(ledger, selection) == inside

    @pytest.mark.parametrize("scope", ["100%", "a_b", "a*", "[ab]", "a\\b", "a'b", 'a"b'])
    def test_no_scope_is_a_pattern_for_its_children(self, ledger: SQLLedger, scope: str) -> None:
        scopes = [scope, f"{scope}/below", "100x/below", "aXb/below", "ab/below", "a/below", "b/below"]
        stored = add(ledger, [fact("f1", scope=each) for each in scopes])
        assert ledger.eligible(facts_in(scope, include_child_scopes=True)) == [passage.id for passage in stored[:2]]

    def test_children_are_seen_below_a_scope_that_holds_nothing_itself(self, ledger: SQLLedger) -> None:
        (passage,) = add(ledger, [fact("f1", scope="user/1/work")])
        assert ledger.eligible(facts_in("user", include_child_scopes=True)) == [passage.id]

    def test_the_kinds_are_apart(self, ledger: SQLLedger) -> None:
        of_fact, of_episode = (passage.id for passage in add(ledger, [fact("f1"), episode("e1")]))
        assert ledger.eligible(facts_in()) == [of_fact]
        assert ledger.eligible(episodes_in()) == [of_episode]
        assert indexed(ledger, facts_in()) == [of_fact]
        assert indexed(ledger, episodes_in()) == [of_episode]

    @pytest.mark.parametrize("expired", [fact("gone", expires_at=NOW), episode("gone", expires_at=NOW)])
    def test_a_memory_is_invisible_from_the_moment_it_expires(self, ledger: SQLLedger, expired: AnyMemory) -> None:
        soon = expired.model_copy(update={"id": "soon", "expires_at": _SOON})
        never = expired.model_copy(update={"id": "never", "expires_at": None})
        _, *kept = (passage.id for passage in add(ledger, [expired, soon, never]))
        selection = Selection(scope=SCOPE, kind=expired.kind, now=NOW)
        assert ledger.eligible(selection) == kept

    def test_an_invalidated_fact_is_invisible(self, ledger: SQLLedger) -> None:
        ids = [passage.id for passage in add(ledger, [fact("f1"), fact("f2"), fact("f3", invalid_at=NOW)])]
        assert ledger.eligible(facts_in()) == ids[:2]
        ledger.invalidate(scope=SCOPE, id="f1", at=NOW)
        assert ledger.eligible(facts_in()) == [ids[1]]

    def test_a_category_lets_only_its_own_facts_through(self, ledger: SQLLedger) -> None:
        ids = [passage.id for passage in add(ledger, [fact(category, category=category) for category in Category])]
        for category, passage in zip(Category, ids, strict=True):
            assert ledger.eligible(facts_in(category=category)) == [passage]
        assert ledger.eligible(facts_in()) == ids

    def test_words_are_counted_over_every_passage_whatever_its_state(self, ledger: SQLLedger) -> None:
        memories = [fact("f1"), fact("f2", invalid_at=NOW), fact("f3", expires_at=NOW)]
        ids = [passage.id for passage in add(ledger, memories)]
        assert indexed(ledger, facts_in(category=Category.GOAL)) == ids

    def test_an_unknown_scope_holds_nothing(self, ledger: SQLLedger) -> None:
        add(ledger, [fact("f1")])
        for selection in (facts_in("nobody"), facts_in("nobody", include_child_scopes=True)):
            assert ledger.eligible(selection) == []
            assert indexed(ledger, selection) == []
