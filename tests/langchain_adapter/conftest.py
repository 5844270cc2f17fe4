"""A memory of two users, and a chat model that says what it is told and keeps what it was asked."""

from datetime import UTC, datetime

import pytest
from alice_and_bob import ALICE_AND_BOB
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from pydantic import Field

from memory_retrievers import AgentMemory
from memory_retrievers.testing import FixedClock, HashEmbedder


@pytest.fixture
def memory():
    clock = FixedClock(datetime(2026, 3, 1, 12, tzinfo=UTC))
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock) as memory:
        memory.remember_many(ALICE_AND_BOB)
        yield memory


@pytest.fixture
def memory_on_disk(tmp_path):
    with AgentMemory.open(tmp_path / "memory", embedder=HashEmbedder()) as memory:
        memory.remember_fact(scope="user/bob", fact="Bob lives in Bergen")
        memory.remember_episode(scope="user/bob", summary="Bob moved to Bergen")
        memory.retrieve("Bergen", scope="user/bob", record=False)  # the guard would leave a new connection half-open
        yield memory


class ListeningChatModel(GenericFakeChatModel):
    """Says what it was told to say, accepts tools, and keeps the messages of every call."""

    heard: list[list] = Field(default_factory=list)

    def bind_tools(self, tools, **kwargs):
        return self

    def _generate(self, messages, *args, **kwargs):
        self.heard.append(messages)
        return super()._generate(messages, *args, **kwargs)


@pytest.fixture
def saying():
    """Makes a chat model of steps: a text to say, a (tool, arguments) pair to call, or an exception to raise."""

    def make(*steps):
        def said():
            for number, step in enumerate(steps):
                if isinstance(step, Exception):
                    raise step
                if isinstance(step, str):
                    yield AIMessage(step)
                else:
                    name, arguments = step
                    call = {"name": name, "args": arguments, "id": f"call-{number}", "type": "tool_call"}
                    yield AIMessage("", tool_calls=[call])

        return ListeningChatModel(messages=said())

    return make
