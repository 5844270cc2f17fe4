"""Messages and memories as plain mappings, wherever a record goes."""

import pytest
from contracts.samples import NOW

from memory_retrievers import AgentMemory, EpisodicMemory, Message
from memory_retrievers.errors import ValidationError
from memory_retrievers.scene.extraction import extract_events
from memory_retrievers.testing import FixedClock, HashEmbedder

SAID = [{"role": "human", "content": "I moved to Nantes."}, {"role": "ai", "content": "Noted."}]
KEPT = [("user", "I moved to Nantes."), ("assistant", "Noted.")]


@pytest.fixture
def memory():
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=FixedClock(NOW)) as memory:
        yield memory


def said_in(episode):
    return [(message.role, message.content) for message in episode.messages]


def test_messages_may_be_mappings_wherever_they_go(memory):
    assert memory.add_messages("user/alice", SAID).accepted == 2
    assert [said_in(each) for each in memory.flush("user/alice").episodes] == [KEPT]
    assert said_in(memory.remember_episode(scope="user/alice", summary="A move", messages=SAID)) == KEPT
    assert said_in(EpisodicMemory.new(scope="user/alice", summary="A move", messages=SAID)) == KEPT

    class Model:
        def generate(self, system, user, schema):
            assert '- user: "I moved to Nantes."\n- assistant:' in user
            return schema.model_validate({"events": []})

    assert extract_events(Model(), SAID, first_message_id=0) == []


def test_messages_of_both_forms_may_be_mixed_and_every_other_role_is_kept(memory):
    mixed = [Message(role="ai", content="a"), {"role": "Inès", "content": "b", "timestamp": "2026-03-01T10:00+01:00"}]
    episode = memory.remember_episode(scope="user/alice", summary="x", messages=iter(mixed))
    assert said_in(episode) == [("assistant", "a"), ("Inès", "b")]
    assert episode.messages[1].timestamp.hour == 9


def test_what_is_stored_under_another_name_of_a_role_is_read_as_it_is():
    episode = EpisodicMemory.new(scope="user/alice", summary="x")
    stored = {"id": "e", "created_at": NOW, "updated_at": NOW, "start_at": NOW, "end_at": NOW, "stability": 1.0}
    stored |= {"difficulty": 5.0, "last_reviewed_at": NOW, "messages": [{"role": "human", "content": "Hello"}]}
    assert said_in(EpisodicMemory.model_validate(episode.model_dump() | stored)) == [("human", "Hello")]


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        ("Hello", "messages must be a list of messages or of"),
        ({"role": "user", "content": "Hello"}, "messages must be a list"),
        ([*SAID, {"role": "user"}], r"^messages\.2\.content: Field required"),
        ([{"role": "user", "content": "Hello", "name": "Al"}], r"^messages\.0\.name: Extra inputs are not permitted"),
        ([{"role": "user", "content": " "}], r"^messages\.0\.content"),
        (["Hello"], r"^messages\.0: Input should be"),
        ([None], r"^messages\.0: Input should be"),
    ],
)
def test_what_is_no_message_is_named_and_nothing_is_queued(memory, messages, complaint):
    for give in (
        lambda: memory.add_messages("user/alice", messages),
        lambda: memory.remember_episode(scope="user/alice", summary="x", messages=messages),
    ):
        with pytest.raises(ValidationError, match=complaint):
            give()
    assert memory.stats().queued_messages == memory.stats().episodes == 0


def test_a_mistake_names_the_argument_that_it_is_in(memory):
    with pytest.raises(ValidationError, match=r"^in_prompt\.1\.content: Field required"):
        memory.retrieve("Nantes", scope="user/alice", in_prompt=[SAID[0], {"role": "user"}])
    with pytest.raises(ValidationError, match=r"^in_prompt must be a list of messages"):
        memory.retrieve("Nantes", scope="user/alice", in_prompt="Hello")


def test_many_memories_may_be_mappings(memory):
    fact, episode = memory.remember_many([
        {"scope": "user/alice", "fact": "Alice lives in Nantes", "category": "identity"},
        {"scope": "user/alice", "summary": "Alice moved", "messages": SAID},
    ])  # fmt: skip
    assert (fact.fact, fact.category, said_in(episode)) == ("Alice lives in Nantes", "identity", KEPT)


@pytest.mark.parametrize(
    ("draft", "complaint"),
    [
        ({"scope": "user/alice"}, "needs a fact or a summary"),
        ({"scope": "user/alice", "fact": "x", "summary": "y"}, "and not both"),
        ({"fact": "x"}, "scope: Field required"),
        ({"scope": "user/alice", "fact": "x", "colour": "red"}, "colour: Extra inputs are not permitted"),
        ("a fact", "a memory is a draft, or a mapping"),
    ],
)
def test_a_mapping_that_is_no_memory_is_named_and_nothing_is_stored(memory, draft, complaint):
    with pytest.raises(ValidationError, match=complaint):
        memory.remember_many([{"scope": "user/alice", "fact": "A fact before it"}, draft])
    assert memory.stats().facts == 0
