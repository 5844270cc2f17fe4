"""The sockets between a memory and those who use it: adapters, tools, servers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

from memory_retrievers.messages import Message
from memory_retrievers.models import Category, DetailLevel, EpisodicMemory, JsonObject, SemanticMemory
from memory_retrievers.reports import Queued, Report
from memory_retrievers.retrieved import RetrievedMemory


class Memory(Protocol):
    """What the adapters and tools need of a memory; ``AgentMemory`` is one."""

    def retrieve(
        self,
        query: str,
        *,
        scope: str,
        episodic_limit: int = 5,
        semantic_limit: int = 20,
        category: Category | str | None = None,
        include_child_scopes: bool = False,
        limit: int | None = None,
        record: bool = True,
        as_of: datetime | None = None,
    ) -> Retrieved:
        """The memories that answer the query."""
        ...

    def context(
        self,
        query: str,
        *,
        scope: str,
        semantic_limit: int = 20,
        category: Category | str | None = None,
        include_child_scopes: bool = False,
    ) -> Retrieved:
        """The facts that answer the query, without any side effect."""
        ...

    def add_messages(self, scope: str, messages: Sequence[Message]) -> Queued:
        """Queue messages of a conversation; cheap, and no model is called."""
        ...

    def process_due(self, scope: str | None = None) -> Report:
        """Turn what is due into memories, in one scope or in all."""
        ...

    def flush(self, scope: str) -> Report:
        """Make episodes of everything that is queued."""
        ...

    def forget_scope(self, scope: str, *, include_child_scopes: bool = True) -> int:
        """Remove everything that a scope and the scopes below it hold; gives the number of memories."""
        ...

    def recent(self, scope: str, *, limit: int = 10, days_limit: float | None = None) -> Recent:
        """The newest episodes."""
        ...


class Retrieved(Protocol):
    """What a memory answers to a question."""

    @property
    def semantic(self) -> tuple[RetrievedMemory[SemanticMemory], ...]:
        """The facts, best first."""
        ...

    @property
    def episodic(self) -> tuple[RetrievedMemory[EpisodicMemory], ...]:
        """The episodes, best first."""
        ...

    def to_markdown(
        self,
        detail: DetailLevel | str = DetailLevel.AUTO,
        *,
        max_tokens: int | None = None,
        token_counter: Callable[[str], int] = ...,
    ) -> str:
        """The block for a model to read, of at most so many tokens; empty when nothing was found."""
        ...

    def to_dict(self) -> JsonObject:
        """The raw form."""
        ...


class Recent(Protocol):
    """A scope's newest episodes."""

    @property
    def episodic(self) -> tuple[EpisodicMemory, ...]:
        """The episodes, newest first."""
        ...

    def to_markdown(self) -> str:
        """The block for a model to read."""
        ...

    def to_dict(self) -> JsonObject:
        """The raw form."""
        ...
