"""Long-term memory as a ``BaseMemory`` for the chains of LangChain classic."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from langchain_classic.base_memory import BaseMemory
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from pydantic import ConfigDict

from memory_retrievers.errors import ConfigurationError
from memory_retrievers.langchain.scope import conversation_of
from memory_retrievers.langchain.turns import TurnMemory


class ConversationMemory(TurnMemory, BaseMemory):
    """Long-term memory for ``LLMChain``, ``ConversationChain`` and whatever else takes a classic memory.

    Before the chain runs, the variable ``memory_key`` gets what answers its input; afterwards input and output are
    queued, and become memories when they are due. The turns of the running conversation are not in the variable:
    ``CombinedMemory`` puts a ``ConversationBufferWindowMemory`` beside it, which has them.

    LangChain says of classic memories that they end with LangChain 2.0; ``AgentMemoryMiddleware`` is what stays.

    Recalling and queueing raise what goes wrong; where queued messages cannot be turned into memories, a warning
    without any text goes to the log, and they wait.

    Attributes:
        memory_key: The variable of the prompt.
        input_key: Which of a chain's inputs is what the user said; None takes the only one.
        output_key: Which of its outputs is the answer; None takes the only one.
        return_messages: Give a list with one system message, or none, instead of text.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    memory_key: str = "history"
    input_key: str | None = None
    output_key: str | None = None
    return_messages: bool = False

    @property
    def memory_variables(self) -> list[str]:
        """The variable of the prompt."""
        return [self.memory_key]

    def load_memory_variables(self, inputs: Mapping[str, object]) -> dict[str, str | list[BaseMessage]]:
        """The memories that answer the input, as the markdown block or a list with a message that holds it.

        Raises:
            ConfigurationError: No scope is named, or the input is not clear.
            MemoryRetrieversError: The memory failed.
        """
        query = self._asked(inputs).text
        block = self.recalled(query, scope=self.scope_of(None))
        if not self.return_messages:
            return {self.memory_key: block}
        return {self.memory_key: [SystemMessage(block)] if block else []}

    async def aload_memory_variables(self, inputs: Mapping[str, object]) -> dict[str, str | list[BaseMessage]]:
        """:meth:`load_memory_variables` in a thread."""
        return await asyncio.to_thread(self.load_memory_variables, inputs)

    def save_context(self, inputs: Mapping[str, object], outputs: Mapping[str, object]) -> None:
        """Queue the input and the answer, and turn into memories what is due.

        Raises:
            ConfigurationError: No scope is named, or it is not clear which input or output counts.
            MemoryRetrieversError: Nothing could be queued.
        """
        answered = _as_message(_only(outputs, self.output_key, what="output", beside=()), AIMessage)
        said = self.said([self._asked(inputs), answered])
        self.keep(said, scope=self.scope_of(None), conversation=conversation_of())

    async def asave_context(self, inputs: Mapping[str, object], outputs: Mapping[str, object]) -> None:
        """:meth:`save_context` in a thread."""
        await asyncio.to_thread(self.save_context, inputs, outputs)

    def clear(self) -> None:
        """Forget everything in the scope, what is queued included; scopes below it stay.

        Raises:
            ConfigurationError: No scope is named.
        """
        self.memory.forget_scope(self.scope_of(None), include_child_scopes=False)

    async def aclear(self) -> None:
        """:meth:`clear` in a thread."""
        await asyncio.to_thread(self.clear)

    def _asked(self, inputs: Mapping[str, object]) -> BaseMessage:
        return _as_message(_only(inputs, self.input_key, what="input", beside=(self.memory_key, "stop")), HumanMessage)


def _only(values: Mapping[str, object], key: str | None, *, what: str, beside: tuple[str, ...]) -> object:
    if key is not None and key in values:
        return values[key]
    candidates = sorted(values.keys() - set(beside))
    if key is not None or len(candidates) != 1:
        wanted = f"there is no {what} {key!r}" if key is not None else f"which {what} counts is not clear"
        raise ConfigurationError(f"{wanted}: set {what}_key to one of {', '.join(candidates) or 'them'}")
    return values[candidates[0]]


def _as_message(value: object, kind: type[HumanMessage | AIMessage]) -> BaseMessage:
    return value if isinstance(value, BaseMessage) else kind(str(value))
