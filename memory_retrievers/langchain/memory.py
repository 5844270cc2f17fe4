"""Long-term memory as a ``BaseMemory`` for the chains of LangChain classic."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import ClassVar, Final

from langchain_classic.base_memory import BaseMemory
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, get_buffer_string
from pydantic import ConfigDict, Field, PrivateAttr

from memory_retrievers.errors import ConfigurationError
from memory_retrievers.langchain.scope import conversation_of
from memory_retrievers.langchain.turns import TurnMemory

MOST_CONVERSATIONS: Final = 1_000
"""Maximum number of conversations whose last turns an object keeps; the least recent one is dropped."""


class ConversationMemory(TurnMemory, BaseMemory):
    """Long-term memory for ``LLMChain``, ``ConversationChain`` and other users of classic memories.

    Before the chain runs, the variable ``memory_key`` gets the memories for its input, then the last turns of the
    conversation. Afterwards input and output are queued, and become memories when they are due. The conversation is
    that of the scope and the run's ``thread_id``, as far as this object has seen it; earlier turns are recalled.

    LangChain will remove classic memories in LangChain 2.0; use ``AgentMemoryMiddleware`` for new code. Errors of
    recalling and queueing are raised. If queued messages cannot be processed, a warning without any text is logged, and
    they stay queued.

    Further fields, such as ``memory``, ``scope`` and ``recall``, mean what they mean as arguments of
    ``AgentMemoryMiddleware``; ``max_tokens`` is None by default.

    Attributes:
        memory_key: Name of the prompt variable.
        input_key: Key of the input that is the user's message; None takes the only one.
        output_key: Key of the output that is the answer; None takes the only one.
        return_messages: Return a list of messages instead of text: a system message with the recalled memories, if
            any, and the last turns.
        turns: Number of turns of the conversation in the variable; use 0 with a ``ConversationBufferWindowMemory`` in a
            ``CombinedMemory``.
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
        """The name of the prompt variable."""
        return [self.memory_key]

    def load_memory_variables(self, inputs: Mapping[str, object]) -> dict[str, str | list[BaseMessage]]:
        """Return the memories for the input and the last turns, as text or as messages.

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
        """Queue the input and the answer, and have due messages processed.

        Raises:
            ConfigurationError: No scope is named, or it is not clear which input or output counts.
            MemoryRetrieversError: Nothing could be queued.
        """
        answered = _as_message(_only(outputs, self.output_key, what="output", beside=()), AIMessage)
        turn, scope, conversation = [self._asked(inputs), answered], self.scope_of(None), conversation_of()
        self.keep(self.said(turn), scope=scope, conversation=conversation)
        with self._lock:  # keep the last turns of the conversation, and drop the least recent conversations
            running = [*self._running.pop((scope, conversation), ()), *turn]
            if self.turns:
                self._running[scope, conversation] = running[-len(turn) * self.turns :]
            while len(self._running) > MOST_CONVERSATIONS:
                self._running.popitem(last=False)

    def clear(self) -> None:
        """Delete everything in the scope, queued messages included; scopes below it stay.

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
