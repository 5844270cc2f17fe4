"""A memory of two users, on disk, so that a blocking call would be noticed; and models that follow a script."""

from datetime import UTC, datetime
from itertools import chain

import pytest
from alice_and_bob import ALICE_AND_BOB
from llama_index.core.base.llms.types import ChatMessage, LLMMetadata, ToolCallBlock
from llama_index.core.llms import MockFunctionCallingLLM

from memory_retrievers import AgentMemory
from memory_retrievers.testing import FixedClock, HashEmbedder


class ChatModel(MockFunctionCallingLLM):
    """LlamaIndex's mock as a chat model, which its oldest version does not let it be by an argument."""

    @property
    def metadata(self):
        return LLMMetadata(is_function_calling_model=True, is_chat_model=True)


@pytest.fixture
def clock():
    return FixedClock(datetime(2026, 3, 1, 12, tzinfo=UTC))


@pytest.fixture
def memory(tmp_path, clock):
    with AgentMemory.open(tmp_path / "memory", embedder=HashEmbedder(), clock=clock) as memory:
        lives, *others = ALICE_AND_BOB
        memory.remember_many([lives | {"metadata": {"source": "crm", "page": 3}}, *others])
        memory.retrieve("Bergen", scope="user/bob", record=False)  # the guard would leave a new connection half-open
        yield memory


@pytest.fixture
def picky():
    """A counter of tokens that refuses a special token, as tiktoken does."""

    def count(text):
        if "<|endoftext|>" in text:
            raise ValueError("the secret garden")
        return len(text) // 4

    return count


@pytest.fixture
def stored(memory):
    """Every message a scope was told, once all that is queued has become episodes; in order where time has passed."""

    def messages(scope):
        memory.flush(scope)
        found = sorted(memory.list(scope, kind="episodic", limit=1000).memories, key=lambda each: each.start_at)
        told = [episode.messages for episode in found if episode.origin == "conversation"]
        return [message.content for message in chain.from_iterable(told)]

    return messages


@pytest.fixture
def scripted(clock):
    """A model that gives prepared answers in turn, text or (tool, arguments), and keeps the prompts it was given.

    Two minutes pass with every answer, so that a question recorded twice is filed twice.
    """

    def model(*answers):
        steps, prompts = iter(answers), []

        def answer(messages, **_):
            prompts.append([message.model_copy(deep=True) for message in messages])
            clock.advance(minutes=2)
            step = next(steps)
            if isinstance(step, str):
                return ChatMessage(role="assistant", content=step)
            name, arguments = step
            call = ToolCallBlock(tool_call_id=str(len(prompts)), tool_name=name, tool_kwargs=arguments)
            return ChatMessage(role="assistant", blocks=[call])

        llm = ChatModel(response_generator=answer)
        return llm, prompts

    return model
