"""A ledger knows what a projection of it has still to be told."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

from contracts.samples import NOW, SCOPE, add, episode, fact
from memory_retrievers.backends.sql.ledger import SQLLedger
from memory_retrievers.errors import ValidationError
from memory_retrievers.models import Category, MemoryKey
from memory_retrievers.models.fields import microseconds
from memory_retrievers.models.selection import NewPassage
from memory_retrievers.models.storage import ProjectionState


def _feed(ledger: SQLLedger, *, limit: int = 100) -> tuple[list[int], list[int]]:
    """Carry out all batches; gives what was to be put and to be removed."""
    put: list[int] = []
    removed: list[int] = []
    while (batch := ledger.outbox.batch(limit=limit)) is not None:
        put += [passage.id for passage in batch.put]
        removed += batch.remove
        ledger.outbox.acknowledge(batch)
    return put, removed


def _begun(ledger: SQLLedger, number: int = 3) -> list[int]:
    """Some facts, f0 and so on, that a projection has been told of."""
    ledger.outbox.begin("first")
    ids = [passage.id for passage in add(ledger, [fact(f"f{n}") for n in range(number)])]
    assert _feed(ledger) == (ids, [])
    return ids


class OutboxContract:
    """What waits, what is fed, and what has changed meanwhile."""

    def test_without_a_projection_nothing_is_fed_but_everything_waits(self, ledger: SQLLedger) -> None:
        ids = [passage.id for passage in add(ledger, [fact("f1"), episode("e1")])]
        assert ledger.outbox.state() == ProjectionState(generation=None, projected=0, changed=0)
        assert sorted(ledger.outbox.waiting(at_most=10)) == ids

    def test_all_passages_are_fed_once_with_all_that_a_projection_keeps(self, ledger: SQLLedger) -> None:
        ledger.outbox.begin("first")
        vectors = np.eye(4, dtype=np.float32)[:2]
        fact_id, episode_id = (
            passage.id
            for passage in add(
                ledger, [fact("f1", category=Category.GOAL, expires_at=NOW + timedelta(days=1)), episode("e1")], vectors
            )
        )
        batch = ledger.outbox.batch(limit=10)
        assert batch is not None
        first, second = batch.put
        assert (first.id, first.memory_id, first.scope, first.kind, first.part) == (
            fact_id, "f1", SCOPE, "semantic", "semantic",
        )  # fmt: skip
        assert (first.category, first.tier, first.origin, first.text) == (
            "goal", "long_term", "api", "The user likes tea",
        )  # fmt: skip
        assert (first.created_at, first.expires_at) == (microseconds(NOW), microseconds(NOW + timedelta(days=1)))
        assert first.vector.tolist() == vectors[0].tolist()
        assert (second.id, second.kind, second.category, second.expires_at) == (episode_id, "episodic", None, None)
        ledger.outbox.acknowledge(batch)
        assert ledger.outbox.batch(limit=10) is None
        assert ledger.outbox.waiting(at_most=10) == []
        assert ledger.outbox.state() == ProjectionState(generation="first", projected=2, changed=0)

    @pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
    def test_batches_are_as_small_as_asked_and_together_everything(self, ledger: SQLLedger, limit: int) -> None:
        ledger.outbox.begin("first")
        ids = [passage.id for passage in add(ledger, [fact(f"f{n}") for n in range(7)])]
        batch = ledger.outbox.batch(limit=limit)
        assert batch is not None
        assert len(batch.put) == min(limit, 7)
        assert _feed(ledger, limit=limit) == (ids, [])

    def test_a_batch_that_is_not_acknowledged_comes_again(self, ledger: SQLLedger) -> None:
        ledger.outbox.begin("first")
        add(ledger, [fact("f1"), fact("f2")])
        first, second = ledger.outbox.batch(limit=10), ledger.outbox.batch(limit=10)
        assert first is not None
        assert second is not None
        assert [passage.id for passage in first.put] == [passage.id for passage in second.put]

    def test_what_has_gone_is_to_be_removed(self, ledger: SQLLedger) -> None:
        ids = _begun(ledger)
        ledger.remove([MemoryKey(scope=SCOPE, id="f1")])
        assert ledger.outbox.waiting(at_most=10) == [ids[1]]
        assert ledger.outbox.state() == ProjectionState(generation="first", projected=2, changed=1)
        assert _feed(ledger) == ([], [ids[1]])
        ledger.remove_scope(SCOPE, include_child_scopes=False)
        assert _feed(ledger) == ([], [ids[0], ids[2]])

    def test_an_invalidated_fact_is_to_be_removed_and_never_put(self, ledger: SQLLedger) -> None:
        ids = _begun(ledger)
        ledger.invalidate(scope=SCOPE, id="f0", at=NOW)
        assert _feed(ledger) == ([], [ids[0]])
        ledger.outbox.begin("second")
        assert _feed(ledger) == (ids[1:], [])
        assert ledger.outbox.state() == ProjectionState(generation="second", projected=2, changed=0)

    @pytest.mark.parametrize(
        "change", [{"category": Category.GOAL}, {"expires_at": NOW + timedelta(days=3)}, {"tier": "short_term"}]
    )
    def test_a_changed_memory_is_put_again(self, ledger: SQLLedger, change: dict[str, object]) -> None:
        ids = _begun(ledger)
        ledger.replace(fact("f2").model_copy(update=change))
        assert _feed(ledger) == ([ids[2]], [])

    def test_a_change_that_a_projection_does_not_show_is_not_fed(self, ledger: SQLLedger) -> None:
        _begun(ledger)
        ledger.replace(fact("f2").model_copy(update={"importance": 0.9, "tags": ("new",)}))
        assert _feed(ledger) == ([], [])

    def test_new_passages_of_a_memory_take_the_place_of_the_old(self, ledger: SQLLedger) -> None:
        ids = _begun(ledger)
        passage = NewPassage(part="semantic", text="coffee", vector=np.ones(4, np.float32))
        (new,) = ledger.replace(fact("f2", "coffee"), [passage])
        assert _feed(ledger) == ([new.id], [ids[2]])

    def test_what_goes_while_a_batch_is_under_way_is_removed_by_the_next(self, ledger: SQLLedger) -> None:
        ledger.outbox.begin("first")
        ids = [passage.id for passage in add(ledger, [fact("f0"), fact("f1")])]
        batch = ledger.outbox.batch(limit=10)
        assert batch is not None
        ledger.remove([MemoryKey(scope=SCOPE, id="f0")])
        ledger.invalidate(scope=SCOPE, id="f1", at=NOW)
        ledger.outbox.acknowledge(batch)
        assert sorted(ledger.outbox.waiting(at_most=10)) == ids
        assert _feed(ledger) == ([], ids)

    def test_what_was_under_way_before_stays_watched_when_a_smaller_batch_follows(self, ledger: SQLLedger) -> None:
        ledger.outbox.begin("first")
        ids = [passage.id for passage in add(ledger, [fact("f0"), fact("f1")])]
        assert ledger.outbox.batch(limit=10) is not None  # carried out perhaps, never acknowledged
        ledger.remove([MemoryKey(scope=SCOPE, id="f0")])
        assert ledger.outbox.batch(limit=1) is not None
        ledger.remove([MemoryKey(scope=SCOPE, id="f1")])
        assert _feed(ledger) == ([], ids)

    def test_a_batch_for_another_projection_counts_for_nothing(self, ledger: SQLLedger) -> None:
        ledger.outbox.begin("first")
        ids = [passage.id for passage in add(ledger, [fact("f0"), fact("f1")])]
        batch = ledger.outbox.batch(limit=10)
        assert batch is not None
        ledger.outbox.begin("second")
        ledger.outbox.acknowledge(batch)
        assert _feed(ledger) == (ids, [])

    def test_what_is_undone_is_neither_fed_nor_listed(self, ledger: SQLLedger) -> None:
        _begun(ledger)

        def fail() -> None:
            with ledger.database.write():
                add(ledger, [fact("g")])
                ledger.remove([MemoryKey(scope=SCOPE, id="f0")])
                add(ledger, [fact("f2")])

        with pytest.raises(ValidationError, match="f2"):
            fail()
        assert _feed(ledger) == ([], [])

    def test_more_than_asked_for_may_wait(self, ledger: SQLLedger) -> None:
        add(ledger, [fact(f"f{n}") for n in range(9)])
        assert 5 <= len(ledger.outbox.waiting(at_most=4)) <= 10

    def test_pages_of_what_is_projected_leave_out_what_waits(self, ledger: SQLLedger) -> None:
        ids = _begun(ledger, 5)
        ledger.remove([MemoryKey(scope=SCOPE, id="f1")])
        ledger.replace(fact("f3", category=Category.GOAL))
        add(ledger, [fact("g")])
        assert [passage.id for passage in ledger.outbox.projected(after=0, limit=2)] == [ids[0], ids[2]]
        assert [passage.id for passage in ledger.outbox.projected(after=ids[2], limit=2)] == [ids[4]]

    def test_what_a_projection_should_not_hold_is_told_unless_it_waits_to_go(self, ledger: SQLLedger) -> None:
        ids = _begun(ledger)
        ledger.remove([MemoryKey(scope=SCOPE, id="f1")])
        assert ledger.outbox.missing([*ids, ids[2] + 1]) == []
        _feed(ledger)
        assert ledger.outbox.missing(ids) == [ids[1]]
