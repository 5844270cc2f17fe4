"""Whatever is said, flushed, processed, forgotten and waited for: every message is found exactly once, or gone."""

from collections import Counter
from datetime import UTC, datetime

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from memory_retrievers import AgentMemory, Message
from memory_retrievers.testing import FixedClock, HashEmbedder

SCOPES = st.sampled_from(["c", "d"])
CONVERSATIONS = st.sampled_from([None, "one", "two"])


class Conversations(RuleBasedStateMachine):
    """What must be there is kept beside the memory: the messages of every scope, by conversation."""

    def __init__(self):
        super().__init__()
        self.clock = FixedClock(datetime(2026, 3, 1, tzinfo=UTC))
        self.memory = AgentMemory.in_memory(embedder=HashEmbedder(8), clock=self.clock)
        self.there = {"c": {}, "d": {}}
        self.number = 0

    def teardown(self):
        self.memory.close()

    @rule(scope=SCOPES, conversation=CONVERSATIONS, count=st.integers(1, 25))
    def add(self, scope, conversation, count):
        texts = [f"tea {number}" for number in range(self.number, self.number + count)]
        self.number += count
        said = [Message(role="user", content=text) for text in texts]
        self.memory.add_messages(scope, said, conversation=conversation)
        self.there[scope] |= dict.fromkeys(texts, conversation)

    @rule(scope=SCOPES, conversation=CONVERSATIONS)
    def flush(self, scope, conversation):
        self.memory.flush(scope, conversation)

    @rule(minutes=st.sampled_from([1, 29, 31, 200]))
    def wait_and_process(self, minutes):
        self.clock.advance(minutes=minutes)
        self.memory.process_due()

    @rule(scope=SCOPES, which=st.integers(0, 5))
    def forget(self, scope, which):
        found = self.found(scope)
        if found:
            gone = found[which % len(found)]
            self.memory.forget(gone.id, scope=scope)
            for message in gone.messages:
                del self.there[scope][message.content]

    @rule(scope=SCOPES)
    def forget_scope(self, scope):
        self.memory.forget_scope(scope)
        self.there[scope] = {}

    def found(self, scope):
        return [hit.memory for hit in self.memory.retrieve("tea", scope=scope, episodic_limit=100).episodic]

    @invariant()
    def everything_is_found_once(self):
        for scope, there in self.there.items():
            episodes = self.found(scope)
            assert Counter(m.content for each in episodes for m in each.messages) == Counter(list(there))
            for each in episodes:
                assert {there[message.content] for message in each.messages} == {each.conversation_id}
                assert self.memory.get(each.id, scope=scope) == each


TestConversations = Conversations.TestCase
TestConversations.settings = settings(max_examples=15, stateful_step_count=15, deadline=None)
