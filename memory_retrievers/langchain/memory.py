"""Long-term memory as a ``BaseMemory`` for the chains of LangChain classic."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from langchain_classic.base_memory import BaseMemory
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, get_buffer_string
from pydantic import ConfigDict, Field, PrivateAttr

from memory_retrievers.errors import ConfigurationError
from memory_retrievers.langchain.scope import conversation_of
from memory_retrievers.langchain.turns import TurnMemory

MOST_CONVERSATIONS: Final = 1_000
"""Running conversations whose last turns an object keeps, those that went on last."""


class ConversationMemory(TurnMemory, BaseMemory):
    """Long-term memory for ``LLMChain``, ``ConversationChain`` and whatever else takes a classic memory.

    Before the chain runs, the variable ``memory_key`` gets what answers its input, and behind it the last turns of the
    running conversation; afterwards input and output are queued, and become memories when they are due. The running
    conversation is that of the scope and of the run's ``thread_id``, as far as this object has heard it; what lies
    further back is recalled.

    LangChain says of classic memories that they end with LangChain 2.0; ``AgentMemoryMiddleware`` is what stays.
    Recalling and queueing raise what goes wrong; where queued messages cannot be turned into memories, a warning
    without any text goes to the log, and they wait.

    Attributes:
        memory_key: The variable of the prompt.
        input_key: Which of a chain's inputs is what the user said; None takes the only one.
        output_key: Which of its outputs is the answer; None takes the only one.
        return_messages: Give a list of messages instead of text: a system message with what was recalled, if anything
            was, and the last turns.
        turns: How many turns of the running conversation are in the variable; 0 where ``CombinedMemory`` puts a
            ``ConversationBufferWindowMemory`` beside this one.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    memory_key: str = "history"
    input_key: str | None = None
    output_key: str | None = None
    return_messages: bool = False
    turns: int = Field(default=5, ge=0)
    _running: OrderedDict[tuple[str, str | None], list[BaseMessage]] = PrivateAttr(default_factory=OrderedDict)
    _lock: ClassVar = threading.Lock()  # of all: what is done with it takes no time, and a copy needs none

    @property
    def memory_variables(self) -> list[str]:
        """The variable of the prompt."""
        return [self.memory_key]

    def load_memory_variables(self, inputs: Mapping[str, object]) -> dict[str, str | list[BaseMessage]]:
        """The memories that answer the input and the last turns, as text or as messages.

        Raises:
            ConfigurationError: No scope is named, or the input is not clear.
            MemoryRetrieversError: The memory failed.
        """
        scope, query = self.scope_of(None), self._asked(inputs).text
        with self._lock:
            running = list(self._running.get((scope, conversation_of()), ()))
        block = self.recalled(query, scope=scope, in_prompt=self.said(running))
        if not self.return_messages:
            return {self.memory_key: "\n\n".join(part for part in (block, get_buffer_string(running)) if part)}
        return {self.memory_key: [*([SystemMessage(block)] if block else []), *running]}

    def save_context(self, inputs: Mapping[str, object], outputs: Mapping[str, object]) -> None:
        """Queue the input and the answer, and turn into memories what is due.

        Raises:
            ConfigurationError: No scope is named, or it is not clear which input or output counts.
            MemoryRetrieversError: Nothing could be queued.
        """
        answered = _as_message(_only(outputs, self.output_key, what="output", beside=()), AIMessage)
        turn, scope, conversation = [self._asked(inputs), answered], self.scope_of(None), conversation_of()
        self.keep(self.said(turn), scope=scope, conversation=conversation)
        self._go_on(turn, scope=scope, conversation=conversation)

    def _go_on(self, turn: Sequence[BaseMessage], *, scope: str, conversation: str | None) -> None:
        """Keep the last turns of a running conversation, and forget conversations that stopped long ago."""
        with self._lock:
            running = [*self._running.pop((scope, conversation), ()), *turn]
            if self.turns:
                self._running[scope, conversation] = running[-len(turn) * self.turns :]
            while len(self._running) > MOST_CONVERSATIONS:
                self._running.popitem(last=False)

    def clear(self) -> None:
        """Forget everything in the scope, what is queued included; scopes below it stay.

        Raises:
            ConfigurationError: No scope is named.
        """
        scope = self.scope_of(None)
        self.memory.forget_scope(scope, include_child_scopes=False)
        with self._lock:
            for key in [key for key in self._running if key[0] == scope]:
                del self._running[key]

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
