"""Spans: the named stages of a piece of work, opened to whoever traces it, for example to measure them.

Nothing is watched unless somebody asks for it, and only in the thread, or the task, that asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Final, TypeAlias

EMBED: Final = "embed"
"""The question becomes a vector."""

DENSE: Final = "dense"
"""The nearest vectors, of one kind of memory."""

BM25: Final = "bm25"
"""The best by words, of one kind of memory."""

RANK: Final = "rank"
"""The lists become one, and forgetting is taken into account."""

HYDRATE: Final = "hydrate"
"""The memories themselves are read."""

Observer: TypeAlias = Callable[[str], AbstractContextManager[object]]
"""Takes the name of a stage and gives the context manager that is entered while it lasts."""

observer_of_stages: ContextVar[Observer] = ContextVar("memory_retrievers_stages", default=nullcontext)
"""Gives, for the name of a stage, the context manager to enter while it lasts; without an observer it does nothing."""


@contextmanager
def traced(observer: Observer) -> Iterator[None]:
    """Let an observer trace every stage of what is done inside."""
    token = observer_of_stages.set(observer)
    try:
        yield
    finally:
        observer_of_stages.reset(token)


Watcher: TypeAlias = Callable[[int, int], None]
"""Hears how much of how much is done, both 0 where that is not known; raises an exception to end the work."""

_watcher: ContextVar[Watcher | None] = ContextVar("memory_retrievers_watcher", default=None)


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Let a watcher follow, and end, what is done inside: nothing of a transaction that it ends is kept."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def advance(done: int = 0, total: int = 0) -> None:
    """Tell whoever watches how far the work is; called also where there is nothing to tell, so that it can be ended."""
    watcher = _watcher.get()
    if watcher is not None:
        watcher(done, total)
