"""Messages: the turns that conversations and episodes are made of."""

from __future__ import annotations

from typing import Self

from memory_retrievers.fields import NonBlankText, ShortText, UTCDateTime, Value
from memory_retrievers.foreign_messages import LangChainMessage, LlamaIndexMessage, read_langchain, read_llama_index


class Message(Value):
    """One turn of a conversation.

    Attributes:
        role: Who speaks: ``user``, ``assistant``, or any other name; kept as given, shown in lower case.
        content: What was said; not blank.
        timestamp: When; None is filled with the current time where the message is stored.
    """

    role: ShortText
    content: NonBlankText
    timestamp: UTCDateTime | None = None

    @classmethod
    def from_langchain(cls, message: LangChainMessage, *, include_tools: bool = False) -> Self | None:
        """What a LangChain message says: its texts joined by newlines, ``[image]`` for an image; None if nothing.

        Args:
            message: Any ``BaseMessage``; ``human`` becomes ``user``, ``ai`` becomes ``assistant``. Its time is
                ``timestamp`` or ``created_at`` in its metadata, if that is a datetime or ISO-8601 text.
            include_tools: Also tell the tools that are called, and what they answer.
        """
        said = read_langchain(message, include_tools=include_tools)
        return None if said is None else cls(role=said.role, content=said.content, timestamp=said.timestamp)

    @classmethod
    def from_llama_index(cls, message: LlamaIndexMessage, *, include_tools: bool = False) -> Self | None:
        """What a LlamaIndex ``ChatMessage`` says; as :meth:`from_langchain`."""
        said = read_llama_index(message, include_tools=include_tools)
        return None if said is None else cls(role=said.role, content=said.content, timestamp=said.timestamp)
