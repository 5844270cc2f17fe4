"""A ledger keeps what waits to be reviewed: not twice, not for ever, and by scope."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Final

import pytest

from contracts.samples import ALIKE, NOW, SCOPE, at_once, review
from memory_retrievers.backends.sql.ledger import SQLLedger
from memory_retrievers.models import MemoryKey

_KEPT: Final = 200


class PendingReviewContract:
    """Pending reviews."""

    def test_reviews_come_back_as_they_were_filed_oldest_first(self, ledger: SQLLedger) -> None:
        reviews = [
            review("Wie heißt 'er'? 咖啡\n☕", ids=["e2", "e1"]),
            review("", created_at=NOW + timedelta(microseconds=1)),
            replace(
                review(),
                memories=(MemoryKey(scope="user/1/work", id="e/1"), MemoryKey(scope=SCOPE, id="e/1")),
                created_at=NOW + timedelta(days=1),
            ),
        ]
        ledger.add_pending_reviews(reviews[:2])
        ledger.add_pending_reviews(reviews[2:])
        assert ledger.pending_reviews(SCOPE) == reviews

    def test_reviews_that_arrive_late_are_put_in_order(self, ledger: SQLLedger) -> None:
        reviews = [review(str(n), created_at=NOW + timedelta(seconds=n)) for n in range(3)]
        ledger.add_pending_reviews([reviews[2], reviews[0], reviews[1]])
        assert ledger.pending_reviews(SCOPE) == reviews

    @pytest.mark.parametrize("seconds", [0, 1, 59])
    def test_the_same_retrieval_within_a_minute_counts_once(self, ledger: SQLLedger, seconds: int) -> None:
        first, again = review(), review(created_at=NOW + timedelta(seconds=seconds))
        ledger.add_pending_reviews([first])
        ledger.add_pending_reviews([again])
        assert ledger.pending_reviews(SCOPE) == [first]

    def test_the_same_retrieval_twice_in_one_batch_counts_once(self, ledger: SQLLedger) -> None:
        ledger.add_pending_reviews([review(), review()])
        assert ledger.pending_reviews(SCOPE) == [review()]

    @pytest.mark.parametrize("seconds", [61, -61])
    def test_the_same_retrieval_after_a_minute_counts_again(self, ledger: SQLLedger, seconds: int) -> None:
        ledger.add_pending_reviews([review()])
        ledger.add_pending_reviews([review(created_at=NOW + timedelta(seconds=seconds))])
        assert len(ledger.pending_reviews(SCOPE)) == 2

    def test_another_query_and_other_memories_count_for_themselves(self, ledger: SQLLedger) -> None:
        reviews = [review(), review("which tea?"), review(ids=["e1", "e2"]), review(ids=["e2", "e1"])]
        ledger.add_pending_reviews(reviews)
        assert ledger.pending_reviews(SCOPE) == reviews

    def test_a_scope_keeps_its_newest_two_hundred(self, ledger: SQLLedger) -> None:
        reviews = [review(str(n), created_at=NOW + timedelta(seconds=n)) for n in range(_KEPT + 10)]
        other = review(scope="user/10")
        ledger.add_pending_reviews([other, *reviews[:5]])
        ledger.add_pending_reviews(reviews[5:])
        ledger.add_pending_reviews([review("too old", created_at=NOW - timedelta(days=1))])
        assert ledger.pending_reviews(SCOPE) == reviews[10:]
        assert ledger.pending_reviews("user/10") == [other]

    def test_reviews_of_another_scope_are_not_seen(self, ledger: SQLLedger) -> None:
        ledger.add_pending_reviews([review(scope=scope) for scope in ALIKE])
        assert {scope: ledger.pending_reviews(scope) for scope in (*ALIKE, "nobody")} == {
            scope: [review(scope=scope)] for scope in ALIKE
        } | {"nobody": []}

    def test_eight_threads_file_reviews_at_once(self, ledger: SQLLedger) -> None:
        at_once(lambda number: ledger.add_pending_reviews([review(f"{number}-{n}") for n in range(10)]))
        queries = {pending.query for pending in ledger.pending_reviews(SCOPE)}
        assert queries == {f"{number}-{n}" for number in range(8) for n in range(10)}
