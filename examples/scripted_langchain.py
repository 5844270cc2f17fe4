"""A LangChain chat model for the examples: it says what a script tells it to say, or calls the tools it names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Self, TypeAlias

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatResult
from langchain_core.tools import BaseTool
from pydantic import Field

Step: TypeAlias = str | tuple[str, Mapping[str, object]]
"""A text to say, or a tool to call and its arguments."""


class ScriptedChatModel(GenericFakeChatModel):
    """Says what it is told to say, and keeps the prompts it was given."""

    prompts: list[list[BaseMessage]] = Field(default_factory=list)

    @classmethod
    def saying(cls, *steps: Step) -> Self:
        """A model for these steps: texts to say, and tools to call, each with its arguments."""
        return cls(messages=iter([_message(number, step) for number, step in enumerate(steps)]))

    def bind_tools(
        self, tools: Sequence[dict[str, object] | type | Callable[..., object] | BaseTool], **options: object
    ) -> Self:
        """The script knows which tools there are."""
        del tools, options
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **options: object,
    ) -> ChatResult:
        self.prompts.append(messages)
        return super()._generate(messages, stop, run_manager, **options)


def _message(number: int, step: Step) -> AIMessage:
    if isinstance(step, str):
        return AIMessage(step)
    name, arguments = step
    return AIMessage(
        "", tool_calls=[{"name": name, "args": dict(arguments), "id": f"call-{number}", "type": "tool_call"}]
    )
