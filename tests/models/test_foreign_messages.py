"""The one place where messages of the frameworks become ours."""

import base64
import subprocess
import sys
from datetime import UTC, datetime

import pydantic
import pytest
from cases import tried_in_one
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    HumanMessageChunk,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from llama_index.core.base.llms.types import (
    AudioBlock,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    VideoBlock,
)
from llama_index.core.base.llms.types import ChatMessage as LlamaMessage
from patience import PATIENCE

from memory_retrievers import EpisodicMemory, Message, ValidationError
from memory_retrievers.models.messages import messages_of

PIXEL = base64.b64encode(b"not really a picture").decode()
CALL = {"name": "search", "args": {"query": "Comté"}, "id": "1", "type": "tool_call"}


@tried_in_one(
    "message, role",
    [
        (HumanMessage("hello"), "user"),
        (HumanMessageChunk("hello"), "user"),
        (AIMessage("hello"), "assistant"),
        (AIMessageChunk("hello"), "assistant"),
        (SystemMessage("hello"), "system"),
        (ChatMessage("hello", role="critic"), "critic"),
        (ChatMessage("hello", role="model"), "assistant"),
    ],
)
def test_a_langchain_message_keeps_its_text_and_its_speaker_gets_our_name(message, role):
    assert Message.from_langchain(message) == Message(role=role, content="hello")


@tried_in_one(
    "role, ours",
    [
        *(("user", "user"), ("assistant", "assistant"), ("system", "system"), ("developer", "developer")),
        *(("chatbot", "assistant"), ("model", "assistant")),
    ],
)
def test_a_llama_index_message_keeps_its_text_and_its_speaker_gets_our_name(role, ours):
    assert Message.from_llama_index(LlamaMessage(role=role, content="hello")) == Message(role=ours, content="hello")


@pytest.mark.parametrize(
    "image",
    [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
        {"type": "image", "base64": PIXEL, "mime_type": "image/png"},
        {"type": "image", "source_type": "base64", "data": PIXEL, "mime_type": "image/png"},
    ],
)
def test_langchain_text_blocks_are_joined_and_an_image_is_told_as_such(image):
    message = HumanMessage(["Look:", image, {"type": "text", "text": "What is it?"}])
    assert Message.from_langchain(message).content == "Look:\n[image]\nWhat is it?"


def test_a_text_that_langchain_has_as_a_file_is_what_was_said():
    file = {"type": "text-plain", "text": "The cat is called Mitzi", "mime_type": "text/plain"}
    said = Message(role="user", content="Keep this:\nThe cat is called Mitzi")
    assert Message.from_langchain(HumanMessage([{"type": "text", "text": "Keep this:"}, file])) == said
    beside = HumanMessage([{"type": "text", "text": "Keep this:"}, file | {"text": "long " * 200_001}])
    # what is said is not lost with what is too long to be kept
    assert Message.from_langchain(beside).content == "Keep this:\n[file]"
    elsewhere = {"type": "text-plain", "url": "https://example.com/a.txt", "text": None, "mime_type": "text/plain"}
    assert Message.from_langchain(HumanMessage([elsewhere])).content == "[file]"


@tried_in_one(
    "block, told",
    [
        ({"type": "audio", "base64": PIXEL, "mime_type": "audio/wav"}, "[audio]"),
        ({"type": "input_audio", "input_audio": {"data": PIXEL, "format": "wav"}}, "[audio]"),
        ({"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PIXEL}"}}, "[file]"),
        ({"type": "input_file", "file_id": "a"}, "[file]"),
        ({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PIXEL}}, "[file]"),
        ({"type": "video", "base64": PIXEL, "mime_type": "video/mp4"}, "[video]"),
        ({"type": "video_url", "video_url": {"url": "https://example.com/a.mp4"}}, "[video]"),
        ({"type": "media", "mime_type": "video/mp4", "data": PIXEL}, "[video]"),
        ({"type": "media", "mime_type": "application/pdf", "data": PIXEL}, "[file]"),
    ],
)
def test_what_is_heard_or_seen_is_told_as_such_also_where_nothing_else_is_said(block, told):
    assert Message.from_langchain(HumanMessage([block])) == Message(role="user", content=told)
    assert messages_of([{"role": "user", "content": [block]}]) == (Message(role="user", content=told),)


def test_what_is_heard_or_seen_in_llama_index_is_told_as_such():
    blocks = [AudioBlock(audio=PIXEL.encode()), DocumentBlock(data=PIXEL.encode()), VideoBlock(video=PIXEL.encode())]
    told = [Message.from_llama_index(LlamaMessage(role="user", blocks=[each])).content for each in blocks]
    assert told == ["[audio]", "[file]", "[video]"]


@pytest.mark.parametrize(("content", "kept"), [("", "It is green."), ("Green.", "Green.")])
def test_a_spoken_answer_is_kept_as_its_transcript(content, kept):
    audio = {"id": "a", "data": PIXEL, "transcript": "It is green.", "expires_at": 1}
    answer = AIMessage(content, additional_kwargs={"audio": audio})
    assert Message.from_langchain(answer) == Message(role="assistant", content=kept)
    (plain,) = messages_of([{"role": "assistant", "content": content or None, "audio": audio}])
    assert plain.content == kept
    assert Message.from_langchain(AIMessage("", additional_kwargs={"audio": {"id": "a", "transcript": None}})) is None


def test_llama_index_text_blocks_are_joined_and_an_image_is_told_as_such():
    blocks = [TextBlock(text="Look:"), ImageBlock(image=PIXEL.encode()), TextBlock(text="What is it?")]
    message = LlamaMessage(role="user", blocks=blocks)
    assert Message.from_llama_index(message).content == "Look:\n[image]\nWhat is it?"


def test_thinking_is_left_out():
    thinking = AIMessage([{"type": "reasoning", "reasoning": "secret"}, {"type": "text", "text": "Hello"}])
    assert Message.from_langchain(thinking).content == "Hello"
    thinking = LlamaMessage(role="assistant", blocks=[ThinkingBlock(content="secret"), TextBlock(text="Hello")])
    assert Message.from_llama_index(thinking).content == "Hello"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<think>\nShe means the cheese.\n</think>\n\nHello", "Hello"),
        ("<think></think>Hello", "Hello"),
        ("Write <think>so</think>", "Write <think>so</think>"),
        ("<think>cut off", "<think>cut off"),
    ],
)
def test_what_an_open_model_thinks_within_its_text_is_left_out(text, said):
    assert Message.from_langchain(AIMessage(text)).content == said
    assert Message.from_llama_index(LlamaMessage(role="assistant", content=text)).content == said
    (plain,) = messages_of([{"role": "assistant", "content": text}])
    assert plain.content == said
    assert Message.from_langchain(HumanMessage(text)).content == text


def test_what_an_open_model_thinks_before_the_steps_of_a_react_agent_is_left_out():
    steps = LlamaMessage(role="assistant", content="<think>Hm.</think>\nThought: I can answer.\nAnswer: It is green.")
    assert Message.from_llama_index(steps).content == "It is green."


def test_thoughts_alone_say_nothing():
    assert Message.from_langchain(AIMessage("<think>Hm.</think>")) is None
    assert messages_of([{"role": "assistant", "content": "<think>Hm.</think>"}]) == ()


@pytest.mark.parametrize("provider", ["anthropic", ""])
def test_an_answer_that_citations_cut_into_blocks_is_one_text(provider):
    cited = {"type": "web_search_result_location", "cited_text": "c", "url": "https://a.example", "title": "t"}
    blocks = [
        {"type": "text", "text": "I will look."},
        {"type": "text", "text": "The boiler is "},
        {"type": "text", "text": "green", "citations": [cited | {"encrypted_index": "e"}]},
        {"type": "text", "text": ", as it was."},
    ]
    message = AIMessage(blocks, response_metadata={"model_provider": provider})
    assert Message.from_langchain(message).content == "I will look.\nThe boiler is green, as it was."


@tried_in_one(
    "message",
    [
        AIMessage(""),
        AIMessage("", tool_calls=[CALL]),
        AIMessage([{"type": "reasoning", "reasoning": "secret"}]),
        HumanMessage(" \n "),
        HumanMessage([]),
        HumanMessage([{"type": "text", "text": " "}]),
        ToolMessage("found", tool_call_id="1"),
        FunctionMessage("found", name="search"),
        ChatMessage("hello", role=" "),
        RemoveMessage(id="1"),
    ],
)
def test_a_langchain_message_that_says_nothing_is_none(message):
    assert Message.from_langchain(message) is None


@pytest.mark.parametrize(
    "message",
    [
        LlamaMessage(role="assistant", blocks=[]),
        LlamaMessage(role="user", content=" \n"),
        LlamaMessage(role="assistant", blocks=[ToolCallBlock(tool_name="search", tool_kwargs={})]),
        LlamaMessage(role="tool", content="found"),
        LlamaMessage(role="function", content="found"),
    ],
)
def test_a_llama_index_message_that_says_nothing_is_none(message):
    assert Message.from_llama_index(message) is None


def test_a_tool_call_beside_text_is_left_out_or_told():
    message = AIMessage("Let me look.", tool_calls=[CALL])
    assert Message.from_langchain(message).content == "Let me look."
    told = 'Let me look.\n[tool call: search {"query": "Comté"}]'
    assert Message.from_langchain(message, include_tools=True).content == told
    call = ToolCallBlock(tool_name="search", tool_kwargs={"query": "Comté"})
    message = LlamaMessage(role="assistant", blocks=[TextBlock(text="Let me look."), call])
    assert Message.from_llama_index(message).content == "Let me look."
    assert Message.from_llama_index(message, include_tools=True).content == told


def test_what_a_tool_answered_is_told_when_asked_for():
    answer = Message(role="tool", content="found")
    assert Message.from_langchain(ToolMessage("found", tool_call_id="1"), include_tools=True) == answer
    assert Message.from_langchain(FunctionMessage("found", name="search"), include_tools=True) == answer
    for role in ("tool", "function"):
        assert Message.from_llama_index(LlamaMessage(role=role, content="found"), include_tools=True) == answer


@pytest.mark.parametrize("key", ["timestamp", "created_at"])
@pytest.mark.parametrize("value", ["2026-03-01T10:00:00+01:00", datetime(2026, 3, 1, 9, tzinfo=UTC)])
def test_a_time_that_is_plainly_given_is_taken(key, value):
    nine = datetime(2026, 3, 1, 9, tzinfo=UTC)
    assert Message.from_langchain(HumanMessage("hello", additional_kwargs={key: value})).timestamp == nine
    assert Message.from_langchain(AIMessage("hello", response_metadata={key: value})).timestamp == nine
    assert Message.from_llama_index(LlamaMessage("hello", additional_kwargs={key: value})).timestamp == nine


@pytest.mark.parametrize("value", [1772355600, "yesterday", None, "", {"seconds": 1}])
def test_any_other_time_is_left_open(value):
    message = HumanMessage("hello", additional_kwargs={"timestamp": value})
    assert Message.from_langchain(message).timestamp is None


@given(text=st.text())
def test_text_comes_through_as_any_message_would_hold_it(text):
    expected = Message(role="user", content=text) if text.strip() else None
    assert Message.from_langchain(HumanMessage(text)) == expected
    assert Message.from_llama_index(LlamaMessage(role="user", content=text)) == expected


def test_reading_messages_loads_no_framework():
    code = "import sys, memory_retrievers.models.messages as _; assert not {'langchain_core', 'llama_index'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=PATIENCE).returncode == 0


@pytest.mark.parametrize("value", ["2026-03-01T09:00:00", datetime(2026, 3, 1, 9)])  # noqa: DTZ001 - that is the case
def test_a_time_of_a_framework_without_a_zone_is_in_utc(value):
    nine = datetime(2026, 3, 1, 9, tzinfo=UTC)
    assert Message.from_langchain(HumanMessage("hello", additional_kwargs={"timestamp": value})).timestamp == nine
    assert Message.from_llama_index(LlamaMessage("hello", additional_kwargs={"timestamp": value})).timestamp == nine


def test_messages_of_the_frameworks_go_wherever_ours_do():
    theirs = [
        SystemMessage("Be kind."),
        HumanMessage("I moved to Nantes.", name="Anna", additional_kwargs={"timestamp": "2026-03-01T09:00:00Z"}),
        AIMessage("", tool_calls=[{"name": "search", "args": {}, "id": "1"}]),
        ToolMessage("found", tool_call_id="1"),
        ChatMessage("Noted.", role="ai"),
        LlamaMessage(role="user", blocks=[TextBlock(text="And you?"), ImageBlock(url="http://localhost/a.png")]),
        LlamaMessage(role="tool", content="found"),
        {"role": "assistant", "content": "Here."},
    ]
    ours = [("system", "Be kind."), ("Anna", "I moved to Nantes."), ("assistant", "Noted.")]
    ours += [("user", "And you?\n[image]"), ("assistant", "Here.")]
    said = messages_of(theirs)
    assert [(each.role, each.content) for each in said] == ours
    assert said[1].timestamp == datetime(2026, 3, 1, 9, tzinfo=UTC)
    assert EpisodicMemory.new(scope="s", summary="A move.", messages=theirs).messages == said


def test_a_record_with_some_fields_of_a_framework_is_no_message():
    class Other(pydantic.BaseModel):
        content: str = "I moved."
        response_metadata: dict[str, str] = {}

    with pytest.raises(ValidationError, match=r"messages\.0: Input should be a Message"):
        messages_of([Other()])


def test_a_record_with_the_fields_of_a_framework_and_a_content_of_its_own_is_read_by_that():
    class Chat(pydantic.BaseModel):
        role: str = "user"
        content: str = "I moved."
        blocks: list[str] = []
        additional_kwargs: dict[str, str] = {}

    class Typed(Chat):
        type: str = "human"
        response_metadata: str = ""

    assert [each.content for each in messages_of([Chat(), Typed()])] == ["I moved.", "I moved."]


def test_a_call_without_a_name_hides_no_words():
    assert messages_of([AIMessage(["Hello.", {"type": "tool_call"}])]) == (Message(role="assistant", content="Hello."),)


@pytest.mark.parametrize("content", [[{"type": "non_standard"}], [{"type": ["a"]}], None])
def test_content_that_the_framework_cannot_read_is_refused_with_our_error(content):
    with pytest.raises(ValidationError, match=r"messages\.1.*the content of this AIMessage cannot be read"):
        messages_of([HumanMessage("Hello."), AIMessage.model_construct(content=content)])
