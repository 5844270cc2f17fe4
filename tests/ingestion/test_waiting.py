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


@pytest.mark.parametrize("pause", [{"minutes": 30}, {"hours": 3}, {"days": 7}])
def test_what_is_said_after_a_silence_that_nobody_saw_is_not_of_the_conversation_before(memory, clock, pause):
    """A process was not running, or a laptop slept: the first one to look sees old messages and one of this moment."""
    clock.advance(**pause)
    memory.add_messages("a", [Message(role="user", content="What does the printer cost?")])
    (episode,) = memory.process_due("a").episodes
    assert [message.content for message in episode.messages] == ["message 0", "message 1", "message 2"]
    assert [message.content for message in memory.waiting("a")] == ["What does the printer cost?"]
    memory.add_messages("a", [Message(role="assistant", content="240 euros.")])
    assert memory.process_due("a").episodes == ()
    clock.advance(minutes=30)
    (answered,) = memory.process_due("a").episodes
    assert [message.content for message in answered.messages] == ["What does the printer cost?", "240 euros."]


def test_without_such_a_silence_the_conversation_goes_on(memory, clock):
    for number in range(3, 6):
        clock.advance(minutes=20)
        memory.add_messages("a", [Message(role="user", content=f"message {number}")])
        assert memory.process_due("a").episodes == ()
    assert len(memory.waiting("a")) == 6
    assert len(memory.flush("a").episodes) == 1
