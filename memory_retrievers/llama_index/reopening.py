"""A store that is opened again from what a dump knows of it: its path."""

from __future__ import annotations

from pathlib import Path

from memory_retrievers.errors import ConfigurationError
from memory_retrievers.memory import AgentMemory
from memory_retrievers.parts import chosen_embedder
from memory_retrievers.storage import STORE_FILE, noted_embedder


def reopened(path: str | None) -> AgentMemory:
    """The store at ``path`` with the bundled embedder and every other setting at its default; made if it is missing.

    Raises:
        ConfigurationError: There is no path, the store was filled with another embedder, or is open in this process
            with other settings: only its owner can hand it over.
        StoreLockedError: Another process writes the store.
        EmbeddingMismatchError: The bundled embedder is not what it was.
        BackendError: The store cannot be read or written.
    """
    if path is None:
        raise ConfigurationError(
            "this ConversationMemory has no long-term memory and no path to open one from: set its `memory`, or make "
            "it with path="
        )
    store = Path(path) / STORE_FILE
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
