"""A ledger gives everything it holds, in order and as of one moment, and knows whether it is whole."""

from __future__ import annotations

import math
from datetime import timedelta

import numpy as np
import pytest

from contracts.samples import BELOW, BESIDE, NOW, SCOPE, add, episode, fact, review
from memory_retrievers.backends.sql import contents
from memory_retrievers.backends.sql.ledger import SQLLedger
from memory_retrievers.errors import ValidationError
from memory_retrievers.models import AnyMemory
from memory_retrievers.models.messages import Message
from memory_retrievers.models.storage import QueuedMessage


class ContentsContract:
    """What is read as a whole."""

    def test_contents_come_by_scope_and_time_in_the_order_of_storing_and_whole(self, ledger: SQLLedger) -> None:
        later = NOW + timedelta(microseconds=1)
        memories: list[AnyMemory] = [
            fact("b"),
            fact("a"),
            episode("c", created_at=later),
            episode("ab"),
            fact("z", scope="user/0"),
            episode("é"),
            episode("😀"),
            episode("\uff46"),
        ]
        vectors = np.random.default_rng(1).random((len(memories), 4), np.float32)
        add(ledger, memories, vectors)
        with ledger.contents() as contents:
            stored = list(contents.memories)
        assert contents.counts["memories"] == len(memories)
        assert [each.memory.id for each in stored] == ["z", "b", "a", "ab", "é", "😀", "\uff46", "c"]
        for each in stored:
            (passage,) = each.passages
            assert (passage.part, passage.text) == (each.memory.kind, each.memory.search_text)
            assert passage.vector.tobytes() == vectors[memories.index(each.memory)].tobytes()

    def test_more_than_a_page_comes_whole(self, ledger: SQLLedger) -> None:
        add(ledger, [fact(f"f{number:04}") for number in range(700)])
        with ledger.contents(SCOPE) as contents:
            assert [each.memory.id for each in contents.memories] == [f"f{number:04}" for number in range(700)]

    def test_contents_of_a_scope_are_its_own_and_those_below(self, ledger: SQLLedger) -> None:
        scopes = [SCOPE, *BELOW, *BESIDE]
        add(ledger, [fact("f1", scope=scope) for scope in scopes])
        ledger.add_pending_reviews([review(scope=scope) for scope in scopes])
        inside = sorted((SCOPE, *BELOW), key=str.encode)
        with ledger.contents(SCOPE) as contents:
            assert [each.memory.scope for each in contents.memories] == inside
            assert [each.scope for each in contents.pending_reviews] == inside
            assert (contents.counts["memories"], contents.counts["pending_reviews"]) == (len(inside), len(inside))

    def test_contents_hold_the_notes_and_an_empty_ledger_has_none(self, ledger: SQLLedger) -> None:
        with ledger.contents() as contents:
            assert (list(contents.memories), list(contents.pending_reviews), contents.notes) == ([], [], {})
        ledger.write_notes({"colour": "blue"})
        with ledger.contents() as contents:
            assert contents.notes == {"colour": "blue"}

    def test_reviews_that_are_not_to_merge_stay_apart(self, ledger: SQLLedger) -> None:
        ledger.add_pending_reviews([review(), review()], merge=False)
        assert ledger.pending_reviews(SCOPE) == [review(), review()]

    def test_a_long_queue_comes_in_parts_by_bytes(self, ledger: SQLLedger, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(contents, "QUEUE_BYTES", 2_300)
        words = ["\0" * 100, "\x1a" * 100, "咖" * 33, "x", "y" * 300, "z"]
        queued = [
            QueuedMessage(id=f"m{number}", message=Message(role="user", content=text + "!", timestamp=NOW))
            for number, text in enumerate(words)
        ]
        for conversation in (None, "other"):
            ledger.conversations.append(SCOPE, queued, conversation=conversation, at=NOW)
        with ledger.contents(SCOPE) as stored:
            parts = [[id for id, _ in queue.messages] for queue in stored.queues]
            assert parts == 2 * [["m0", "m1", "m2"], ["m3", "m4"], ["m5"]]
            assert stored.counts["queues"] == len(parts)

    def test_a_whole_ledger_is_verified_without_a_problem(self, ledger: SQLLedger) -> None:
        ledger.write_notes({"dimension": "4"})
        add(ledger, [fact("f1"), episode("e1")], np.eye(4, dtype=np.float32)[:2])
        report = ledger.verify()
        assert (report.memories, report.passages, report.problems) == (2, 2, ())

    def test_vectors_without_unit_length_or_of_another_dimension_are_problems(self, ledger: SQLLedger) -> None:
        ledger.write_notes({"dimension": "4"})
        add(ledger, [fact("zero")])
        add(ledger, [fact("short")], np.ones((1, 1), np.float32))
        zero, short = ledger.verify().problems
        assert "'zero'" in zero
        assert "length 0.0000 instead of 1" in zero
        assert "'short'" in short
        assert "1 numbers instead of 4" in short

    @pytest.mark.parametrize("number", [math.nan, math.inf])
    def test_a_vector_that_is_none_is_refused_or_a_problem(self, ledger: SQLLedger, number: float) -> None:
        ledger.write_notes({"dimension": "4"})
        try:
            add(ledger, [fact("f1")], np.full((1, 4), number, np.float32))
        except ValidationError:
            assert ledger.get(scope=SCOPE, id="f1") is None
        else:
            (problem,) = ledger.verify().problems
            assert "'f1'" in problem
            assert "NaN" in problem
