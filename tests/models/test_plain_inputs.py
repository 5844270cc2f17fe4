"""Messages and memories as plain mappings, wherever a record goes."""

import re
from datetime import datetime, timedelta
from enum import StrEnum

import pytest
from contracts.samples import NOW
from pydantic import BaseModel, RootModel

from memory_retrievers import AgentMemory, EpisodicMemory, Message
from memory_retrievers.errors import ValidationError
from memory_retrievers.scene.extraction import extract_events
from memory_retrievers.testing import FixedClock, HashEmbedder

SAID = [{"role": "human", "content": "I moved to Nantes."}, {"role": "ai", "content": "Noted."}]
KEPT = [("user", "I moved to Nantes."), ("assistant", "Noted.")]

CALL = {
    "role": "assistant",
    "content": None,
    "refusal": None,
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}],
}
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
CHAT = [
    {"role": "user", "name": "Al", "content": [{"type": "text", "text": "I moved"}, PICTURE, {"type": "input_audio"}]},
    CALL,
    {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "Rain."}]},
    {"role": "assistant", "content": "It rains.", "tool_calls": None, "refusal": None, "reasoning": "Hm."},
    {"role": "user", "content": ({"type": "input_text", "text": "To Nantes."}, "In May.")},
    {"role": "assistant", "content": None, "refusal": "I cannot say."},
    {"role": "assistant", "content": "", "reasoning_content": "They go to Nantes.", "annotations": []},
]
HEARD = [("Al", "I moved\n[image]\n[audio]"), ("assistant", "It rains."), ("user", "To Nantes.\nIn May.")]
"""Messages as OpenAI's client takes and gives them, and what is kept."""


@pytest.fixture
def memory():
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=FixedClock(NOW)) as memory:
        yield memory


class Speaker(StrEnum):
    HUMAN = "human"
    TOOL = "tool"


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


def test_messages_of_the_chat_api_are_read_as_the_adapters_read_theirs(memory):
    assert memory.add_messages("user/alice", CHAT).accepted == 3
    assert [said_in(each) for each in memory.flush("user/alice").episodes] == [HEARD]
    assert said_in(memory.remember_episode(scope="user/alice", summary="A move", messages=CHAT)) == HEARD
    assert said_in(EpisodicMemory.new(scope="user/alice", summary="A move", messages=CHAT)) == HEARD
    assert memory.add_messages("user/alice", [CALL]).accepted == 0
    assert memory.retrieve("Nantes", scope="user/alice", in_prompt=CHAT[:1]).episodic
    assert memory.retrieve("Nantes", scope="user/alice", in_prompt=CHAT).episodic == ()  # all of it is there

    class Model:
        def generate(self, system, user, schema):
            assert '- assistant: "It rains."\n- user: "To Nantes.\\nIn May."' in user
            return schema.model_validate({"events": []})

    assert extract_events(Model(), CHAT, first_message_id=0) == []


def test_a_message_of_a_tool_without_the_number_of_a_call_is_one_that_was_kept(memory):
    kept = [{"role": "tool", "content": "Rain."}, {"role": "developer", "content": "Be brief."}]
    episode = memory.remember_episode(scope="user/alice", summary="x", messages=kept)
    assert said_in(episode) == [("tool", "Rain."), ("developer", "Be brief.")]


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
        (
            [{"role": "user", "content": "Hello", "colour": "red"}],
            r"^messages\.0\.colour: Extra inputs are not permitted",
        ),
        ([{"role": "user", "content": " "}], r"^messages\.0\.content"),
        ([{"role": "user", "content": None}], r"^messages\.0\.content: Input should be a valid string"),
        ([{"role": "assistant"}], r"^messages\.0\.content: Field required"),
        ([{"content": [{"type": "text", "text": "Hello"}]}], r"^messages\.0\.role: Field required"),
        ([{"role": "user", "content": {"type": "text", "text": "Hello"}}], r"^messages\.0\.content: Input should be"),
        ([{"role": "user", "content": [{"text": "Hello"}]}], r"^messages\.0: .*a part of content is text, or an obj"),
        ([CALL, {"role": "user", "content": [{"type": "text"}]}], r"^messages\.1: .*a part of content is text, or an"),
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


class Chat(RootModel[list[dict[str, str]]]):
    def __iter__(self):
        return iter(self.root)


def test_a_model_of_the_host_that_gives_messages_is_a_list_of_them(memory):
    assert memory.add_messages("user/alice", Chat(SAID)).accepted == 2
    with pytest.raises(ValidationError, match="messages must be a list of messages"):  # it gives names and values
        memory.add_messages("user/alice", Message(role="user", content="Hello"))


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


def test_an_episode_that_ends_before_it_begins_is_refused_and_one_with_one_time_has_both(memory):
    began, ended = NOW + timedelta(days=1), NOW - timedelta(days=1)
    given = {"scope": "user/alice", "summary": "A move"}
    complaint = f"^start_at {began.isoformat()} is after end_at {ended.isoformat()}$"
    for give in (
        lambda: memory.remember_episode(**given, start_at=began, end_at=ended),
        lambda: memory.remember_many([given | {"start_at": began.isoformat(), "end_at": ended.isoformat()}]),
        lambda: memory.remember_many([EpisodicMemory.new(**given, start_at=began, end_at=ended)]),
    ):
        with pytest.raises(ValidationError, match=re.escape(complaint[1:-1])):
            give()
    assert memory.stats().episodes == 0
    episode = memory.remember_episode(**given, start_at=began)
    assert (episode.start_at, episode.end_at) == (began, began)
    episode = memory.remember_episode(**given, end_at=ended)
    assert (episode.start_at, episode.end_at) == (ended, ended)
    episode = memory.remember_episode(**given, start_at=ended, end_at=began)
    assert (episode.start_at, episode.end_at) == (ended, began)


def test_what_was_stored_the_wrong_way_round_is_read_as_it_is():
    stored = {"id": "e", "created_at": NOW, "updated_at": NOW, "start_at": NOW, "end_at": NOW - timedelta(days=1)}
    stored |= {"stability": 1.0, "difficulty": 5.0, "last_reviewed_at": NOW, "scope": "c1", "summary": "x"}
    assert EpisodicMemory.model_validate(stored).start_at == NOW


def test_what_a_client_answers_with_goes_wherever_a_message_goes(memory):
    openai = pytest.importorskip("openai.types.chat")
    answers = [
        openai.ChatCompletionMessage.model_validate(each | {"reasoning_content": "Hm."})
        for each in (CALL, {"role": "assistant", "content": "It rains.", "refusal": None})
    ]
    history = [{"role": "user", "content": "Will it rain?"}, *answers]
    heard = [("user", "Will it rain?"), ("assistant", "It rains.")]
    assert memory.add_messages("user/alice", history).accepted == 2
    assert [said_in(each) for each in memory.flush("user/alice").episodes] == [heard]
    assert said_in(memory.remember_episode(scope="user/alice", summary="Rain", messages=history)) == heard
    assert said_in(EpisodicMemory.new(scope="user/alice", summary="Rain", messages=history)) == heard


class Turn(BaseModel):
    role: Speaker
    content: str
    timestamp: datetime
    tool_call_id: str | None = None
    cost: float = 0.1


def test_a_record_with_role_and_content_keeps_its_time_and_is_no_answer_of_a_tool(memory):
    turns = [Turn(role=Speaker.HUMAN, content="I moved.", timestamp=NOW - timedelta(days=9))]
    turns += [Turn(role=Speaker.TOOL, content="Rain.", timestamp=NOW, tool_call_id="c1")]
    (message,) = memory.remember_episode(scope="user/alice", summary="A move", messages=turns).messages
    assert message == Message(role="user", content="I moved.", timestamp=NOW - timedelta(days=9))
    assert type(message.role) is str
    assert memory.add_messages("user/alice", turns).accepted == 1


def test_an_object_that_is_no_message_is_refused_by_its_name(memory):
    class Note(BaseModel):
        content: str

    with pytest.raises(ValidationError, match=r"messages\.1: .*not Note"):
        memory.add_messages("user/alice", [SAID[0], Note(content="x")])
