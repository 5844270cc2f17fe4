"""How commands open a store: to look into it, to change it, to embed with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from memory_retrievers.cli.embedders import embedder_at
from memory_retrievers.errors import ConfigurationError, StoreLockedError, ValidationError
from memory_retrievers.memory import AgentMemory
from memory_retrievers.settings import RetrievalSettings, ToolSettings
from memory_retrievers.storage import STORE_FILE, noted_embedder

if TYPE_CHECKING:
    from memory_retrievers.protocols import Embedder


PROFILES: Final[Mapping[str, Callable[[], RetrievalSettings]]] = {
    "default": RetrievalSettings,
    "light": RetrievalSettings.light,
    "seed": RetrievalSettings.seed,
}
"""The ways of ranking that the command line knows by name."""


def profile_named(name: str) -> RetrievalSettings:
    """The way of ranking that has this name.

    Raises:
        ValidationError: None has.
    """
    if name not in PROFILES:
        raise ValidationError(f"unknown profile {name!r}; one of: {', '.join(PROFILES)}")
    return PROFILES[name]()


def to_change(store: Path, *, read_only: bool = False) -> AgentMemory:
    """Open a store that is there, for a command that embeds nothing: the embedder that filled it need not be at hand.

    Raises:
        ConfigurationError: There is no store; looking must not make one.
    """
    require_store(store)
    return AgentMemory.open(store, embedder_id=noted_embedder(store), read_only=read_only)


def to_look_into(store: Path) -> AgentMemory:
    """The same, read-only where another process holds the store."""
    return _or_read_only(lambda read_only: to_change(store, read_only=read_only))


def to_search(
    store: Path, *, embedder: str | None, embedder_id: str | None, retrieval: RetrievalSettings
) -> AgentMemory:
    """Open a store that is there with the embedder that filled it, read-only where another process holds it."""
    require_store(store)
    found = embedder_at(embedder)
    return _or_read_only(
        lambda read_only: AgentMemory.open(
            store,
            embedder=found,
            embedder_id=embedder_id,
            retrieval=retrieval,
            tools=ToolSettings.from_environment(),
            read_only=read_only,
        )
    )


def to_compare(store: Path, *, embedder: Embedder, retrieval: RetrievalSettings) -> AgentMemory:
    """Open a store that is there read-only, with the embedder that filled it, to try a setting out."""
    require_store(store)
    return AgentMemory.open(store, embedder=embedder, retrieval=retrieval, read_only=True)


def to_fill(
    store: Path, *, embedder: str | None, embedder_id: str | None, retrieval: RetrievalSettings | None = None
) -> AgentMemory:
    """Open a store with an embedder, or make it."""
    return AgentMemory.open(
        store,
        embedder=embedder_at(embedder),
        embedder_id=embedder_id,
        retrieval=retrieval,
        tools=ToolSettings.from_environment(),
    )


def require_store(store: Path) -> None:
    """Refuse a place where no store is.

    Raises:
        ConfigurationError: There is none.
    """
    if not (store / STORE_FILE).is_file():
        raise ConfigurationError(f"there is no memory store at {store}")


def _or_read_only(open_store: Callable[[bool], AgentMemory]) -> AgentMemory:
    try:
        return open_store(False)
    except StoreLockedError:
        return open_store(True)
