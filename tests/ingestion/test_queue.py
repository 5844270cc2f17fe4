"""When a queue is due (specification §2.11), and who may work on it."""

from datetime import timedelta

import pytest

from memory_retrievers import Message
from memory_retrievers.ingestion.queue import MessageQueue
from memory_retrievers.settings import IngestionSettings
from memory_retrievers.testing import inside


@pytest.fixture
def queue(plain, clock):
    settings = IngestionSettings(idle_after=None)
    return MessageQueue(inside(plain).ledger.conversations, settings=settings, clock=clock)


@pytest.mark.parametrize(
    ("number", "age", "due"),
    [
        (19, timedelta(minutes=30), False),
        (20, timedelta(minutes=30), True),
        (4, timedelta(days=9), False),
        (5, timedelta(hours=2, seconds=1), True),
        (5, timedelta(hours=2), False),
        (5, timedelta(0), False),
        (21, timedelta(0), True),
    ],
)
def test_the_trigger_table(queue, said, clock, number, age, due):
    queued = queue.push("c", said(number, start=clock.now() - age))
    assert (queued.accepted, queued.queued, queued.due) == (number, number, due)


def test_a_doubled_window_is_due_at_forty(queue, said, plain, clock):
    conversations = inside(plain).ledger.conversations
    queue.push("c", said(20))
    claim = queue.claim("c")
    conversations.release("c", lease=claim.lease, window_doubled=True)
    assert not queue.push("c", said(19)).due
    assert queue.push("c", said(1)).due
    clock.advance(hours=3)
    assert queue.is_due(conversations.state("c"))


def test_a_doubled_window_is_due_by_age_with_five_messages(queue, said, plain, clock):
    conversations = inside(plain).ledger.conversations
    queue.push("c", said(5))
    clock.advance(hours=3)
    conversations.release("c", lease=queue.claim("c").lease, window_doubled=True)
    assert queue.is_due(conversations.state("c"))


def test_back_filled_messages_are_due_from_five_on(queue, said, clock):
    long_ago = clock.now() - timedelta(days=400)
    assert [queue.push("c", said(1, start=long_ago)).due for _ in range(6)] == [False] * 4 + [True] * 2


def test_a_lease_keeps_others_off_for_two_hours(queue, said, clock):
    queue.push("c", said(25))
    assert queue.claim("c") is not None
    assert not queue.push("c", said(1)).due
    assert queue.claim("c") is None
    assert queue.claim("c", whole=True) is None
    clock.advance(minutes=120)
    assert queue.claim("c") is None
    clock.advance(seconds=1)
    assert queue.push("c", said(1)).due
    assert queue.claim("c") is not None


def test_a_claim_takes_a_window_however_much_is_queued(queue, said):
    queue.push("c", said(300))
    claim = queue.claim("c")
    assert [each.message.content for each in claim.messages] == [f"message number {n}" for n in range(20)]
    assert not claim.ends


def test_a_claim_of_what_is_not_due_takes_what_is_there(queue, said):
    queue.push("c", said(2))
    assert queue.claim("c") is None
    claim = queue.claim("c", whole=True)
    assert len(claim.messages) == 2
    assert claim.ends
    assert queue.claim("nobody", whole=True) is None


def test_messages_without_a_time_get_the_current_one(queue, plain, clock):
    queue.push("c", [Message(role="user", content="tea")])
    (queued,) = inside(plain).ledger.conversations.head("c", limit=5)
    assert queued.message.timestamp == clock.now()


def test_ids_are_given_on_arrival_and_differ_for_equal_messages(queue, plain):
    message = Message(role="user", content="tea")
    queue.push("c", [message, message])
    queue.push("c", [message])
    ids = [queued.id for queued in inside(plain).ledger.conversations.head("c", limit=5)]
    assert len(set(ids)) == 3


def test_a_queue_tells_when_it_will_be_due_by_age(queue, said, plain, clock):
    conversations = inside(plain).ledger.conversations
    queue.push("c", said(4, start=clock.now()))
    assert queue.due_at(conversations.state("c")) is None
    queue.push("c", said(1))
    assert queue.due_at(conversations.state("c")) == clock.now() + timedelta(hours=2)


def test_a_claim_of_what_was_drained_since_it_was_looked_at_covers_what_is_left(queue, said, plain, monkeypatch):
    conversations = inside(plain).ledger.conversations
    claim = conversations.claim
    queue.push("c", said(20))

    def others_are_faster(scope, **asked):
        monkeypatch.setattr(conversations, "claim", claim)
        theirs = queue.claim(scope)
        conversations.drain(
            scope, lease=theirs.lease, messages=[each.id for each in theirs.messages[:15]], previous_summary="tea"
        )
        return claim(scope, **asked)

    monkeypatch.setattr(conversations, "claim", others_are_faster)
    assert queue.claim("c") is None  # five are not due
    assert conversations.state("c").previous_summary == "tea"
    whole = queue.claim("c", whole=True)
    assert len(whole.messages) == 5
    assert whole.ends


def test_a_conversation_is_due_when_nobody_has_said_anything_for_half_an_hour(plain, clock):
    conversations = inside(plain).ledger.conversations
    queue = MessageQueue(conversations, settings=IngestionSettings(), clock=clock)
    long_ago = Message(role="user", content="tea", timestamp=clock.now() - timedelta(days=9))
    assert not queue.push("c", [long_ago], conversation="a").due  # it has only just arrived
    clock.advance(minutes=20)
    queue.push("c", [long_ago], conversation="b")
    clock.advance(minutes=10)
    assert queue.due_at(conversations.state("c", "b")) == clock.now() + timedelta(minutes=20)
    assert queue.claim("c", "b") is None
    claim = queue.claim("c", "a")
    assert claim.ends
    assert len(claim.messages) == 1


def test_what_is_old_is_looked_at_once_unless_more_would_be_seen_the_next_time(queue, said, clock):
    queue.push("c", said(20, start=clock.now() - timedelta(days=1)), conversation="a")
    queue.push("c", said(21, start=clock.now() - timedelta(days=1)), conversation="b")
    assert queue.claim("c", "a").is_last_look
    assert not queue.claim("c", "b").is_last_look
