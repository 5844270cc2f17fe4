"""A ledger gathers new vectors beside those in use, until there is one for every passage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from contracts.samples import SCOPE, add, episode, fact, facts_in
from memory_retrievers.backends.sql.ledger import SQLLedger
from memory_retrievers.models import AnyMemory, MemoryKey
from memory_retrievers.models.selection import NewPassage

if TYPE_CHECKING:
    from memory_retrievers.models.selection import Vectors

_LIMIT = 100


def _new(count: int) -> Vectors:
    return np.arange(1, 2 * count + 1, dtype=np.float32).reshape(count, 2)


class NewVectorsContract:
    """Vectors of another embedder."""

    def test_every_passage_is_missing_until_it_has_a_new_vector(self, ledger: SQLLedger) -> None:
        memories: list[AnyMemory] = [fact("f1", "tea"), episode("e1", "tea time", scope="other"), fact("f2", "milk")]
        first, second, third = add(ledger, memories)
        missing = ledger.new_vectors.missing(limit=_LIMIT)
        assert [(each.id, each.memory, each.part, each.text) for each in missing] == [
            (first.id, first.memory, "semantic", "tea"),
            (second.id, second.memory, "episodic", "tea time"),
            (third.id, third.memory, "semantic", "milk"),
        ]
        ledger.new_vectors.keep([first.id, third.id], _new(2))
        assert [each.id for each in ledger.new_vectors.missing(limit=_LIMIT)] == [second.id]
        assert ledger.new_vectors.counts() == (2, 3)

    def test_missing_passages_come_in_pages(self, ledger: SQLLedger) -> None:
        ids = [passage.id for passage in add(ledger, [fact(str(n)) for n in range(5)])]
        ledger.new_vectors.keep(ids[2:3], _new(1))
        assert [each.id for each in ledger.new_vectors.missing(limit=2)] == ids[:2]
        assert [each.id for each in ledger.new_vectors.missing(after=ids[1], limit=2)] == ids[3:]
        assert ledger.new_vectors.missing(after=ids[-1], limit=2) == []

    def test_the_vectors_in_use_stay_until_the_new_ones_take_over_to_the_last_bit(self, ledger: SQLLedger) -> None:
        old, new = np.eye(3, dtype=np.float32), np.random.default_rng(1).random((3, 2), np.float32)
        ids = [passage.id for passage in add(ledger, [fact(str(n)) for n in range(3)], old)]
        ledger.new_vectors.begin("small")
        ledger.new_vectors.keep(ids, new)
        assert ledger.vectors(ids)[1].tobytes() == old.tobytes()
        ledger.new_vectors.take_over()
        assert ledger.vectors(ids)[0] == ids
        assert ledger.vectors(ids)[1].tobytes() == new.tobytes()
        assert ledger.eligible(facts_in()) == ids
        assert (ledger.new_vectors.label(), ledger.new_vectors.counts()) == (None, (0, 3))

    def test_a_passage_without_a_new_vector_keeps_the_one_it_has(self, ledger: SQLLedger) -> None:
        first, second = add(ledger, [fact("f1"), fact("f2")], np.eye(2, dtype=np.float32))
        ledger.new_vectors.keep([first.id], _new(1))
        ledger.new_vectors.take_over()
        assert ledger.vectors([first.id, second.id])[1].tolist() == [[1.0, 2.0], [0.0, 1.0]]

    def test_a_new_label_drops_what_was_gathered_under_another(self, ledger: SQLLedger) -> None:
        (passage,) = add(ledger, [fact("f1")])
        assert ledger.new_vectors.label() is None
        ledger.new_vectors.begin("first")
        ledger.new_vectors.keep([passage.id], _new(1))
        assert (ledger.new_vectors.label(), ledger.new_vectors.counts()) == ("first", (1, 1))
        ledger.new_vectors.begin("second")
        assert (ledger.new_vectors.label(), ledger.new_vectors.counts()) == ("second", (0, 1))

    def test_a_vector_kept_again_is_the_one_that_counts(self, ledger: SQLLedger) -> None:
        (passage,) = add(ledger, [fact("f1")])
        for vector in ([[1.0, 0.0]], [[0.0, 1.0]]):
            ledger.new_vectors.keep([passage.id], np.array(vector, np.float32))
        ledger.new_vectors.take_over()
        assert ledger.vectors([passage.id])[1].tolist() == [[0.0, 1.0]]

    def test_new_vectors_go_with_their_passages(self, ledger: SQLLedger) -> None:
        removed, replaced, stays = add(ledger, [fact("removed"), fact("replaced"), fact("stays")])
        ledger.new_vectors.keep([removed.id, replaced.id, stays.id], _new(3))
        ledger.remove([MemoryKey(scope=SCOPE, id="removed")])
        passage = NewPassage(part="semantic", text="coffee", vector=np.ones(4, np.float32))
        (replacement,) = ledger.replace(fact("replaced", "coffee"), [passage])
        assert ledger.new_vectors.counts() == (1, 2)
        assert [each.id for each in ledger.new_vectors.missing(limit=_LIMIT)] == [replacement.id]

    def test_a_vector_of_a_passage_that_is_gone_is_left_out(self, ledger: SQLLedger) -> None:
        gone, stays = add(ledger, [fact("gone"), fact("stays")])
        ledger.remove([MemoryKey(scope=SCOPE, id="gone")])
        ledger.new_vectors.keep([gone.id, stays.id], _new(2))
        assert ledger.new_vectors.counts() == (1, 1)

    def test_new_vectors_take_over_with_their_transaction_or_not_at_all(self, ledger: SQLLedger) -> None:
        (passage,) = add(ledger, [fact("f1")], np.ones((1, 2), np.float32))
        ledger.new_vectors.begin("small")
        ledger.new_vectors.keep([passage.id], _new(1))

        def take_over_and_fail() -> None:
            with ledger.database.write():
                ledger.new_vectors.take_over()
                assert ledger.vectors([passage.id])[1].tolist() == [[1.0, 2.0]]
                raise RuntimeError

        with pytest.raises(RuntimeError):
            take_over_and_fail()
        assert ledger.vectors([passage.id])[1].tolist() == [[1.0, 1.0]]
        assert (ledger.new_vectors.label(), ledger.new_vectors.counts()) == ("small", (1, 1))

    def test_an_empty_ledger_misses_nothing(self, ledger: SQLLedger) -> None:
        assert ledger.new_vectors.missing(limit=_LIMIT) == []
        ledger.new_vectors.keep([], np.empty((0, 0), np.float32))
        ledger.new_vectors.take_over()
        assert ledger.new_vectors.counts() == (0, 0)
