"""``MemoryChatHistory``: a conversation of a scope as a LangChain chat message history."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import AIMessage, BaseMessage, ChatMessage, HumanMessage

from memory_retrievers.ingestion.worker import Process
from memory_retrievers.langchain.turns import TurnMemory
from memory_retrievers.models import scopes
from memory_retrievers.models.messages import Message, parse_conversation
from memory_retrievers.models.results import parse_page_size
from memory_retrievers.protocols import Memory

_KINDS: Final[dict[str, Callable[[str], BaseMessage]]] = {"user": HumanMessage, "assistant": AIMessage}


class MemoryChatHistory(BaseChatMessageHistory):
    """A LangChain ``BaseChatMessageHistory`` over a conversation of a scope, for ``RunnableWithMessageHistory``.

    ::

        RunnableWithMessageHistory(chain, lambda session_id: MemoryChatHistory(memory, "user/alice", session_id), ...)

    What is added is queued as ``add_messages`` of the memory does it: it is kept, every search knows it, and what
    becomes an episode stays in the history. Messages are kept as role and text: system and tool messages, messages
    without text, and summaries that LangChain puts in the place of messages, are left out. (LangChain says that
    ``RunnableWithMessageHistory`` ends with LangChain 2.0; ``AgentMemoryMiddleware`` is what stays.)

    Args:
        memory: An AgentMemory, or anything of that shape.
        scope: Whose conversation.
        conversation: Which of the scope's conversations, such as the id of a session; None is the one without a name.
        limit: :attr:`messages` are at most this many, the last, 1 to 1000.
        process: When queued messages become memories: ``background`` has the memory's worker do it, ``due`` holds up
            the chain for as long as it takes, ``never`` leaves it to the caller of ``process_due``.

    Raises:
        ValidationError: An argument breaks a rule.
    """

    def __init__(
        self,
        memory: Memory,
        scope: str,
        conversation: str | None = None,
        *,
        limit: int = 1_000,
        process: Process = "background",
    ) -> None:
        self._memory = memory
        self._scope = scopes.parse(scope)
        self._conversation = parse_conversation(conversation)
        self._limit = parse_page_size(limit)
        self._turns = TurnMemory(memory=memory, process=process)

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]  # LangChain's own histories have a property, too
        """What was said in the conversation, in order.

        Raises:
            MemoryRetrieversError: The memory failed.
        """
        return [*map(_as_langchain, self._memory.transcript(self._scope, self._conversation, limit=self._limit))]

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Queue messages, and see to it that what is due becomes memories.

        Raises:
            MemoryRetrieversError: They could not be queued.
        """
        self._turns.keep(self._turns.said(messages), scope=self._scope, conversation=self._conversation)

    def clear(self) -> None:
        """Delete what was said in the conversation, queued or in episodes; facts that were learned of it stay.

        Raises:
            MemoryRetrieversError: The memory failed.
        """
        self._memory.forget_conversation(self._scope, self._conversation)


def _as_langchain(message: Message) -> BaseMessage:
    kind = _KINDS.get(message.role)
    return kind(message.content) if kind is not None else ChatMessage(role=message.role, content=message.content)
