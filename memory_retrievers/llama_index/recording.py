"""What a LlamaIndex chat says, on its way into a memory."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, TypeAlias

import pydantic
from llama_index.core.base.llms.types import ChatMessage

from memory_retrievers.errors import BackendError
from memory_retrievers.llama_index.turns import INSTRUCTIONS
from memory_retrievers.messages import Message
from memory_retrievers.protocols import Memory

Process: TypeAlias = Literal["due", "never"]
"""When queued messages become memories: as soon as a message makes them due, or when somebody else says so."""

_logger = logging.getLogger("memory_retrievers")


def queue_messages(memory: Memory, scope: str, messages: Sequence[ChatMessage]) -> bool:
    """Queue what was said, without tool messages, instructions and what is empty; gives whether the scope is due."""
    told = [_told(message) for message in messages if message.role not in INSTRUCTIONS]
    said = [message for message in told if message is not None]
    return bool(said) and memory.add_messages(scope, said).due


def process_queue(memory: Memory, scope: str) -> None:
    """Make memories of a queue that is due; where that fails, the next message brings another try."""
    try:
        memory.process_due(scope)
    except Exception as error:  # noqa: BLE001 - raised, it would have the chat hand them over once more
        _warn("messages stay queued", error)


@contextmanager
def going_on(outcome: str) -> Iterator[None]:
    """A chat goes on without its memory: a model or a store that fails underneath is logged, without any text."""
    try:
        yield
    except BackendError as error:
        _warn(outcome, error)


def _warn(outcome: str, error: Exception) -> None:
    _logger.warning("%s, since the memory failed (%s)", outcome, type(error).__name__)


def _told(message: ChatMessage) -> Message | None:
    try:
        return Message.from_llama_index(message)
    except pydantic.ValidationError:
        _logger.warning("a message cannot be stored and is left out: it is too long")
        return None
