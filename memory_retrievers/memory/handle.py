"""A handle on a live store: what every part of ``AgentMemory`` works with, and how it lets go."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from memory_retrievers.engine import Engine
from memory_retrievers.errors import ConfigurationError
from memory_retrievers.retrieval.pending import PendingReviewBuffer
from memory_retrievers.retrieval.retriever import HybridRetriever
from memory_retrievers.store import MemoryStore


class Handle:
    """Holds an engine, perhaps with others, until it is closed.

    Args:
        engine: What the calls go to.
        let_go: Ends this handle's share of it.
    """

    def __init__(self, engine: Engine, *, let_go: Callable[[], None]) -> None:
        self._shared_engine = engine
        # also when the handle is dropped without being closed, and when the program ends
        self._let_go = weakref.finalize(self, let_go)

    def close(self) -> None:
        """Write what is waiting and release everything; a second call does nothing."""
        self._let_go()

    @property
    def _engine(self) -> Engine:
        if not self._let_go.alive:
            raise ConfigurationError("this memory is closed; open it again")
        return self._shared_engine

    @property
    def _store(self) -> MemoryStore:
        return self._engine.store

    @contextmanager
    def _written(self) -> Iterator[MemoryStore]:
        """The store to change; the change goes on to an adopted collection that is written through."""
        engine = self._engine
        yield engine.store
        engine.told_after_write()

    @property
    def _pending(self) -> PendingReviewBuffer:
        return self._engine.pending

    @property
    def _retriever(self) -> HybridRetriever:
        return self._engine.retriever

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
