"""One turn of a LangChain conversation: the memories recalled for it, and the messages of it that are queued."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Literal, TypeAlias

import pydantic
from langchain_core.messages import BaseMessage
from pydantic import ConfigDict, Field, SkipValidation

from memory_retrievers.errors import ConfigurationError, MemoryRetrieversError
from memory_retrievers.langchain.scope import ScopedByConfig
from memory_retrievers.models import DetailLevel
from memory_retrievers.models.messages import Message
from memory_retrievers.protocols import Memory
from memory_retrievers.retrieval.markdown import notes
from memory_retrievers.retrieval.request import asked_by

Recall: TypeAlias = Literal["full", "facts", "none"]
"""Extent of recall: episodes and facts, facts alone and without any side effect, or nothing."""

Process: TypeAlias = Literal["due", "never"]
"""Time when queued messages become memories: at the end of a turn that makes them due, or when other code asks."""

TAG = "memory"

_INSTRUCTIONS = frozenset({"system", "developer"})

_logger = logging.getLogger("memory_retrievers")


class TurnMemory(ScopedByConfig):
    """Memory for the turns of a conversation: recalls before an answer, and queues what was said after it.

    Attributes:
        memory: An AgentMemory, or anything of that shape.
        recall: What to recall.
        episodic_limit: At most this many episodes.
        semantic_limit: At most this many facts.
        process: When queued messages become memories. ``due`` holds up the end of the turn for as long as it takes.
        include_tools: Also keep which tools were called, and what they answered.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    memory: Annotated[Memory, SkipValidation] = Field(exclude=True, repr=False)
    recall: Recall = "full"
    episodic_limit: int = Field(default=5, ge=0)
    semantic_limit: int = Field(default=20, ge=0)
    process: Process = "due"
    include_tools: bool = False

    def recalled(self, query: str, *, scope: str) -> str:
        """The markdown block that answers a question; empty where there is none.

        Of a longer message than a query may be, beginning and end are asked.

        Raises:
            MemoryRetrieversError: The memory failed.
        """
        if self.recall == "none" or not query.strip():
            return ""
        query = asked_by(self.memory, query)
        if self.recall == "facts":
            return self.memory.context(query, scope=scope, semantic_limit=self.semantic_limit).to_markdown()
        found = self.memory.retrieve(
            query, scope=scope, episodic_limit=self.episodic_limit, semantic_limit=self.semantic_limit
        )
        return found.to_markdown(DetailLevel.AUTO)

    def framed(self, query: str, *, scope: str) -> str:
        """The same between ``<memory>`` and ``</memory>``, marked as data; empty where the memory failed."""
        with going_on("nothing was recalled"):
            block = notes(self.recalled(query, scope=scope), tag=TAG)
            return block and f"<{TAG}>\n{block}\n</{TAG}>"
        return ""

    def keep(self, messages: Sequence[Message], *, scope: str) -> None:
        """Queue messages, and turn what is due into memories.

        They are safe once they are queued: where they cannot be turned into memories now, they wait.

        Raises:
            MemoryRetrieversError: They could not be queued.
        """
        if messages and self.memory.add_messages(scope, messages).due and self.process == "due":
            try:
                self.memory.process_due(scope)
            except Exception as error:  # noqa: BLE001 - raised, it would have them queued once more
                _warn("messages stay queued", error)

    def said(self, messages: Sequence[BaseMessage]) -> list[Message]:
        """The messages of a conversation to keep: what was said, but no instructions, and no summary in its place."""
        converted = [self._message_of(message) for message in messages if not _is_summary(message)]
        return [message for message in converted if message is not None and message.role not in _INSTRUCTIONS]

    def _message_of(self, message: BaseMessage) -> Message | None:
        try:
            return Message.from_langchain(message, include_tools=self.include_tools)
        except pydantic.ValidationError:
            _logger.warning("a message cannot be stored and is left out: it is too long, or its role is")
            return None


@contextmanager
def going_on(outcome: str) -> Iterator[None]:
    """Log what fails in the block, without any text, and go on, unless it is set up wrongly.

    An answer is worth more than its memory.
    """
    try:
        yield
    except ConfigurationError:
        raise
    except MemoryRetrieversError as error:
        _warn(outcome, error)


def _warn(outcome: str, error: Exception) -> None:
    _logger.warning("%s, since the memory failed (%s)", outcome, type(error).__name__)


def _is_summary(message: BaseMessage) -> bool:
    """True if LangChain's summarization put the message in the place of messages that were said."""
    return message.additional_kwargs.get("lc_source") == "summarization"
