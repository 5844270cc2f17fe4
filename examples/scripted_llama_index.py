"""A LlamaIndex model for the examples: it says what a script tells it to say."""

from __future__ import annotations

from collections.abc import Sequence

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.llms import MockFunctionCallingLLM


def scripted_llm(answers: Sequence[str], *, prompts: list[list[ChatMessage]] | None = None) -> MockFunctionCallingLLM:
    """A model that says what it is told to say.

    Args:
        answers: What to say, in turn.
        prompts: Where to keep the prompts it is given; None keeps none.
    """
    remaining = iter(answers)

    def answer(messages: Sequence[ChatMessage], **_: object) -> ChatMessage:
        if prompts is not None:
            prompts.append(list(messages))
        return ChatMessage(role="assistant", content=next(remaining))

    return MockFunctionCallingLLM(response_generator=answer, is_chat_model=True)
