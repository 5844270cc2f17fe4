"""How commands open a store: to look into it, to change it, to embed with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from memory_retrievers.cli.embedders import embedder_at
from memory_retrievers.cli.places import Place
from memory_retrievers.errors import StoreLockedError, ValidationError
from memory_retrievers.memory import AgentMemory
from memory_retrievers.settings import RetrievalSettings, ToolSettings

if TYPE_CHECKING:
    from memory_retrievers.embeddings.adapt import AnyEmbedder


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


def opened(
    place: Place,
    *,
    embedder: AnyEmbedder | None = None,
    embedder_id: str | None = None,
    retrieval: RetrievalSettings | None = None,
    tools: ToolSettings | None = None,
    read_only: bool = False,
) -> AgentMemory:
    """Open the store at a place, or make it."""
    at = place.address
    opens = partial(AgentMemory.connect, at) if isinstance(at, str) else partial(AgentMemory.open, at)
    with place.without_its_secret():
        return opens(embedder=embedder, embedder_id=embedder_id, retrieval=retrieval, tools=tools, read_only=read_only)


def to_change(store: Place, *, read_only: bool = False) -> AgentMemory:
    """Open a store that is there, for a command that embeds nothing: the embedder that filled it need not be at hand.

    Raises:
        ConfigurationError: There is no store; looking must not make one.
    """
    store.require_store()
    return opened(store, embedder_id=store.noted_embedder(), read_only=read_only)


def to_look_into(store: Place) -> AgentMemory:
    """The same, read-only where another process holds the store."""
    return _or_read_only(lambda read_only: to_change(store, read_only=read_only))


def to_search(
    store: Place, *, embedder: str | None, embedder_id: str | None, retrieval: RetrievalSettings
) -> AgentMemory:
    """Open a store that is there with the embedder that filled it, read-only where another process holds it."""
    store.require_store()
    found, tools = embedder_at(embedder), ToolSettings.from_environment()
    return _or_read_only(
        lambda read_only: opened(
            store, embedder=found, embedder_id=embedder_id, retrieval=retrieval, tools=tools, read_only=read_only
        )
    )


def to_compare(store: Place, *, embedder: AnyEmbedder, retrieval: RetrievalSettings) -> AgentMemory:
    """Open a store that is there read-only, with the embedder that filled it, to try a setting out."""
    store.require_store()
    return opened(store, embedder=embedder, retrieval=retrieval, read_only=True)


def to_fill(
    store: Place,
    *,
    embedder: str | None,
    embedder_id: str | None,
    retrieval: RetrievalSettings | None = None,
    read_only: bool = False,
) -> AgentMemory:
    """Open a store with an embedder, or make it."""
    found, tools = embedder_at(embedder), ToolSettings.from_environment()
    return opened(store, embedder=found, embedder_id=embedder_id, retrieval=retrieval, tools=tools, read_only=read_only)


def _or_read_only(open_store: Callable[[bool], AgentMemory]) -> AgentMemory:
    try:
        return open_store(False)
    except StoreLockedError:
        return open_store(True)
