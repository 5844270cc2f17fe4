"""Both halves of a turn: what a memory brings to it, and what of it the memory keeps."""

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
from memory_retrievers.messages import Message
from memory_retrievers.models import DetailLevel
from memory_retrievers.protocols import Memory
from memory_retrievers.rendering.framing import notes

Recall: TypeAlias = Literal["full", "facts", "none"]
"""What is recalled: episodes and facts, facts alone and without any side effect, or nothing."""

Process: TypeAlias = Literal["due", "never"]
"""When queued messages become memories: at the end of a turn that makes them due, or when somebody else says so."""

TAG = "memory"

_INSTRUCTIONS = frozenset({"system", "developer"})

_logger = logging.getLogger("memory_retrievers")


class TurnMemory(ScopedByConfig):
    """A memory as one turn of a conversation uses it.

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

        Raises:
            MemoryRetrieversError: The memory failed.
        """
        if self.recall == "none" or not query.strip():
            return ""
        if self.recall == "facts":
            return self.memory.context(query, scope=scope, semantic_limit=self.semantic_limit).to_markdown()
        found = self.memory.retrieve(
            query, scope=scope, episodic_limit=self.episodic_limit, semantic_limit=self.semantic_limit
        )
        return found.to_markdown(DetailLevel.AUTO)

    def framed(self, query: str, *, scope: str) -> str:
        """The same between ``<memory>`` and ``</memory>``, said to be data; empty where the memory failed."""
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
        """What of a conversation is kept: what was said, but no instructions, and no summary that takes its place."""
        told = [self._told(message) for message in messages if not _is_summary(message)]
        return [message for message in told if message is not None and message.role not in _INSTRUCTIONS]

    def _told(self, message: BaseMessage) -> Message | None:
        try:
            return Message.from_langchain(message, include_tools=self.include_tools)
        except pydantic.ValidationError:
            _logger.warning("a message cannot be stored and is left out: it is too long, or its role is")
            return None


@contextmanager
def going_on(outcome: str) -> Iterator[None]:
    """An answer is worth more than its memory: what fails is logged, without any text, unless it is set up wrongly."""
    try:
        yield
    except ConfigurationError:
        raise
    except MemoryRetrieversError as error:
        _warn(outcome, error)


def _warn(outcome: str, error: Exception) -> None:
    _logger.warning("%s, since the memory failed (%s)", outcome, type(error).__name__)


def _is_summary(message: BaseMessage) -> bool:
    """Whether LangChain's summarization put it in the place of messages that were said."""
    return message.additional_kwargs.get("lc_source") == "summarization"
