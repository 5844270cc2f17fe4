"""Common parts of the LlamaIndex components: the scope of a call, reopening of a store, and queueing of messages."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeAlias

import pydantic
from llama_index.core.base.llms.types import ChatMessage

from memory_retrievers.backends.files import written
from memory_retrievers.errors import BackendError, ConfigurationError
from memory_retrievers.ingestion.worker import log_failure
from memory_retrievers.llama_index.turns import INSTRUCTIONS
from memory_retrievers.memory import AgentMemory
from memory_retrievers.models import scopes
from memory_retrievers.models.messages import Message
from memory_retrievers.protocols import Memory
from memory_retrievers.storage.open import STORE_FILE, noted_embedder
from memory_retrievers.storage.options import chosen_embedder

_logger = logging.getLogger("memory_retrievers")


def spoken(messages: Sequence[ChatMessage]) -> list[Message]:
    """What was said, without tool messages, instructions and what is empty."""
    converted = (_message_of(message) for message in messages if message.role not in INSTRUCTIONS)
    return [message for message in converted if message is not None]


def queue_messages(memory: Memory, scope: str, messages: Sequence[ChatMessage], *, conversation: str | None) -> bool:
    """Queue what was said, without tool messages, instructions and what is empty; True if anything was.

    Args:
        memory: The memory.
        scope: The scope of the conversation.
        messages: Its new messages, oldest first.
        conversation: Which of the scope's conversations it is.
    """
    said = spoken(messages)
    return bool(said and memory.add_messages(scope, said, conversation=conversation))


@contextmanager
def going_on(outcome: str) -> Iterator[None]:
    """Log, without any text, what fails in the block: a chat goes on where a model or a store fails underneath."""
    try:
        yield
    except BackendError as error:
        log_failure(outcome, error)


def _message_of(message: ChatMessage) -> Message | None:
    try:
        return Message.from_llama_index(message)
    except pydantic.ValidationError:
        _logger.warning("a message cannot be stored and is left out: it is too long")
        return None


def reopened(path: str | None) -> AgentMemory:
    """The store at ``path`` with the bundled embedder and every other setting at its default; made if it is missing.

    Raises:
        ConfigurationError: There is no path, the store was filled with another embedder, or is open in this process
            with other settings: only its owner can hand it over.
        StoreLockedError: Nothing can be written there, or a process of an older version has it open.
        EmbeddingMismatchError: The bundled embedder is not what it was.
        BackendError: The store cannot be read or written.
    """
    if path is None:
        raise ConfigurationError(
            "this ConversationMemory has no long-term memory and no path to open one from: set its `memory`, or make "
            "it with path="
        )
    store = written(path) / STORE_FILE
    filled_with = noted_embedder(store.parent) if store.is_file() else None
    if filled_with not in {None, chosen_embedder(None, embedder_id=None).id}:
        raise ConfigurationError(
            f"the store at {path} was filled with the embedder {filled_with!r}, which its path alone cannot bring "
            "back: open it with AgentMemory.open(path, embedder=...) and pass it as memory="
        )
    try:
        return AgentMemory.open(path)
    except ConfigurationError as error:
        raise ConfigurationError(f"{error}; or pass the open one as memory=") from error


Scope: TypeAlias = str | Callable[[], str]
"""A path such as ``user/alice``, or a function that gives one, for example from a context variable."""


def scope_getter(scope: Scope) -> Callable[[], str]:
    """A function that gives the checked scope of one call; a fixed scope is checked right away.

    Raises:
        ValidationError: The scope is malformed.
    """
    if callable(scope):
        return partial(_asked, scope)
    return partial(str, scopes.parse(scope))


def _asked(scope: Callable[[], str]) -> str:
    return scopes.parse(scope())
