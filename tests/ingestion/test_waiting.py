"""What is queued can be looked at, scope by scope."""

import pytest

from memory_retrievers import AgentMemory, Message, ValidationError
from memory_retrievers.testing import HashEmbedder


@pytest.fixture
def memory(clock):
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock) as memory:
        memory.add_messages("a", [Message(role="user", content=f"message {number}") for number in range(3)])
        memory.add_messages("b", [Message(role="assistant", content="elsewhere")])
        yield memory


def test_queued_messages_are_seen_in_the_order_they_came(memory, clock):
    assert [message.content for message in memory.waiting("a")] == ["message 0", "message 1", "message 2"]
    assert memory.waiting("b") == [Message(role="assistant", content="elsewhere", timestamp=clock.now())]
    assert memory.waiting("a", limit=2) == memory.waiting("a")[:2]
    assert memory.waiting("a", limit=0) == []


def test_the_scopes_in_which_something_waits_are_known(memory):
    assert memory.waiting_scopes() == ["a", "b"]
    memory.flush("a")
    assert memory.waiting_scopes() == ["b"]
    assert memory.waiting("a") == []


def test_a_scope_in_which_nothing_waits_is_empty_and_what_makes_no_sense_is_refused(memory):
    assert memory.waiting("a/below") == []
    with pytest.raises(ValidationError, match="malformed"):
        memory.waiting("a/")
    with pytest.raises(ValidationError, match="limit"):
        memory.waiting("a", limit=-1)


def test_what_was_heard_while_the_clock_was_a_year_ahead_does_not_wait_for_a_year(memory, clock):
    clock.advance(days=365)
    memory.add_messages("c", [Message(role="user", content="The piano was tuned")])
    clock.advance(days=-365)
    assert [episode.scope for episode in memory.process_due("c").episodes] == ["c"]
    assert memory.process_due("a").episodes == ()  # that was heard just now
