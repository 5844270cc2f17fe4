"""A ledger writes all or nothing, serves many threads, and ends cleanly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import pytest

from contracts.samples import (
    NOW,
    SCOPE,
    THREADS,
    add,
    at_once,
    episode,
    fact,
    facts_in,
    indexed,
    review,
)
from memory_retrievers.backends.sql.ledger import SQLLedger
from memory_retrievers.errors import MemoryRetrieversError, ValidationError
from memory_retrievers.models import EpisodicMemory, MemoryKey
from memory_retrievers.models.selection import Listing, Passage

_PER_THREAD: Final = 10

_CALLS: Final[dict[str, Callable[[SQLLedger], object]]] = {
    "add": lambda ledger: add(ledger, [fact("f1")]),
    "get": lambda ledger: ledger.get(scope=SCOPE, id="f1"),
    "invalidate": lambda ledger: ledger.invalidate(scope=SCOPE, id="f1", at=NOW),
    "replace": lambda ledger: ledger.replace(fact("f1")),
    "remove": lambda ledger: ledger.remove([MemoryKey(scope=SCOPE, id="f1")]),
    "remove_scope": lambda ledger: ledger.remove_scope(SCOPE, include_child_scopes=True),
    "purge": lambda ledger: ledger.purge(),
    "passages_of": lambda ledger: ledger.passages_of(SCOPE),
    "page": lambda ledger: ledger.page(Listing(scope=SCOPE, now=NOW), after=None, limit=1),
    "expired": lambda ledger: ledger.expired(NOW),
    "eligible": lambda ledger: ledger.eligible(facts_in()),
    "indexed": lambda ledger: indexed(ledger, facts_in()),
    "vectors": lambda ledger: ledger.vectors([1]),
    "texts": lambda ledger: ledger.texts([1]),
    "owners": lambda ledger: ledger.owners([1]),
    "forgetting_states": lambda ledger: ledger.forgetting_states([1]),
    "load": lambda ledger: ledger.load([1]),
    "recent": lambda ledger: ledger.recent(EpisodicMemory, scope=SCOPE, limit=1, now=NOW, since=None),
    "scopes": lambda ledger: ledger.scopes(),
    "statistics": lambda ledger: ledger.statistics(None),
    "notes": lambda ledger: ledger.notes(),
    "write_notes": lambda ledger: ledger.write_notes({"name": "value"}),
    "add_pending_reviews": lambda ledger: ledger.add_pending_reviews([review()]),
    "pending_reviews": lambda ledger: ledger.pending_reviews(SCOPE),
}


class _Interruption(Exception):  # noqa: N818 - it stands for any exception
    """Ends a transaction that had written passages."""

    def __init__(self, written: Sequence[Passage] = ()) -> None:
        super().__init__("the transaction is interrupted")
        self.written = written


def _fail_after_writing(ledger: SQLLedger) -> None:
    """Write in every way there is, then raise."""
    with ledger.database.write():
        written = add(ledger, [fact("new"), episode("new", scope="new")])
        ledger.invalidate(scope=SCOPE, id="old", at=NOW)
        ledger.write_notes({"new": "note"})
        ledger.add_pending_reviews([review()])
        raise _Interruption(written)


def _holds_only(ledger: SQLLedger, id: str) -> bool:
    kept = ledger.get(scope=SCOPE, id=id)
    return (
        kept == fact(id)
        and ledger.scopes() == [SCOPE]
        and len(indexed(ledger, facts_in())) == 1
        and not ledger.notes()
        and not ledger.pending_reviews(SCOPE)
    )


class TransactionContract:
    """All or nothing, in one thread and in many, until the end."""

    def test_what_a_transaction_wrote_is_kept(self, ledger: SQLLedger) -> None:
        with ledger.database.write():
            add(ledger, [fact("f1")])
            ledger.write_notes({"name": "value"})
        assert ledger.get(scope=SCOPE, id="f1") == fact("f1")
        assert ledger.notes() == {"name": "value"}

    def test_a_transaction_that_raises_keeps_nothing_and_passes_the_exception_on(self, ledger: SQLLedger) -> None:
        add(ledger, [fact("old")])
        with pytest.raises(_Interruption):
            _fail_after_writing(ledger)
        assert _holds_only(ledger, "old")

    def test_after_a_failed_transaction_the_same_can_be_written_again(self, ledger: SQLLedger) -> None:
        with pytest.raises(_Interruption):
            _fail_after_writing(ledger)
        add(ledger, [fact("new")])
        assert _holds_only(ledger, "new")

    def test_a_transaction_sees_its_own_writes(self, ledger: SQLLedger) -> None:
        with ledger.database.write():
            (passage,) = add(ledger, [fact("f1")])
            assert ledger.get(scope=SCOPE, id="f1") == fact("f1")
            assert ledger.eligible(facts_in()) == [passage.id]

    def test_a_transaction_inside_another_joins_it(self, ledger: SQLLedger) -> None:
        def write_in_layers() -> None:
            with ledger.database.write():
                with ledger.database.write():
                    add(ledger, [fact("inner")])
                add(ledger, [fact("outer")])
                raise _Interruption

        with pytest.raises(_Interruption):
            write_in_layers()
        assert ledger.scopes() == []

    def test_a_failed_transaction_inside_another_leaves_the_others_writes(self, ledger: SQLLedger) -> None:
        with ledger.database.write():
            add(ledger, [fact("old")])
            with pytest.raises(_Interruption):
                _fail_after_writing(ledger)
        assert _holds_only(ledger, "old")

    def test_a_failed_transaction_undoes_those_that_had_joined_it(self, ledger: SQLLedger) -> None:
        def write_in_layers() -> None:
            with ledger.database.write():
                add(ledger, [fact("first")])
                with pytest.raises(_Interruption):
                    _fail_after_writing(ledger)
                raise _Interruption

        with ledger.database.write():
            add(ledger, [fact("old")])
            with pytest.raises(_Interruption):
                write_in_layers()
        assert _holds_only(ledger, "old")

    def test_ids_of_passages_are_never_used_again(self, ledger: SQLLedger) -> None:
        with pytest.raises(_Interruption) as caught:
            _fail_after_writing(ledger)
        (kept,) = add(ledger, [fact("f1")])
        assert kept.id > max(passage.id for passage in caught.value.written)

    def test_a_taken_id_is_refused_and_nothing_is_stored(self, ledger: SQLLedger) -> None:
        add(ledger, [fact("old")])
        for taken in (fact("old", "Another text"), episode("old")):
            with pytest.raises(ValidationError, match="old"):
                add(ledger, [fact("new"), taken])
            assert _holds_only(ledger, "old")

    def test_an_id_given_twice_in_one_batch_is_refused_and_nothing_is_stored(self, ledger: SQLLedger) -> None:
        with pytest.raises(ValidationError, match="twice"):
            add(ledger, [fact("once"), fact("twice"), episode("twice")])
        assert ledger.scopes() == []

    def test_a_refused_batch_leaves_the_rest_of_its_transaction(self, ledger: SQLLedger) -> None:
        with ledger.database.write():
            add(ledger, [fact("old")])
            with pytest.raises(ValidationError):
                add(ledger, [fact("new"), fact("old")])
        assert _holds_only(ledger, "old")

    def test_eight_threads_write_and_read_at_once(self, ledger: SQLLedger) -> None:
        def write_and_read(number: int) -> list[int]:
            scope, passages = f"thread/{number}", []
            for n in range(_PER_THREAD):
                memories = [fact(f"{number}-{n}"), fact(str(n), f"text {n}", scope=scope)]
                shared, own = (passage.id for passage in add(ledger, memories))
                passages.append(own)
                assert shared in ledger.eligible(facts_in())
                assert ledger.eligible(facts_in(scope)) == passages
                assert ledger.get(scope=scope, id=str(n)) == memories[1]
                assert ledger.texts([own]) == {own: f"text {n}"}
            return passages

        written = [passage for passages in at_once(write_and_read) for passage in passages]
        assert len(set(written)) == THREADS * _PER_THREAD
        assert ledger.eligible(facts_in("thread", include_child_scopes=True)) == sorted(written)
        assert len(ledger.eligible(facts_in())) == THREADS * _PER_THREAD

    def test_a_reader_sees_a_transaction_of_another_thread_whole_or_not_at_all(self, ledger: SQLLedger) -> None:
        def write_pairs_or_count(number: int) -> None:
            for n in range(_PER_THREAD):
                if number % 2:
                    assert len(ledger.eligible(facts_in())) % 2 == 0
                    continue
                with ledger.database.write():
                    add(ledger, [fact(f"{number}-{n}-first")])
                    add(ledger, [fact(f"{number}-{n}-second")])

        at_once(write_pairs_or_count)
        assert len(ledger.eligible(facts_in())) == THREADS * _PER_THREAD

    def test_one_of_eight_threads_gets_the_id_they_all_want(self, ledger: SQLLedger) -> None:
        def claim(number: int) -> int | None:
            try:
                add(ledger, [fact("wanted", f"text {number}")])
            except ValidationError:
                return None
            return number

        (winner,) = (number for number in at_once(claim) if number is not None)
        assert ledger.get(scope=SCOPE, id="wanted") == fact("wanted", f"text {winner}")
        assert len(indexed(ledger, facts_in())) == 1

    def test_closing_twice_does_nothing(self, ledger: SQLLedger) -> None:
        add(ledger, [fact("f1")])
        ledger.close()
        ledger.close()

    @pytest.mark.parametrize("call", _CALLS)
    def test_a_closed_ledger_says_so(self, ledger: SQLLedger, call: str) -> None:
        ledger.close()
        with pytest.raises(MemoryRetrieversError):
            _CALLS[call](ledger)

    def test_a_closed_ledger_begins_no_transaction(self, ledger: SQLLedger) -> None:
        ledger.close()
        with pytest.raises(MemoryRetrieversError), ledger.database.write():
            pass
