"""A ledger keeps messages until they are part of an episode, and lets one worker at a time at them."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from contracts.samples import ALIKE, NOW, SCOPE, add, at_once, episode, review
from memory_retrievers.backends.sql.ledger import SQLLedger
from memory_retrievers.errors import ValidationError
from memory_retrievers.models import MemoryKey
from memory_retrievers.models.messages import Message
from memory_retrievers.models.storage import QueuedMessage, QueueState


def _messages(number: int, *, first: int = 0, start: datetime = NOW) -> list[QueuedMessage]:
    return [
        QueuedMessage(
            id=f"m{each}",
            message=Message(role="user", content=f"message {each}", timestamp=start + timedelta(minutes=each)),
        )
        for each in range(first, first + number)
    ]


def _claim(ledger: SQLLedger, lease: str = "mine", *, messages: int = 5, at: datetime = NOW) -> bool:
    return ledger.conversations.claim(SCOPE, lease=lease, messages=messages, at=at, expired=at - timedelta(minutes=120))


def _ids(ledger: SQLLedger, scope: str = SCOPE) -> list[str]:
    return [each.id for each in ledger.conversations.head(scope, limit=100)]


class ConversationsContract:
    """Queues, leases and review jobs."""

    def test_messages_wait_in_the_order_they_came(self, ledger: SQLLedger) -> None:
        ledger.conversations.append(SCOPE, _messages(2), at=NOW)
        ledger.conversations.append(SCOPE, _messages(3, first=2), at=NOW)
        assert ledger.conversations.head(SCOPE, limit=4) == _messages(4)
        assert ledger.conversations.state(SCOPE) == QueueState(messages=5, first_at=NOW, heard_at=NOW)
        assert ledger.conversations.scopes() == [SCOPE]
        assert ledger.statistics(SCOPE).queued_messages == 5

    def test_an_unknown_scope_has_an_empty_queue(self, ledger: SQLLedger) -> None:
        assert ledger.conversations.state("nobody") == QueueState()
        assert ledger.conversations.head("nobody", limit=5) == []
        ledger.conversations.append("nobody", [], at=NOW)
        assert ledger.conversations.scopes() == []

    def test_the_queues_of_other_scopes_make_no_difference(self, ledger: SQLLedger) -> None:
        for number, scope in enumerate(ALIKE):
            ledger.conversations.append(scope, _messages(2, first=10 * number), at=NOW)
        assert {scope: _ids(ledger, scope) for scope in ALIKE} == {
            scope: [f"m{10 * number}", f"m{10 * number + 1}"] for number, scope in enumerate(ALIKE)
        }
        for scope in ALIKE:
            others = [other for other in ALIKE if other != scope]
            claimed = ledger.conversations.claim(scope, lease="a", messages=2, at=NOW, expired=NOW - timedelta(hours=2))
            assert claimed, scope
            assert [other for other in others if ledger.conversations.release(other, lease="a")] == [], scope
            assert [other for other in others if ledger.conversations.state(other).leased_at] == [], scope
            assert ledger.conversations.release(scope, lease="a"), scope

    def test_the_conversations_of_a_scope_have_a_queue_each(self, ledger: SQLLedger) -> None:
        conversations, minutes = ledger.conversations, timedelta(minutes=1)
        for number, name in enumerate((None, "a", "b")):
            conversations.append(SCOPE, _messages(2, first=2 * number), conversation=name, at=NOW + number * minutes)
        assert [name for _, name in conversations.states()] == [None, "a", "b"]
        assert conversations.states(SCOPE) == conversations.states()
        assert conversations.states("user/2") == {}
        assert conversations.state(SCOPE, "b").heard_at == NOW + 2 * minutes
        assert [each.id for each in conversations.head(SCOPE, conversation="a", limit=9)] == ["m2", "m3"]
        assert [each.id for each in conversations.waiting(SCOPE, limit=5)] == ["m0", "m1", "m2", "m3", "m4"]
        for name in ("a", "b"):
            assert conversations.claim(SCOPE, conversation=name, lease=name, messages=2, at=NOW, expired=NOW)
        assert conversations.state(SCOPE).leased_at is None
        assert conversations.release(SCOPE, conversation="b", lease="b", window_doubled=True)
        assert [state.window_doubled for state in conversations.states().values()] == [False, False, True]
        asked = {"conversation": "a", "previous_summary": None}
        assert not conversations.drain(SCOPE, lease="b", messages=["m2", "m3"], **asked)
        assert conversations.drain(SCOPE, lease="a", messages=["m2", "m3"], **asked)
        assert [name for _, name in conversations.states()] == [None, "b"]

    def test_a_message_that_is_gone_is_not_drained_with_the_others(self, ledger: SQLLedger) -> None:
        ledger.conversations.append(SCOPE, _messages(5), at=NOW)
        _claim(ledger)
        assert not ledger.conversations.drain(SCOPE, lease="mine", messages=["m0", "m9"], previous_summary=None)

    def test_one_claim_wins(self, ledger: SQLLedger) -> None:
        ledger.conversations.append(SCOPE, _messages(5), at=NOW)
        won = at_once(lambda number: _claim(ledger, f"worker {number}"))
        assert won.count(True) == 1
        assert ledger.conversations.state(SCOPE).leased_at == NOW

    def test_without_messages_nothing_can_be_claimed(self, ledger: SQLLedger) -> None:
        assert not _claim(ledger)

    @pytest.mark.parametrize(("minutes", "again"), [(0, False), (120, False), (120.001, True), (999, True)])
    def test_a_lease_holds_for_its_time(self, ledger: SQLLedger, minutes: float, again: bool) -> None:
        ledger.conversations.append(SCOPE, _messages(5), at=NOW)
        assert _claim(ledger)
        assert _claim(ledger, "second", at=NOW + timedelta(minutes=minutes)) is again

    def test_a_lease_is_released_by_its_holder_alone(self, ledger: SQLLedger) -> None:
        ledger.conversations.append(SCOPE, _messages(5), at=NOW)
        _claim(ledger)
        assert not ledger.conversations.release(SCOPE, lease="not mine")
        assert ledger.conversations.release(SCOPE, lease="mine", window_doubled=True)
        state = ledger.conversations.state(SCOPE)
        assert (state.leased_at, state.window_doubled, state.messages) == (None, True, 5)
        _claim(ledger, "again")
        assert ledger.conversations.release(SCOPE, lease="again")
        assert ledger.conversations.state(SCOPE).window_doubled

    def test_draining_takes_the_first_messages_and_starts_over(self, ledger: SQLLedger) -> None:
        ledger.conversations.append(SCOPE, _messages(5), at=NOW)
        _claim(ledger)
        ledger.conversations.append(SCOPE, _messages(2, first=5), at=NOW)
        assert ledger.conversations.drain(SCOPE, lease="mine", messages=["m0", "m1", "m2"], previous_summary="Tea.")
        assert _ids(ledger) == ["m3", "m4", "m5", "m6"]
        assert ledger.conversations.state(SCOPE) == QueueState(
            messages=4, first_at=NOW + timedelta(minutes=3), heard_at=NOW, previous_summary="Tea."
        )

    def test_a_lease_that_is_gone_drains_nothing(self, ledger: SQLLedger) -> None:
        ledger.conversations.append(SCOPE, _messages(5), at=NOW)
        _claim(ledger)
        _claim(ledger, "later", at=NOW + timedelta(hours=3))
        assert not ledger.conversations.drain(SCOPE, lease="mine", messages=_ids(ledger), previous_summary=None)
        assert len(_ids(ledger)) == 5
        assert ledger.conversations.drain(SCOPE, lease="later", messages=_ids(ledger), previous_summary=None)
        assert _ids(ledger) == []

    def test_what_is_undone_waits_as_before(self, ledger: SQLLedger) -> None:
        ledger.conversations.append(SCOPE, _messages(5), at=NOW)
        _claim(ledger)

        def fail() -> None:
            with ledger.database.write():
                assert ledger.conversations.drain(SCOPE, lease="mine", messages=_ids(ledger), previous_summary=None)
                add(ledger, [episode("e1"), episode("e1")])

        with pytest.raises(ValidationError, match="e1"):
            fail()
        assert len(_ids(ledger)) == 5
        assert ledger.conversations.state(SCOPE).leased_at == NOW

    def test_of_a_conversation_that_has_ended_nothing_is_left(self, ledger: SQLLedger) -> None:
        ledger.conversations.append(SCOPE, _messages(5), conversation="a", at=NOW)
        ledger.conversations.claim(SCOPE, conversation="a", lease="mine", messages=5, at=NOW, expired=NOW)
        gone = ["m0", "m1", "m2", "m3", "m4"]
        ledger.conversations.drain(SCOPE, conversation="a", lease="mine", messages=gone, previous_summary=None)
        with ledger.database.read() as connection:
            assert connection.execute("SELECT count(*) FROM queues").fetchone() == (0,)

    def test_pending_reviews_become_a_job_and_no_others(self, ledger: SQLLedger) -> None:
        ledger.add_pending_reviews([review("Which tea?"), review("Elsewhere?", scope="user/2")])
        conversation = [each.message for each in _messages(3)]
        ledger.conversations.take_reviews(SCOPE, conversation=conversation, at=NOW)
        assert ledger.pending_reviews(SCOPE) == []
        assert len(ledger.pending_reviews("user/2")) == 1
        (job,) = ledger.conversations.review_jobs(SCOPE)
        assert job.conversation == tuple(conversation)
        assert job.reviews == (review("Which tea?"),)
        assert (job.scope, job.reviewed_at) == (SCOPE, NOW)
        assert ledger.conversations.review_jobs("user/2") == []
        assert SCOPE in ledger.conversations.scopes()

    def test_without_pending_reviews_there_is_no_job(self, ledger: SQLLedger) -> None:
        ledger.conversations.take_reviews(SCOPE, conversation=[], at=NOW)
        assert ledger.conversations.review_jobs(SCOPE) == []

    def test_a_job_is_finished_once(self, ledger: SQLLedger) -> None:
        ledger.add_pending_reviews([review()])
        ledger.conversations.take_reviews(SCOPE, conversation=[], at=NOW)
        ledger.add_pending_reviews([review("Next?", created_at=NOW + timedelta(hours=1))])
        (job,) = ledger.conversations.review_jobs(SCOPE)
        assert ledger.conversations.finish_review_job(job.id)
        assert not ledger.conversations.finish_review_job(job.id)
        assert ledger.conversations.review_jobs(SCOPE) == []
        assert [pending.query for pending in ledger.pending_reviews(SCOPE)] == ["Next?"]

    def test_what_is_forgotten_leaves_the_jobs_that_name_it(self, ledger: SQLLedger) -> None:
        add(ledger, [episode("e1"), episode("e2")])
        ledger.add_pending_reviews([review(ids=("e1", "e2")), review("Only this?", ids=("e1",))])
        ledger.conversations.take_reviews(SCOPE, conversation=[], at=NOW)
        ledger.remove([MemoryKey(scope=SCOPE, id="e1")])
        (job,) = ledger.conversations.review_jobs(SCOPE)
        assert [[key.id for key in each.memories] for each in job.reviews] == [["e2"]]
        ledger.remove([MemoryKey(scope=SCOPE, id="e2")])
        assert ledger.conversations.review_jobs(SCOPE) == []

    def test_forgetting_a_scope_takes_all_that_waits_there(self, ledger: SQLLedger) -> None:
        for scope in (SCOPE, f"{SCOPE}/work", "user/10"):
            ledger.conversations.append(scope, _messages(2), at=NOW)
            ledger.add_pending_reviews([review(scope=scope)])
            ledger.conversations.take_reviews(scope, conversation=[], at=NOW)
        ledger.remove_scope(SCOPE, include_child_scopes=True)
        assert ledger.conversations.scopes() == ["user/10"]
        assert ledger.conversations.state(SCOPE) == QueueState()
        assert ledger.conversations.review_jobs(SCOPE) == []

    def test_forgetting_a_memory_keeps_the_messages_that_wait(self, ledger: SQLLedger) -> None:
        add(ledger, [episode("e1")])
        ledger.conversations.append(SCOPE, _messages(2), at=NOW)
        ledger.remove([MemoryKey(scope=SCOPE, id="e1")])
        assert len(_ids(ledger)) == 2

    def test_old_messages_are_erased_and_the_rest_of_the_episode_stays(self, ledger: SQLLedger) -> None:
        said = (Message(role="user", content="tea", timestamp=NOW),)
        old, new = episode("old", created_at=NOW - timedelta(days=40)), episode("new")
        add(ledger, [each.model_copy(update={"messages": said}) for each in (old, new)])
        before = NOW - timedelta(days=30)
        assert ledger.conversations.old_messages(before=before, limit=9) == [MemoryKey(scope=SCOPE, id="old")]
        ledger.conversations.erase_messages(ledger.conversations.old_messages(before=before, limit=9))
        assert ledger.conversations.old_messages(before=before, limit=9) == []
        assert ledger.get(scope=SCOPE, id="old") == old
        kept = ledger.get(scope=SCOPE, id="new")
        assert kept == new.model_copy(update={"messages": said})
