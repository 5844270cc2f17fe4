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

Observer: TypeAlias = Callable[[str], AbstractContextManager[None]]
"""Takes the name of a stage and gives the context manager that is entered while it lasts."""

_observer: ContextVar[Observer | None] = ContextVar("memory_retrievers_stages", default=None)
_UNTRACED: Final = nullcontext()


@contextmanager
def traced(observer: Observer) -> Iterator[None]:
    """Let an observer trace every stage of what is done inside."""
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)


def span(name: str) -> AbstractContextManager[None]:
    """The context manager to enter while a stage lasts; without an observer it does nothing."""
    observer = _observer.get()
    return _UNTRACED if observer is None else observer(name)
