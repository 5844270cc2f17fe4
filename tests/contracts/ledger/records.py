"""A ledger keeps what it is given and hands it out unchanged."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given

from contracts.samples import (
    ALIKE,
    NOW,
    SCOPE,
    add,
    episode,
    exploring,
    fact,
    facts_in,
    fresh_scope,
    indexed,
    review,
)
from contracts.strategies import memories
from memory_retrievers.backends.sql.ledger import SQLLedger
from memory_retrievers.models import AnyMemory, EpisodicMemory, MemoryKey, ScopeStatistics, SemanticMemory


class RecordContract:
    """Memories, counts and notes."""

    @exploring
    @given(memory=memories())
    def test_every_field_of_a_memory_comes_back_as_it_was_given(self, ledger: SQLLedger, memory: AnyMemory) -> None:
        memory = memory.model_copy(update={"scope": fresh_scope()})
        ledger.add([memory], [[]])
        kept = ledger.get(scope=memory.scope, id=memory.id)
        assert kept == memory
        assert kept is not None
        assert {name: type(value) for name, value in kept} == {name: type(value) for name, value in memory}

    def test_a_long_text_comes_back_whole(self, ledger: SQLLedger) -> None:
        memory = fact("f1", "Fünf 咖啡 ☕\n" * 50_000)
        add(ledger, [memory])
        assert ledger.get(scope=SCOPE, id="f1") == memory

    def test_a_memory_loaded_by_its_row_is_the_one_got_by_its_id(self, ledger: SQLLedger) -> None:
        memories: list[AnyMemory] = [fact("f1"), episode("e1"), fact("f1", scope="other")]
        passages = add(ledger, memories)
        rows = ledger.owners([passage.id for passage in passages])
        loaded = ledger.load(list(rows.values()))
        assert [loaded[rows[passage.id]] for passage in passages] == memories

    def test_rows_that_do_not_exist_are_left_out_when_loading(self, ledger: SQLLedger) -> None:
        (passage,) = add(ledger, [fact("f1")])
        row = ledger.owners([passage.id])[passage.id]
        assert list(ledger.load([row + 1_000, row])) == [row]
        assert ledger.load([]) == {}

    def test_those_that_exist_are_told_from_those_that_do_not_by_scope_and_id(self, ledger: SQLLedger) -> None:
        add(ledger, [fact("f1"), fact("f2"), fact("f1", scope="user/2")])
        ledger.invalidate(scope=SCOPE, id="f2", at=NOW)
        there = {MemoryKey(scope=SCOPE, id="f1"), MemoryKey(scope=SCOPE, id="f2"), MemoryKey(scope="user/2", id="f1")}
        elsewhere = {MemoryKey(scope="user/2", id="f2"), MemoryKey(scope="nowhere", id="f1")}
        assert ledger.present([*there, *elsewhere]) == there
        assert ledger.present([]) == set()

    def test_after_reading_together_the_newest_is_read_again(self, ledger: SQLLedger) -> None:
        add(ledger, [fact("f1")])
        with ledger.database.reading(), ledger.database.reading():
            assert ledger.get(scope=SCOPE, id="f1") is not None
            assert ledger.eligible(facts_in()) == indexed(ledger, facts_in())
        ledger.remove([MemoryKey(scope=SCOPE, id="f1")])
        with ledger.database.reading():
            assert ledger.get(scope=SCOPE, id="f1") is None
            assert ledger.eligible(facts_in()) == []

    def test_what_fails_while_reading_together_does_not_last(self, ledger: SQLLedger) -> None:
        def fail() -> None:
            with ledger.database.reading():
                ledger.scopes()
                raise RuntimeError

        with pytest.raises(RuntimeError):
            fail()
        add(ledger, [fact("f1")])
        assert ledger.scopes() == [SCOPE]

    def test_an_unknown_id_is_none(self, ledger: SQLLedger) -> None:
        add(ledger, [fact("f1")])
        assert ledger.get(scope=SCOPE, id="f2") is None
        assert ledger.get(scope=SCOPE, id="F1") is None
        assert ledger.get(scope="nobody", id="f1") is None

    def test_a_memory_is_got_whatever_its_state(self, ledger: SQLLedger) -> None:
        memories: list[AnyMemory] = [fact("invalidated", invalid_at=NOW), episode("expired", expires_at=NOW)]
        add(ledger, memories)
        assert [ledger.get(scope=SCOPE, id=memory.id) for memory in memories] == memories

    def test_the_same_id_in_two_scopes_is_two_memories(self, ledger: SQLLedger) -> None:
        own = {scope: fact("f1", f"that of {scope}", scope=scope) for scope in ALIKE}
        add(ledger, list(own.values()))
        assert {scope: ledger.get(scope=scope, id="f1") for scope in ALIKE} == own

    def test_ids_are_compared_exactly(self, ledger: SQLLedger) -> None:
        memories = list(map(fact, ("a", "A", "a ", "ä", "a\u0308", "%", "_", "1", "01", "1.0")))
        add(ledger, memories)
        assert [ledger.get(scope=SCOPE, id=memory.id) for memory in memories] == memories

    def test_an_invalidated_fact_says_since_when_and_is_otherwise_unchanged(self, ledger: SQLLedger) -> None:
        memory, at = fact("f1"), NOW + timedelta(microseconds=1)
        add(ledger, [memory])
        ledger.invalidate(scope=SCOPE, id="f1", at=at)
        kept = ledger.get(scope=SCOPE, id="f1")
        assert isinstance(kept, SemanticMemory)
        assert kept == memory.model_copy(update={"invalid_at": at, "updated_at": kept.updated_at})

    def test_a_fact_that_is_invalidated_already_stays_as_it_was(self, ledger: SQLLedger) -> None:
        add(ledger, [fact("f1")])
        ledger.invalidate(scope=SCOPE, id="f1", at=NOW)
        kept = ledger.get(scope=SCOPE, id="f1")
        ledger.invalidate(scope=SCOPE, id="f1", at=NOW + timedelta(days=1))
        assert ledger.get(scope=SCOPE, id="f1") == kept

    def test_invalidating_touches_no_other_memory(self, ledger: SQLLedger) -> None:
        memories: list[AnyMemory] = [fact("f1", scope="other"), fact("f2"), episode("f1", scope="episodes")]
        add(ledger, [fact("f1"), *memories])
        ledger.invalidate(scope=SCOPE, id="f1", at=NOW)
        ledger.invalidate(scope=SCOPE, id="unknown", at=NOW)
        ledger.invalidate(scope="episodes", id="f1", at=NOW)
        assert [ledger.get(scope=memory.scope, id=memory.id) for memory in memories] == memories

    def test_recent_gives_the_newest_episodes_first(self, ledger: SQLLedger) -> None:
        order = [3, 1, 4, 0, 2]
        add(ledger, [episode(f"e{age}", created_at=NOW - timedelta(days=age)) for age in order])
        add(ledger, [fact("f1"), episode("elsewhere", scope="user/10"), episode("below", scope="user/1/work")])
        recent = ledger.recent(EpisodicMemory, scope=SCOPE, limit=4, now=NOW, since=None)
        assert [memory.id for memory in recent] == ["e0", "e1", "e2", "e3"]
        assert recent[0] == ledger.get(scope=SCOPE, id="e0")

    def test_recent_looks_back_no_further_than_asked(self, ledger: SQLLedger) -> None:
        add(ledger, [episode(f"e{age}", created_at=NOW - timedelta(days=age)) for age in range(3)])
        recent = ledger.recent(EpisodicMemory, scope=SCOPE, limit=10, now=NOW, since=NOW - timedelta(days=1))
        assert [memory.id for memory in recent] == ["e0", "e1"]

    def test_recent_leaves_out_what_has_expired(self, ledger: SQLLedger) -> None:
        add(ledger, [episode("gone", expires_at=NOW), episode("kept", expires_at=NOW + timedelta(microseconds=1))])
        assert [memory.id for memory in ledger.recent(EpisodicMemory, scope=SCOPE, limit=1, now=NOW, since=None)] == [
            "kept"
        ]

    def test_scopes_are_those_that_hold_a_memory_sorted(self, ledger: SQLLedger) -> None:
        assert ledger.scopes() == []
        scopes = ["user/10", "b", "User/1", "user/1", "é", "user/1/work", "a"]
        add(ledger, [memory for scope in scopes for memory in (fact("f1", scope=scope), episode("e1", scope=scope))])
        ledger.add_pending_reviews([review(scope="only/a/review")])
        assert ledger.scopes() == sorted(scopes)

    def test_statistics_count_one_scope_or_all(self, ledger: SQLLedger) -> None:
        add(ledger, [episode("e1"), episode("e2"), fact("f1"), fact("f2", invalid_at=NOW), fact("f3")])
        add(ledger, [fact("f1", scope="user/10"), episode("e1", scope="user/1/work")])
        ledger.add_pending_reviews([review(), review(scope="user/10")])
        assert ledger.statistics(SCOPE) == ScopeStatistics(episodes=2, facts=2, invalidated_facts=1, pending_reviews=1)
        assert ledger.statistics(None) == ScopeStatistics(episodes=3, facts=3, invalidated_facts=1, pending_reviews=2)
        assert ledger.statistics("nobody") == ScopeStatistics()

    def test_notes_are_added_to_and_written_over(self, ledger: SQLLedger) -> None:
        assert ledger.notes() == {}
        ledger.write_notes({"embedder": "first", "Größe": "256"})
        ledger.write_notes({"embedder": "second", "empty": ""})
        assert ledger.notes() == {"embedder": "second", "Größe": "256", "empty": ""}

    def test_a_note_that_is_not_to_be_replaced_stays(self, ledger: SQLLedger) -> None:
        ledger.write_notes({"embedder": "first"})
        ledger.write_notes({"embedder": "second", "dimension": "4"}, replace=False)
        assert ledger.notes() == {"embedder": "first", "dimension": "4"}
